-- All results of a face that have no vector, as one object. An operation that adds a result needs no migration.
ALTER TABLE faces RENAME COLUMN quality TO results;
UPDATE faces SET results = jsonb_build_object('quality', results) WHERE results IS NOT NULL;
