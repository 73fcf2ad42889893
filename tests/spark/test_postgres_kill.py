"""Drivers killed with -9 while tables are copied, while their log is read and while their slot moves: counters of the tables."""

import random
import signal
import subprocess
import sys
import threading

import psycopg
import pyarrow as pa
import pytest

import eddyline as el
from eddyline.store import Store
from tests.spark.postgres_job import TABLES, frames, plan
from tests.spark.postgres_server import server
from tests.spark.stream_job import end_group

pytestmark = [pytest.mark.spark, pytest.mark.processes, pytest.mark.timeout(600)]


def work(connection, rng, times):
    for _ in range(times):
        table, what = rng.choice(TABLES), rng.random()
        if what < 0.6:
            row = (rng.randrange(1 << 40), rng.randrange(50), rng.randrange(100))
            connection.execute(f"INSERT INTO {table} VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", row)
        elif what < 0.8:
            connection.execute(
                f"UPDATE {table} SET k = k + 1, x = x + 1 WHERE id IN (SELECT id FROM {table} LIMIT 3)"
            )
        else:
            connection.execute(f"DELETE FROM {table} WHERE id IN (SELECT id FROM {table} ORDER BY x LIMIT 2)")


def killed(dsn, store, step, nth):
    """Kill a run at a step, while others write to the table."""
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "tests.spark.postgres_job",
        dsn,
        str(store),
        step,
        str(nth),
    ]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    ended = threading.Event()

    def write():
        rng = random.Random(nth)
        with psycopg.connect(dsn, autocommit=True) as connection:
            while not ended.wait(0.05):
                work(connection, rng, 5)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        _, shown = child.communicate(timeout=300)
    finally:
        ended.set()
        writer.join()
        end_group(child.pid)
    assert child.returncode == -signal.SIGKILL, shown[-3000:]


def held(connection):
    """The state of a batch pass over the rows that the tables hold."""
    state = plan().empty()
    for table in TABLES:
        rows = connection.execute(f"SELECT id, k, x FROM {table}").fetchall()
        columns = [list(column) for column in zip(*rows, strict=True)]
        arrays = {"id": columns[0], "k": columns[1], "x": pa.array(columns[2], pa.int32())}
        state.update(table, pa.table({**arrays, "_change_type": ["insert"] * len(rows)}))
    return state


@pytest.mark.slow
@pytest.mark.parametrize(
    "steps",
    [
        [("epoch-half-written", 2), ("pointer-named", 2)],
        [("begun", 2), ("pointer-listed", 2), ("epoch-listed", 3)],
        [("advance", 1), ("advance", 2), ("advance", 3)],
        [("advanced", 1), ("advanced", 2), ("advanced", 3)],
    ],
    ids=["copy", "copy-and-log", "before-the-slot", "after-the-slot"],
)
def test_tables_are_counted_once_however_often_their_driver_is_killed(request, tmp_path, steps):
    """The store's creation is the first commit, the tables' copies come then, and then batches of the log."""
    with server(tmp_path) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        for table in TABLES:
            connection.execute(f"CREATE TABLE {table} (id bigint PRIMARY KEY, k bigint, x int)")
            connection.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL")
        work(connection, random.Random(0), 2_000)
        for step, nth in steps:
            is_new = step.startswith("advance") or not Store.exists(tmp_path / "state")
            killed(dsn, tmp_path / "state", step, nth if is_new else nth - 1)
        work(connection, random.Random(9), 100)
        spark = request.getfixturevalue("spark")
        with plan().start(
            spark, frames(spark, dsn), store=tmp_path / "state", trigger="available now"
        ) as run:
            run.await_termination()
        state = el.open(tmp_path / "state")
        assert state == held(connection)
        asked = "SELECT (SELECT COUNT(*) FROM t), (SELECT SUM(x) FROM t), (SELECT COUNT(DISTINCT k) FROM u)"
        pairs = "(SELECT COUNT(*) FROM t JOIN u ON t.k = u.k)"
        exact = connection.execute(f"{asked}, {pairs}").fetchone()
        assert [state.answer(name).value for name in ("n", "total", "kinds", "pairs")] == list(
            map(int, exact)
        )
        for name in ("n", "total", "kinds", "pairs"):
            assert state.answer(name).exact
