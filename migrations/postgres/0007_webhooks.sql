-- Addresses that are told when a batch ends.
CREATE TABLE webhooks (
    id         uuid        PRIMARY KEY,
    tenant     text        NOT NULL,
    batch_id   uuid        REFERENCES batches (id) ON DELETE CASCADE, -- NULL: every batch of the tenant
    url        text        NOT NULL,
    secret     text        NOT NULL, -- signs the messages
    created_at timestamptz NOT NULL
);
CREATE INDEX webhooks_by_tenant ON webhooks (tenant, id);
CREATE INDEX webhooks_by_batch ON webhooks (batch_id) WHERE batch_id IS NOT NULL;

-- One message to one address. It is inserted in the transaction that ends the batch.
CREATE TABLE webhook_deliveries (
    id         uuid    PRIMARY KEY, -- the same for each attempt
    webhook_id uuid    NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    batch_id   uuid    NOT NULL REFERENCES batches (id) ON DELETE CASCADE,
    event      text    NOT NULL,    -- batch.done or batch.cancelled
    created_at bigint  NOT NULL,    -- microseconds since 1970, as are the other times
    attempts   integer NOT NULL,
    next_at    bigint,              -- the next attempt; NULL after the last one
    status     text    NOT NULL CHECK (status IN ('pending', 'delivered', 'failed'))
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX webhook_deliveries_by_webhook ON webhook_deliveries (webhook_id);
CREATE INDEX webhook_deliveries_by_batch ON webhook_deliveries (batch_id);
