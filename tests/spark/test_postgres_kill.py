"""Drivers killed with -9 while a table is copied and while its log is read: counters of the table as it is."""

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
from tests.spark.postgres_job import frames, plan
from tests.spark.postgres_server import server
from tests.spark.stream_job import end_group

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("processes"), pytest.mark.timeout(600)]


def work(connection, rng, times):
    for _ in range(times):
        what = rng.random()
        if what < 0.6:
            row = (rng.randrange(1 << 40), rng.randrange(50), rng.randrange(100))
            connection.execute("INSERT INTO t VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", row)
        elif what < 0.8:
            connection.execute("UPDATE t SET k = k + 1, x = x + 1 WHERE id IN (SELECT id FROM t LIMIT 3)")
        else:
            connection.execute("DELETE FROM t WHERE id IN (SELECT id FROM t ORDER BY x LIMIT 2)")


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
        _, told = child.communicate(timeout=300)
    finally:
        ended.set()
        writer.join()
        end_group(child.pid)
    assert child.returncode == -signal.SIGKILL, told[-3000:]


def held(connection):
    rows = connection.execute("SELECT id, k, x FROM t").fetchall()
    columns = [list(column) for column in zip(*rows, strict=True)]
    table = pa.table(
        {
            "id": columns[0],
            "k": columns[1],
            "x": pa.array(columns[2], pa.int32()),
            "_change_type": ["insert"] * len(rows),
        }
    )
    return plan().empty().update("t", table)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([("epoch-half-written", 2), ("pointer-named", 2)], marks=pytest.mark.slow),
        pytest.param([("begun", 2), ("pointer-listed", 2), ("epoch-listed", 3)], marks=pytest.mark.slow),
    ],
    ids=["copy", "copy-and-log"],
)
def test_a_table_is_counted_once_however_often_its_driver_is_killed(request, tmp_path, steps):
    """The store's creation is the first commit, the table's copy the second, and then come batches of the log."""
    with server(tmp_path) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id bigint PRIMARY KEY, k bigint, x int)")
        connection.execute("ALTER TABLE t REPLICA IDENTITY FULL")
        work(connection, random.Random(0), 2_000)
        for step, nth in steps:
            killed(dsn, tmp_path / "state", step, nth if not Store.exists(tmp_path / "state") else nth - 1)
        work(connection, random.Random(9), 100)
        spark = request.getfixturevalue("spark")
        with plan().start(
            spark, frames(spark, dsn), store=tmp_path / "state", trigger="available now"
        ) as run:
            run.await_termination()
        assert el.open(tmp_path / "state") == held(connection)
        exact = connection.execute("SELECT COUNT(*), SUM(x), COUNT(DISTINCT k) FROM t").fetchone()
        state = el.open(tmp_path / "state")
        assert [state.answer(name).value for name in ("n", "total", "kinds")] == list(map(int, exact))
        assert all(state.answer(name).exact for name in ("n", "total", "kinds", "pairs"))
