-- The precision in which the model computed a vector. The values are 32-bit floats in any case.
--
-- Rows from before this column become f32. They do not say what computed them, and every machine without AMX computed
-- in f32. The precision is part of scans.scan_key from now on, so a scan from before does not answer a request.
ALTER TABLE embeddings
    ADD COLUMN precision text NOT NULL DEFAULT 'f32' CHECK (precision IN ('f32', 'bf16', 'f16'));
-- New rows have to name their precision.
ALTER TABLE embeddings ALTER COLUMN precision DROP DEFAULT;
