"""Two tables of a real PostgreSQL server through one slot: inserts, updates and deletes, the join answered live."""

import random
import re
import time

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceStreamReader

import eddyline as el
from eddyline.cli.console import LogFormat, Progress
from eddyline.spark.sources import SparkSource
from eddyline.spark.sources.frames import read_frame
from tests.spark.postgres_server import server

pytestmark = pytest.mark.spark
TABLES = {
    "orders": "id BIGINT, customer BIGINT, total DECIMAL(10,2), note STRING",
    "visits": "id BIGINT, customer BIGINT, at TIMESTAMP, long BOOLEAN",
}
CREATE = {
    "orders": "id bigint PRIMARY KEY, customer bigint, total numeric(10,2), note text",
    "visits": "id bigint PRIMARY KEY, customer bigint, at timestamptz, long boolean",
}
JOIN = "SELECT COUNT(*) FROM orders o JOIN visits v ON o.customer = v.customer"
QUERIES = {
    "pairs": JOIN,
    "long": f"{JOIN} WHERE v.long",
    "money": "SELECT SUM(total) FROM orders WHERE note IS NOT NULL",
}


@pytest.fixture(scope="module")
def dsn(tmp_path_factory):
    with server(tmp_path_factory.mktemp("postgres")) as where:
        yield where


def plan():
    workload = el.Workload(budget="256 KB", seed=4, samples=False)
    for name, schema in TABLES.items():
        workload.stream(name, schema, changes="change_type")
    for name, text in QUERIES.items():
        workload.query(name, text)
    return workload.plan()


def frames(spark, dsn):
    options = {"dsn": dsn, "max_changes": "150", "slot": "shop", "shared": "true", "warn_retained": "1"}
    return {
        name: read_frame(
            spark,
            SparkSource(
                name,
                "eddyline-postgres",
                None,
                schema,
                "change_type",
                {**options, "table": name},
                streaming=True,
            ),
        )
        for name, schema in TABLES.items()
    }


def work(connection, rng, count):
    """Insert, update and delete rows of both tables, several in a transaction."""
    for _ in range(count):
        with connection.transaction():
            for _ in range(rng.randint(1, 8)):
                _change(connection, rng)


def _change(connection, rng):
    table, what = rng.choice(["orders", "visits"]), rng.random()
    if what < 0.6:
        number, customer = rng.randrange(1 << 40), int(rng.paretovariate(1))
        if table == "orders":
            values = (number, customer, rng.randrange(10**6) / 100, rng.choice([None, "ö", "a" * 3000]))
        else:
            values = (number, customer, "2024-01-02T03:04:05.678+02", rng.choice([None, True, False]))
        connection.execute(f"INSERT INTO {table} VALUES (%s, %s, %s, %s)", values)
    elif what < 0.8:
        connection.execute(
            f"UPDATE {table} SET customer = customer + 1 WHERE id IN (SELECT id FROM {table} LIMIT 1)"
        )
    else:
        connection.execute(f"DELETE FROM {table} WHERE id IN (SELECT min(id) FROM {table})")


def settled(run, connection):
    """Wait until the run has all rows; the exact counts of both tables say when."""
    patience = time.monotonic() + 300  # a busy machine may take minutes for a few batches
    while time.monotonic() < patience:
        exact = {t: connection.execute(f"SELECT COUNT(*) FROM {t}").fetchone()[0] for t in TABLES}
        if run.error() is not None:
            raise run.error()
        if all(run.state().answer(f"SELECT COUNT(*) FROM {t}").value == n for t, n in exact.items()):
            return
        time.sleep(0.2)
    pytest.fail(f"the run has not caught up: {run.progress()}")


def check(run, connection):
    for name, text in QUERIES.items():
        exact = connection.execute(text).fetchone()[0]
        answer = run.answer(name)
        assert answer.low <= float(exact) <= answer.high or abs(answer.value - float(exact)) < 0.01, (
            name,
            exact,
        )


def check_progress(run, capsys):
    """How far each stream is behind the log is reported, and the warning is printed once."""
    if not hasattr(
        DataSourceStreamReader, "reportLatestOffset"
    ):  # such a Spark does not ask how far the log is
        assert {(each.behind, each.retained) for each in run.progress().values()} == {(None, None)}
        return
    for each in run.progress().values():
        assert 0 <= each.behind <= each.retained
        assert "bytes of its log for the slot shop, more than warn_retained=1: see that" in each.warning
    progress = Progress(run, LogFormat.json, None)
    for _ in range(2):
        progress.tell()
    assert {"orders", "visits"} == progress.numbers()["logs"].keys()
    shown = capsys.readouterr().err
    assert [shown.count(f'{{"note": "stream \'{table}\': the server') for table in TABLES] == [1, 1]
    assert re.search(r"; orders ([\d,]+ bytes behind, )?[\d,]+ bytes of log kept; visits ", progress.text())


def held(connection):
    """The state of a batch pass over the rows that the tables hold."""
    state = plan().empty()
    for table, schema in TABLES.items():
        columns = zip(*connection.execute(f"SELECT * FROM {table}").fetchall(), strict=True)
        names = [part.split()[0] for part in schema.split(", ")]
        types = {"total": pa.decimal128(10, 2), "long": pa.bool_(), "note": pa.string()}
        arrays = {n: pa.array(c, types.get(n)) for n, c in zip(names, columns, strict=True)}
        rows = pa.table({**arrays, "_change_type": ["insert"] * len(arrays["id"])})
        if "at" in arrays:
            rows = rows.set_column(2, "at", arrays["at"].cast(pa.timestamp("us", "UTC")))
        state.update(table, rows)
    return state


def test_a_join_of_two_tables_is_answered_live(spark, dsn, tmp_path, capsys):
    rng = random.Random(1)
    with psycopg.connect(dsn, autocommit=True) as connection:
        for table, columns in CREATE.items():
            connection.execute(f"CREATE TABLE {table} ({columns})")
        with pytest.raises(el.PipelineError, match="REPLICA IDENTITY FULL"):
            plan().start(spark, frames(spark, dsn), store=tmp_path / "refused").await_termination()
        for table in TABLES:
            connection.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL")
        work(connection, rng, 200)  # what the tables hold before the first start
        for _ in range(2):  # the second run goes on where the first one stopped
            with plan().start(
                spark, frames(spark, dsn), store=tmp_path / "state", trigger="200 milliseconds"
            ) as run:
                work(connection, rng, 30)
                settled(run, connection)
                check(run, connection)
                assert run.state() == held(connection)
                check_progress(run, capsys)
            work(connection, rng, 20)
        assert el.open(tmp_path / "state").answer("pairs").freshness.deletes > 20


def test_no_two_streams_share_the_map_that_spark_writes_into_their_tasks(spark):
    """Spark adds to the map when a stream starts: one that another stream sends at that time arrives broken."""
    manager = spark._jsparkSession.sessionState().dataSourceManager()
    maps = []
    for table, schema in TABLES.items():
        options = {"dsn": "host=127.0.0.1 port=1", "table": f"public.{table}"}
        read_frame(
            spark, SparkSource(table, "eddyline-postgres", None, schema, options=options, streaming=True)
        )
        found = manager.lookupDataSource(f"eddyline-postgres-{table}")
        maps.append(found.dataSourceCls().envVars())
    identity = spark._jvm.java.lang.System.identityHashCode
    assert identity(maps[0]) != identity(maps[1])
