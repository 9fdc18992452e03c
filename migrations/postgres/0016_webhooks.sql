-- What is known about the address of a webhook. Times are in microseconds since 1970.
ALTER TABLE webhooks ADD COLUMN failures bigint NOT NULL DEFAULT 0; -- since the last success
ALTER TABLE webhooks ADD COLUMN failing_since bigint;               -- the first of these failures
ALTER TABLE webhooks ADD COLUMN last_error text;                    -- NULL after a success
ALTER TABLE webhooks ADD COLUMN last_success_at bigint;
ALTER TABLE webhooks ADD COLUMN disabled_at bigint;                 -- not NULL: nothing is sent to it

-- The secret before the last rotation signs too, until a time.
ALTER TABLE webhooks ADD COLUMN old_secret text;
ALTER TABLE webhooks ADD COLUMN old_secret_until bigint;

-- Tenants take turns, so messages are found by tenant. A message of a webhook that is switched off is pending without a time.
ALTER TABLE webhook_deliveries ADD COLUMN tenant text NOT NULL DEFAULT '';
UPDATE webhook_deliveries SET tenant = (SELECT w.tenant FROM webhooks w WHERE w.id = webhook_deliveries.webhook_id);
DROP INDEX webhook_deliveries_due;
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (tenant, next_at) WHERE next_at IS NOT NULL;

-- One row a tenant. Adding a webhook locks it, so that tenants keep their limit.
CREATE TABLE webhook_tenants (
    tenant text PRIMARY KEY
);
