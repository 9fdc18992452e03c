-- The table of migrations/postgres/0006_image_embeddings.sql, which explains it.
CREATE TABLE image_embeddings (
    scan_id   BLOB    NOT NULL PRIMARY KEY REFERENCES scans (id) ON DELETE CASCADE,
    contract  TEXT    NOT NULL,
    precision TEXT    CHECK (precision IN ('f32', 'bf16', 'f16')),
    dim       INTEGER NOT NULL,
    norm      REAL    NOT NULL,
    vector    BLOB    NOT NULL CHECK (length(vector) = 4 * dim)
) STRICT;
