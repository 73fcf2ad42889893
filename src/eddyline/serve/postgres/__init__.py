"""Answers of a store for any PostgreSQL client: the wire protocol, a catalog that tools can browse, read-only SQL.

The call path of a statement: `server` accepts a connection, `session` reads its `messages`, `statements` reads the
SQL, `engine` finds what answers it (`catalog` for pg_catalog and information_schema, `answers` for streams and
planned queries), and `values` encodes the rows in the format that the client asked for.
"""
