-- Requests to erase, and what was erased. The sweeper continues one that was interrupted.
CREATE TABLE erasures (
    id           uuid   PRIMARY KEY,
    tenant       text   NOT NULL,
    kind         text   NOT NULL CHECK (kind IN ('image', 'face', 'source', 'host', 'batch', 'tenant')),
    target       text   NOT NULL, -- the id or the value; for a source or a host the sha256 once everything is erased
    requested_at bigint NOT NULL, -- microseconds since 1970, as are the other times
    erased_at    bigint,          -- no answer has the erased rows from here on
    purged_at    bigint,          -- the files of the database have given up the erased rows
    images       bigint NOT NULL,
    scans        bigint NOT NULL,
    faces        bigint NOT NULL,
    vectors      bigint NOT NULL,
    batches      bigint NOT NULL,
    items        bigint NOT NULL,
    payloads     bigint NOT NULL
);
CREATE INDEX erasures_by_tenant ON erasures (tenant, id);
CREATE INDEX erasures_unfinished ON erasures (id) WHERE purged_at IS NULL;

-- What was deleted with a batch.
ALTER TABLE deleted_batches ADD COLUMN images bigint NOT NULL DEFAULT 0;
ALTER TABLE deleted_batches ADD COLUMN faces bigint NOT NULL DEFAULT 0;
ALTER TABLE deleted_batches ADD COLUMN vectors bigint NOT NULL DEFAULT 0;
CREATE INDEX deleted_batches_by_tenant ON deleted_batches (tenant, deleted_at);
