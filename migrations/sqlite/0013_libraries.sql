-- The changes of migrations/postgres/0013_libraries.sql, which explains them.
--
-- SQLite cannot change the CHECK or the NOT NULL of a column, so the tables are made again. The rows of children are copied
-- and deleted first, because the deletion of a parent deletes them.
CREATE TABLE collections_with_libraries (
    id               BLOB    NOT NULL PRIMARY KEY,
    tenant           TEXT    NOT NULL,
    name             TEXT    NOT NULL,
    kind             TEXT    NOT NULL CHECK (kind IN ('gallery', 'suppression', 'library')),
    contract         TEXT    NOT NULL,
    dim              INTEGER NOT NULL,
    purpose          TEXT    NOT NULL,
    legal_basis      TEXT    NOT NULL,
    consent_required INTEGER NOT NULL CHECK (consent_required IN (0, 1)),
    retention_days   INTEGER NOT NULL CHECK (retention_days > 0),
    far              REAL    NOT NULL,
    created_at       INTEGER NOT NULL,
    position         INTEGER NOT NULL DEFAULT 0,
    is_erased        INTEGER NOT NULL DEFAULT 0 CHECK (is_erased IN (0, 1)),
    enrolled         INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO collections_with_libraries
SELECT id, tenant, name, kind, contract, dim, purpose, legal_basis, consent_required, retention_days, far, created_at, position,
       is_erased, (SELECT count(*) FROM enrolments e WHERE e.collection_id = c.id)
FROM collections c;

CREATE TABLE subjects_with_libraries (
    id                 BLOB    NOT NULL PRIMARY KEY,
    collection_id      BLOB    NOT NULL REFERENCES collections_with_libraries (id) ON DELETE CASCADE,
    external_id        TEXT,
    metadata           TEXT,
    consent_reference  TEXT,
    consent_given_at   INTEGER,
    consent_expires_at INTEGER,
    expires_at         INTEGER,
    created_at         INTEGER NOT NULL,
    last_seen_at       INTEGER NOT NULL,
    UNIQUE (collection_id, external_id)
) STRICT;
INSERT INTO subjects_with_libraries
SELECT id, collection_id, external_id, metadata, consent_reference, consent_given_at, consent_expires_at, expires_at, created_at,
       last_seen_at
FROM subjects;

CREATE TABLE enrolments_with_libraries (
    row_id        INTEGER PRIMARY KEY AUTOINCREMENT,
    id            BLOB    NOT NULL UNIQUE,
    collection_id BLOB    NOT NULL REFERENCES collections_with_libraries (id) ON DELETE CASCADE,
    subject_id    BLOB    REFERENCES subjects_with_libraries (id) ON DELETE CASCADE,
    face_id       BLOB    REFERENCES faces (id) ON DELETE CASCADE,
    image_id      BLOB,
    created_at    INTEGER NOT NULL,
    vector        BLOB    NOT NULL,
    is_acceptable INTEGER NOT NULL DEFAULT 1 CHECK (is_acceptable IN (0, 1))
) STRICT;
INSERT INTO enrolments_with_libraries (row_id, id, collection_id, subject_id, face_id, image_id, created_at, vector)
SELECT row_id, id, collection_id, subject_id, face_id, image_id, created_at, vector FROM enrolments;
-- An id is never used again, also that of a row which was deleted before.
UPDATE sqlite_sequence SET seq = (SELECT seq FROM sqlite_sequence WHERE name = 'enrolments')
WHERE name = 'enrolments_with_libraries' AND EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'enrolments');
INSERT INTO sqlite_sequence (name, seq)
SELECT 'enrolments_with_libraries', seq FROM sqlite_sequence
WHERE name = 'enrolments' AND NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'enrolments_with_libraries');

CREATE TABLE index_changes_with_libraries (
    collection_id BLOB    NOT NULL REFERENCES collections_with_libraries (id) ON DELETE CASCADE,
    position      INTEGER NOT NULL,
    is_added      INTEGER NOT NULL CHECK (is_added IN (0, 1)),
    row_id        INTEGER NOT NULL,
    PRIMARY KEY (collection_id, position)
) STRICT, WITHOUT ROWID;
INSERT INTO index_changes_with_libraries (collection_id, position, is_added, row_id)
SELECT collection_id, position, is_added, row_id FROM index_changes;

-- Without its triggers, so that the deletion of the rows is not logged.
DROP TRIGGER enrolments_added;
DROP TRIGGER enrolments_removed;
DROP TABLE enrolments;
DROP TABLE index_changes;
DROP TABLE subjects;
DROP TABLE collections;
ALTER TABLE collections_with_libraries RENAME TO collections;
ALTER TABLE subjects_with_libraries RENAME TO subjects;
ALTER TABLE enrolments_with_libraries RENAME TO enrolments;
ALTER TABLE index_changes_with_libraries RENAME TO index_changes;

CREATE UNIQUE INDEX collections_by_name ON collections (tenant, name) WHERE NOT is_erased;
CREATE INDEX subjects_by_collection ON subjects (collection_id, id);
CREATE INDEX subjects_by_age ON subjects (collection_id, last_seen_at);
CREATE INDEX subjects_by_expiry ON subjects (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX subjects_by_consent ON subjects (consent_expires_at) WHERE consent_expires_at IS NOT NULL;
CREATE INDEX enrolments_by_collection ON enrolments (collection_id, row_id);
CREATE INDEX enrolments_by_subject ON enrolments (subject_id, row_id);
CREATE INDEX enrolments_by_face ON enrolments (face_id) WHERE face_id IS NOT NULL;
CREATE INDEX enrolments_by_image ON enrolments (image_id) WHERE image_id IS NOT NULL;
CREATE INDEX enrolments_of_libraries ON enrolments (collection_id, created_at) WHERE subject_id IS NULL;

CREATE TRIGGER enrolments_added AFTER INSERT ON enrolments BEGIN
    UPDATE collections SET position = position + 1, enrolled = enrolled + 1 WHERE id = NEW.collection_id;
    INSERT INTO index_changes (collection_id, position, is_added, row_id)
    SELECT id, position, 1, NEW.row_id FROM collections WHERE id = NEW.collection_id;
END;
CREATE TRIGGER enrolments_removed AFTER DELETE ON enrolments BEGIN
    UPDATE collections SET position = position + 1, enrolled = enrolled - 1 WHERE id = OLD.collection_id;
    INSERT INTO index_changes (collection_id, position, is_added, row_id)
    SELECT id, position, 0, OLD.row_id FROM collections WHERE id = OLD.collection_id;
END;

CREATE TABLE people (
    id            BLOB    NOT NULL PRIMARY KEY,
    collection_id BLOB    NOT NULL REFERENCES collections (id) ON DELETE CASCADE,
    name          TEXT,
    created_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX people_by_collection ON people (collection_id, id);

CREATE TABLE memberships (
    row_id    INTEGER PRIMARY KEY REFERENCES enrolments (row_id) ON DELETE CASCADE,
    person_id BLOB    REFERENCES people (id) ON DELETE CASCADE,
    is_pinned INTEGER NOT NULL CHECK (is_pinned IN (0, 1))
) STRICT;
CREATE INDEX memberships_by_person ON memberships (person_id, row_id);

CREATE TRIGGER memberships_removed AFTER DELETE ON memberships BEGIN
    DELETE FROM people
    WHERE id = OLD.person_id AND NOT EXISTS (SELECT 1 FROM memberships m WHERE m.person_id = OLD.person_id);
END;

CREATE TABLE clusterings (
    id            BLOB    NOT NULL PRIMARY KEY,
    collection_id BLOB    NOT NULL REFERENCES collections (id) ON DELETE CASCADE,
    state         TEXT    NOT NULL CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled')),
    is_full       INTEGER NOT NULL CHECK (is_full IN (0, 1)),
    min_faces     INTEGER NOT NULL,
    far           REAL,
    created_at    INTEGER NOT NULL,
    attempt       INTEGER NOT NULL DEFAULT 0,
    leased_until  INTEGER,
    finished_at   INTEGER,
    compared      INTEGER NOT NULL DEFAULT 0,
    faces         INTEGER NOT NULL DEFAULT 0,
    people        INTEGER NOT NULL DEFAULT 0,
    unassigned    INTEGER NOT NULL DEFAULT 0,
    moved         INTEGER NOT NULL DEFAULT 0,
    error         TEXT
) STRICT;
CREATE INDEX clusterings_by_collection ON clusterings (collection_id, id);
CREATE INDEX clusterings_unfinished ON clusterings (id) WHERE state IN ('queued', 'running');
CREATE UNIQUE INDEX clusterings_one_at_a_time ON clusterings (collection_id) WHERE state IN ('queued', 'running');

-- The newest searches of a key, which a limit counts.
CREATE INDEX audit_searches_by_key ON audit_entries (tenant, coalesce(key_id, ''), at) WHERE action = 'search';

-- Erasures of people. SQLite cannot change the CHECK of a column, so the table is made again.
CREATE TABLE erasures_with_people (
    id           BLOB    NOT NULL PRIMARY KEY,
    tenant       TEXT    NOT NULL,
    kind         TEXT    NOT NULL CHECK (kind IN ('image', 'face', 'source', 'host', 'batch', 'tenant', 'collection',
                                                  'subject', 'enrolment', 'person')),
    target       TEXT    NOT NULL,
    requested_at INTEGER NOT NULL,
    erased_at    INTEGER,
    purged_at    INTEGER,
    images       INTEGER NOT NULL,
    scans        INTEGER NOT NULL,
    faces        INTEGER NOT NULL,
    vectors      INTEGER NOT NULL,
    batches      INTEGER NOT NULL,
    items        INTEGER NOT NULL,
    payloads     INTEGER NOT NULL,
    subjects     INTEGER NOT NULL DEFAULT 0,
    enrolments   INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO erasures_with_people (id, tenant, kind, target, requested_at, erased_at, purged_at, images, scans, faces, vectors,
                                  batches, items, payloads, subjects, enrolments)
SELECT id, tenant, kind, target, requested_at, erased_at, purged_at, images, scans, faces, vectors, batches, items, payloads,
       subjects, enrolments
FROM erasures;
DROP TABLE erasures;
ALTER TABLE erasures_with_people RENAME TO erasures;
CREATE INDEX erasures_by_tenant ON erasures (tenant, id);
CREATE INDEX erasures_unfinished ON erasures (id) WHERE purged_at IS NULL;
