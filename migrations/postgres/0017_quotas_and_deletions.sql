-- How often each caller has searched, so that the limit of a day holds for all servers and for requests at the same moment.
CREATE TABLE search_counters (
    tenant   text   NOT NULL,
    key_id   text   NOT NULL, -- '' if access is not controlled
    searches bigint NOT NULL, -- ever; a request locks the row while it counts
    PRIMARY KEY (tenant, key_id)
);

-- The searches of the last day by minute. Older rows are deleted by the next search of the caller.
CREATE TABLE search_minutes (
    tenant   text   NOT NULL,
    key_id   text   NOT NULL,
    minute   bigint NOT NULL, -- its begin, microseconds since 1970
    searches bigint NOT NULL,
    PRIMARY KEY (tenant, key_id, minute)
);

-- It counted the searches in the audit trail.
DROP INDEX audit_searches_by_key;

-- What retention has deleted from a chain. The hashes of the entries stay, so that an entry whose hash was noted elsewhere can
-- still be compared.
CREATE TABLE audit_deletions (
    tenant    text   NOT NULL,
    first     bigint NOT NULL, -- the number of the first deleted entry
    last      bigint NOT NULL,
    at        bigint NOT NULL, -- microseconds since 1970
    hashes    bytea  NOT NULL, -- 32 bytes for each entry
    signature bytea,           -- HMAC-SHA256; NULL if audit.secret is not set
    PRIMARY KEY (tenant, first)
);
