-- The tables of migrations/postgres/0001_initial.sql, which explains them, in SQLite's types:
-- uuid and bytea are BLOB, timestamps are RFC 3339 text, jsonb is TEXT, real[] is a BLOB of
-- little-endian 32-bit floats.
CREATE TABLE models (
    id         TEXT    NOT NULL,
    role       TEXT    NOT NULL,
    family     TEXT    NOT NULL,
    sha256     BLOB    NOT NULL CHECK (length(sha256) = 32),
    contract   TEXT,
    dim        INTEGER,
    first_seen TEXT    NOT NULL
) STRICT;
CREATE UNIQUE INDEX models_identity ON models (id, sha256, coalesce(contract, ''));

CREATE TABLE images (
    id              BLOB    NOT NULL PRIMARY KEY,
    tenant          TEXT    NOT NULL,
    sha256          BLOB    NOT NULL CHECK (length(sha256) = 32),
    byte_size       INTEGER NOT NULL,
    width           INTEGER NOT NULL,
    height          INTEGER NOT NULL,
    format          TEXT    NOT NULL,
    orientation     INTEGER NOT NULL CHECK (orientation BETWEEN 1 AND 8),
    perceptual_hash INTEGER,
    created_at      TEXT    NOT NULL,
    UNIQUE (tenant, sha256)
) STRICT;
CREATE INDEX images_by_tenant ON images (tenant, id);

CREATE TABLE image_sources (
    image_id   BLOB NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    source_key BLOB NOT NULL CHECK (length(source_key) = 32),
    source_id  TEXT,
    source_url TEXT,
    seen_at    TEXT NOT NULL,
    PRIMARY KEY (image_id, source_key)
) STRICT;
CREATE INDEX image_sources_by_source ON image_sources (source_id, image_id);

CREATE TABLE scans (
    id                BLOB    NOT NULL PRIMARY KEY,
    image_id          BLOB    NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    scan_key          BLOB    NOT NULL CHECK (length(scan_key) = 32),
    operation         TEXT    NOT NULL,
    detector_id       TEXT,
    detector_sha256   BLOB,
    embedder_id       TEXT,
    embedder_contract TEXT,
    picture_quality   TEXT,
    answers_cache     INTEGER NOT NULL CHECK (answers_cache IN (0, 1)),
    created_at        TEXT    NOT NULL,
    UNIQUE (image_id, scan_key)
) STRICT;

CREATE TABLE faces (
    id        BLOB    NOT NULL PRIMARY KEY,
    scan_id   BLOB    NOT NULL REFERENCES scans (id) ON DELETE CASCADE,
    image_id  BLOB    NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    position  INTEGER NOT NULL,
    x1        REAL    NOT NULL,
    y1        REAL    NOT NULL,
    x2        REAL    NOT NULL,
    y2        REAL    NOT NULL,
    score     REAL,            -- NULL for a crop that came aligned
    landmarks BLOB,
    quality   TEXT,
    UNIQUE (scan_id, position)
) STRICT;
CREATE INDEX faces_by_image ON faces (image_id);

CREATE TABLE embeddings (
    face_id  BLOB    NOT NULL PRIMARY KEY REFERENCES faces (id) ON DELETE CASCADE,
    contract TEXT    NOT NULL,
    dim      INTEGER NOT NULL,
    norm     REAL    NOT NULL,
    vector   BLOB    NOT NULL CHECK (length(vector) = 4 * dim)
) STRICT;
