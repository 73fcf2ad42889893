"""SQL text to queries: parsing, the join, predicates and measures. The only home of sqlglot."""
