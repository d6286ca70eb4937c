"""SQL, one class per table: records in, records out."""
