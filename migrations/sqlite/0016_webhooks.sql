-- The columns of migrations/postgres/0016_webhooks.sql, which explains them.
ALTER TABLE webhooks ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
ALTER TABLE webhooks ADD COLUMN failing_since INTEGER;
ALTER TABLE webhooks ADD COLUMN last_error TEXT;
ALTER TABLE webhooks ADD COLUMN last_success_at INTEGER;
ALTER TABLE webhooks ADD COLUMN disabled_at INTEGER;

ALTER TABLE webhooks ADD COLUMN old_secret TEXT;
ALTER TABLE webhooks ADD COLUMN old_secret_until INTEGER;

ALTER TABLE webhook_deliveries ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
UPDATE webhook_deliveries SET tenant = (SELECT w.tenant FROM webhooks w WHERE w.id = webhook_deliveries.webhook_id);
DROP INDEX webhook_deliveries_due;
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (tenant, next_at) WHERE next_at IS NOT NULL;

CREATE TABLE webhook_tenants (
    tenant TEXT NOT NULL PRIMARY KEY
) STRICT;
