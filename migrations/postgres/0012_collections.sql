-- Faces that were enrolled for recognition. Scans never add to them: enrolment is an act of its own.
CREATE TABLE collections (
    id               uuid             PRIMARY KEY, -- version 7: ordered by time
    tenant           text             NOT NULL,
    name             text             NOT NULL,
    kind             text             NOT NULL CHECK (kind IN ('gallery', 'suppression')),
    contract         text             NOT NULL,    -- never changes: vectors of two contracts are not compared
    dim              integer          NOT NULL,
    purpose          text             NOT NULL,
    legal_basis      text             NOT NULL,
    consent_required boolean          NOT NULL,
    retention_days   integer          NOT NULL CHECK (retention_days > 0),
    far              double precision NOT NULL,
    created_at       bigint           NOT NULL,    -- microseconds since 1970, as are the other times
    position         bigint           NOT NULL DEFAULT 0, -- of the newest row of index_changes
    is_erased        boolean          NOT NULL DEFAULT false -- its rows are being deleted, and no answer has them
);
CREATE UNIQUE INDEX collections_by_name ON collections (tenant, name) WHERE NOT is_erased;

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
CREATE TABLE enrolments (
    row_id        bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- the key in every index
    id            uuid    NOT NULL UNIQUE,
    collection_id uuid    NOT NULL REFERENCES collections (id) ON DELETE CASCADE,
    subject_id    uuid    NOT NULL REFERENCES subjects (id) ON DELETE CASCADE,
    face_id       uuid    REFERENCES faces (id) ON DELETE CASCADE,
    image_id      uuid,   -- of the stored face, also after face_id is NULL
    created_at    bigint  NOT NULL,
    vector        real[]  NOT NULL
);
CREATE INDEX enrolments_by_collection ON enrolments (collection_id, row_id);
CREATE INDEX enrolments_by_subject ON enrolments (subject_id, row_id);
CREATE INDEX enrolments_by_face ON enrolments (face_id) WHERE face_id IS NOT NULL;
CREATE INDEX enrolments_by_image ON enrolments (image_id) WHERE image_id IS NOT NULL;

-- What changed in the rows of a collection, in order, so that an index can follow. Triggers write it, so that no
-- statement can forget it. `position` has no gaps within a collection.
CREATE TABLE index_changes (
    collection_id uuid    NOT NULL REFERENCES collections (id) ON DELETE CASCADE,
    position      bigint  NOT NULL,
    is_added      boolean NOT NULL,
    row_id        bigint  NOT NULL,
    PRIMARY KEY (collection_id, position)
);

CREATE FUNCTION log_enrolments() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH moved AS (
        UPDATE collections c SET position = c.position + n.rows
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
CREATE TRIGGER enrolments_added AFTER INSERT ON enrolments
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_enrolments();
CREATE TRIGGER enrolments_removed AFTER DELETE ON enrolments
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_enrolments();

-- Erasures of collections, of their subjects and of enrolled faces.
ALTER TABLE erasures DROP CONSTRAINT erasures_kind_check;
ALTER TABLE erasures ADD CONSTRAINT erasures_kind_check CHECK (kind IN
    ('image', 'face', 'source', 'host', 'batch', 'tenant', 'collection', 'subject', 'enrolment'));
ALTER TABLE erasures ADD COLUMN subjects bigint NOT NULL DEFAULT 0;
ALTER TABLE erasures ADD COLUMN enrolments bigint NOT NULL DEFAULT 0;

-- The searches of a collection.
CREATE INDEX audit_searches ON audit_entries (tenant, target, number) WHERE action = 'search';
