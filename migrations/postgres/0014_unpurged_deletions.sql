-- When rows were deleted because they were old, until the files of the database have given up their bytes.
CREATE TABLE unpurged_deletions (
    deleted_at bigint PRIMARY KEY -- microseconds since 1970
);
