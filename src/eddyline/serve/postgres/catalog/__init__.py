"""What SQL tools browse: pg_catalog and information_schema over the tables of answers, in DuckDB."""
