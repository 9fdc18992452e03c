-- The vector of a whole image. Its scan has no faces.
CREATE TABLE image_embeddings (
    scan_id   uuid    PRIMARY KEY REFERENCES scans (id) ON DELETE CASCADE,
    contract  text    NOT NULL,
    precision text    CHECK (precision IN ('f32', 'bf16', 'f16')), -- NULL if a remote server ran the model
    dim       integer NOT NULL,
    norm      real    NOT NULL, -- length before normalisation
    vector    real[]  NOT NULL CHECK (cardinality(vector) = dim)
);
