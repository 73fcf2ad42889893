"""`eddyline size`: pipeline files, bare files and tables, read without Spark where that can be; errors in one sentence."""

import gzip
import json

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from eddyline.cli import app, console
from tests.spark.postgres_server import server

ROWS, KEYS = 20_000, 4_000
RNG = np.random.default_rng(5)
ORDERS = pa.table(
    {
        "order_id": np.arange(ROWS),
        "customer_id": RNG.integers(0, KEYS, ROWS),
        "region": [f"r{place}" for place in RNG.integers(0, 4, ROWS)],
    }
)
VISITS = pa.table({"visit_id": np.arange(ROWS), "customer_id": RNG.integers(0, KEYS, ROWS)})
QUERIES = """
[queries]
joined = "SELECT COUNT(*) FROM orders o JOIN visits v ON o.customer_id = v.customer_id"
by_region = "SELECT region, COUNT(*) AS n FROM orders o JOIN visits v USING (customer_id) GROUP BY region"
rows = "SELECT COUNT(*) FROM orders"
"""
SCHEMAS = {
    "orders": "order_id BIGINT, customer_id BIGINT, region STRING",
    "visits": "visit_id BIGINT, customer_id BIGINT",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def no_spark(monkeypatch):
    def refuse(*_):
        raise AssertionError("Spark was started")

    monkeypatch.setattr(console, "session", refuse)


def run(*arguments, code=0):
    result = CliRunner().invoke(app, ["size", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else " ".join(result.output.split())


def measured(*arguments):
    shown = json.loads(run(*arguments, "--format", "json"))
    return shown, {(each["query"], each["budget"]): each for each in shown["expected"]}


def stream(name, form, path, **more):
    lines = [f"[streams.{name}]", f'schema = "{SCHEMAS[name]}"', f'format = "{form}"', f'path = "{path}"']
    return "\n".join([*lines, *(f"{key} = {value}" for key, value in more.items())]) + "\n"


def write_parquet(folder):
    for name, table in (("orders", ORDERS), ("visits", VISITS)):
        (folder / name).mkdir()
        pq.write_table(table.slice(0, 5_000), folder / name / "1.parquet")
        pq.write_table(table.slice(5_000), folder / name / "2.parquet")
    text = stream("orders", "parquet", "orders") + stream("visits", "parquet", "visits") + QUERIES
    (folder / "pipeline.toml").write_text(text)


@pytest.mark.usefixtures("no_spark")
def test_a_pipeline_is_measured_without_spark(folder):
    write_parquet(folder)
    text = run("pipeline.toml", "--budget", "32 KB", "--budget", "2MB")
    assert "orders: all 20,000 rows were read" in text
    head = next(line for line in text.splitlines() if line.startswith("query"))
    assert head.split() == ["query", "32", "KB", "2", "MB"]
    line = next(line for line in text.splitlines() if line.startswith("joined"))
    assert "%" in line
    assert line.endswith("exact")
    assert "every answer is exact" in text


@pytest.mark.usefixtures("no_spark")
def test_budgets_are_1_4_16_and_64_megabytes(folder):
    write_parquet(folder)
    shown, found = measured("pipeline.toml", "--seeds", 1)
    assert {budget for _, budget in found} == {1_000_000, 4_000_000, 16_000_000, 64_000_000}
    for each in found.values():
        assert each["exact"]
    assert shown["exact_bytes"] < shown["exact_budget"] < 1_000_000
    assert shown["share"] == 1.0


@pytest.mark.usefixtures("no_spark")
def test_a_part_is_read_of_every_stream(folder):
    write_parquet(folder)
    shown, _ = measured("pipeline.toml", "--rows", 10_000, "--budget", "64 KB")
    assert [(each["read"], each["rows"]) for each in shown["streams"]] == [(5_000, ROWS)] * 2
    text = run("pipeline.toml", "--rows", 10_000, "--budget", "64 KB")
    assert "orders: the first 5,000 of 20,000 rows were read" in text
    assert "The larger number was measured" in text


@pytest.mark.usefixtures("no_spark")
def test_all_formats_give_the_same_numbers(folder):
    """Parquet, CSV with and without header, compressed, JSON: the same rows have the same estimates."""
    write_parquet(folder)
    _, expected = measured("pipeline.toml", "--budget", "32 KB")
    lines = [json.dumps(row) for row in ORDERS.to_pylist()]
    (folder / "orders.json").write_text("\n".join(lines))
    pc.write_csv(VISITS, folder / "visits.csv", pc.WriteOptions(include_header=False))
    with gzip.open(folder / "visits2.csv.gz", "wb") as file:
        pc.write_csv(VISITS, file, pc.WriteOptions(delimiter=";"))
    plain = stream("visits", "csv", "visits.csv")
    packed = stream("visits", "csv", "visits2.csv.gz", options='{ header = "true", sep = ";" }')
    for number, visits in enumerate((plain, packed)):
        where = folder / f"p{number}.toml"
        where.write_text(stream("orders", "json", "orders.json") + visits + QUERIES)
        shown, found = measured(where, "--budget", "32 KB")
        assert [each["rows"] for each in shown["streams"]] == [ROWS, ROWS]
        assert found == expected


@pytest.mark.usefixtures("no_spark")
def test_bare_files_are_drafted_first(folder):
    write_parquet(folder)
    pc.write_csv(VISITS, folder / "visits.csv")
    text = run(folder / "orders", "visits.csv", "--budget", "32 KB")
    assert {line.split()[0] for line in text.splitlines() if "exact" in line or "%" in line} >= {
        "orders_rows",
        "visits_rows",
        "orders_with_visits",
    }
    assert not (folder / "orders_with_visits").exists()
    assert not list(folder.glob("state"))


@pytest.mark.usefixtures("no_spark")
def test_changes_are_counted(folder):
    """Deletes take rows away: the exact state of rows that all go again is empty."""
    changes = ["insert"] * ROWS + ["delete"] * ROWS
    both = pa.concat_tables([ORDERS, ORDERS]).append_column("_change_type", pa.array(changes))
    pq.write_table(both, folder / "orders.parquet")
    text = stream("orders", "parquet", "orders.parquet", changes='"change_type"')
    (folder / "p.toml").write_text(text + '[queries]\nn = "SELECT COUNT(DISTINCT customer_id) FROM orders"\n')
    shown, found = measured("p.toml", "--budget", "1 MB")
    assert shown["streams"] == [{"stream": "orders", "read": 2 * ROWS, "rows": 2 * ROWS}]
    assert shown["exact_bytes"] < 100
    assert found["n", 1_000_000]["exact"]


@pytest.mark.usefixtures("no_spark")
def test_folders_of_partitions_are_columns(folder):
    for region in ("r0", "r1", "r2", "r3"):
        own = ORDERS.filter(pa.compute.equal(ORDERS["region"], region)).drop_columns(["region"])
        (folder / "orders" / f"region={region}").mkdir(parents=True)
        pq.write_table(own, folder / "orders" / f"region={region}" / "1.parquet")
    query = '[queries]\nn = "SELECT region, COUNT(*) AS n FROM orders GROUP BY region"\n'
    (folder / "p.toml").write_text(stream("orders", "parquet", "orders") + query)
    shown, found = measured("p.toml", "--budget", "1 MB")
    assert shown["streams"][0]["rows"] == ROWS
    assert found["n", 1_000_000]["exact"]


@pytest.mark.usefixtures("no_spark")
def test_a_stream_without_rows_is_no_obstacle(folder):
    write_parquet(folder)
    (folder / "visits.csv").write_text("visit_id,customer_id\n")
    visits = stream("visits", "csv", "visits.csv", options='{ header = "true" }')
    (folder / "p.toml").write_text(stream("orders", "parquet", "orders") + visits + QUERIES)
    shown, found = measured("p.toml", "--budget", "1 MB")
    assert [each["rows"] for each in shown["streams"]] == [ROWS, 0]
    assert found["joined", 1_000_000]["exact"]


@pytest.fixture(scope="module")
def dsn(tmp_path_factory):
    with server(tmp_path_factory.mktemp("postgres")) as where:
        with psycopg.connect(where, autocommit=True) as connection:
            connection.execute(
                "CREATE TABLE orders (order_id bigint, customer_id bigint, total numeric(8, 2))"
            )
            connection.execute("CREATE TABLE visits (visit_id bigint, customer_id bigint, page uuid)")
            for table, rows in (("orders", ORDERS), ("visits", VISITS)):
                with connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
                    for row in rows.to_pylist():
                        copy.write_row([*list(row.values())[:2], None])
        yield where


@pytest.mark.usefixtures("no_spark")
def test_a_database_is_measured(folder, dsn):
    shown, found = measured(dsn, "--budget", "16 KB", "--budget", "1 MB")
    assert shown["streams"] == [
        {"stream": "orders", "read": ROWS, "rows": ROWS},
        {"stream": "visits", "read": ROWS, "rows": ROWS},
    ]
    assert 0.0 < found["orders_with_visits", 16_000]["half_width"] < 1.0
    assert found["orders_with_visits", 1_000_000]["exact"]
    part, _ = measured(dsn, "--table", "orders", "--rows", 3_000, "--budget", "1 MB")
    assert part["streams"] == [{"stream": "orders", "read": 3_000, "rows": ROWS}]
    assert not list(folder.iterdir())


@pytest.mark.usefixtures("no_spark")
def test_columns_of_a_database_come_as_declared(folder, dsn):
    options = f'{{ dsn = "{dsn}", table = "orders" }}'
    (folder / "p.toml").write_text(
        '[streams.orders]\nschema = "customer_id BIGINT, total DECIMAL(8,2)"\nchanges = "change_type"\n'
        f'format = "eddyline-postgres"\noptions = {options}\n'
        '[queries]\nn = "SELECT customer_id, SUM(total) AS t, COUNT(*) AS n FROM orders GROUP BY customer_id"\n'
    )
    shown, found = measured("p.toml", "--budget", "4 MB")
    assert shown["streams"][0]["read"] == ROWS
    assert found["n", 4_000_000]["exact"]


@pytest.mark.spark
def test_what_arrow_does_not_read_is_read_by_spark(folder, spark, monkeypatch):
    spark.createDataFrame(ORDERS.to_pandas()).write.orc(str(folder / "orders"))
    pq.write_table(VISITS, folder / "visits.parquet")
    (folder / "p.toml").write_text(
        stream("orders", "orc", "orders") + stream("visits", "parquet", "visits.parquet") + QUERIES
    )

    class Borrowed:
        def __getattr__(self, name):
            return (lambda: None) if name == "stop" else getattr(spark, name)

    monkeypatch.setattr(console, "session", lambda *_: Borrowed())
    shown, found = measured("p.toml", "--budget", "2 MB")
    assert [each["rows"] for each in shown["streams"]] == [ROWS, ROWS]
    assert found["by_region", 2_000_000]["exact"]


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nothing.toml"], "the pipeline file 'nothing.toml' cannot be read"),
        (["nowhere"], "there is no file or folder 'nowhere'"),
        (["pipeline.toml", "orders"], "give one pipeline file alone"),
        (["orders", "--table", "t"], "--table names a table of a database"),
        (["pipeline.toml", "--budget", "lots"], "budget 'lots' is not a size"),
        (["kafka.toml"], "a part of a source of format 'kafka' cannot be read"),
        (["none.toml"], "the workload has no query"),
        (["empty.toml"], "no file at"),
        (["broken.toml"], "stream 'orders' cannot be read as parquet"),
        (["host=127.0.0.1 port=1 dbname=x connect_timeout=2"], "the database cannot be asked"),
    ],
)
def test_wrong_input_is_one_sentence(folder, arguments, sentence):
    write_parquet(folder)
    (folder / "empty").mkdir()
    (folder / "broken.parquet").write_text("no parquet")
    (folder / "kafka.toml").write_text(
        stream("orders", "kafka", "x") + '[queries]\nn = "SELECT COUNT(*) FROM orders"\n'
    )
    (folder / "none.toml").write_text(stream("orders", "parquet", "orders"))
    for name in ("empty", "broken"):
        path = "empty" if name == "empty" else "broken.parquet"
        text = stream("orders", "parquet", path) + '[queries]\nn = "SELECT COUNT(*) FROM orders"\n'
        (folder / f"{name}.toml").write_text(text)
    shown = run(*arguments, code=1)
    assert sentence in shown
    assert "Traceback" not in shown
