"""Why a stream of a PostgreSQL table cannot continue: each reason is one sentence that says what to do."""

import pathlib
import time

import psycopg
import pytest
from pyspark.sql.types import LongType, StringType, StructType

from eddyline.errors import ChangeError, PipelineError
from tests.spark.postgres_rows import Stream, held, tables
from tests.spark.postgres_server import control, give, server

pytestmark = [pytest.mark.spark, pytest.mark.processes]
START_AGAIN = r"copy the table again \(eddyline run --full-refresh QUERY\), or start again with a new store"


@pytest.fixture(scope="module")
def dsn(tmp_path_factory):
    with server(tmp_path_factory.mktemp("postgres")) as where:
        yield where


@pytest.mark.parametrize(
    ("done", "sentence"),
    [
        ("DROP TABLE a", "there is no table public.a: it was dropped or renamed"),
        ("ALTER TABLE a RENAME TO c; DROP TABLE c", "there is no table public.a: it was dropped or renamed"),
        ("ALTER TABLE a DROP COLUMN k", "has no column 'k': its columns are id; .*start again"),
        ("ALTER TABLE a RENAME k TO l", "has no column 'k': its columns are id, l; .*start again"),
        ("ALTER TABLE a ALTER k TYPE text", f"column 'k' of public.a was bigint and is now text, .*{START_AGAIN}"),
        ("ALTER TABLE a ALTER k TYPE int USING 2 * k", "column 'k' of public.a was bigint and is now integer"),
        ("ALTER TABLE a DROP k, ADD k bigint DEFAULT 3", "column 'k' of public.a was bigint and is now bigint"),
        ("DROP PUBLICATION eddyline_public_a", f"publication eddyline_public_a is gone, or no longer has .*{START_AGAIN}"),
        ("ALTER PUBLICATION eddyline_public_a DROP TABLE a", "publication eddyline_public_a is gone, or no longer"),
        ("ALTER PUBLICATION eddyline_public_a SET (publish = 'insert')", "leaves out changes of public.a"),
        ("ALTER PUBLICATION eddyline_public_a SET TABLE a WHERE (id > 0)", "leaves out changes of public.a"),
        ("SELECT pg_drop_replication_slot('eddyline_public_a')", f"slot eddyline_public_a is gone, or .*{START_AGAIN}"),
    ],
)  # fmt: skip
def test_what_was_done_to_a_table_is_reported(dsn, done, sentence):
    with tables(dsn, "a") as connection:
        connection.execute("INSERT INTO a VALUES (1, 1)")
        stream = Stream(dsn, "a").all()
        connection.execute(done)
        for _ in range(2):
            with pytest.raises(PipelineError, match=sentence):
                stream.batch()
            stream.restart()


def test_a_table_that_was_made_again_is_reported(dsn):
    with tables(dsn, "a") as connection:
        connection.execute("CREATE PUBLICATION everything FOR ALL TABLES")
        stream = Stream(dsn, "a", publication="everything").all()
        connection.execute("DROP TABLE a; CREATE TABLE a (id bigint PRIMARY KEY, k bigint)")
        with pytest.raises(PipelineError, match=f"public.a was dropped and made again, .*{START_AGAIN}"):
            stream.batch()


@pytest.mark.parametrize("is_copied", [True, False])
def test_truncate_names_no_rows(dsn, is_copied):
    with tables(dsn, "a") as connection:
        connection.execute("INSERT INTO a VALUES (1, 1)")
        stream = Stream(dsn, "a")
        if is_copied:
            stream.all()
        connection.execute("TRUNCATE a")
        with pytest.raises(
            ChangeError, match=r"public.a was truncated, which names no rows: rebuild the state"
        ):
            stream.all()
        stream.reader.stop()


def test_a_publication_that_was_missing_for_a_while_leaves_a_gap(dsn):
    with tables(dsn, "a") as connection:
        stream = Stream(dsn, "a").all()
        connection.execute("DROP PUBLICATION eddyline_public_a")
        connection.execute("INSERT INTO a VALUES (1, 1)")
        connection.execute("CREATE PUBLICATION eddyline_public_a FOR TABLE a")
        with pytest.raises(
            PipelineError, match=f"eddyline_public_a was dropped, .*drop the slot .*{START_AGAIN}"
        ):
            stream.batch()


def test_an_added_column_and_other_tables_pass(dsn):
    with tables(dsn, "a", "b") as connection:
        stream = Stream(dsn, "a").all()
        connection.execute("ALTER TABLE a ADD COLUMN later int DEFAULT 7; DROP TABLE b")
        connection.execute("INSERT INTO a VALUES (1, 1)")
        stream.restart()
        assert stream.all().rows == held(connection, "a")


def test_names_are_taken_as_they_are_written(dsn):
    with tables(dsn, '"Mixed"', "mixed") as connection:
        connection.execute('INSERT INTO "Mixed" VALUES (1, 1); INSERT INTO mixed VALUES (2, 2)')
        stream = Stream(dsn, "Mixed", slot="upper").all()
        connection.execute('INSERT INTO "Mixed" VALUES (3, 3); INSERT INTO mixed VALUES (4, 4)')
        assert stream.all().rows == held(connection, '"Mixed"') == {(1, 1): 1, (3, 3): 1}


def test_the_log_of_other_tables_is_nothing_to_take(dsn):
    """Bytes behind are those of a log that has changes of the table, right after its copy and later."""
    with tables(dsn, "a", "b") as connection:
        connection.execute("INSERT INTO a VALUES (1, 1)")
        stream = Stream(dsn, "a")
        stream.batch()
        for _ in range(2):
            connection.execute(
                "INSERT INTO b SELECT max(id) + i, 0 FROM b, generate_series(1, 9000) i GROUP BY i"
            )
            connection.execute(
                "INSERT INTO b SELECT i, 0 FROM generate_series(-9000, -1) i ON CONFLICT DO NOTHING"
            )
            stream.reader._log.flush()
            shown = stream.reader.reportLatestOffset()
            assert shown["lsn"] == stream.at["lsn"]
            assert shown["retained"] > 100_000
            assert not stream.batch()
        connection.execute("INSERT INTO a VALUES (2, 2)")
        stream.reader._log.flush()
        assert stream.reader.reportLatestOffset()["lsn"] > stream.at["lsn"]
        assert stream.all().rows == held(connection, "a")


def test_a_slot_that_the_server_gave_up_is_warned_of_and_then_refused(tmp_path):
    with server(tmp_path) as dsn, tables(dsn, "a") as connection:
        _keep(dsn, connection, "20MB")
        stream = Stream(dsn, "a", warn_retained=str(30 << 20)).all()
        assert stream.reader.reportLatestOffset()["warning"] is None
        _fill(connection, 3)
        shown = stream.reader.reportLatestOffset()
        assert shown["retained"] > 30 << 20
        assert "and is about to drop them (max_slot_wal_keep_size)" in shown["warning"]
        _keep(dsn, connection, "-1")
        stream.restart()
        assert "more than warn_retained=31,457,280" in stream.reader.reportLatestOffset()["warning"]
        _keep(dsn, connection, "20MB")
        lost = "SELECT wal_status = 'lost' FROM pg_replication_slots"
        while not connection.execute(lost).fetchone()[0]:
            connection.execute("CHECKPOINT")  # the one that runs may not have read the setting yet
        with pytest.raises(
            PipelineError, match=f"eddyline_public_a is lost: .*let the server keep more, and {START_AGAIN}"
        ):
            stream.batch()


def _keep(dsn, connection, size):
    """Set how much log slots may keep, and wait until new connections have it."""
    connection.execute(f"ALTER SYSTEM SET max_slot_wal_keep_size = '{size}'")
    connection.execute("SELECT pg_reload_conf()")
    while True:
        with psycopg.connect(dsn) as other:
            if other.execute("SHOW max_slot_wal_keep_size").fetchone()[0] == size:
                return
        time.sleep(0.05)


def _fill(connection, segments):
    for _ in range(segments):
        connection.execute("CREATE TABLE filler (x int); DROP TABLE filler")
        connection.execute("SELECT pg_switch_wal()")


def test_a_server_that_took_over_is_another_one(tmp_path):
    """It ends a recovery, as a promoted copy does: the same data and slot, but another history of its log from there."""
    with server(tmp_path) as dsn:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE a (id bigint, k bigint); ALTER TABLE a REPLICA IDENTITY FULL")
            stream = Stream(dsn, "a").all()
            connection.execute("INSERT INTO a VALUES (1, 1)")
        data = pathlib.Path(tmp_path) / "data"
        control(data, "stop", "-m", "fast")
        (data / "recovery.signal").touch()
        give(data / "recovery.signal")
        with (data / "postgresql.conf").open("a") as conf:
            conf.write("restore_command = 'false'\n")
        control(data, "start", "-l", str(data / "log"))
        with psycopg.connect(dsn, autocommit=True) as connection:
            while connection.execute("SELECT pg_is_in_recovery()").fetchone()[0]:
                time.sleep(0.1)
        with pytest.raises(
            PipelineError, match=rf"is not the one that the stream began with \(\d+/0+2 .*{START_AGAIN}"
        ):
            stream.batch()
        assert Stream(dsn, "a").all().rows == {(1, 1): 1}


def test_a_column_that_the_table_does_not_have_is_told_at_the_start(dsn, monkeypatch):
    schema = StructType().add("id", LongType()).add("amount", LongType()).add("_change_type", StringType())
    monkeypatch.setattr("tests.spark.postgres_rows.SCHEMA", schema)
    with (
        tables(dsn, "a"),
        pytest.raises(PipelineError, match="has no column 'amount': its columns are id, k;"),
    ):
        Stream(dsn, "a")
