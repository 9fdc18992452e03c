-- Keys of the API. The secret of a key is not stored.
CREATE TABLE api_keys (
    id           text  PRIMARY KEY, -- the part of the key that is not secret
    tenant       text  NOT NULL,
    name         text  NOT NULL,
    scopes       jsonb NOT NULL,    -- what the key may do
    digest       bytea NOT NULL CHECK (length(digest) = 32), -- the sha256 of the secret
    created_at   bigint NOT NULL,   -- microseconds since 1970, as are the other times
    expires_at   bigint,            -- NULL: never
    revoked_at   bigint,            -- NULL: the key is valid until it expires
    last_used_at bigint             -- recorded at most once a minute
);
CREATE INDEX api_keys_by_tenant ON api_keys (tenant, created_at, id);
