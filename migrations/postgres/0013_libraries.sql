-- Libraries: collections whose faces are grouped into people. The faces of a library belong to no subject.
ALTER TABLE collections DROP CONSTRAINT collections_kind_check;
ALTER TABLE collections ADD CONSTRAINT collections_kind_check CHECK (kind IN ('gallery', 'suppression', 'library'));
ALTER TABLE enrolments ALTER COLUMN subject_id DROP NOT NULL; -- NULL in libraries
ALTER TABLE enrolments ADD COLUMN is_acceptable boolean NOT NULL DEFAULT true; -- whether the quality suffices to found a person
CREATE INDEX enrolments_of_libraries ON enrolments (collection_id, created_at) WHERE subject_id IS NULL;
COMMENT ON COLUMN enrolments.image_id IS
    'The image of the stored face, also after face_id is NULL. Faces of one image that is not stored share an id of their own.';

-- The number of rows in enrolments. The triggers that write index_changes keep it.
ALTER TABLE collections ADD COLUMN enrolled bigint NOT NULL DEFAULT 0;
UPDATE collections c SET enrolled = (SELECT count(*) FROM enrolments e WHERE e.collection_id = c.id);

CREATE OR REPLACE FUNCTION log_enrolments() RETURNS trigger LANGUAGE plpgsql AS $$
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

-- People of a library. A person is deleted with the last face.
CREATE TABLE people (
    id            uuid   PRIMARY KEY,
    collection_id uuid   NOT NULL REFERENCES collections (id) ON DELETE CASCADE,
    name          text,
    created_at    bigint NOT NULL
);
CREATE INDEX people_by_collection ON people (collection_id, id);

-- Who a face of a library shows. This is not a column of enrolments, because each change there would write the vector again.
CREATE TABLE memberships (
    row_id    bigint  PRIMARY KEY REFERENCES enrolments (row_id) ON DELETE CASCADE,
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
    far           double precision,          -- NULL: chosen from the number of faces
    created_at    bigint           NOT NULL,
    attempt       bigint           NOT NULL DEFAULT 0, -- the number of leases; a server whose lease is not the last one writes nothing
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

-- The newest searches of a key, which a limit counts.
CREATE INDEX audit_searches_by_key ON audit_entries (tenant, coalesce(key_id, ''), at) WHERE action = 'search';

-- Erasures of people.
ALTER TABLE erasures DROP CONSTRAINT erasures_kind_check;
ALTER TABLE erasures ADD CONSTRAINT erasures_kind_check CHECK (kind IN
    ('image', 'face', 'source', 'host', 'batch', 'tenant', 'collection', 'subject', 'enrolment', 'person'));
