-- The tables of migrations/postgres/0007_webhooks.sql, which explains them.
CREATE TABLE webhooks (
    id         BLOB NOT NULL PRIMARY KEY,
    tenant     TEXT NOT NULL,
    batch_id   BLOB REFERENCES batches (id) ON DELETE CASCADE,
    url        TEXT NOT NULL,
    secret     TEXT NOT NULL,
    created_at TEXT NOT NULL
) STRICT;
CREATE INDEX webhooks_by_tenant ON webhooks (tenant, id);
CREATE INDEX webhooks_by_batch ON webhooks (batch_id) WHERE batch_id IS NOT NULL;

CREATE TABLE webhook_deliveries (
    id         BLOB    NOT NULL PRIMARY KEY,
    webhook_id BLOB    NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    batch_id   BLOB    NOT NULL REFERENCES batches (id) ON DELETE CASCADE,
    event      TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    attempts   INTEGER NOT NULL,
    next_at    INTEGER,
    status     TEXT    NOT NULL CHECK (status IN ('pending', 'delivered', 'failed'))
) STRICT;
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX webhook_deliveries_by_webhook ON webhook_deliveries (webhook_id);
CREATE INDEX webhook_deliveries_by_batch ON webhook_deliveries (batch_id);
