"""Tables of a PostgreSQL server read by readers of their own, without Spark, and the net rows that they give."""

import contextlib
from collections import Counter

import psycopg
from pyspark.sql.types import LongType, StringType, StructType

from eddyline.spark.postgres.source import PostgresReader

SCHEMA = StructType().add("id", LongType()).add("k", LongType()).add("_change_type", StringType())


@contextlib.contextmanager
def tables(dsn, *names):
    """Yield a connection to a server with empty tables, which go again with all slots and publications."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for name in names:
            connection.execute(f"CREATE TABLE {name} (id bigint PRIMARY KEY, k bigint)")
            connection.execute(f"ALTER TABLE {name} REPLICA IDENTITY FULL")
        try:
            yield connection
        finally:
            connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
            for (name,) in connection.execute("SELECT pubname FROM pg_publication").fetchall():
                connection.execute(f'DROP PUBLICATION "{name}"')
            for name in names:
                connection.execute(f"DROP TABLE IF EXISTS {name}")
            connection.execute("DROP SCHEMA IF EXISTS eddyline CASCADE")


def rows(reader, partition):
    """Yield the rows of a partition, of the batches that Spark gets."""
    for batch in reader.read(partition):
        yield from zip(*batch.to_pydict().values(), strict=True)


class Stream:
    """What Spark does with a reader: batches from offset to offset, each committed when the next one is planned."""

    def __init__(self, dsn, table, **options):
        self.options = {"dsn": dsn, "table": table, **options}
        self.net = Counter()
        self.reader = PostgresReader(self.options, SCHEMA)
        self.at = self.reader.initialOffset()

    def batch(self, *, commit=True):
        """Take a batch and return whether there was one; without commit it is as if the driver was killed after it."""
        end = self.reader.latestOffset(self.at)
        if end == self.at:
            return False
        for partition in self.reader.partitions(self.at, end):
            for *row, change in rows(self.reader, partition):
                self.net[tuple(row)] += 1 if change in ("insert", "update_postimage") else -1
        self.at = end
        if commit:
            self.reader.commit(end)
        return True

    def all(self):
        """Take all batches that there are."""
        self.reader._log.flush()
        while self.batch():
            pass
        return self

    def restart(self, **options):
        """Go on in another process from the checkpoint."""
        self.reader.stop()
        self.reader = PostgresReader({**self.options, **options}, SCHEMA)

    @property
    def rows(self):
        """The net rows that were counted."""
        return {row: count for row, count in self.net.items() if count}


def held(connection, table):
    """Return the rows of a table, each once."""
    return dict(Counter(connection.execute(f"SELECT id, k FROM {table}").fetchall()))
