-- The changes of migrations/postgres/0011_batch_traces.sql, which explains them.
ALTER TABLE batches ADD COLUMN traceparent TEXT;
