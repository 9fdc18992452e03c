-- The changes of migrations/postgres/0014_unpurged_deletions.sql, which explains them.
CREATE TABLE unpurged_deletions (
    committed_by INTEGER NOT NULL PRIMARY KEY
) STRICT;
