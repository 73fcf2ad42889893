"""The copy of a table at its slot's place: the same net rows whenever it is read, nothing missed, nothing twice."""

import random
import threading
from collections import Counter

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DoubleType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from eddyline.errors import ChangeError, PipelineError
from eddyline.spark.postgres import source as copy
from eddyline.spark.postgres.source import Blocks, LogMoment, PostgresReader
from tests.spark.postgres_rows import rows
from tests.spark.postgres_server import server

pytestmark = [pytest.mark.spark, pytest.mark.processes]
SCHEMA = (
    StructType()
    .add("id", LongType())
    .add("k", LongType())
    .add("long", BooleanType())
    .add("note", StringType())
    .add("at", TimestampType())
    .add("x", DoubleType())
    .add("raw", BinaryType())
    .add("_change_type", StringType())
)
COLUMNS = (
    "id bigint PRIMARY KEY, k bigint, long boolean, note text, at timestamptz, x double precision, raw bytea"
)
NOTES = [None, "", "ö\t\\n\\N", "NULL", "'\"", "a\nb", "t" * 9_000]


@pytest.fixture(scope="module")
def dsn(tmp_path_factory):
    with server(tmp_path_factory.mktemp("postgres")) as where:
        yield where


@pytest.fixture
def table(dsn, request):
    name = f"t{abs(hash(request.node.name)) % 10**9}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {name} ({COLUMNS})")
        connection.execute(f"ALTER TABLE {name} REPLICA IDENTITY FULL")
        yield name
        connection.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name LIKE %s",
            (f"%{name}",),
        )
        connection.execute(f"DROP TABLE {name}")


def reader(dsn, table, **options):
    return PostgresReader({"dsn": dsn, "table": table, **options}, SCHEMA)


def net(source, partitions):
    counts = Counter()
    for partition in partitions:
        for *row, change in rows(source, partition):
            counts[tuple(row)] += 1 if change in ("insert", "update_postimage") else -1
    return {row: count for row, count in counts.items() if count}


def added(*parts):
    counts = Counter()
    for part in parts:
        for row, count in part.items():
            counts[row] += count
    return {row: count for row, count in counts.items() if count}


def held(connection, table):
    return dict(Counter(connection.execute(f"SELECT * FROM {table}").fetchall()))


def change(connection, table, rng, times):
    """Insert, update (keys among it) and delete rows, some transactions rolled back."""
    for _ in range(times):
        try:
            with connection.transaction():
                for _ in range(rng.randint(1, 5)):
                    _change(connection, table, rng)
                if rng.random() < 0.1:
                    raise psycopg.Rollback
        except psycopg.errors.UniqueViolation:
            continue


def _change(connection, table, rng):
    what = rng.random()
    if what < 0.5:
        values = (
            rng.randrange(1 << 50), rng.randrange(9), rng.choice([None, True, False]), rng.choice(NOTES),
            rng.choice([None, "2024-02-29 12:34:56.789+02"]), rng.choice([None, 0.1, -1e-300, 1e300]),
            rng.choice([None, b"", b"\\\x00\xff"]),
        )  # fmt: skip
        connection.execute(f"INSERT INTO {table} VALUES (%s, %s, %s, %s, %s, %s, %s)", values)
    elif what < 0.75:
        connection.execute(
            f"UPDATE {table} SET k = k + 1, id = id + (%s) WHERE id IN (SELECT id FROM {table} LIMIT 2)",
            (rng.choice([0, 1 << 51]),),
        )
    else:
        connection.execute(f"DELETE FROM {table} WHERE id IN (SELECT id FROM {table} ORDER BY k LIMIT 1)")


@pytest.mark.parametrize("seed", range(3))
def test_a_copy_has_the_same_net_rows_whenever_it_is_read(dsn, table, seed, monkeypatch):
    """Others write before, while and after it is read; one transaction is open all the while."""
    monkeypatch.setattr(copy, "_BLOCKS", 2)
    rng, ended = random.Random(seed), threading.Event()
    with psycopg.connect(dsn, autocommit=True) as connection, psycopg.connect(dsn) as late:
        change(connection, table, rng, 200)
        source = reader(dsn, table, copy_tasks="5")
        start = source.initialOffset()
        change(connection, table, rng, 50)
        late.execute(f"INSERT INTO {table} (id, k) VALUES (-1, 1)")
        connection.execute("SET synchronous_commit = off")

        def write():
            with psycopg.connect(dsn, autocommit=True) as other:
                other.execute("SET synchronous_commit = off")
                mine = random.Random(seed + 100)
                while not ended.is_set():
                    change(other, table, mine, 1)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            copied = source.latestOffset(start)
            assert copied == {**start, "copied": 1}
            found = []
            for _ in range(4):
                partitions = source.partitions(start, copied)
                assert sum(isinstance(part, Blocks) for part in partitions) >= 2
                found.append(net(source, partitions))
            late.commit()
            found.append(net(source, source.partitions(start, copied)))
        finally:
            ended.set()
            writer.join()
            source.stop()
        for each in found:
            assert each == found[0]
        source.commit(copied)
        source._log.flush()
        again = reader(dsn, table)  # another process goes on from the checkpoint
        at, parts = copied, [found[0]]
        while (end := again.latestOffset(at)) != at:
            parts.append(net(again, again.partitions(at, end)))
            at = end
        assert added(*parts) == held(connection, table)


def test_a_slot_that_stands_further_on_gives_a_copy_from_there(dsn, table):
    with psycopg.connect(dsn, autocommit=True) as connection:
        change(connection, table, random.Random(5), 20)
        first = reader(dsn, table, snapshot="never")
        start = first.initialOffset()
        assert "copied" not in start
        change(connection, table, random.Random(6), 20)
        end = first.latestOffset(start)
        first.commit(end)
        again = reader(dsn, table)
        start = again.initialOffset()
        assert start == {**end, "copied": 0}
        assert net(again, again.partitions(start, again.latestOffset(start))) == held(connection, table)
        again.stop()


def test_what_is_available_now_ends_where_the_log_did(dsn, table):
    with psycopg.connect(dsn, autocommit=True) as connection:
        source = reader(dsn, table)
        start = source.initialOffset()
        change(connection, table, random.Random(7), 10)
        source.prepareForTriggerAvailableNow()
        before = held(connection, table)
        change(connection, table, random.Random(8), 10)
        copied = source.latestOffset(start)
        end = source.latestOffset(copied)
        parts = net(source, source.partitions(start, copied)), net(source, source.partitions(copied, end))
        assert added(*parts) == before
        assert source.latestOffset(end) == end
        source.stop()


def test_a_partitioned_table_is_copied_as_a_whole(dsn):
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE parts ({COLUMNS}) PARTITION BY HASH (id)")
        for part in range(2):
            connection.execute(
                f"CREATE TABLE parts_{part} PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER {part})"
            )
            connection.execute(f"ALTER TABLE parts_{part} REPLICA IDENTITY FULL")
        connection.execute("ALTER TABLE parts REPLICA IDENTITY FULL")
        connection.execute("INSERT INTO parts (id, k) SELECT i, i FROM generate_series(1, 50) i")
        source = reader(dsn, "parts")
        start = source.initialOffset()
        connection.execute("DELETE FROM parts WHERE id < 10")
        copied = source.latestOffset(start)
        copy_of = net(source, source.partitions(start, copied))
        assert len(copy_of) == 50
        end = source.latestOffset(copied)
        assert added(copy_of, net(source, source.partitions(copied, end))) == held(connection, "parts")
        source.stop()
        connection.execute("SELECT pg_drop_replication_slot('eddyline_public_parts')")


def test_a_column_that_is_gone_and_one_that_came_later(dsn, table):
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"INSERT INTO {table} (id, k) VALUES (1, 1)")
        source = reader(dsn, table)
        start = source.initialOffset()
        copied = source.latestOffset(start)
        assert len(net(source, source.partitions(start, copied))) == 1
        connection.execute(f"ALTER TABLE {table} ADD COLUMN later int DEFAULT 7")
        connection.execute(f"INSERT INTO {table} (id, k) VALUES (2, 2)")
        end = source.latestOffset(copied)
        assert len(net(source, source.partitions(copied, end))) == 1
        connection.execute(f"ALTER TABLE {table} DROP COLUMN k")
        connection.execute(f"INSERT INTO {table} (id) VALUES (3)")
        with pytest.raises(PipelineError, match=r"has no column 'k': its columns are id, long, .*, later;"):
            source.latestOffset(end)
        source.stop()


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"table": "no such"}, PipelineError, "needs the option table"),
        ({"colour": "red"}, PipelineError, "has no option 'colour': its options are dsn, table"),
        ({"snapshot": "sometimes"}, PipelineError, "neither initial nor never"),
        ({"max_changes": "-3"}, PipelineError, "max_changes='-3' .* is not a whole number"),
        ({"table": "missing"}, PipelineError, "there is no table public.missing"),
        ({"dsn": "host=127.0.0.1 port=1 user=nobody"}, PipelineError, "cannot be reached: .*refused"),
        (
            {"dsn": "host=127.0.0.1 user=nobody password=secret"},
            PipelineError,
            "dsn holds a password.*pgpass",
        ),
        ({"dsn": "postgresql://nobody:secret@127.0.0.1/x"}, PipelineError, "dsn holds a password.*pgpass"),
        ({"dsn": "secret"}, PipelineError, "dsn is not a connection string"),
    ],
)
def test_what_is_wrong_is_told_and_no_password_with_it(dsn, table, options, error, sentence):
    with pytest.raises(error, match=sentence) as shown:
        reader(**{"dsn": dsn, "table": table, **options}).initialOffset()
    assert "secret" not in str(shown.value)


def test_a_table_whose_deletes_are_bare_is_refused(dsn, table):
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"ALTER TABLE {table} REPLICA IDENTITY DEFAULT")
    with pytest.raises(ChangeError, match="REPLICA IDENTITY FULL"):
        reader(dsn, table).initialOffset()


def test_a_slot_that_was_dropped_is_reported(dsn, table):
    source = reader(dsn, table)
    start = source.initialOffset()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SELECT pg_drop_replication_slot(%s)", (f"eddyline_public_{table}",))
        with pytest.raises(PipelineError, match=r"is gone, or was moved past the checkpoint.*start again"):
            source.partitions(start, {**start, "copied": 1})


@given(st.integers(3, 2**40), st.lists(st.integers(0, 60), max_size=8), st.integers(-80, 80))
def test_a_moment_sees_what_ended_before_it(highest, opened, offset):
    """Numbers are known by their lower half, and are near the moment's own."""
    between = frozenset(highest - 1 - each for each in opened if highest - 1 - each >= 3)
    lowest = min(between, default=highest)
    number = max(3, highest + offset)
    moment = LogMoment.parse(f"{lowest}:{highest}:{','.join(map(str, sorted(between)))}")
    assert moment.sees(number % 2**32) == (number < highest and number not in between)
