"""A run over one table of PostgreSQL in a process of its own that is killed at a step.

python -m tests.spark.postgres_job DSN STORE STEP NTH: killed with -9 when its NTH commit reaches STEP, or, for the
step "advance", when the slot is about to be advanced, after the store and Spark have committed.
"""

import sys

import eddyline as el
from tests.spark.stream_job import kill_at

SCHEMA = "id BIGINT, k BIGINT, x INT"


def plan():
    return (
        el.Workload(budget="64 KB", seed=5)
        .stream("t", SCHEMA, changes="change_type")
        .query("n", "SELECT COUNT(*) FROM t")
        .query("total", "SELECT SUM(x) FROM t")
        .query("kinds", "SELECT COUNT(DISTINCT k) FROM t")
        .query("pairs", "SELECT COUNT(*) FROM t a JOIN t b ON a.k = b.k")
        .plan()
    )


def frames(spark, dsn):
    from eddyline.spark.sources import read_frame

    options = {"dsn": dsn, "table": "t", "max_changes": "5000"}
    return {
        "t": read_frame(spark, "t", "eddyline-postgres", None, options, SCHEMA, "change_type", streaming=True)
    }


def _main(dsn, store, step, nth):
    from eddyline.spark.session import local_session

    kill_at(step, nth)
    with plan().start(
        local_session(), frames(local_session(), dsn), store=store, trigger="200 milliseconds"
    ) as run:
        run.await_termination()


if __name__ == "__main__":
    _main(*sys.argv[1:])
