-- The changes of migrations/postgres/0015_batch_keys.sql, which explains them.
ALTER TABLE batches ADD COLUMN key_id TEXT;
