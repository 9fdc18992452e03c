-- The column of migrations/postgres/0004_face_results.sql, which explains it.
ALTER TABLE faces RENAME COLUMN quality TO results;
UPDATE faces SET results = json_object('quality', json(results)) WHERE results IS NOT NULL;
