-- The column of migrations/postgres/0002_embedding_precision.sql, which explains it. SQLite cannot drop a default.
ALTER TABLE embeddings
    ADD COLUMN precision TEXT NOT NULL DEFAULT 'f32' CHECK (precision IN ('f32', 'bf16', 'f16'));
