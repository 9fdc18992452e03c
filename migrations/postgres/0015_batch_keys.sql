-- The key of the caller who submitted the batch, for whom its searches count. NULL if access is not controlled.
ALTER TABLE batches ADD COLUMN key_id text;
