"""SQL strings to queries: parsing, joins, predicates and measures.

Only this package and `serve.postgres` import sqlglot.
"""
