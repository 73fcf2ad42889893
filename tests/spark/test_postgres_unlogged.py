"""What changes a table's rows without a word in its log is refused; what only looks so is counted."""

import struct
from dataclasses import replace

import psycopg
import pytest

from eddyline.errors import PipelineError
from eddyline.spark.postgres import server as postgres
from eddyline.spark.postgres import source
from tests.spark.postgres_rows import Stream, held, tables
from tests.spark.postgres_server import server

pytestmark = [pytest.mark.spark, pytest.mark.processes]


@pytest.fixture(scope="module")
def dsn(tmp_path_factory):
    with server(tmp_path_factory.mktemp("postgres")) as where:
        yield where


@pytest.fixture
def divided(dsn):
    with tables(dsn) as connection:
        connection.execute("CREATE TABLE p (id bigint, k bigint) PARTITION BY LIST (k)")
        for table in ("p", "p_1", "p_2"):
            if table != "p":
                connection.execute(f"CREATE TABLE {table} PARTITION OF p FOR VALUES IN ({table[-1]})")
            connection.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL")
        connection.execute("INSERT INTO p VALUES (1, 1), (2, 2)")
        yield connection
        connection.execute("DROP TABLE p; DROP TABLE IF EXISTS p_1")


@pytest.mark.parametrize(
    "done", ["TRUNCATE p_1", "ALTER TABLE p DETACH PARTITION p_1", "DROP TABLE p_1", "TRUNCATE p"]
)
def test_a_partition_that_lost_its_rows(dsn, divided, done):
    stream = Stream(dsn, "p").all()
    divided.execute(done)
    with pytest.raises(PipelineError, match=r"a partition of public.p was dropped, detached, truncated"):
        stream.all()


def test_a_partition_that_came_later_and_then_lost_its_rows(dsn, divided):
    stream = Stream(dsn, "p").all()
    divided.execute("CREATE TABLE p_3 PARTITION OF p FOR VALUES IN (3)")
    divided.execute("INSERT INTO p VALUES (3, 3)")
    assert stream.all().rows == held(divided, "p")
    divided.execute("TRUNCATE p_3")
    with pytest.raises(PipelineError, match=r"a partition of public.p was dropped, detached, truncated"):
        stream.all()


def test_tables_that_inherit(dsn):
    with tables(dsn, "a") as connection:
        stream = Stream(dsn, "a").all()
        connection.execute("CREATE TABLE more () INHERITS (a)")
        try:
            with pytest.raises(PipelineError, match=r"other tables inherit from public.a"):
                Stream(dsn, "a")
            with pytest.raises(PipelineError, match=r"other tables inherit from public.a"):
                stream.all()
        finally:
            connection.execute("DROP TABLE more")


def test_rows_that_a_policy_hides_from_the_copy(dsn):
    with tables(dsn, "a") as connection:
        connection.execute("CREATE ROLE hidden LOGIN REPLICATION; GRANT SELECT ON a TO hidden")
        connection.execute("CREATE PUBLICATION eddyline_public_a FOR TABLE a; INSERT INTO a VALUES (1, 1)")
        connection.execute("ALTER TABLE a ENABLE ROW LEVEL SECURITY; CREATE POLICY few ON a USING (k > 1)")
        try:
            stream = Stream(dsn.replace("tester", "hidden"), "a")
            with pytest.raises(PipelineError, match="row-level security policy"):
                stream.all()
            stream.reader.stop()
        finally:
            connection.execute("DROP OWNED BY hidden; DROP ROLE hidden")


def test_a_table_that_was_renamed_and_renamed_back(dsn):
    with tables(dsn, "a") as connection:
        stream = Stream(dsn, "a").all()
        connection.execute("ALTER TABLE a RENAME TO b")
        connection.execute("INSERT INTO b VALUES (1, 1)")
        connection.execute("ALTER TABLE b RENAME TO a")
        assert stream.all().rows == held(connection, "a") == {(1, 1): 1}


def test_a_table_that_was_taken_out_of_the_publication_and_put_back(dsn):
    with tables(dsn, "a") as connection:
        stream = Stream(dsn, "a").all()
        connection.execute("ALTER PUBLICATION eddyline_public_a DROP TABLE a")
        connection.execute("INSERT INTO a VALUES (1, 1)")
        connection.execute("ALTER PUBLICATION eddyline_public_a ADD TABLE a")
        with pytest.raises(PipelineError, match="taken out of it, and put back"):
            stream.all()


def test_a_transaction_from_before_the_publication_at_a_second_start(dsn, monkeypatch):
    """The first start publishes the table, and gives up waiting; the second must wait for the same transaction."""
    monkeypatch.setattr(postgres, "_PATIENCE", 1)
    with tables(dsn, "a", "b") as connection, psycopg.connect(dsn) as late:
        Stream(dsn, "b", slot="one", publication="one").reader.stop()
        late.execute("INSERT INTO a VALUES (1, 1)")
        for _ in range(2):
            with pytest.raises(PipelineError, match=r"before public.a was published are still running"):
                Stream(dsn, "a", slot="one", publication="one")
        late.commit()
        stream = Stream(dsn, "a", slot="one", publication="one")
        assert stream.all().rows == held(connection, "a") == {(1, 1): 1}


def test_a_log_that_is_flushed_up_to_the_middle_of_a_commit(dsn, monkeypatch):
    """A slot that stood there would pass over the transaction."""
    monkeypatch.setattr(source, "_STRIDE", 0)
    with tables(dsn, "a") as connection:
        stream = Stream(dsn, "a").all()
        connection.execute("INSERT INTO a VALUES (1, 1)")
        stream.reader._log.flush()
        *_, commit = stream.reader._log.messages(connection, stream.at["lsn"], None)
        _flags, begin, end, _time = struct.unpack_from("!BQQQ", commit, 1)
        look, messages = postgres.TableLog.look, postgres.TableLog.messages
        monkeypatch.setattr(
            postgres.TableLog, "look", lambda *given: replace(look(*given), flushed=begin + 8, inserted=end)
        )
        monkeypatch.setattr(postgres.TableLog, "messages", lambda *_: iter(()))  # it was not safe on disk yet
        stream.batch()
        monkeypatch.setattr(postgres.TableLog, "look", look)
        monkeypatch.setattr(postgres.TableLog, "messages", messages)
        assert stream.all().rows == held(connection, "a") == {(1, 1): 1}


def test_a_stream_alone_does_not_move_a_slot_that_others_share(dsn):
    with tables(dsn, "a", "b") as connection:
        first = Stream(dsn, "a", slot="both", shared="true").all()
        with pytest.raises(
            PipelineError, match=r"slot both is shared by streams of public.a: give this one shared"
        ):
            Stream(dsn, "b", slot="both")
        connection.execute("INSERT INTO a VALUES (1, 1)")
        assert first.all().rows == held(connection, "a")


def test_a_generated_column_is_refused_before_the_first_change(dsn):
    with tables(dsn) as connection:
        connection.execute("CREATE TABLE g (id bigint, k bigint GENERATED ALWAYS AS (id * 2) STORED)")
        connection.execute("ALTER TABLE g REPLICA IDENTITY FULL")
        try:
            with pytest.raises(PipelineError, match=r"has no column .k.*the log has no generated ones"):
                Stream(dsn, "g")
        finally:
            connection.execute("DROP TABLE g")
