"""Tables of Delta and Iceberg: rows and then changes, answers held to the table itself, and what is refused."""

import decimal
import os
import pathlib
import shutil
import subprocess
import sys

import pyarrow as pa
import pytest

import eddyline as el
from eddyline.api.pipeline import load_pipeline
from tests.spark.lake_job import CONF, LAKES, Shell, lake_jars
from tests.spark.maven_jars import connector_jars

pytestmark = [
    pytest.mark.spark,
    pytest.mark.processes,
    pytest.mark.timeout(600),
]
SCHEMA = "k BIGINT, v INT, d DECIMAL(12,2)"
PIPELINE = """
[workload]
budget = "64 KB"
samples = {samples}
store = "{store}"
[streams.t]
schema = "k BIGINT, v INT, d DECIMAL(12,2)"
format = "{form}"
{source}
[queries]
n = "SELECT COUNT(*) FROM t"
money = "SELECT SUM(d) FROM t WHERE v > 2"
kinds = "SELECT COUNT(DISTINCT v) FROM t"
keys = "SELECT COUNT(DISTINCT k) FROM t WHERE v < 5"
pairs = "SELECT COUNT(*) FROM t a JOIN t b ON a.v = b.v"
"""
FEED = 'changes = "change_type"'


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    child = Shell(lake_jars(), tmp_path_factory.mktemp("lake"))
    yield child
    child.wait()


class Lake:
    """A table, pipelines that read it, and what it holds."""

    def __init__(self, shell, folder):
        self.shell, self.folder, self.table = shell, folder, folder / "t"
        self.name = f"delta.`{self.table}`"

    def create(self, *, feed="true"):
        self.sql(
            f"CREATE TABLE {self.name} ({SCHEMA}) USING delta TBLPROPERTIES "
            f"(delta.enableChangeDataFeed = {feed}, delta.enableDeletionVectors = true)"
        )
        self.sql(f"INSERT INTO {self.name} SELECT id, id % 7, id * 1.25 FROM range(200)")

    def sql(self, text):
        return self.shell.sql(text)

    def pipeline(self, store="state", source=FEED, *, samples="true", form="delta"):
        path = self.folder / f"{store}.toml"
        where = "" if "table" in source else f'path = "{self.table}"\n'
        path.write_text(PIPELINE.format(form=form, store=store, source=where + source, samples=samples))
        return path

    def run(self, *given, **named):
        return self.shell.command("run", self.pipeline(*given, **named), "--once")

    def check(self, *stores):
        """Hold each store to the rows that the table holds: counters bit by bit, answers exactly."""
        rows = self.sql(f"SELECT k, v, d FROM {self.name}")
        columns = dict(zip("kvd", zip(*rows, strict=True), strict=True))
        table = pa.table(
            {
                "k": pa.array(columns["k"], pa.int64()),
                "v": pa.array(columns["v"], pa.int32()),
                "d": pa.array(map(decimal.Decimal, columns["d"]), pa.decimal128(12, 2)),
            }
        )
        exact = self.sql(
            f"SELECT COUNT(*), SUM(CASE WHEN v > 2 THEN d END), COUNT(DISTINCT v), COUNT(DISTINCT CASE WHEN v < 5 THEN k END), (SELECT COUNT(*) FROM {self.name} a "
            f"JOIN {self.name} b ON a.v = b.v) FROM {self.name}"
        )[0]
        for store in stores:
            state = el.open(self.folder / store)
            plan = load_pipeline(self.folder / f"{store}.toml").plan()
            inserts = table.append_column("_change_type", pa.array(["insert"] * table.num_rows))
            assert state == plan.empty().update("t", inserts), store
            if state.answer("pairs").method == "exact":
                shown = [state.answer(name).value for name in ("n", "money", "kinds", "keys", "pairs")]
                assert [float(value) for value in shown] == [float(value) for value in exact]


@pytest.fixture
def lake(shell, tmp_path):
    return Lake(shell, tmp_path)


def refused(lake, said, *given, **named):
    code, shown = lake.run(*given, **named)
    assert code == 1, shown
    assert "PipelineError: stream 't'" in shown
    assert said in shown
    assert "Exception" not in shown, shown


def work(lake):
    """Change rows in all ways that a table has."""
    lake.sql(f"UPDATE {lake.name} SET v = v + 3, d = d - 1 WHERE k < 30")
    lake.sql(f"DELETE FROM {lake.name} WHERE k % 10 = 3")
    lake.sql(
        f"MERGE INTO {lake.name} t USING (SELECT id + 190 k, 5 v, 1.5 d FROM range(20)) s ON t.k = s.k WHEN MATCHED AND "
        "t.v = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
    )


def test_a_stream_has_the_rows_of_a_delta_table_and_then_its_changes(lake):
    lake.create()
    assert lake.run(samples="false")[0] == 0
    work(lake)
    code, shown = lake.run(samples="false")
    assert code == 0, shown
    lake.check("state")
    assert el.open(lake.folder / "state").answer("n").freshness.deletes > 40


@pytest.mark.slow
def test_a_batch_has_the_rows_of_a_delta_table_and_vacuumed_files_are_missed(lake):
    lake.create()
    assert lake.run(samples="false")[0] == 0
    work(lake)
    assert lake.run(samples="false")[0] == 0
    assert lake.shell.command("ask", lake.pipeline("now"))[0] == 0
    lake.check("now")
    assert el.open(lake.folder / "now").answer("n").freshness.deletes == 0
    kept = el.open(lake.folder / "state")
    lake.sql(f"UPDATE {lake.name} SET v = 0 WHERE k < 50")
    lake.sql(f"VACUUM {lake.name} RETAIN 0 HOURS")
    refused(lake, "files that were not read yet are gone", samples="false")
    assert el.open(lake.folder / "state") == kept


@pytest.mark.slow
def test_the_feed_from_a_version_overwritten_tables_and_added_columns(lake):
    lake.create()
    assert lake.run()[0] == 0
    work(lake)
    since = f'{FEED}\noptions = {{ startingVersion = "0" }}'
    assert lake.shell.command("ask", lake.pipeline("from_start", since))[0] == 0
    assert lake.run("streamed", since)[0] == 0
    lake.check("from_start", "streamed")
    lake.sql(f"ALTER TABLE {lake.name} ADD COLUMN added INT")
    lake.sql(f"INSERT OVERWRITE {lake.name} SELECT id, id % 4, id * 0.5, 1 FROM range(50)")
    code, shown = lake.run()
    assert code == 0, shown
    lake.check("state")


@pytest.mark.slow
@pytest.mark.parametrize(("step", "nth"), [("begun", 2), ("collected", 2)])
def test_a_driver_that_is_killed_counts_every_change_once(lake, step, nth):
    lake.create()
    for first in range(0, 120, 20):
        lake.sql(f"UPDATE {lake.name} SET v = v + 1 WHERE k BETWEEN {first} AND {first + 40}")
        lake.sql(f"DELETE FROM {lake.name} WHERE k = {first}")
    source = f'{FEED}\noptions = {{ startingVersion = "0", maxFilesPerTrigger = "2" }}'
    path = lake.pipeline("killed", source)
    conf = ", ".join(f'"{name}" = "{value}"' for name, value in CONF.items() if "catalog" not in name)
    path.write_text(path.read_text() + f'[spark]\njars = ["{lake_jars()}"]\nconf = {{ {conf} }}\n')
    code, shown = Shell(path, step, nth).wait()
    assert code == -9, shown
    code, shown = lake.shell.command("run", path, "--once")
    assert code == 0, shown
    lake.check("killed")


@pytest.mark.slow
def test_changes_that_cannot_be_told_are_refused(lake):
    lake.create(feed="false")
    refused(lake, "version 1 of the table was written without its change data feed", "early")
    plain = {"store": "plain", "source": ""}
    assert lake.run(**plain)[0] == 0
    lake.check("plain")
    lake.sql(f"UPDATE {lake.name} SET v = 0 WHERE k = 3")
    refused(lake, "UPDATE changed rows of the table at version 2", **plain)
    lake.sql(f"ALTER TABLE {lake.name} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    refused(
        lake,
        "version 0 of the table was written without its change data feed",
        "zero",
        f'{FEED}\noptions = {{ startingVersion = "0" }}',
    )
    assert lake.run()[0] == 0
    lake.sql(f"DELETE FROM {lake.name} WHERE k < 20")
    lake.sql(f"UPDATE {lake.name} SET v = 1 WHERE k < 40")
    lake.sql(f"INSERT OVERWRITE {lake.name} SELECT * FROM {lake.name} WHERE k > 100")
    lake.sql(f"VACUUM {lake.name} RETAIN 0 HOURS")
    refused(lake, "files that were not read yet are gone")
    assert el.open(lake.folder / "state").answer("n").value == 200
    shutil.rmtree(lake.table)
    refused(lake, "Path does not exist")
    lake.create()
    refused(lake, "the table is another one than the run began with")
    assert lake.run("again")[0] == 0
    lake.check("again")


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        'skipChangeCommits = "true"',
        'ignoreDeletes = "true"',
        'failOnDataLoss = "false"',
        'excludeRegex = "a.*"',
    ],
)
def test_options_that_pass_over_changes_are_refused(lake, options):
    refused(lake, "silently skips", source=f"{FEED}\noptions = {{ {options} }}")


@pytest.mark.slow
def test_a_feed_is_not_counted_as_rows(lake):
    refused(lake, "would count deleted rows as rows", source='options = { readChangeFeed = "true" }')
    refused(lake, "Path does not exist")


ICEBERG = 'options = {{ table = "lake.db.{}"{} }}'


def appended_table(lake):
    """Create a table of Iceberg with two appended snapshots, and return how it is streamed."""
    if "iceberg" not in LAKES:
        connector_jars("iceberg")
    lake.name = "lake.db.t"
    lake.sql(f"DROP TABLE IF EXISTS {lake.name}")
    lake.sql(f"CREATE TABLE {lake.name} ({SCHEMA}) USING iceberg")
    for first in (0, 100):
        lake.sql(f"INSERT INTO {lake.name} SELECT id + {first}, id % 7, id * 1.25 FROM range(100)")
    return {"source": ICEBERG.format("t", ""), "form": "iceberg"}


def test_iceberg_streams_appended_rows(lake):
    appended = appended_table(lake)
    assert lake.run(**appended)[0] == 0
    lake.sql(f"INSERT INTO {lake.name} SELECT id, 9, 2 FROM range(10)")
    assert lake.run(**appended)[0] == 0
    lake.check("state")


@pytest.mark.slow
def test_iceberg_has_changes_in_batches_and_refuses_what_is_not_appended(lake):
    appended = appended_table(lake)
    assert lake.run(**appended)[0] == 0
    refused(
        lake, "Iceberg has no stream of changes", "feed", f"{FEED}\n{ICEBERG.format('t', '')}", form="iceberg"
    )
    lake.sql(f"UPDATE {lake.name} SET v = v + 1 WHERE k < 10")
    lake.sql(f"DELETE FROM {lake.name} WHERE k % 10 = 3")
    refused(lake, "is no append (overwrite)", **appended)
    first = lake.sql(f"SELECT snapshot_id FROM {lake.name}.snapshots ORDER BY committed_at")[0][0]
    start = f', "start-snapshot-id" = "{first}"'
    whole = lake.pipeline("now", f"{FEED}\n{ICEBERG.format('t', '')}", form="iceberg")
    since = lake.pipeline("since", f"{FEED}\n{ICEBERG.format('t', start)}", form="iceberg")
    for each in (whole, since):
        code, shown = lake.shell.command("ask", each)
        assert code == 0, shown
    lake.check("now")
    assert (
        el.open(lake.folder / "since").answer("n").value
        == lake.sql(f"SELECT COUNT(*) FROM {lake.name}")[0][0] - 100
    )
    refused(lake, "silently skips", "s", ICEBERG.format("t", start), form="iceberg")
    lake.sql(
        "CALL lake.system.expire_snapshots(table => 'db.t', older_than => TIMESTAMP '2099-01-01', retain_last => 1)"
    )
    refused(
        lake, "first snapshots of the table were expired", "late", ICEBERG.format("t", ""), form="iceberg"
    )
    refused(lake, "a snapshot of the table that is still needed was expired", **appended)


EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "delta_cdf"


@pytest.mark.slow
def test_the_example_ends_with_the_exact_answers(shell):
    given = {**os.environ, "DELTA_JARS": str(lake_jars()), "PYTHON": sys.executable}
    done = subprocess.run(
        [EXAMPLE / "run"], env=given, capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, done.stderr[-2000:]
    expected = (EXAMPLE / "README.md").read_text().split("```text\n")[1].split("```")[0]
    shown = done.stdout[done.stdout.rindex("exact:") :]
    assert all(line in shown for line in expected.splitlines()), shown
