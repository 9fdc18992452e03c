-- The changes of migrations/postgres/0014_unpurged_deletions.sql, which explains them.
CREATE TABLE unpurged_deletions (
    deleted_at INTEGER NOT NULL PRIMARY KEY
) STRICT;
