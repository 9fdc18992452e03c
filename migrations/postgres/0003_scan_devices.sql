-- Which device ran each operation of a scan, so that an answer from the database can say so. Null for scans from before
-- this column.
ALTER TABLE scans ADD COLUMN devices jsonb;
