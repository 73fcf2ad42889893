"""PostgreSQL as a stream of changes: what a table holds at the first start, then its log.

The walk: `source` is the data source, its offsets and its batches; `server` is everything that is asked of the server;
`standing` says whether a stream may go on from where it stood; `sharing` lets streams share a slot; `copy` reads the
table once, at the first start; `messages` reads the log; `batches` makes Arrow batches for Spark.
"""

from eddyline.spark.postgres.batches import CHANGE
from eddyline.spark.postgres.server import FORMAT
from eddyline.spark.postgres.source import PostgresChanges, check_table_source

__all__ = ["CHANGE", "FORMAT", "PostgresChanges", "check_table_source"]
