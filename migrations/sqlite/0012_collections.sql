-- The changes of migrations/postgres/0012_collections.sql, which explains them.
CREATE TABLE collections (
    id               BLOB    NOT NULL PRIMARY KEY,
    tenant           TEXT    NOT NULL,
    name             TEXT    NOT NULL,
    kind             TEXT    NOT NULL CHECK (kind IN ('gallery', 'suppression')),
    contract         TEXT    NOT NULL,
    dim              INTEGER NOT NULL,
    purpose          TEXT    NOT NULL,
    legal_basis      TEXT    NOT NULL,
    consent_required INTEGER NOT NULL CHECK (consent_required IN (0, 1)),
    retention_days   INTEGER NOT NULL CHECK (retention_days > 0),
    far              REAL    NOT NULL,
    created_at       INTEGER NOT NULL,
    position         INTEGER NOT NULL DEFAULT 0,
    is_erased        INTEGER NOT NULL DEFAULT 0 CHECK (is_erased IN (0, 1))
) STRICT;
CREATE UNIQUE INDEX collections_by_name ON collections (tenant, name) WHERE NOT is_erased;

CREATE TABLE subjects (
    id                 BLOB    NOT NULL PRIMARY KEY,
    collection_id      BLOB    NOT NULL REFERENCES collections (id) ON DELETE CASCADE,
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
CREATE INDEX subjects_by_collection ON subjects (collection_id, id);
CREATE INDEX subjects_by_age ON subjects (collection_id, last_seen_at);
CREATE INDEX subjects_by_expiry ON subjects (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX subjects_by_consent ON subjects (consent_expires_at) WHERE consent_expires_at IS NOT NULL;

-- AUTOINCREMENT: an id is never used again.
CREATE TABLE enrolments (
    row_id        INTEGER PRIMARY KEY AUTOINCREMENT,
    id            BLOB    NOT NULL UNIQUE,
    collection_id BLOB    NOT NULL REFERENCES collections (id) ON DELETE CASCADE,
    subject_id    BLOB    NOT NULL REFERENCES subjects (id) ON DELETE CASCADE,
    face_id       BLOB    REFERENCES faces (id) ON DELETE CASCADE,
    image_id      BLOB,
    created_at    INTEGER NOT NULL,
    vector        BLOB    NOT NULL
) STRICT;
CREATE INDEX enrolments_by_collection ON enrolments (collection_id, row_id);
CREATE INDEX enrolments_by_subject ON enrolments (subject_id, row_id);
CREATE INDEX enrolments_by_face ON enrolments (face_id) WHERE face_id IS NOT NULL;
CREATE INDEX enrolments_by_image ON enrolments (image_id) WHERE image_id IS NOT NULL;

CREATE TABLE index_changes (
    collection_id BLOB    NOT NULL REFERENCES collections (id) ON DELETE CASCADE,
    position      INTEGER NOT NULL,
    is_added      INTEGER NOT NULL CHECK (is_added IN (0, 1)),
    row_id        INTEGER NOT NULL,
    PRIMARY KEY (collection_id, position)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER enrolments_added AFTER INSERT ON enrolments BEGIN
    UPDATE collections SET position = position + 1 WHERE id = NEW.collection_id;
    INSERT INTO index_changes (collection_id, position, is_added, row_id)
    SELECT id, position, 1, NEW.row_id FROM collections WHERE id = NEW.collection_id;
END;
CREATE TRIGGER enrolments_removed AFTER DELETE ON enrolments BEGIN
    UPDATE collections SET position = position + 1 WHERE id = OLD.collection_id;
    INSERT INTO index_changes (collection_id, position, is_added, row_id)
    SELECT id, position, 0, OLD.row_id FROM collections WHERE id = OLD.collection_id;
END;

-- SQLite cannot change the CHECK of a column, so the table is made again.
CREATE TABLE erasures_with_collections (
    id           BLOB    NOT NULL PRIMARY KEY,
    tenant       TEXT    NOT NULL,
    kind         TEXT    NOT NULL CHECK (kind IN ('image', 'face', 'source', 'host', 'batch', 'tenant', 'collection',
                                                  'subject', 'enrolment')),
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
INSERT INTO erasures_with_collections (id, tenant, kind, target, requested_at, erased_at, purged_at, images, scans, faces,
                                       vectors, batches, items, payloads)
SELECT id, tenant, kind, target, requested_at, erased_at, purged_at, images, scans, faces, vectors, batches, items, payloads
FROM erasures;
DROP TABLE erasures;
ALTER TABLE erasures_with_collections RENAME TO erasures;
CREATE INDEX erasures_by_tenant ON erasures (tenant, id);
CREATE INDEX erasures_unfinished ON erasures (id) WHERE purged_at IS NULL;

-- The searches of a collection.
CREATE INDEX audit_searches ON audit_entries (tenant, target, number) WHERE action = 'search';
