-- Every model file that ever answered, for reading old results. A row is never changed: a model
-- whose file or preparation changes is a new row.
CREATE TABLE models (
    id         text        NOT NULL,
    role       text        NOT NULL,
    family     text        NOT NULL,
    sha256     bytea       NOT NULL CHECK (length(sha256) = 32),
    contract   text,       -- embedders only: which vectors may be compared
    dim        integer,    -- embedders only: length of the vector
    first_seen timestamptz NOT NULL
);
CREATE UNIQUE INDEX models_identity ON models (id, sha256, coalesce(contract, ''));

-- One row per content and tenant, however often it was seen.
CREATE TABLE images (
    id              uuid        PRIMARY KEY, -- version 7: ordered by time
    tenant          text        NOT NULL,
    sha256          bytea       NOT NULL CHECK (length(sha256) = 32),
    byte_size       bigint      NOT NULL,
    width           integer     NOT NULL,    -- of the upright picture, as is height
    height          integer     NOT NULL,
    format          text        NOT NULL,
    orientation     smallint    NOT NULL CHECK (orientation BETWEEN 1 AND 8), -- EXIF, as the file had it
    perceptual_hash bigint,                  -- 64 bits, a hint only; NULL for a flat picture
    created_at      timestamptz NOT NULL,
    UNIQUE (tenant, sha256)
);
CREATE INDEX images_by_tenant ON images (tenant, id);

-- Where a picture was seen. The key is a digest of id and URL, because URLs are longer than an
-- index entry may be.
CREATE TABLE image_sources (
    image_id   uuid        NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    source_key bytea       NOT NULL CHECK (length(source_key) = 32),
    source_id  text,
    source_url text,
    seen_at    timestamptz NOT NULL, -- the last time
    PRIMARY KEY (image_id, source_key)
);
CREATE INDEX image_sources_by_source ON image_sources (source_id, image_id);

-- One run of an operation on a picture. The key is a digest of operation, options and models.
CREATE TABLE scans (
    id                uuid        PRIMARY KEY,
    image_id          uuid        NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    scan_key          bytea       NOT NULL CHECK (length(scan_key) = 32),
    operation         text        NOT NULL,
    detector_id       text,
    detector_sha256   bytea,
    embedder_id       text,
    embedder_contract text,
    picture_quality   jsonb,
    answers_cache     boolean     NOT NULL, -- false once a face was erased: the row no longer tells all
    created_at        timestamptz NOT NULL,
    UNIQUE (image_id, scan_key)
);

CREATE TABLE faces (
    id        uuid    PRIMARY KEY,
    scan_id   uuid    NOT NULL REFERENCES scans (id) ON DELETE CASCADE,
    image_id  uuid    NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    position  integer NOT NULL, -- in the answer, from 0
    x1        real    NOT NULL, -- pixels of the upright picture
    y1        real    NOT NULL,
    x2        real    NOT NULL,
    y2        real    NOT NULL,
    score     real,            -- NULL for a crop that came aligned
    landmarks real[],           -- five points: x, y, x, y, …; NULL when the detector gives none
    quality   jsonb,
    UNIQUE (scan_id, position)
);
CREATE INDEX faces_by_image ON faces (image_id);

-- Vectors of two contracts are never compared. `real[]` needs no extension and casts to pgvector's
-- type where that is installed: `vector::vector(128) <=> …`.
CREATE TABLE embeddings (
    face_id  uuid    PRIMARY KEY REFERENCES faces (id) ON DELETE CASCADE,
    contract text    NOT NULL,
    dim      integer NOT NULL,
    norm     real    NOT NULL, -- length before normalisation
    vector   real[]  NOT NULL CHECK (cardinality(vector) = dim)
);
