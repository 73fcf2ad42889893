"""Commands that fail, fail before Spark starts; those that need no Spark start none."""

import json
import os
import subprocess
import sys
import time

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import eddyline as el
from eddyline.api.durable import stamp
from eddyline.api.jobs import build_without_spark
from eddyline.api.pipeline import load_pipeline
from eddyline.cli import app, console
from eddyline.store import Store
from tests.data.moving_store import MovingStore

QUERIES = {
    "rows": "SELECT COUNT(*) FROM orders WHERE total > 50",
    "joined": "SELECT COUNT(*) FROM orders o JOIN visits v ON o.customer = v.customer",
    "money": "SELECT SUM(total) FROM orders",
    "latest": "SELECT COUNT(*) FROM orders WHERE placed >= TIMESTAMP '2026-01-02 00:00:00'",
}


def write_tables(folder):
    rng = np.random.default_rng(4)
    at = np.datetime64("2026-01-01", "us") + rng.integers(0, 2 * 86_400_000_000, 1_000).astype(
        "timedelta64[us]"
    )
    orders = {
        "customer": rng.integers(0, 90, 1_000),
        "total": rng.integers(0, 100, 1_000),
        "placed": pa.array(at).cast(pa.timestamp("us", "UTC")),
    }
    pq.write_table(pa.table(orders), folder / "orders.parquet", row_group_size=300)
    (folder / "visits").mkdir()
    for part in range(3):
        customers = rng.integers(0, 90, 200)
        pq.write_table(pa.table({"customer": customers}), folder / "visits" / f"{part}.parquet")


def write_pipeline(folder, workload="", orders="", queries=QUERIES):
    text = f"""
[workload]
budget = "1 MB"
seed = 5
timezone = "UTC"
{workload}

[streams.orders]
format = "parquet"
path = "{folder}/orders.parquet"
schema = "customer BIGINT, total BIGINT, placed TIMESTAMP"
{orders}

[streams.visits]
format = "parquet"
path = "{folder}/visits"
schema = "customer BIGINT"
""" + "".join(
        f"""
[queries.{name}]
sql = \"\"\"{sql}\"\"\"
"""
        for name, sql in queries.items()
    )
    (folder / "pipeline.toml").write_text(text)
    return folder / "pipeline.toml"


@pytest.fixture
def folder(tmp_path):
    write_tables(tmp_path)
    return tmp_path


def exact(folder):
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    db.execute(f"CREATE VIEW orders AS SELECT * FROM '{folder}/orders.parquet'")
    db.execute(f"CREATE VIEW visits AS SELECT * FROM '{folder}/visits/*.parquet'")
    return {name: db.execute(sql).fetchone()[0] for name, sql in QUERIES.items()}


def test_parquet_files_are_asked_without_spark(folder):
    pipeline = load_pipeline(write_pipeline(folder))
    state = build_without_spark(pipeline, pipeline.plan())
    assert {name: state.answer(name).value for name in QUERIES} == exact(folder)
    assert all(state.answer(name).exact for name in QUERIES)
    updated = pipeline.plan().empty()
    for name, path in (("orders", folder / "orders.parquet"), ("visits", folder / "visits")):
        updated.update(name, pq.read_table(path))
    assert state.snapshot == updated.snapshot


def as_text(folder, form):
    """Return a pipeline file over the same rows in CSV or JSON."""
    options = 'options = { header = "true" }' if form == "csv" else ""
    rows = pq.read_table(folder / "orders.parquet")
    at = [f"{each:%Y-%m-%dT%H:%M:%S.%fZ}" for each in rows["placed"].to_pylist()]
    tables = {
        "orders": rows.set_column(2, "placed", pa.array(at)),
        "visits": pq.read_table(folder / "visits"),
    }
    for name, table in tables.items():
        (folder / f"{name}-text").mkdir()
        with (folder / f"{name}-text" / f"1.{form}").open("w") as file:
            if form == "csv":
                print(*table.column_names, sep=",", file=file)
            for row in table.to_pylist():
                print(*row.values(), sep=",", file=file) if form == "csv" else print(
                    json.dumps(row), file=file
                )
    path = write_pipeline(folder)
    text = path.read_text().replace('format = "parquet"', f'format = "{form}"\n{options}')
    path.write_text(text.replace("orders.parquet", "orders-text").replace("/visits", "/visits-text"))
    return path


@pytest.mark.parametrize("form", ["csv", "json"])
def test_csv_and_json_files_are_asked_without_spark(folder, form):
    """The rows are Spark's: tests/spark/test_direct_text.py."""
    pipeline = load_pipeline(as_text(folder, form))
    state = build_without_spark(pipeline, pipeline.plan())
    assert {name: state.answer(name).value for name in QUERIES} == exact(folder)
    assert all(state.answer(name).exact for name in QUERIES)
    for stray in ("", "x" if form == "csv" else '{"customer": "x"}'):  # in the last file only
        path = folder / "visits-text" / f"2.{form}"
        path.write_text("customer\n5\n" + stray if form == "csv" else '{"customer": 5}\n' + stray)
        found = build_without_spark(pipeline, pipeline.plan())
        assert (found is None) == bool(stray)


@pytest.mark.parametrize(("query", "is_read"), [("rows", True), ("latest", True), ("windowed", False)])
def test_times_without_a_zone_are_left_to_spark_where_the_plan_has_none(folder, query, is_read):
    """Spark reads them in the zone of its session, which only plans that need a zone are checked for."""
    path = as_text(folder, "csv")
    text = path.read_text().replace(
        'total BIGINT, placed TIMESTAMP"', 'total BIGINT, placed TIMESTAMP"\nevent_time = "placed"'
    )
    head = text.partition("\n[queries.")[0]
    asked = {**QUERIES, "windowed": 'SELECT COUNT(*) FROM orders"\nwindow = "1 hour'}[query]
    path.write_text(f'{head}\n[queries.{query}]\nsql = "{asked}"\n')
    file = folder / "orders-text" / "1.csv"
    file.write_text(file.read_text().replace("Z\n", "\n"))
    pipeline = load_pipeline(path)
    found = build_without_spark(pipeline, pipeline.plan())
    assert (found is not None) == is_read
    assert not is_read or found.answer(query).value == exact(folder)[query]


def test_what_is_read_without_spark_is_kept_in_the_store(folder):
    pipeline = load_pipeline(write_pipeline(folder, f'store = "{folder}/state"'))
    build_without_spark(pipeline, pipeline.plan())
    assert el.open(folder / "state").answer("joined").value == exact(folder)["joined"]


@pytest.mark.parametrize(
    ("orders", "why"),
    [
        ('options = { mergeSchema = "true" }', "an option"),
        ('path = "s3://bucket/orders"', "elsewhere"),
    ],
)
def test_what_arrow_may_read_otherwise_is_left_to_spark(folder, orders, why):
    path = write_pipeline(folder)
    text = path.read_text()
    if "path" in orders:
        text = text.replace(f'path = "{folder}/orders.parquet"', orders)
    else:
        text = text.replace("[streams.visits]", f"{orders}\n[streams.visits]")
    path.write_text(text)
    pipeline = load_pipeline(path)
    assert build_without_spark(pipeline, pipeline.plan()) is None, why


def test_types_that_differ_and_large_files_are_left_to_spark(folder, monkeypatch):
    pipeline = load_pipeline(write_pipeline(folder))
    plan = pipeline.plan()
    monkeypatch.setattr("eddyline.api.jobs.MOST_BYTES_HERE", 1_000)
    assert build_without_spark(pipeline, plan) is None
    monkeypatch.undo()
    pq.write_table(pa.table({"customer": ["1", "2"]}), folder / "visits" / "9.parquet")
    assert build_without_spark(pipeline, plan) is None


def modules_after(*arguments):
    """Return the modules that a process has loaded after a command, and the command's exit code."""
    code = (
        "import sys, atexit\n"
        "from eddyline.cli import console\n"
        "atexit.register(lambda: print('MODULES', *sorted(sys.modules), file=sys.stderr))\n"
        f"sys.argv = ['eddyline', *{list(arguments)!r}]\n"
        "console.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    return set(done.stderr.rpartition("MODULES")[2].split()), done


def test_a_store_is_asked_without_spark_numba_and_pandas(tmp_path):
    store = MovingStore(tmp_path / "state")
    store.move()
    store.close()
    loaded, done = modules_after("ask", str(tmp_path / "state"))
    assert done.returncode == 0, done.stderr
    assert "visits_by_buyers" in done.stdout
    assert not loaded & {"pyspark", "numba", "pandas"}


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_files_are_asked_without_pyspark(folder, form):
    path = write_pipeline(folder) if form == "parquet" else as_text(folder, form)
    loaded, done = modules_after("ask", str(path))
    assert done.returncode == 0, done.stderr
    assert "joined" in done.stdout
    assert "pyspark" not in loaded


def _missing_column(folder):
    path = write_pipeline(folder)
    path.write_text(
        path.read_text()
        .replace("total BIGINT", "amount BIGINT")
        .replace("(total)", "(amount)")
        .replace("total >", "amount >")
    )
    return path


def _store_is_a_file(folder):
    (folder / "taken").write_text("x")
    return write_pipeline(folder, f'store = "{folder}/taken"')


def _no_files(folder):
    (folder / "orders.parquet").unlink()
    return write_pipeline(folder, f'store = "{folder}/state"')


FAILURES = {
    "missing column": (_missing_column, "there is no column 'amount' in"),
    "store is a file": (_store_is_a_file, "taken"),
    "no files": (_no_files, "there is no file at"),
}


@pytest.fixture
def no_spark(monkeypatch):
    def fail(*_):
        raise AssertionError("Spark was started")

    monkeypatch.setattr(console, "session", fail)


@pytest.mark.parametrize("kind", FAILURES)
@pytest.mark.parametrize("command", ["ask", "run"])
@pytest.mark.usefixtures("no_spark")
def test_what_cannot_work_fails_before_spark_starts(folder, command, kind):
    make, message = FAILURES[kind]
    path = make(folder)
    text = path.read_text()
    if "store =" not in text:
        path.write_text(text.replace("[workload]", f'[workload]\nstore = "{folder}/state"'))
    if command == "run":
        path.write_text(path.read_text().replace("[streams.visits]", "batch = true\n[streams.visits]"))
    began = time.process_time()
    done = CliRunner().invoke(app, [command, str(path)])
    assert done.exit_code == 1, done.output
    assert message in " ".join(done.output.split())
    assert time.process_time() - began < 3


@pytest.mark.usefixtures("no_spark")
def test_a_held_lock_is_reported_before_spark_starts(folder):
    path = write_pipeline(folder, f'store = "{folder}/state"')
    path.write_text(path.read_text().replace("[streams.visits]", "batch = true\n[streams.visits]"))
    pipeline = load_pipeline(path)
    build_without_spark(pipeline, pipeline.plan())
    with Store.open(folder / "state", stamp(pipeline.plan().layout), "other"):
        done = CliRunner().invoke(app, ["run", str(path)])
    assert done.exit_code == 1
    assert f"held by process {os.getpid()}" in " ".join(done.output.split())


def test_a_store_is_asked_as_of_an_epoch_and_since_one(tmp_path):
    store = MovingStore(tmp_path / "state")
    for _ in range(2):
        store.move(rows=200)
    store.close()
    values = []
    for options in ([], ["--as-of", "2"], ["--since", "2"]):
        done = CliRunner().invoke(
            app, ["ask", str(tmp_path / "state"), "--query", "orders_kept", "--format", "json", *options]
        )
        assert done.exit_code == 0, done.output
        values.append(json.loads(done.stdout)[0]["value"] if done.stdout.startswith("[") else done.stdout)
    assert values[0] - values[1] == values[2] != 0
