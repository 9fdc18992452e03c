-- The table of migrations/postgres/0008_api_keys.sql, which explains it.
CREATE TABLE api_keys (
    id           TEXT    NOT NULL PRIMARY KEY,
    tenant       TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    scopes       TEXT    NOT NULL,
    digest       BLOB    NOT NULL CHECK (length(digest) = 32),
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    revoked_at   INTEGER,
    last_used_at INTEGER
) STRICT;
CREATE INDEX api_keys_by_tenant ON api_keys (tenant, created_at, id);
