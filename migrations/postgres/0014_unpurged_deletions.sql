-- Deletions of old rows, until the files of the database have given up their bytes.
CREATE TABLE unpurged_deletions (
    committed_by bigint PRIMARY KEY -- a purge that begins later includes the deletion; microseconds since 1970
);
