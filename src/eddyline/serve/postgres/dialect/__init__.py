"""PostgreSQL's SQL in other dialects: Spark's for questions about streams, DuckDB's for catalog and answers."""
