-- The header `traceparent` that names the span of the submission. NULL if it has no trace.
ALTER TABLE batches ADD COLUMN traceparent text;
