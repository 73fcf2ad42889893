"""PostgreSQL as a stream of changes: the rows of a table at the first start, then the changes in its log.

`source` has the data source, its offsets and batches, and the copy of the table at the first start. `server` has
the statements for the server, and lets streams share a slot. `standing` checks whether a stream may continue from
its last offset. `messages` reads the log and makes Arrow batches for Spark.
"""

from eddyline.spark.postgres.messages import CHANGE
from eddyline.spark.postgres.server import FORMAT
from eddyline.spark.postgres.source import PostgresChanges, check_table_source

__all__ = ["CHANGE", "FORMAT", "PostgresChanges", "check_table_source"]
