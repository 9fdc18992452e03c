-- The column of migrations/postgres/0003_scan_devices.sql, which explains it.
ALTER TABLE scans ADD COLUMN devices TEXT;
