"""SQL strings to queries: parsing, joins, predicates and measures.

Only this package, `expressions` and `serve.postgres` import sqlglot.
"""
