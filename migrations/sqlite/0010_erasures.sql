-- The changes of migrations/postgres/0010_erasures.sql, which explains them.
CREATE TABLE erasures (
    id           BLOB    NOT NULL PRIMARY KEY,
    tenant       TEXT    NOT NULL,
    kind         TEXT    NOT NULL CHECK (kind IN ('image', 'face', 'source', 'host', 'batch', 'tenant')),
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
    payloads     INTEGER NOT NULL
) STRICT;
CREATE INDEX erasures_by_tenant ON erasures (tenant, id);
CREATE INDEX erasures_unfinished ON erasures (id) WHERE purged_at IS NULL;

ALTER TABLE deleted_batches ADD COLUMN images INTEGER NOT NULL DEFAULT 0;
ALTER TABLE deleted_batches ADD COLUMN faces INTEGER NOT NULL DEFAULT 0;
ALTER TABLE deleted_batches ADD COLUMN vectors INTEGER NOT NULL DEFAULT 0;
CREATE INDEX deleted_batches_by_tenant ON deleted_batches (tenant, deleted_at);
