-- The tables of migrations/postgres/0009_audit.sql, which explains them.
CREATE TABLE audit_entries (
    tenant        TEXT    NOT NULL,
    number        INTEGER NOT NULL,
    at            INTEGER NOT NULL,
    request_id    TEXT    NOT NULL,
    key_id        TEXT,
    action        TEXT    NOT NULL,
    target        TEXT,
    details       TEXT    NOT NULL,
    previous_hash BLOB    NOT NULL CHECK (length(previous_hash) = 32),
    hash          BLOB    NOT NULL CHECK (length(hash) = 32),
    PRIMARY KEY (tenant, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE audit_chains (
    tenant        TEXT    NOT NULL PRIMARY KEY,
    deleted       INTEGER NOT NULL,
    deleted_hash  BLOB    NOT NULL CHECK (length(deleted_hash) = 32),
    last          INTEGER NOT NULL,
    last_hash     BLOB    NOT NULL CHECK (length(last_hash) = 32)
) STRICT;
