"""Sources that are counted, looked for and read again: Kafka's topics, tables of PostgreSQL and Delta, lines of text.

`verify --source` and `doctor` look at them without Spark; a restored store reads them again, or says why it cannot.
"""

import signal

import psycopg
import pytest
from typer.testing import CliRunner

import eddyline as el
from eddyline.api.operations.reconcile import reconcile
from eddyline.api.pipeline import load_pipeline
from eddyline.cli import app
from eddyline.store import Reader
from tests.data.lines import LINES
from tests.spark.kafka_broker import Broker
from tests.spark.kafka_job import Child
from tests.spark.lake_job import Shell, lake_jars
from tests.spark.maven_jars import connector_jars
from tests.spark.postgres_server import server

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:.*socket:pytest.PytestUnraisableExceptionWarning"),  # kafka-python's
]
PIPELINE = """
[workload]
budget = "64 KB"
store = "state"
[run]
{run}
[streams.s]
schema = "k BIGINT"
{source}
[queries]
n = "SELECT COUNT(*) FROM s"
"""


def written(folder, source, run=""):
    folder.mkdir(exist_ok=True)
    path = folder / "pipeline.toml"
    path.write_text(PIPELINE.format(source=source, run=run))
    return path


def counted(path):
    answer = el.open(path.parent / "state").answer("n")
    assert answer.exact
    return answer.value


def compared(path):
    """Return the line of `verify --source` for the only stream."""
    (found,) = reconcile(str(path.parent / "state"), load_pipeline(path))
    return str(found)


def shown(*arguments):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return " ".join(done.output.split())


@pytest.fixture
def run(spark, monkeypatch):
    """A function that runs a pipeline once on the shared session, and returns what was shown."""
    monkeypatch.setattr("eddyline.cli.console.session", lambda *_: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)

    def once(path, *options, code=0):
        done = CliRunner().invoke(app, ["run", str(path), "--once", *options])
        assert done.exit_code == code, done.output
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return " ".join(done.output.split())

    return once


@pytest.mark.parametrize("name", LINES)
def test_lines_are_counted_as_spark_reads_them(run, tmp_path, name):
    options, lines, rows = LINES[name]
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "a").write_bytes(lines)
    given = ", ".join(f'{key} = "{value}"' for key, value in {"header": "false", **options}.items())
    given = f"options = {{ {given} }}" if name.startswith("csv") else ""
    path = written(tmp_path, f'format = "{name.split("-")[0]}"\npath = "s"\n{given}', 'on_bad = "skip"')
    run(path)
    assert f"the source has {rows} rows" in compared(path)
    assert compared(path).endswith("they agree")


# PostgreSQL.


@pytest.fixture(scope="module")
def dsn(tmp_path_factory):
    with server(tmp_path_factory.mktemp("postgres")) as where:
        yield where


def table(dsn, name, kind="bigint"):
    connection = psycopg.connect(dsn, autocommit=True)
    connection.execute(f"CREATE TABLE {name} (k {kind} PRIMARY KEY)")
    connection.execute(f"ALTER TABLE {name} REPLICA IDENTITY FULL")
    return connection


def of_table(dsn, name):
    return f'changes = "change_type"\nformat = "eddyline-postgres"\noptions = {{ dsn = "{dsn}", table = "{name}" }}'


def test_a_table_is_compared_with_the_sum_of_its_changes(run, dsn, tmp_path):
    path = written(tmp_path, of_table(dsn, "compared"))
    with table(dsn, "compared") as work:
        work.execute("INSERT INTO compared SELECT generate_series(1, 10)")
        run(path)
        work.execute("UPDATE compared SET k = k + 100 WHERE k < 4")
        work.execute("DELETE FROM compared WHERE k > 8")
        assert "the source has 5 rows and the store counted 10" in compared(path)
        run(path)
        assert compared(path) == "s: the source has 5 rows and the store counted 5: they agree"
        work.execute("INSERT INTO compared VALUES (50)")
        assert "1 too few" in compared(path)
        found = shown("doctor", path)
    assert "compared at 127.0.0.1:" in found
    assert "database postgres, user tester: the table can be read" in found


def by_count(store):
    """Return the epochs of a store by what they count."""
    return {el.open(store, as_of=number).answer("n").value: number for number in Reader(store).epochs()}


def test_a_restored_store_reads_the_log_again_or_says_that_the_slot_has_moved_on(run, dsn, tmp_path):
    """The slot follows one batch behind; once the server has dropped what the store needs, a full refresh is right."""
    path, store = written(tmp_path, of_table(dsn, "moved")), tmp_path / "state"
    with table(dsn, "moved") as work:
        for first in (1, 11, 21):
            work.execute(f"INSERT INTO moved SELECT generate_series({first}, {first + 9})")
            run(path)
        assert counted(path) == 30
        shown("restore", store, "--epoch", by_count(store)[20])
        assert counted(path) == 20
        done = CliRunner().invoke(app, ["run", str(path), "--once"])
        assert counted(path) == (30 if done.exit_code == 0 else 20), done.output
        work.execute(
            "SELECT pg_replication_slot_advance('eddyline_public_moved', pg_current_wal_flush_lsn())"
        )
        shown("restore", store, "--epoch", by_count(store)[20])
        work.execute("INSERT INTO moved VALUES (99)")
        refused = run(path, code=1)
        assert "moved past the checkpoint" in refused
        assert "eddyline run --full-refresh QUERY" in refused
        assert counted(path) == 20
        run(path, "--full-refresh", "n")  # the copy is of where the slot stands, before the last row
        run(path)
        assert counted(path) == 31
        work.execute("DELETE FROM moved WHERE k > 25")
        run(path)
        assert counted(path) == 25
        assert compared(path).endswith("they agree")


# Kafka.


@pytest.fixture(scope="module")
def jars():
    return connector_jars("kafka")


@pytest.fixture(scope="module")
def broker(jars, tmp_path_factory):
    with Broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture(scope="module")
def shell(jars):
    child = Child(jars=jars)
    yield child
    child.end(signal.SIGTERM)


def of_topic(broker, topic, servers=None):
    return (
        'format = "kafka"\n'
        f'options = {{ "kafka.bootstrap.servers" = "{servers or broker.servers}", subscribe = "{topic}" }}'
    )


def records(*numbers):
    return [(None, b'{"k": %d}' % number) for number in numbers]


def test_a_topic_is_looked_for_and_its_records_are_compared(broker, shell, tmp_path):
    broker.create("counted", 3)
    broker.send("counted", [*records(*range(10)), (None, b"{bad")], partition=0)
    broker.send("counted", [*records(*range(10)), (b"k", None)])
    path = written(tmp_path, of_topic(broker, "counted"), 'on_bad = "skip"')
    code, found = shell.command("run", path, "--once")
    assert code == 0, found
    assert compared(path) == "s: the source has 22 rows and the store counted 20 and skipped 2: they agree"
    broker.send("counted", records(1, 2))
    assert "2 too few" in compared(path)
    assert f"topic 'counted' with 3 partitions at {broker.servers}, without a login" in shown("doctor", path)
    broker.drop_before("counted", {0: 1})
    assert "not compared; its topics have dropped 1 records" in compared(path)
    written(tmp_path, of_topic(broker, "absent"))
    assert "there is no topic 'absent'" in shown("doctor", path)
    assert "there is no topic 'absent'" in shown("doctor", path)  # the first look has not made it
    written(tmp_path, of_topic(broker, "counted", "127.0.0.1:1"))
    assert "no Kafka broker answers at 127.0.0.1:1" in shown("doctor", path)


def test_a_restored_store_reads_a_topic_again_or_says_that_its_records_are_gone(broker, shell, tmp_path):
    broker.create("again", 2)
    path = written(tmp_path, of_topic(broker, "again"))
    for first in (0, 10, 20):
        broker.send("again", records(*range(first, first + 10)), partition=first // 10 % 2)
        code, found = shell.command("run", path, "--once")
        assert code == 0, found
    store = tmp_path / "state"
    shown("restore", store, "--epoch", by_count(store)[10])
    assert counted(path) == 10
    broker.send("again", records(30))
    code, found = shell.command("run", path, "--once")
    assert code == 0, found
    assert counted(path) == 31
    shown("restore", store, "--epoch", by_count(store)[10])
    broker.drop_before("again", {0: 20, 1: 10})
    code, found = shell.command("run", path, "--once")
    assert code == 1, found
    assert "PipelineError: " in found
    assert counted(path) == 10
    broker.send("again", records(40, 41))
    code, found = shell.command("run", path, "--full-refresh", "n", "--once")
    assert code == 0, found
    assert counted(path) == 33 - 20 - 10
    assert "not compared" in compared(path)


# Delta.


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    child = Shell(lake_jars(), tmp_path_factory.mktemp("lake"))
    yield child
    child.wait()


@pytest.mark.parametrize("has_statistics", [True, False])
def test_a_restored_store_reads_a_delta_table_again_whose_rows_are_compared(lake, tmp_path, has_statistics):
    name = f"delta.`{tmp_path}/t`"
    lake.sql(f"SET spark.databricks.delta.stats.collect = {str(has_statistics).lower()}")
    lake.sql(
        f"CREATE TABLE {name} (k BIGINT) USING delta TBLPROPERTIES "
        "(delta.enableChangeDataFeed = true, delta.enableDeletionVectors = true, delta.checkpointInterval = 3)"
    )
    path = written(tmp_path, f'changes = "change_type"\nformat = "delta"\npath = "{tmp_path}/t"')
    for number, change in enumerate(
        (
            f"INSERT INTO {name} SELECT id FROM range(0, 20, 1, 1)",
            f"DELETE FROM {name} WHERE k < 3",
            f"UPDATE {name} SET k = k + 100 WHERE k > 15",
            f"INSERT INTO {name} SELECT id FROM range(20, 30, 1, 1)",
        )
    ):
        lake.sql(change)
        if number:
            assert not compared(path).endswith("they agree") or number == 2  # an update changes no count
        code, found = lake.command("run", path, "--once")
        assert code == 0, found
        assert compared(path).endswith("they agree")
    assert counted(path) == 27
    store = tmp_path / "state"
    shown("restore", store, "--epoch", min(Reader(store).epochs()))
    before = counted(path)
    assert before < 27
    code, found = lake.command("run", path, "--once")
    assert code == 0, found
    assert counted(path) == 27
    assert compared(path).endswith("they agree")
    (tmp_path / "t" / "_delta_log" / f"{0:020}.json").unlink()  # as its retention does
    assert compared(path).endswith("they agree")
