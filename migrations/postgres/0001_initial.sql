-- Times are in microseconds since 1970 where the type is bigint. Every row belongs to a tenant, directly or through its parent.
--
-- Until the first release this file changes in place. From then on it never changes, and a change is a new file.

-- Every model file that ever answered, for reading old results. A row is never changed: a model
-- whose file or preparation changes is a new row.
CREATE TABLE models (
    id           text        NOT NULL,
    role         text        NOT NULL,
    family       text        NOT NULL,
    sha256       bytea       NOT NULL CHECK (length(sha256) = 32),
    vector_space text,    -- embedders only: which vectors may be compared
    dim          integer, -- embedders only: the length of the vector
    first_seen   timestamptz NOT NULL
);
CREATE UNIQUE INDEX models_identity ON models (id, sha256, coalesce(vector_space, ''));


-- Batches ------------------------------------------------------------------------------------------------------------

-- Images that one operation processes in the background. The counts are of its items by state.
CREATE TABLE batches (
    id              uuid        PRIMARY KEY, -- version 7: ordered by time
    tenant          text        NOT NULL,
    key_id          text,                    -- of the caller, for whom its searches count; NULL if access is not controlled
    name            text,
    operation       text        NOT NULL,
    options         jsonb       NOT NULL,    -- with every default filled in
    models          jsonb       NOT NULL,    -- the models that make the results
    models_key      bytea       NOT NULL CHECK (length(models_key) = 32),
    priority        text        NOT NULL,
    idempotency_key text,
    request_digest  bytea,                   -- NULL until the whole request has arrived
    receipt         jsonb,                   -- the answer to the request, which a repeated request gets too
    traceparent     text,                    -- the header that names the span of the submission; NULL if it has no trace
    submitted       bigint      NOT NULL,    -- entries of the request that were read, refused ones included
    is_open         boolean     NOT NULL,    -- accepts more items
    accepted        bigint      NOT NULL,
    queued          bigint      NOT NULL,
    running         bigint      NOT NULL,
    ok              bigint      NOT NULL,
    cached          bigint      NOT NULL,    -- a part of ok
    error           bigint      NOT NULL,
    dead            bigint      NOT NULL,
    cancelled       bigint      NOT NULL,
    chunk_size      integer     NOT NULL,    -- items
    next_chunk      integer     NOT NULL,
    served          bigint      NOT NULL,    -- items that workers have claimed: the batch's virtual time
    created_at      timestamptz NOT NULL,
    started_at      timestamptz,
    finished_at     timestamptz,
    cancelled_at    timestamptz,
    expires_at      bigint,
    payloads_due    boolean     NOT NULL,    -- some payloads are no longer needed
    deletion        text        CHECK (deletion IN ('erased', 'expired')) -- not NULL: only the sweeper sees the batch
);
CREATE INDEX batches_by_age ON batches (tenant, created_at);
CREATE INDEX batches_by_tenant ON batches (tenant, id);
CREATE UNIQUE INDEX batches_by_key ON batches (tenant, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX batches_to_sweep ON batches (id) WHERE payloads_due OR deletion IS NOT NULL;
CREATE INDEX batches_by_expiry ON batches (expires_at) WHERE deletion IS NULL AND expires_at IS NOT NULL;
CREATE INDEX batches_unfinished ON batches (tenant) WHERE finished_at IS NULL AND cancelled_at IS NULL;

-- The virtual time of each tenant in the fair queue: the items that workers have claimed for it.
CREATE TABLE batch_tenants (
    tenant text   PRIMARY KEY,
    served bigint NOT NULL
);

-- Consecutive items of a batch that a worker processes under one lease. The row is deleted when all its items are
-- finished, so the table is as long as the queue.
CREATE TABLE batch_chunks (
    batch_id       uuid    NOT NULL REFERENCES batches (id) ON DELETE CASCADE,
    number         integer NOT NULL,
    first_item     bigint  NOT NULL,
    items          integer NOT NULL,
    ready_at       bigint  NOT NULL, -- for a leased chunk the end of the lease
    lease_owner    text,             -- NULL if no worker has the chunk
    lease_token    bigint  NOT NULL, -- grows with each lease
    expired_leases integer NOT NULL, -- leases that expired before the worker returned the chunk
    announced_at   bigint,           -- when a message queue was told last; NULL if it is to be told
    PRIMARY KEY (batch_id, number)
);
CREATE INDEX batch_chunks_by_time ON batch_chunks (ready_at);

-- What remains of a deleted batch.
CREATE TABLE deleted_batches (
    id         uuid        PRIMARY KEY,
    tenant     text        NOT NULL,
    operation  text        NOT NULL,
    accepted   bigint      NOT NULL,
    ok         bigint      NOT NULL,
    error      bigint      NOT NULL,
    dead       bigint      NOT NULL,
    cancelled  bigint      NOT NULL,
    images     bigint      NOT NULL DEFAULT 0, -- that were deleted with it, as were the next three
    scans      bigint      NOT NULL,
    faces      bigint      NOT NULL DEFAULT 0,
    vectors    bigint      NOT NULL DEFAULT 0,
    deletion   text        NOT NULL,
    created_at timestamptz NOT NULL,
    deleted_at timestamptz NOT NULL
);
CREATE INDEX deleted_batches_by_tenant ON deleted_batches (tenant, deleted_at);


-- Results ------------------------------------------------------------------------------------------------------------

-- One row per content and tenant, however often it was seen.
CREATE TABLE images (
    id              uuid        PRIMARY KEY, -- version 7: ordered by time
    tenant          text        NOT NULL,
    sha256          bytea       NOT NULL CHECK (length(sha256) = 32),
    byte_size       bigint      NOT NULL,
    width           integer     NOT NULL,    -- of the upright picture, as is height
    height          integer     NOT NULL,
    format          text        NOT NULL,
    orientation     smallint    NOT NULL CHECK (orientation BETWEEN 1 AND 8), -- EXIF, as the file had it
    perceptual_hash bigint,                  -- 64 bits, a hint only; NULL for a flat picture
    created_at      timestamptz NOT NULL,
    UNIQUE (tenant, sha256)
);
CREATE INDEX images_by_tenant ON images (tenant, id);

-- Where a picture was seen. The key is a digest of id and URL, because URLs are longer than an
-- index entry may be.
CREATE TABLE image_sources (
    image_id   uuid        NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    source_key bytea       NOT NULL CHECK (length(source_key) = 32),
    source_id  text,
    source_url text,
    seen_at    timestamptz NOT NULL, -- the last time
    PRIMARY KEY (image_id, source_key)
);
CREATE INDEX image_sources_by_source ON image_sources (source_id, image_id);

-- One run of an operation on a picture. The key is a digest of operation, options and models.
CREATE TABLE scans (
    id                    uuid        PRIMARY KEY,
    image_id              uuid        NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    scan_key              bytea       NOT NULL CHECK (length(scan_key) = 32),
    -- The batch that wrote the scan. NULL if a request made it, or if a request was answered with it. Deleting the batch
    -- deletes the scans that nothing else uses.
    batch_id              uuid        REFERENCES batches (id) ON DELETE SET NULL,
    operation             text        NOT NULL,
    detector_id           text,
    detector_sha256       bytea,
    embedder_id           text,
    embedder_vector_space text,
    picture_quality       jsonb,
    devices               jsonb,                -- which device ran each operation
    answers_cache         boolean     NOT NULL, -- false once a face was erased: the row no longer tells all
    created_at            timestamptz NOT NULL,
    UNIQUE (image_id, scan_key)
);
CREATE INDEX scans_by_batch ON scans (batch_id) WHERE batch_id IS NOT NULL;

CREATE TABLE faces (
    id        uuid    PRIMARY KEY,
    scan_id   uuid    NOT NULL REFERENCES scans (id) ON DELETE CASCADE,
    image_id  uuid    NOT NULL, -- that of the scan, which is deleted with it
    position  integer NOT NULL, -- in the answer, from 0
    x1        real    NOT NULL, -- pixels of the upright picture
    y1        real    NOT NULL,
    x2        real    NOT NULL,
    y2        real    NOT NULL,
    score     real,             -- NULL for a crop that came aligned
    landmarks real[],           -- five points: x, y, x, y, …; NULL when the detector gives none
    results   jsonb,            -- all results that have no vector, as one object, so that an operation adds no column
    UNIQUE (scan_id, position)
);

-- Vectors of two vector spaces are never compared. `real[]` needs no extension and casts to pgvector's
-- type where that is installed: `vector::vector(128) <=> …`.
CREATE TABLE embeddings (
    face_id      uuid    PRIMARY KEY REFERENCES faces (id) ON DELETE CASCADE,
    vector_space text    NOT NULL,
    precision    text    NOT NULL CHECK (precision IN ('f32', 'bf16', 'f16')), -- of the model's run; the values have 32 bits
    dim          integer NOT NULL,
    norm         real    NOT NULL,                                             -- length before normalization
    vector       real[]  NOT NULL CHECK (cardinality(vector) = dim)
);

-- The vector of a whole image. Its scan has no faces.
CREATE TABLE image_embeddings (
    scan_id      uuid    PRIMARY KEY REFERENCES scans (id) ON DELETE CASCADE,
    vector_space text    NOT NULL,
    precision    text    CHECK (precision IN ('f32', 'bf16', 'f16')), -- NULL if a remote server ran the model
    dim          integer NOT NULL,
    norm         real    NOT NULL,                                    -- length before normalization
    vector       real[]  NOT NULL CHECK (cardinality(vector) = dim)
);

-- An item of a batch. It is here because it refers to the scan that has its result.
CREATE TABLE batch_items (
    batch_id     uuid    NOT NULL REFERENCES batches (id) ON DELETE CASCADE,
    position     bigint  NOT NULL, -- from 0
    item_id      text,             -- the caller's id
    payload      bytea   CHECK (length(payload) = 32), -- the sha256 of the bytes, which are in the object store
    url          text,             -- where to fetch the image if there are no bytes
    source       text,
    source_url   text,
    metadata     jsonb,
    state        text    NOT NULL CHECK (state IN ('queued', 'ok', 'error', 'dead', 'cancelled')),
    attempts     integer NOT NULL,
    cached       boolean NOT NULL,
    scan_id      uuid    REFERENCES scans (id) ON DELETE SET NULL,
    result       jsonb,            -- the result of an operation that has no scan
    error_code   text,
    error_detail text,
    PRIMARY KEY (batch_id, position)
);
CREATE UNIQUE INDEX batch_items_by_id ON batch_items (batch_id, item_id) WHERE item_id IS NOT NULL;
CREATE INDEX batch_items_by_scan ON batch_items (scan_id) WHERE scan_id IS NOT NULL;
CREATE INDEX batch_items_by_payload ON batch_items (batch_id, payload) WHERE payload IS NOT NULL;


-- Collections --------------------------------------------------------------------------------------------------------

-- Faces that were enrolled for recognition. Scans never add to them: enrollment is an act of its own.
CREATE TABLE collections (
    id               uuid             PRIMARY KEY,           -- version 7: ordered by time
    tenant           text             NOT NULL,
    name             text             NOT NULL,
    kind             text             NOT NULL CHECK (kind IN ('gallery', 'suppression', 'library')),
    vector_space     text             NOT NULL,              -- never changes: vectors of two vector spaces are not compared
    dim              integer          NOT NULL,
    purpose          text             NOT NULL,
    legal_basis      text             NOT NULL,
    consent_required boolean          NOT NULL,
    retention_days   integer          NOT NULL CHECK (retention_days > 0),
    far              double precision NOT NULL,
    created_at       bigint           NOT NULL,
    position         bigint           NOT NULL DEFAULT 0,    -- of the newest row of index_changes
    enrolled         bigint           NOT NULL DEFAULT 0,    -- rows in enrollments; the triggers that write index_changes keep it
    is_erased        boolean          NOT NULL DEFAULT false -- its rows are being deleted, and no answer has them
);
-- No name is NULL. Without this condition, Postgres uses the index for searches by id, and reads all collections of the tenant.
CREATE UNIQUE INDEX collections_by_name ON collections (tenant, name) WHERE name IS NOT NULL AND NOT is_erased;
CREATE INDEX suppression_collections ON collections (tenant, vector_space, id) WHERE kind = 'suppression' AND NOT is_erased;
CREATE INDEX collections_to_erase ON collections (tenant, id) WHERE is_erased;
CREATE INDEX collections_by_tenant ON collections (tenant, id);

-- People of a collection. `external_id` is the caller's id.
CREATE TABLE subjects (
    id                 uuid   PRIMARY KEY,
    collection_id      uuid   NOT NULL REFERENCES collections (id) ON DELETE CASCADE,
    external_id        text,
    metadata           jsonb,
    consent_reference  text,
    consent_given_at   bigint,
    consent_expires_at bigint,
    expires_at         bigint,
    created_at         bigint NOT NULL,
    last_seen_at       bigint NOT NULL, -- the last interaction, from which the retention counts
    UNIQUE (collection_id, external_id)
);
CREATE INDEX subjects_by_collection ON subjects (collection_id, id);
CREATE INDEX subjects_by_age ON subjects (collection_id, last_seen_at);
CREATE INDEX subjects_by_expiry ON subjects (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX subjects_by_consent ON subjects (consent_expires_at) WHERE consent_expires_at IS NOT NULL;

-- Vectors of people. A vector that came from a stored face is deleted with that face, unless the face is deleted only
-- because it is old or because its batch is deleted: the statements that do so set face_id to NULL first. The id of the
-- image stays, so that an erasure of the image still finds the vector.
CREATE TABLE enrollments (
    row_id        bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- the key in every index
    id            uuid    NOT NULL UNIQUE,
    collection_id uuid    NOT NULL REFERENCES collections (id) ON DELETE CASCADE,
    subject_id    uuid    REFERENCES subjects (id) ON DELETE CASCADE, -- NULL in libraries
    face_id       uuid    REFERENCES faces (id) ON DELETE CASCADE,
    image_id      uuid,   -- of the stored face, also after face_id is NULL; faces of one image that is not stored share an id
    created_at    bigint  NOT NULL,
    is_acceptable boolean NOT NULL DEFAULT true, -- whether the quality suffices to found a person
    vector        real[]  NOT NULL
);
CREATE INDEX enrollments_by_collection ON enrollments (collection_id, row_id);
CREATE INDEX enrollments_by_subject ON enrollments (subject_id, row_id);
CREATE INDEX enrollments_by_face ON enrollments (face_id) WHERE face_id IS NOT NULL;
CREATE INDEX enrollments_by_image ON enrollments (image_id) WHERE image_id IS NOT NULL;
CREATE INDEX enrollments_of_libraries ON enrollments (collection_id, created_at) WHERE subject_id IS NULL;

-- What changed in the rows of a collection, in order, so that an index can follow. Triggers write it, so that no
-- statement can forget it. `position` has no gaps within a collection.
CREATE TABLE index_changes (
    collection_id uuid    NOT NULL REFERENCES collections (id) ON DELETE CASCADE,
    position      bigint  NOT NULL,
    is_added      boolean NOT NULL,
    row_id        bigint  NOT NULL,
    PRIMARY KEY (collection_id, position)
);

CREATE FUNCTION log_enrollments() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH moved AS (
        UPDATE collections c
        SET position = c.position + n.rows, enrolled = c.enrolled + CASE TG_OP WHEN 'INSERT' THEN n.rows ELSE -n.rows END
        FROM (SELECT collection_id, count(*) AS rows FROM changed GROUP BY collection_id) n
        WHERE c.id = n.collection_id
        RETURNING c.id, c.position - n.rows AS before
    )
    INSERT INTO index_changes (collection_id, position, is_added, row_id)
    SELECT m.id, m.before + row_number() OVER (PARTITION BY m.id ORDER BY r.row_id), TG_OP = 'INSERT', r.row_id
    FROM changed r JOIN moved m ON m.id = r.collection_id;
    RETURN NULL;
END
$$;
CREATE TRIGGER enrollments_added AFTER INSERT ON enrollments
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_enrollments();
CREATE TRIGGER enrollments_removed AFTER DELETE ON enrollments
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_enrollments();


-- Libraries: collections whose faces are grouped into people ---------------------------------------------------------

-- People of a library. A person is deleted with the last face.
CREATE TABLE people (
    id            uuid   PRIMARY KEY,
    collection_id uuid   NOT NULL REFERENCES collections (id) ON DELETE CASCADE,
    name          text,
    created_at    bigint NOT NULL
);
CREATE INDEX people_by_collection ON people (collection_id, id);

-- Who a face of a library shows. This is not a column of enrollments, because each change there would write the vector again.
CREATE TABLE memberships (
    row_id    bigint  PRIMARY KEY REFERENCES enrollments (row_id) ON DELETE CASCADE,
    person_id uuid    REFERENCES people (id) ON DELETE CASCADE, -- NULL: a user said that the face shows nobody
    is_pinned boolean NOT NULL                                  -- whether a user decided it: no clustering changes it
);
CREATE INDEX memberships_by_person ON memberships (person_id, row_id);

CREATE FUNCTION delete_people_without_faces() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM people p USING (SELECT DISTINCT person_id FROM removed) r
    WHERE p.id = r.person_id AND NOT EXISTS (SELECT 1 FROM memberships m WHERE m.person_id = p.id);
    RETURN NULL;
END
$$;
CREATE TRIGGER memberships_removed AFTER DELETE ON memberships
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION delete_people_without_faces();

-- Jobs that group the faces of a library.
CREATE TABLE clusterings (
    id            uuid             PRIMARY KEY,
    collection_id uuid             NOT NULL REFERENCES collections (id) ON DELETE CASCADE,
    state         text             NOT NULL CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled')),
    is_full       boolean          NOT NULL,
    min_faces     integer          NOT NULL,
    far           double precision,            -- NULL: chosen from the number of faces
    created_at    bigint           NOT NULL,
    attempt       bigint           NOT NULL DEFAULT 0, -- leases so far; a server whose lease is not the last one writes nothing
    leased_until  bigint,
    finished_at   bigint,
    compared      bigint           NOT NULL DEFAULT 0, -- faces whose nearest ones are known
    faces         bigint           NOT NULL DEFAULT 0,
    people        bigint           NOT NULL DEFAULT 0,
    unassigned    bigint           NOT NULL DEFAULT 0,
    moved         bigint           NOT NULL DEFAULT 0, -- faces that had another person before
    error         text
);
CREATE INDEX clusterings_by_collection ON clusterings (collection_id, id);
CREATE INDEX clusterings_unfinished ON clusterings (id) WHERE state IN ('queued', 'running');
CREATE UNIQUE INDEX clusterings_one_at_a_time ON clusterings (collection_id) WHERE state IN ('queued', 'running');


-- Webhooks -----------------------------------------------------------------------------------------------------------

-- Addresses that are told when a batch ends.
CREATE TABLE webhooks (
    id               uuid        PRIMARY KEY,
    tenant           text        NOT NULL,
    batch_id         uuid        REFERENCES batches (id) ON DELETE CASCADE, -- NULL: every batch of the tenant
    url              text        NOT NULL,
    host             text,                -- with the port, if the webhook is of one batch
    secret           text        NOT NULL, -- signs the messages
    old_secret       text,                -- the secret before the last rotation signs too,
    old_secret_until bigint,              -- until this time
    created_at       timestamptz NOT NULL,
    failures         bigint      NOT NULL DEFAULT 0, -- since the last success
    failing_since    bigint,              -- the first of these failures
    last_error       text,                -- NULL after a success
    last_success_at  bigint,
    disabled_at      bigint               -- not NULL: nothing is sent to it
);
CREATE INDEX webhooks_by_tenant ON webhooks (tenant, id);
CREATE INDEX webhooks_of_all_batches ON webhooks (tenant, id) WHERE batch_id IS NULL;
CREATE INDEX webhooks_by_batch ON webhooks (batch_id) WHERE batch_id IS NOT NULL;

-- One row a tenant. Adding a webhook locks it, so that tenants keep their limit.
CREATE TABLE webhook_tenants (
    tenant text PRIMARY KEY
);

-- The hosts that did not take the last message of a webhook of one batch. Such a webhook has one message only, so what is
-- known about its address is kept with the host.
CREATE TABLE webhook_hosts (
    tenant         text   NOT NULL,
    host           text   NOT NULL,
    webhook_id     uuid   NOT NULL, -- the webhook whose message failed last
    failures       bigint NOT NULL, -- since the last success
    failing_since  bigint NOT NULL, -- the first of these failures
    last_failed_at bigint NOT NULL,
    last_error     text   NOT NULL,
    off_until      bigint,          -- nothing is sent to it before
    PRIMARY KEY (tenant, host)
);

-- One message to one address. It is inserted in the transaction that ends the batch. A message of a webhook that is switched
-- off is pending without a time.
CREATE TABLE webhook_deliveries (
    id         uuid    PRIMARY KEY, -- the same for each attempt
    tenant     text    NOT NULL,    -- tenants take turns, so messages are found by tenant
    webhook_id uuid    NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    batch_id   uuid    NOT NULL REFERENCES batches (id) ON DELETE CASCADE,
    event      text    NOT NULL,    -- batch.done or batch.cancelled
    created_at bigint  NOT NULL,
    attempts   integer NOT NULL,
    next_at    bigint,              -- the next attempt; NULL after the last one
    status     text    NOT NULL CHECK (status IN ('pending', 'delivered', 'failed'))
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (tenant, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX webhook_deliveries_by_webhook ON webhook_deliveries (webhook_id);
CREATE INDEX webhook_deliveries_by_batch ON webhook_deliveries (batch_id);


-- Access, audit and erasure ------------------------------------------------------------------------------------------

-- Keys of the API. The secret of a key is not stored.
CREATE TABLE api_keys (
    id           text   PRIMARY KEY, -- the part of the key that is not secret
    tenant       text   NOT NULL,
    name         text   NOT NULL,
    scopes       jsonb  NOT NULL,    -- what the key may do
    digest       bytea  NOT NULL CHECK (length(digest) = 32), -- the sha256 of the secret
    created_at   bigint NOT NULL,
    expires_at   bigint,             -- NULL: never
    revoked_at   bigint,             -- NULL: the key is valid until it expires
    last_used_at bigint              -- recorded at most once a minute
);
CREATE INDEX api_keys_by_tenant ON api_keys (tenant, created_at, id);

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
    minute   bigint NOT NULL, -- its begin
    searches bigint NOT NULL,
    PRIMARY KEY (tenant, key_id, minute)
);

-- Who did what. A row is never changed, and `hash` covers the row and the hash of the row before it. No row has an image,
-- a vector or a name.
CREATE TABLE audit_entries (
    tenant        text   NOT NULL,
    number        bigint NOT NULL, -- from 1 in each tenant, without gaps
    at            bigint NOT NULL,
    request_id    text   NOT NULL,
    key_id        text,            -- NULL if access is not controlled, or if the server did it by itself
    action        text   NOT NULL,
    target        text,            -- an id, or the sha256 of what was named
    details       text   NOT NULL, -- JSON, kept byte for byte because the hash covers it
    previous_hash bytea  NOT NULL CHECK (length(previous_hash) = 32),
    hash          bytea  NOT NULL CHECK (length(hash) = 32),
    PRIMARY KEY (tenant, number)
);
-- The searches of a collection.
CREATE INDEX audit_searches ON audit_entries (tenant, target, number) WHERE action = 'search';

-- The end of each tenant's chain, and the hash before the oldest entry that retention has kept.
CREATE TABLE audit_chains (
    tenant       text   PRIMARY KEY,
    deleted      bigint NOT NULL, -- the number of the last entry that retention deleted, or 0
    deleted_hash bytea  NOT NULL CHECK (length(deleted_hash) = 32),
    last         bigint NOT NULL, -- the number of the newest entry, or 0
    last_hash    bytea  NOT NULL CHECK (length(last_hash) = 32)
);

-- What retention has deleted from a chain. The hashes of the entries stay, so that an entry whose hash was noted elsewhere can
-- still be compared.
CREATE TABLE audit_deletions (
    tenant    text   NOT NULL,
    first     bigint NOT NULL, -- the number of the first deleted entry
    last      bigint NOT NULL,
    at        bigint NOT NULL,
    hashes    bytea  NOT NULL, -- 32 bytes for each entry
    signature bytea,           -- HMAC-SHA256; NULL if audit.secret is not set
    PRIMARY KEY (tenant, first)
);

-- Requests to erase, and what was erased. The sweeper continues one that was interrupted.
CREATE TABLE erasures (
    id           uuid   PRIMARY KEY,
    tenant       text   NOT NULL,
    kind         text   NOT NULL CHECK (kind IN ('image', 'face', 'source', 'host', 'batch', 'tenant', 'collection', 'subject',
                                                 'enrollment', 'person')),
    target       text   NOT NULL, -- the id or the value; for a source or a host the sha256 once everything is erased
    requested_at bigint NOT NULL,
    erased_at    bigint,          -- no answer has the erased rows from here on
    purged_at    bigint,          -- the files of the database have given up the erased rows
    images       bigint NOT NULL,
    scans        bigint NOT NULL,
    faces        bigint NOT NULL,
    vectors      bigint NOT NULL,
    batches      bigint NOT NULL,
    items        bigint NOT NULL,
    payloads     bigint NOT NULL,
    subjects     bigint NOT NULL DEFAULT 0,
    enrollments   bigint NOT NULL DEFAULT 0
);
CREATE INDEX erasures_by_tenant ON erasures (tenant, id);
CREATE INDEX erasures_unfinished ON erasures (id) WHERE purged_at IS NULL;

-- Deletions of old rows, until the files of the database have given up their bytes.
CREATE TABLE unpurged_deletions (
    committed_by bigint PRIMARY KEY -- a purge that begins later includes the deletion
);
