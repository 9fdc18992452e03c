-- The tables of migrations/postgres/0018_webhook_hosts.sql, which explains them.
ALTER TABLE webhooks ADD COLUMN host TEXT;

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
