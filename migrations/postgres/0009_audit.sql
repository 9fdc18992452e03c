-- Who did what. A row is never changed, and `hash` covers the row and the hash of the row before it. No row has an image,
-- a vector or a name.
CREATE TABLE audit_entries (
    tenant        text   NOT NULL,
    number        bigint NOT NULL, -- from 1 in each tenant, without gaps
    at            bigint NOT NULL, -- microseconds since 1970
    request_id    text   NOT NULL,
    key_id        text,            -- NULL if access is not controlled, or if the server did it by itself
    action        text   NOT NULL,
    target        text,            -- an id, or the sha256 of what was named
    details       text   NOT NULL, -- JSON, kept byte for byte because the hash covers it
    previous_hash bytea  NOT NULL CHECK (length(previous_hash) = 32),
    hash          bytea  NOT NULL CHECK (length(hash) = 32),
    PRIMARY KEY (tenant, number)
);

-- The end of each tenant's chain, and the hash before the oldest entry that retention has kept.
CREATE TABLE audit_chains (
    tenant        text   PRIMARY KEY,
    deleted       bigint NOT NULL, -- the number of the last entry that retention deleted, or 0
    deleted_hash  bytea  NOT NULL CHECK (length(deleted_hash) = 32),
    last          bigint NOT NULL, -- the number of the newest entry, or 0
    last_hash     bytea  NOT NULL CHECK (length(last_hash) = 32)
);
