-- A batch: images that one operation processes in the background. The counts are of its items by state.
CREATE TABLE batches (
    id              uuid        PRIMARY KEY, -- version 7: ordered by time
    tenant          text        NOT NULL,
    name            text,
    operation       text        NOT NULL,
    options         jsonb       NOT NULL,    -- with every default filled in
    models          jsonb       NOT NULL,    -- the models that make the results
    models_key      bytea       NOT NULL CHECK (length(models_key) = 32),
    priority        text        NOT NULL,
    idempotency_key text,
    request_digest  bytea,                   -- NULL until the whole request has arrived
    receipt         jsonb,                   -- the answer to the request, which a repeated request gets too
    submitted       bigint      NOT NULL,    -- entries of the request that were read, refused ones included
    is_open         boolean     NOT NULL,    -- accepts more items
    accepted        bigint      NOT NULL,
    queued          bigint      NOT NULL,
    running         bigint      NOT NULL,
    ok              bigint      NOT NULL,
    cached          bigint      NOT NULL,    -- a part of ok
    error           bigint      NOT NULL,
    dead            bigint      NOT NULL,
    cancelled       bigint      NOT NULL,
    chunk_size      integer     NOT NULL,    -- items
    next_chunk      integer     NOT NULL,
    served          bigint      NOT NULL,    -- items that workers have claimed: the batch's virtual time
    created_at      timestamptz NOT NULL,
    started_at      timestamptz,
    finished_at     timestamptz,
    cancelled_at    timestamptz,
    expires_at      bigint,                  -- microseconds since 1970
    payloads_due    boolean     NOT NULL,    -- some payloads are no longer needed
    deletion        text CHECK (deletion IN ('erased', 'expired')), -- not NULL: only the sweeper sees the batch
    UNIQUE (tenant, idempotency_key)
);
CREATE INDEX batches_by_tenant ON batches (tenant, id);
CREATE INDEX batches_to_sweep ON batches (id) WHERE payloads_due OR deletion IS NOT NULL;
CREATE INDEX batches_by_expiry ON batches (expires_at) WHERE deletion IS NULL AND expires_at IS NOT NULL;
CREATE INDEX batches_unfinished ON batches (tenant) WHERE finished_at IS NULL AND cancelled_at IS NULL;

-- The virtual time of each tenant in the fair queue: the items that workers have claimed for it.
CREATE TABLE batch_tenants (
    tenant text   PRIMARY KEY,
    served bigint NOT NULL
);

-- Consecutive items of a batch that a worker processes under one lease. The row is deleted when all its items are
-- finished, so the table is as long as the queue.
CREATE TABLE batch_chunks (
    batch_id       uuid    NOT NULL REFERENCES batches (id) ON DELETE CASCADE,
    number         integer NOT NULL,
    first_item     bigint  NOT NULL,
    items          integer NOT NULL,
    ready_at       bigint  NOT NULL, -- microseconds since 1970; for a leased chunk the end of the lease
    lease_owner    text,             -- NULL if no worker has the chunk
    lease_token    bigint  NOT NULL, -- grows with each lease
    expired_leases integer NOT NULL, -- leases that expired before the worker returned the chunk
    announced_at   bigint,           -- when a message queue was told last; NULL if it is to be told
    PRIMARY KEY (batch_id, number)
);

CREATE TABLE batch_items (
    batch_id     uuid    NOT NULL REFERENCES batches (id) ON DELETE CASCADE,
    position     bigint  NOT NULL, -- from 0
    item_id      text,             -- the caller's id
    payload      bytea CHECK (length(payload) = 32), -- the sha256 of the bytes, which are in the object store
    url          text,             -- where to fetch the image if there are no bytes
    source       text,
    source_url   text,
    metadata     jsonb,
    state        text    NOT NULL CHECK (state IN ('queued', 'ok', 'error', 'dead', 'cancelled')),
    attempts     integer NOT NULL,
    cached       boolean NOT NULL,
    scan_id      uuid    REFERENCES scans (id) ON DELETE SET NULL,
    result       jsonb,            -- the result of an operation that has no scan
    error_code   text,
    error_detail text,
    PRIMARY KEY (batch_id, position)
);
CREATE UNIQUE INDEX batch_items_by_id ON batch_items (batch_id, item_id) WHERE item_id IS NOT NULL;
CREATE INDEX batch_items_by_scan ON batch_items (scan_id) WHERE scan_id IS NOT NULL;
CREATE INDEX batch_items_by_payload ON batch_items (batch_id, payload) WHERE payload IS NOT NULL;

-- The batch that wrote a scan. NULL if a request made it, or if a request was answered with it. Deleting the batch deletes
-- the scans that nothing else uses.
ALTER TABLE scans ADD COLUMN batch_id uuid REFERENCES batches (id) ON DELETE SET NULL;
CREATE INDEX scans_by_batch ON scans (batch_id) WHERE batch_id IS NOT NULL;

-- What remains of a deleted batch.
CREATE TABLE deleted_batches (
    id         uuid        PRIMARY KEY,
    tenant     text        NOT NULL,
    operation  text        NOT NULL,
    accepted   bigint      NOT NULL,
    ok         bigint      NOT NULL,
    error      bigint      NOT NULL,
    dead       bigint      NOT NULL,
    cancelled  bigint      NOT NULL,
    scans      bigint      NOT NULL, -- scans that were deleted with it
    deletion   text        NOT NULL,
    created_at timestamptz NOT NULL,
    deleted_at timestamptz NOT NULL
);
