-- The host and the port of the address of a webhook of one batch. NULL for a webhook of every batch.
ALTER TABLE webhooks ADD COLUMN host text;

-- The hosts that did not take the last message of such a webhook. It has one message only, so what is known about its address
-- is kept with the host.
CREATE TABLE webhook_hosts (
    tenant         text   NOT NULL,
    host           text   NOT NULL,
    webhook_id     uuid   NOT NULL, -- the webhook whose message failed last
    failures       bigint NOT NULL, -- since the last success
    failing_since  bigint NOT NULL, -- the first of these failures; microseconds since 1970, as are the other times
    last_failed_at bigint NOT NULL,
    last_error     text   NOT NULL,
    off_until      bigint,          -- nothing is sent to it before
    PRIMARY KEY (tenant, host)
);
