"""Row expressions under Spark's rules: their syntax, their types, and their values on Arrow tables."""
