-- The tables of migrations/postgres/0017_quotas_and_deletions.sql, which explains them.
CREATE TABLE search_counters (
    tenant   TEXT    NOT NULL,
    key_id   TEXT    NOT NULL,
    searches INTEGER NOT NULL,
    PRIMARY KEY (tenant, key_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE search_minutes (
    tenant   TEXT    NOT NULL,
    key_id   TEXT    NOT NULL,
    minute   INTEGER NOT NULL,
    searches INTEGER NOT NULL,
    PRIMARY KEY (tenant, key_id, minute)
) STRICT, WITHOUT ROWID;

DROP INDEX audit_searches_by_key;

CREATE TABLE audit_deletions (
    tenant    TEXT    NOT NULL,
    first     INTEGER NOT NULL,
    last      INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    hashes    BLOB    NOT NULL,
    signature BLOB,
    PRIMARY KEY (tenant, first)
) STRICT, WITHOUT ROWID;
