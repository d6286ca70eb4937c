"""SQL, one class a table: records in, records out."""
