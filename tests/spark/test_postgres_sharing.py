"""Tables that share a slot: nothing missed and nothing twice, and the server forgets only what all have counted."""

import random
import subprocess
import threading
import time

import psycopg
import pytest

from eddyline.api.pipeline import Pipeline, StreamSource, run_source
from eddyline.errors import PipelineError
from eddyline.spark.postgres import server as postgres
from eddyline.spark.postgres import source
from tests.spark.postgres_rows import Stream, held, tables
from tests.spark.postgres_server import programs, server

pytestmark = [pytest.mark.spark, pytest.mark.processes]
SHARED = {"slot": "both", "shared": "true", "max_changes": "20"}


@pytest.fixture(scope="module")
def dsn(tmp_path_factory):
    with server(tmp_path_factory.mktemp("postgres")) as where:
        yield where


def slot_at(connection, name="both"):
    return connection.execute(
        "SELECT (confirmed_flush_lsn - '0/0')::bigint FROM pg_replication_slots WHERE slot_name = %s", (name,)
    ).fetchone()[0]


def change(connection, rng, *names):
    with connection.transaction():
        for _ in range(rng.randint(1, 9)):
            table, what = rng.choice(names), rng.random()
            if what < 0.6:
                connection.execute(
                    f"INSERT INTO {table} VALUES (%s, %s)", (rng.randrange(1 << 50), rng.randrange(9))
                )
            elif what < 0.8:
                connection.execute(
                    f"UPDATE {table} SET k = k + 1 WHERE id IN (SELECT id FROM {table} LIMIT 2)"
                )
            else:
                connection.execute(f"DELETE FROM {table} WHERE id IN (SELECT min(id) FROM {table})")


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_each_table_is_counted_once_whatever_the_others_do(dsn, seed):
    """Batches of one and the other in any order, with and without the commit, and new readers in between."""
    rng = random.Random(seed)
    with tables(dsn, "a", "b") as connection:
        for _ in range(10):
            change(connection, rng, "a", "b")
        streams = [Stream(dsn, "a", **SHARED), Stream(dsn, "b", **SHARED)]
        for _ in range(40):
            change(connection, rng, "a", "b")
            stream, done = rng.choice(streams), rng.random()
            if done < 0.6:
                stream.batch(commit=rng.random() < 0.8)
            elif done < 0.7:
                stream.restart()
            assert slot_at(connection) <= min(each.at["lsn"] for each in streams)
        for stream, table in zip(streams, "ab", strict=True):
            assert stream.all().rows == held(connection, table)
        for stream in streams:
            stream.reader.commit(stream.at)
        assert slot_at(connection) == min(each.at["lsn"] for each in streams)


def test_a_table_that_comes_later_is_copied_where_the_slot_stands(dsn, monkeypatch):
    """A transaction wrote to it before it was published: the copy waits for it, as the log does not have its rows."""
    with tables(dsn, "a", "b") as connection, psycopg.connect(dsn) as late:
        rng = random.Random(1)
        change(connection, rng, "a", "b")
        first = Stream(dsn, "a", **SHARED).all()
        change(connection, rng, "a", "b")
        late.execute("INSERT INTO b VALUES (-1, 1)")
        monkeypatch.setattr(postgres, "_PATIENCE", 1)
        with pytest.raises(
            PipelineError, match=r"before public.b was published are still running.*start again"
        ):
            Stream(dsn, "b", **SHARED)
        at = slot_at(connection)
        assert first.all().rows == held(connection, "a")
        assert slot_at(connection) == at  # held for the table that waits
        late.execute("INSERT INTO b VALUES (-2, 1)")
        monkeypatch.setattr(postgres, "_PATIENCE", 60)
        ended = threading.Timer(0.5, late.commit)
        ended.start()
        second = Stream(dsn, "b", **SHARED)
        ended.join()
        change(connection, rng, "a")
        connection.execute("INSERT INTO b VALUES (-3, 1)")
        assert second.all().rows == held(connection, "b")
        assert {(-1, 1), (-2, 1), (-3, 1)} <= second.rows.keys()
        assert first.all().rows == held(connection, "a")


def test_a_slot_that_one_stream_has_alone_is_not_shared_later(dsn):
    with tables(dsn, "a", "b") as connection:
        alone = Stream(dsn, "a", slot="both").all()
        with pytest.raises(PipelineError, match="slot both was made for one stream alone"):
            Stream(dsn, "b", **SHARED)
        connection.execute("INSERT INTO a VALUES (1, 1)")
        alone.restart(shared="true")
        with pytest.raises(PipelineError, match="slot both was made for one stream alone"):
            alone.batch()


def test_a_slot_that_is_created_again_forgets_who_shared_it(dsn):
    with tables(dsn, "a", "b") as connection:
        Stream(dsn, "a", **SHARED).all()
        connection.execute("SELECT pg_drop_replication_slot('both')")
        change(connection, random.Random(2), "a", "b")
        assert Stream(dsn, "b", **SHARED).all().rows == held(connection, "b")
        noted = connection.execute("SELECT relation FROM eddyline.slot_positions").fetchall()
        assert noted == [("public.b",)]


def test_a_slot_that_another_process_uses_is_waited_for_and_reported(dsn, monkeypatch, tmp_path):
    with tables(dsn, "a") as connection, psycopg.connect(dsn, autocommit=True) as other:
        stream = Stream(dsn, "a", slot="both").all()
        connection.execute("INSERT INTO a VALUES (1, 1)")
        other.execute("SELECT pg_advisory_lock(hashtext('eddyline'), hashtext('both'))")
        threading.Timer(0.5, other.execute, ("SELECT pg_advisory_unlock_all()",)).start()
        assert stream.all().rows == held(connection, "a")
        monkeypatch.setattr(postgres, "_PATIENCE", 1)
        other.execute("SELECT pg_advisory_lock(hashtext('eddyline'), hashtext('both'))")
        with pytest.raises(PipelineError, match="slot both is in use by another process"):
            stream.batch()
        other.execute("SELECT pg_advisory_unlock_all()")
        foreign = subprocess.Popen(
            [programs() / "pg_recvlogical", "-d", dsn, "--slot", "both", "--start", "-f", tmp_path / "log",
             "-o", "proto_version=1", "-o", 'publication_names="both"']
        )  # fmt: skip
        try:
            for _ in range(100):
                if connection.execute("SELECT active FROM pg_replication_slots").fetchone()[0]:
                    break
                time.sleep(0.1)
            with pytest.raises(PipelineError, match="slot both is in use by another process"):
                stream.batch()
        finally:
            foreign.kill()
            foreign.wait()
        while connection.execute("SELECT active FROM pg_replication_slots").fetchone()[0]:
            time.sleep(0.1)


def test_a_table_without_changes_does_not_hold_the_log(dsn, monkeypatch):
    monkeypatch.setattr(source, "_STRIDE", 20_000)
    with tables(dsn, "a", "b") as connection:
        busy, quiet = Stream(dsn, "a", **SHARED), Stream(dsn, "b", **SHARED)
        for _ in range(3):
            connection.execute(
                "INSERT INTO a SELECT 1000 * (SELECT count(*) FROM a) + i, i FROM generate_series(1, 500) i"
            )
            busy.all()
            before = slot_at(connection)
            quiet.all()
            busy.reader.commit(busy.at)
            assert slot_at(connection) > before
        connection.execute("INSERT INTO b VALUES (1, 1)")
        assert quiet.all().rows == held(connection, "b")


def test_streams_of_a_pipeline_file_that_name_one_slot_share_it():
    def options(**given):
        return StreamSource("id BIGINT", "eddyline-postgres", options=given)

    streams = {
        "a": options(dsn="host=x", table="a", slot="both"),
        "b": options(dsn="host=x", table="b", slot="both"),
        "c": options(dsn="host=y", table="c", slot="both"),
        "d": options(dsn="host=x", table="d"),
        "e": options(dsn="host=x", table="e"),
    }
    pipeline = Pipeline(streams)
    shown = {name: run_source(pipeline, name, resumed=False).options.get("shared") for name in streams}
    assert shown == {"a": "true", "b": "true", "c": None, "d": None, "e": None}


def test_a_role_that_may_not_make_the_notes_is_told_what_to_run(dsn):
    with tables(dsn, "a") as connection:
        connection.execute("CREATE ROLE reader LOGIN REPLICATION")
        connection.execute('CREATE PUBLICATION "both" FOR TABLE a')
        try:
            with pytest.raises(
                PipelineError, match=r"may not create: let its administrator run CREATE SCHEMA.*GRANT"
            ):
                Stream(dsn.replace("tester", "reader"), "a", **SHARED)
        finally:
            connection.execute("DROP ROLE reader")
