-- The tables of migrations/postgres/0005_batches.sql, which explains them, in SQLite's types.
CREATE TABLE batches (
    id              BLOB    NOT NULL PRIMARY KEY,
    tenant          TEXT    NOT NULL,
    name            TEXT,
    operation       TEXT    NOT NULL,
    options         TEXT    NOT NULL,
    models          TEXT    NOT NULL,
    models_key      BLOB    NOT NULL CHECK (length(models_key) = 32),
    priority        TEXT    NOT NULL,
    idempotency_key TEXT,
    request_digest  BLOB,
    receipt         TEXT,
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
    deletion        TEXT    CHECK (deletion IN ('erased', 'expired')),
    UNIQUE (tenant, idempotency_key)
) STRICT;
CREATE INDEX batches_by_tenant ON batches (tenant, id);
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

ALTER TABLE scans ADD COLUMN batch_id BLOB REFERENCES batches (id) ON DELETE SET NULL;
CREATE INDEX scans_by_batch ON scans (batch_id) WHERE batch_id IS NOT NULL;

CREATE TABLE deleted_batches (
    id         BLOB    NOT NULL PRIMARY KEY,
    tenant     TEXT    NOT NULL,
    operation  TEXT    NOT NULL,
    accepted   INTEGER NOT NULL,
    ok         INTEGER NOT NULL,
    error      INTEGER NOT NULL,
    dead       INTEGER NOT NULL,
    cancelled  INTEGER NOT NULL,
    scans      INTEGER NOT NULL,
    deletion   TEXT    NOT NULL,
    created_at TEXT    NOT NULL,
    deleted_at TEXT    NOT NULL
) STRICT;
