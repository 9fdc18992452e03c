-- The tables of migrations/postgres/0001_initial.sql, which explains them, in SQLite's types: uuid and bytea are BLOB, timestamps
-- are RFC 3339 text, jsonb is TEXT, boolean is INTEGER, and real[] is a BLOB of little-endian 32-bit floats.

CREATE TABLE models (
    id           TEXT    NOT NULL,
    role         TEXT    NOT NULL,
    family       TEXT    NOT NULL,
    sha256       BLOB    NOT NULL CHECK (length(sha256) = 32),
    vector_space TEXT,
    dim          INTEGER,
    first_seen   TEXT    NOT NULL
) STRICT;
CREATE UNIQUE INDEX models_identity ON models (id, sha256, coalesce(vector_space, ''));


-- Batches ------------------------------------------------------------------------------------------------------------

CREATE TABLE batches (
    id              BLOB    NOT NULL PRIMARY KEY,
    tenant          TEXT    NOT NULL,
    key_id          TEXT,
    name            TEXT,
    operation       TEXT    NOT NULL,
    options         TEXT    NOT NULL,
    models          TEXT    NOT NULL,
    models_key      BLOB    NOT NULL CHECK (length(models_key) = 32),
    priority        TEXT    NOT NULL,
    idempotency_key TEXT,
    request_digest  BLOB,
    receipt         TEXT,
    traceparent     TEXT,
    submitted       INTEGER NOT NULL,
    is_open         INTEGER NOT NULL,
    accepted        INTEGER NOT NULL,
    queued          INTEGER NOT NULL,
    running         INTEGER NOT NULL,
    ok              INTEGER NOT NULL,
    cached          INTEGER NOT NULL,
    error           INTEGER NOT NULL,
    dead            INTEGER NOT NULL,
    cancelled       INTEGER NOT NULL,
    chunk_size      INTEGER NOT NULL,
    next_chunk      INTEGER NOT NULL,
    served          INTEGER NOT NULL,
    created_at      TEXT    NOT NULL,
    started_at      TEXT,
    finished_at     TEXT,
    cancelled_at    TEXT,
    expires_at      INTEGER,
    payloads_due    INTEGER NOT NULL,
    deletion        TEXT    CHECK (deletion IN ('erased', 'expired'))
) STRICT;
CREATE INDEX batches_by_age ON batches (tenant, created_at);
CREATE INDEX batches_by_tenant ON batches (tenant, id);
CREATE UNIQUE INDEX batches_by_key ON batches (tenant, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX batches_to_sweep ON batches (id) WHERE payloads_due OR deletion IS NOT NULL;
CREATE INDEX batches_by_expiry ON batches (expires_at) WHERE deletion IS NULL AND expires_at IS NOT NULL;
CREATE INDEX batches_unfinished ON batches (tenant) WHERE finished_at IS NULL AND cancelled_at IS NULL;

CREATE TABLE batch_tenants (
    tenant TEXT    NOT NULL PRIMARY KEY,
    served INTEGER NOT NULL
) STRICT;

CREATE TABLE batch_chunks (
    batch_id       BLOB    NOT NULL REFERENCES batches (id) ON DELETE CASCADE,
    number         INTEGER NOT NULL,
    first_item     INTEGER NOT NULL,
    items          INTEGER NOT NULL,
    ready_at       INTEGER NOT NULL,
    lease_owner    TEXT,
    lease_token    INTEGER NOT NULL,
    expired_leases INTEGER NOT NULL,
    announced_at   INTEGER,
    PRIMARY KEY (batch_id, number)
) STRICT;
CREATE INDEX batch_chunks_by_time ON batch_chunks (ready_at);

CREATE TABLE deleted_batches (
    id         BLOB    NOT NULL PRIMARY KEY,
    tenant     TEXT    NOT NULL,
    operation  TEXT    NOT NULL,
    accepted   INTEGER NOT NULL,
    ok         INTEGER NOT NULL,
    error      INTEGER NOT NULL,
    dead       INTEGER NOT NULL,
    cancelled  INTEGER NOT NULL,
    images     INTEGER NOT NULL DEFAULT 0,
    scans      INTEGER NOT NULL,
    faces      INTEGER NOT NULL DEFAULT 0,
    vectors    INTEGER NOT NULL DEFAULT 0,
    deletion   TEXT    NOT NULL,
    created_at TEXT    NOT NULL,
    deleted_at TEXT    NOT NULL
) STRICT;
CREATE INDEX deleted_batches_by_tenant ON deleted_batches (tenant, deleted_at);


-- Results ------------------------------------------------------------------------------------------------------------

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
) STRICT, WITHOUT ROWID;
CREATE INDEX images_by_tenant ON images (tenant, id);

CREATE TABLE image_sources (
    image_id   BLOB NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    source_key BLOB NOT NULL CHECK (length(source_key) = 32),
    source_id  TEXT,
    source_url TEXT,
    seen_at    TEXT NOT NULL,
    PRIMARY KEY (image_id, source_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX image_sources_by_source ON image_sources (source_id, image_id);

CREATE TABLE scans (
    id                    BLOB    NOT NULL PRIMARY KEY,
    image_id              BLOB    NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    scan_key              BLOB    NOT NULL CHECK (length(scan_key) = 32),
    batch_id              BLOB    REFERENCES batches (id) ON DELETE SET NULL,
    operation             TEXT    NOT NULL,
    detector_id           TEXT,
    detector_sha256       BLOB,
    embedder_id           TEXT,
    embedder_vector_space TEXT,
    picture_quality       TEXT,
    devices               TEXT,
    answers_cache         INTEGER NOT NULL CHECK (answers_cache IN (0, 1)),
    created_at            TEXT    NOT NULL,
    UNIQUE (image_id, scan_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX scans_by_batch ON scans (batch_id) WHERE batch_id IS NOT NULL;

CREATE TABLE faces (
    id        BLOB    NOT NULL PRIMARY KEY,
    scan_id   BLOB    NOT NULL REFERENCES scans (id) ON DELETE CASCADE,
    image_id  BLOB    NOT NULL,
    position  INTEGER NOT NULL,
    x1        REAL    NOT NULL,
    y1        REAL    NOT NULL,
    x2        REAL    NOT NULL,
    y2        REAL    NOT NULL,
    score     REAL,
    landmarks BLOB,
    results   TEXT,
    UNIQUE (scan_id, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE embeddings (
    face_id      BLOB    NOT NULL PRIMARY KEY REFERENCES faces (id) ON DELETE CASCADE,
    vector_space TEXT    NOT NULL,
    precision    TEXT    NOT NULL CHECK (precision IN ('f32', 'bf16', 'f16')),
    dim          INTEGER NOT NULL,
    norm         REAL    NOT NULL,
    vector       BLOB    NOT NULL CHECK (length(vector) = 4 * dim)
) STRICT;

CREATE TABLE image_embeddings (
    scan_id      BLOB    NOT NULL PRIMARY KEY REFERENCES scans (id) ON DELETE CASCADE,
    vector_space TEXT    NOT NULL,
    precision    TEXT    CHECK (precision IN ('f32', 'bf16', 'f16')),
    dim          INTEGER NOT NULL,
    norm         REAL    NOT NULL,
    vector       BLOB    NOT NULL CHECK (length(vector) = 4 * dim)
) STRICT;

CREATE TABLE batch_items (
    batch_id     BLOB    NOT NULL REFERENCES batches (id) ON DELETE CASCADE,
    position     INTEGER NOT NULL,
    item_id      TEXT,
    payload      BLOB    CHECK (length(payload) = 32),
    url          TEXT,
    source       TEXT,
    source_url   TEXT,
    metadata     TEXT,
    state        TEXT    NOT NULL CHECK (state IN ('queued', 'ok', 'error', 'dead', 'cancelled')),
    attempts     INTEGER NOT NULL,
    cached       INTEGER NOT NULL,
    scan_id      BLOB    REFERENCES scans (id) ON DELETE SET NULL,
    result       TEXT,
    error_code   TEXT,
    error_detail TEXT,
    PRIMARY KEY (batch_id, position)
) STRICT;
CREATE UNIQUE INDEX batch_items_by_id ON batch_items (batch_id, item_id) WHERE item_id IS NOT NULL;
CREATE INDEX batch_items_by_scan ON batch_items (scan_id) WHERE scan_id IS NOT NULL;
CREATE INDEX batch_items_by_payload ON batch_items (batch_id, payload) WHERE payload IS NOT NULL;


-- Collections --------------------------------------------------------------------------------------------------------

CREATE TABLE collections (
    id               BLOB    NOT NULL PRIMARY KEY,
    tenant           TEXT    NOT NULL,
    name             TEXT    NOT NULL,
    kind             TEXT    NOT NULL CHECK (kind IN ('gallery', 'suppression', 'library')),
    vector_space     TEXT    NOT NULL,
    dim              INTEGER NOT NULL,
    purpose          TEXT    NOT NULL,
    legal_basis      TEXT    NOT NULL,
    consent_required INTEGER NOT NULL CHECK (consent_required IN (0, 1)),
    retention_days   INTEGER NOT NULL CHECK (retention_days > 0),
    far              REAL    NOT NULL,
    created_at       INTEGER NOT NULL,
    position         INTEGER NOT NULL DEFAULT 0,
    enrolled         INTEGER NOT NULL DEFAULT 0,
    is_erased        INTEGER NOT NULL DEFAULT 0 CHECK (is_erased IN (0, 1))
) STRICT;
-- No name is NULL. Without this condition, Postgres uses the index for searches by id, and reads all collections of the tenant.
CREATE UNIQUE INDEX collections_by_name ON collections (tenant, name) WHERE name IS NOT NULL AND NOT is_erased;
CREATE INDEX suppression_collections ON collections (tenant, vector_space, id) WHERE kind = 'suppression' AND NOT is_erased;
CREATE INDEX collections_to_erase ON collections (tenant, id) WHERE is_erased;
CREATE INDEX collections_by_tenant ON collections (tenant, id);

CREATE TABLE subjects (
    id                 BLOB    NOT NULL PRIMARY KEY,
    collection_id      BLOB    NOT NULL REFERENCES collections (id) ON DELETE CASCADE,
    external_id        TEXT,
    metadata           TEXT,
    consent_reference  TEXT,
    consent_given_at   INTEGER,
    consent_expires_at INTEGER,
    expires_at         INTEGER,
    created_at         INTEGER NOT NULL,
    last_seen_at       INTEGER NOT NULL,
    UNIQUE (collection_id, external_id)
) STRICT;
CREATE INDEX subjects_by_collection ON subjects (collection_id, id);
CREATE INDEX subjects_by_age ON subjects (collection_id, last_seen_at);
CREATE INDEX subjects_by_expiry ON subjects (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX subjects_by_consent ON subjects (consent_expires_at) WHERE consent_expires_at IS NOT NULL;

-- AUTOINCREMENT: an id is never used again.
CREATE TABLE enrollments (
    row_id        INTEGER PRIMARY KEY AUTOINCREMENT,
    id            BLOB    NOT NULL UNIQUE,
    collection_id BLOB    NOT NULL REFERENCES collections (id) ON DELETE CASCADE,
    subject_id    BLOB    REFERENCES subjects (id) ON DELETE CASCADE,
    face_id       BLOB    REFERENCES faces (id) ON DELETE CASCADE,
    image_id      BLOB,
    created_at    INTEGER NOT NULL,
    is_acceptable INTEGER NOT NULL DEFAULT 1 CHECK (is_acceptable IN (0, 1)),
    vector        BLOB    NOT NULL
) STRICT;
CREATE INDEX enrollments_by_collection ON enrollments (collection_id, row_id);
CREATE INDEX enrollments_by_subject ON enrollments (subject_id, row_id);
CREATE INDEX enrollments_by_face ON enrollments (face_id) WHERE face_id IS NOT NULL;
CREATE INDEX enrollments_by_image ON enrollments (image_id) WHERE image_id IS NOT NULL;
CREATE INDEX enrollments_of_libraries ON enrollments (collection_id, created_at) WHERE subject_id IS NULL;

CREATE TABLE index_changes (
    collection_id BLOB    NOT NULL REFERENCES collections (id) ON DELETE CASCADE,
    position      INTEGER NOT NULL,
    is_added      INTEGER NOT NULL CHECK (is_added IN (0, 1)),
    row_id        INTEGER NOT NULL,
    PRIMARY KEY (collection_id, position)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER enrollments_added AFTER INSERT ON enrollments BEGIN
    UPDATE collections SET position = position + 1, enrolled = enrolled + 1 WHERE id = NEW.collection_id;
    INSERT INTO index_changes (collection_id, position, is_added, row_id)
    SELECT id, position, 1, NEW.row_id FROM collections WHERE id = NEW.collection_id;
END;
CREATE TRIGGER enrollments_removed AFTER DELETE ON enrollments BEGIN
    UPDATE collections SET position = position + 1, enrolled = enrolled - 1 WHERE id = OLD.collection_id;
    INSERT INTO index_changes (collection_id, position, is_added, row_id)
    SELECT id, position, 0, OLD.row_id FROM collections WHERE id = OLD.collection_id;
END;


-- Libraries: collections whose faces are grouped into people ---------------------------------------------------------

CREATE TABLE people (
    id            BLOB    NOT NULL PRIMARY KEY,
    collection_id BLOB    NOT NULL REFERENCES collections (id) ON DELETE CASCADE,
    name          TEXT,
    created_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX people_by_collection ON people (collection_id, id);

CREATE TABLE memberships (
    row_id    INTEGER PRIMARY KEY REFERENCES enrollments (row_id) ON DELETE CASCADE,
    person_id BLOB    REFERENCES people (id) ON DELETE CASCADE,
    is_pinned INTEGER NOT NULL CHECK (is_pinned IN (0, 1))
) STRICT;
CREATE INDEX memberships_by_person ON memberships (person_id, row_id);

CREATE TRIGGER memberships_removed AFTER DELETE ON memberships BEGIN
    DELETE FROM people
    WHERE id = OLD.person_id AND NOT EXISTS (SELECT 1 FROM memberships m WHERE m.person_id = OLD.person_id);
END;

CREATE TABLE clusterings (
    id            BLOB    NOT NULL PRIMARY KEY,
    collection_id BLOB    NOT NULL REFERENCES collections (id) ON DELETE CASCADE,
    state         TEXT    NOT NULL CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled')),
    is_full       INTEGER NOT NULL CHECK (is_full IN (0, 1)),
    min_faces     INTEGER NOT NULL,
    far           REAL,
    created_at    INTEGER NOT NULL,
    attempt       INTEGER NOT NULL DEFAULT 0,
    leased_until  INTEGER,
    finished_at   INTEGER,
    compared      INTEGER NOT NULL DEFAULT 0,
    faces         INTEGER NOT NULL DEFAULT 0,
    people        INTEGER NOT NULL DEFAULT 0,
    unassigned    INTEGER NOT NULL DEFAULT 0,
    moved         INTEGER NOT NULL DEFAULT 0,
    error         TEXT
) STRICT;
CREATE INDEX clusterings_by_collection ON clusterings (collection_id, id);
CREATE INDEX clusterings_unfinished ON clusterings (id) WHERE state IN ('queued', 'running');
CREATE UNIQUE INDEX clusterings_one_at_a_time ON clusterings (collection_id) WHERE state IN ('queued', 'running');


-- Webhooks -----------------------------------------------------------------------------------------------------------

CREATE TABLE webhooks (
    id               BLOB    NOT NULL PRIMARY KEY,
    tenant           TEXT    NOT NULL,
    batch_id         BLOB    REFERENCES batches (id) ON DELETE CASCADE,
    url              TEXT    NOT NULL,
    host             TEXT,
    secret           TEXT    NOT NULL,
    old_secret       TEXT,
    old_secret_until INTEGER,
    created_at       TEXT    NOT NULL,
    failures         INTEGER NOT NULL DEFAULT 0,
    failing_since    INTEGER,
    last_error       TEXT,
    last_success_at  INTEGER,
    disabled_at      INTEGER
) STRICT;
CREATE INDEX webhooks_by_tenant ON webhooks (tenant, id);
CREATE INDEX webhooks_of_all_batches ON webhooks (tenant, id) WHERE batch_id IS NULL;
CREATE INDEX webhooks_by_batch ON webhooks (batch_id) WHERE batch_id IS NOT NULL;

CREATE TABLE webhook_tenants (
    tenant TEXT NOT NULL PRIMARY KEY
) STRICT;

CREATE TABLE webhook_hosts (
    tenant         TEXT    NOT NULL,
    host           TEXT    NOT NULL,
    webhook_id     BLOB    NOT NULL,
    failures       INTEGER NOT NULL,
    failing_since  INTEGER NOT NULL,
    last_failed_at INTEGER NOT NULL,
    last_error     TEXT    NOT NULL,
    off_until      INTEGER,
    PRIMARY KEY (tenant, host)
) STRICT, WITHOUT ROWID;

CREATE TABLE webhook_deliveries (
    id         BLOB    NOT NULL PRIMARY KEY,
    tenant     TEXT    NOT NULL,
    webhook_id BLOB    NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    batch_id   BLOB    NOT NULL REFERENCES batches (id) ON DELETE CASCADE,
    event      TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    attempts   INTEGER NOT NULL,
    next_at    INTEGER,
    status     TEXT    NOT NULL CHECK (status IN ('pending', 'delivered', 'failed'))
) STRICT;
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (tenant, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX webhook_deliveries_by_webhook ON webhook_deliveries (webhook_id);
CREATE INDEX webhook_deliveries_by_batch ON webhook_deliveries (batch_id);


-- Access, audit and erasure ------------------------------------------------------------------------------------------

CREATE TABLE api_keys (
    id           TEXT    NOT NULL PRIMARY KEY,
    tenant       TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    scopes       TEXT    NOT NULL,
    digest       BLOB    NOT NULL CHECK (length(digest) = 32),
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    revoked_at   INTEGER,
    last_used_at INTEGER
) STRICT;
CREATE INDEX api_keys_by_tenant ON api_keys (tenant, created_at, id);

CREATE TABLE search_counters (
    tenant   TEXT    NOT NULL,
    key_id   TEXT    NOT NULL,
    searches INTEGER NOT NULL,
    PRIMARY KEY (tenant, key_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE search_minutes (
    tenant   TEXT    NOT NULL,
    key_id   TEXT    NOT NULL,
    minute   INTEGER NOT NULL,
    searches INTEGER NOT NULL,
    PRIMARY KEY (tenant, key_id, minute)
) STRICT, WITHOUT ROWID;

CREATE TABLE audit_entries (
    tenant        TEXT    NOT NULL,
    number        INTEGER NOT NULL,
    at            INTEGER NOT NULL,
    request_id    TEXT    NOT NULL,
    key_id        TEXT,
    action        TEXT    NOT NULL,
    target        TEXT,
    details       TEXT    NOT NULL,
    previous_hash BLOB    NOT NULL CHECK (length(previous_hash) = 32),
    hash          BLOB    NOT NULL CHECK (length(hash) = 32),
    PRIMARY KEY (tenant, number)
) STRICT, WITHOUT ROWID;
-- The searches of a collection.
CREATE INDEX audit_searches ON audit_entries (tenant, target, number) WHERE action = 'search';

CREATE TABLE audit_chains (
    tenant       TEXT    NOT NULL PRIMARY KEY,
    deleted      INTEGER NOT NULL,
    deleted_hash BLOB    NOT NULL CHECK (length(deleted_hash) = 32),
    last         INTEGER NOT NULL,
    last_hash    BLOB    NOT NULL CHECK (length(last_hash) = 32)
) STRICT;

CREATE TABLE audit_deletions (
    tenant    TEXT    NOT NULL,
    first     INTEGER NOT NULL,
    last      INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    hashes    BLOB    NOT NULL,
    signature BLOB,
    PRIMARY KEY (tenant, first)
) STRICT, WITHOUT ROWID;

CREATE TABLE erasures (
    id           BLOB    NOT NULL PRIMARY KEY,
    tenant       TEXT    NOT NULL,
    kind         TEXT    NOT NULL CHECK (kind IN ('image', 'face', 'source', 'host', 'batch', 'tenant',
                                                  'collection', 'subject', 'enrollment', 'person')),
    target       TEXT    NOT NULL,
    requested_at INTEGER NOT NULL,
    erased_at    INTEGER,
    purged_at    INTEGER,
    images       INTEGER NOT NULL,
    scans        INTEGER NOT NULL,
    faces        INTEGER NOT NULL,
    vectors      INTEGER NOT NULL,
    batches      INTEGER NOT NULL,
    items        INTEGER NOT NULL,
    payloads     INTEGER NOT NULL,
    subjects     INTEGER NOT NULL DEFAULT 0,
    enrollments   INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX erasures_by_tenant ON erasures (tenant, id);
CREATE INDEX erasures_unfinished ON erasures (id) WHERE purged_at IS NULL;

CREATE TABLE unpurged_deletions (
    committed_by INTEGER NOT NULL PRIMARY KEY
) STRICT;
