"""A run over two tables of PostgreSQL through one slot, in a process of its own that is killed at a step.

python -m tests.spark.postgres_job DSN STORE STEP NTH: killed with -9 when its NTH commit to the store reaches STEP; or, for
the steps "advance" and "advanced", when the NTH commit of table t, which store and Spark have, is about to let the slot go,
and when it has.
"""

import os
import signal
import sys

import eddyline as el
from eddyline.spark.postgres import PostgresChanges
from eddyline.spark.postgres.source import PostgresReader
from tests.spark.stream_job import kill_at

SCHEMA = "id BIGINT, k BIGINT, x INT"
TABLES = ("t", "u")
KILL = {"driver": os.getpid(), "step": "", "nth": 0}


def plan():
    return (
        el.Workload(budget="64 KB", seed=5)
        .stream("t", SCHEMA, changes="change_type")
        .stream("u", SCHEMA, changes="change_type")
        .query("n", "SELECT COUNT(*) FROM t")
        .query("total", "SELECT SUM(x) FROM t")
        .query("kinds", "SELECT COUNT(DISTINCT k) FROM u")
        .query("pairs", "SELECT COUNT(*) FROM t JOIN u ON t.k = u.k")
        .plan()
    )


class KilledReader(PostgresReader):
    """A reader whose driver is killed before or after it lets the slot go; Spark runs it in a process of its own."""

    def commit(self, end):
        if self._log.table == "public.t":
            KILL["nth"] -= 1
        if KILL["nth"] == 0 and KILL["step"] == "advance":
            self._kill()
        super().commit(end)
        if KILL["nth"] == 0 and KILL["step"] == "advanced":
            self._kill()

    def _kill(self):
        os.kill(KILL["driver"], signal.SIGKILL)
        os._exit(1)


class KilledChanges(PostgresChanges):
    def streamReader(self, schema):  # noqa: N802 - Spark's name
        return KilledReader(dict(self.options), schema)


def frames(spark, dsn, source=PostgresChanges):
    spark.dataSource.register(source)
    options = {"dsn": dsn, "max_changes": "5000", "slot": "both_tables", "shared": "true"}
    reader = spark.readStream.format("eddyline-postgres").schema(f"{SCHEMA}, _change_type STRING")
    return {table: reader.options(**options, table=table).load() for table in TABLES}


def _main(dsn, store, step, nth):
    from eddyline.spark.session import local_session

    if step.startswith("advance"):
        KILL.update(step=step, nth=int(nth))
    else:
        kill_at(step, nth)
    spark = local_session()
    with plan().start(
        spark, frames(spark, dsn, KilledChanges), store=store, trigger="200 milliseconds"
    ) as run:
        run.await_termination()


if __name__ == "__main__":
    _main(*sys.argv[1:])
