"""`state.sql` on exact states against DuckDB on the same rows, and what it says of results that are not exact."""

import datetime as dt
import json
import math
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import sqlglot
from typer.testing import CliRunner

import eddyline as el
from eddyline.cli import app
from tests.api.sql_texts import ADVERSARY, GENERATED, HAND
from tests.data.moving_store import MovingStore, orders

NOT_THE_SAME = ("LEFT SEMI", "LEFT ANTI")
SPARK_ONLY = (
    "SUBSTRING(region, 0",
    "dayofweek",
    "POWER",
    "INITCAP",
    "date_format",
    "LEFT(",
    "trunc(",
    "CAST(AVG",
    "add_months",
    "last_day",
)


def rows(seed: int = 3, n: int = 300):
    rng = np.random.default_rng(seed)
    orders = pa.table(
        {
            "customer": pa.array([None if x == 7 else int(x) for x in rng.integers(0, 80, n)], pa.int64()),
            "region": pa.array(
                rng.choice(["north", "south", "east", "west", None], n, p=[0.3, 0.3, 0.2, 0.1, 0.1])
            ),
            "status": pa.array(rng.integers(0, 3, n), pa.int32()),
            "amount": pa.array(
                [None if x < 1 else round(float(x), 2) for x in rng.random(n) * 100], pa.float64()
            ),
            "price": pa.array(
                [Decimal(int(x)) / 100 for x in rng.integers(0, 10_000, n)], pa.decimal128(10, 2)
            ),
            "at": pa.array(
                [dt.datetime(2024, 1, 1) + dt.timedelta(minutes=int(x)) for x in rng.integers(0, 90_000, n)],
                pa.timestamp("us", "UTC"),
            ),
            "day": pa.array(
                [dt.date(2024, 1, 1) + dt.timedelta(days=int(x)) for x in rng.integers(0, 60, n)]
            ),
        }
    )
    customers = pa.table(
        {
            "id": pa.array(range(80), pa.int64()),
            "city": pa.array(rng.choice(["Bonn", "Kiel", "north"], 80)),
            "credit": pa.array(rng.integers(0, 50, 80), pa.int32()),
        }
    )
    return {"orders": orders, "customers": customers}


def workload(budget: str) -> el.Workload:
    w = el.Workload(budget=budget, seed=5, timezone="UTC")
    w.stream(
        "orders",
        "customer BIGINT, region STRING, status INT, amount DOUBLE, price DECIMAL(10,2), at TIMESTAMP, day DATE",
    )
    w.stream("customers", "id BIGINT, city STRING, credit INT")
    w.query("volume", "SELECT COUNT(*) FROM orders o JOIN customers c ON o.customer = c.id")
    w.query("by_region", "SELECT region, COUNT(*) AS n FROM orders GROUP BY region")
    w.explore("orders", "customer", "region", "status", "amount", "price", "at", "day")
    w.explore("customers", "id", "city", "credit")
    return w


@pytest.fixture(scope="module")
def tables():
    return rows()


@pytest.fixture(scope="module")
def exact(tables):
    state = workload("4 MB").plan().empty()
    for name, table in tables.items():
        state.update(name, table)
    return state


@pytest.fixture(scope="module")
def oracle(tables):
    connection = duckdb.connect(":memory:")
    connection.execute("SET TimeZone = 'UTC'")
    for name, table in tables.items():
        connection.register(name, table)
    connection.execute("CREATE VIEW by_region AS SELECT region, COUNT(*) AS n FROM orders GROUP BY region")
    connection.execute(
        "CREATE VIEW volume AS SELECT COUNT(*) AS volume FROM orders o JOIN customers c ON o.customer = c.id"
    )
    yield connection
    connection.close()


def plain(value):
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    return dt.datetime(value.year, value.month, value.day) if isinstance(value, dt.date) else value


def is_same(got, wanted) -> bool:
    got, wanted = plain(got), plain(wanted)
    if isinstance(got, bool) or isinstance(wanted, bool):
        return got == wanted
    if isinstance(got, (int, float)) and isinstance(wanted, (int, float)):
        return (math.isnan(got) and math.isnan(wanted)) or math.isclose(
            got, wanted, rel_tol=1e-9, abs_tol=1e-9
        )
    return got == wanted


def compare(text: str, got: pa.Table, wanted: list[tuple]) -> None:
    found = [tuple(row.values()) for row in got.to_pylist()]
    if "ORDER BY" not in text:
        found, wanted = (
            sorted(each, key=repr) for each in (found, [tuple(map(plain, row)) for row in wanted])
        )
    assert len(found) == len(wanted), (text, found, wanted)
    for one, two in zip(found, wanted, strict=True):
        assert len(one) == len(two), (text, one, two)
        assert all(map(is_same, one, two)), (text, one, two)


def texts_for_duckdb() -> list[str]:
    return [
        text for text in [*HAND, *GENERATED] if not any(each in text for each in (*NOT_THE_SAME, *SPARK_ONLY))
    ]


@pytest.mark.parametrize("part", range(8))
def test_sql_on_an_exact_state_is_that_of_duckdb(exact, oracle, part):
    for text in texts_for_duckdb()[part::8]:
        wanted = oracle.execute(sqlglot.transpile(text, read="spark", write="duckdb")[0]).fetchall()
        got = exact.sql(text, intervals=False)
        compare(text, got, wanted)
        assert got.schema.metadata[b"eddyline.exact"] == b"true", text


def test_texts_that_look_for_faults_are_answered_as_by_duckdb(exact, oracle):
    assert len(set(ADVERSARY)) >= 130
    for text in ADVERSARY:
        wanted = oracle.execute(sqlglot.transpile(text, read="spark", write="duckdb")[0]).fetchall()
        compare(text, exact.sql(text, intervals=False), wanted)


def test_a_query_of_with_may_have_the_name_of_what_it_reads(exact):
    text = "WITH {0} AS (SELECT region, 5 AS n FROM {0}) SELECT COUNT(*) AS n, SUM(n) AS s FROM {0}"
    assert exact.sql(text.format("by_region")).to_pylist()[0]["s"] == 25
    assert exact.sql(text.format("orders"), intervals=False).to_pylist() == [{"n": 300, "s": 1500}]


def test_there_are_enough_texts():
    assert len(set(HAND) | set(GENERATED)) >= 300


@pytest.fixture(scope="module")
def sampled():
    """A state that holds a sample of its rows, and DuckDB over all of them."""
    tables = rows(4, 6_000)
    state = workload("60 KB").plan().empty()
    connection = duckdb.connect(":memory:")
    connection.execute("SET TimeZone = 'UTC'")
    for name, table in tables.items():
        state.update(name, table)
        connection.register(name, table)
    connection.execute("CREATE VIEW by_region AS SELECT region, COUNT(*) AS n FROM orders GROUP BY region")
    connection.execute(
        "CREATE VIEW volume AS SELECT COUNT(*) AS volume FROM orders o JOIN customers c ON o.customer = c.id"
    )
    yield state, connection
    connection.close()


def about(table: pa.Table, name: str) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in table.schema.field(name).metadata.items()}


def notes(table: pa.Table) -> str:
    return " ".join(json.loads(table.schema.metadata[b"eddyline.notes"]))


PARTS = [0, *(pytest.param(each, marks=pytest.mark.slow) for each in range(1, 8))]
"""One of eight parts of the texts is asked in every run, the others in slow ones."""


@pytest.mark.parametrize("part", PARTS)
def test_nothing_is_called_exact_that_is_not(sampled, part):
    """Over all texts: a column that is marked exact is that of DuckDB on all rows."""
    state, connection = sampled
    inexact = refused = 0
    for text in texts_for_duckdb()[part::8]:
        try:
            got = state.sql(text)
        except el.PlanError:  # a MIN or MAX of what a sample does not hold
            refused += 1
            continue
        exact = [
            field.name for field in got.schema if (field.metadata or {}).get(b"eddyline.exact") == b"true"
        ]
        inexact += got.schema.metadata[b"eddyline.exact"] == b"false"
        if not exact:
            continue
        wanted = connection.execute(sqlglot.transpile(text, read="spark", write="duckdb")[0])
        names = [each[0] for each in wanted.description]
        truth = wanted.fetchall()
        for name in exact:
            place = [each.lower() for each in names].index(name.lower())
            compare(text, got.select([name]), [(row[place],) for row in truth])
    assert inexact > 15  # the texts are asked of a sample
    assert refused < 10


def test_whole_results_of_a_sample_are_not_exact(sampled):
    state, _ = sampled
    got = state.sql("SELECT region, COUNT(*) AS n FROM orders WHERE status = 1 GROUP BY region ORDER BY n")
    assert got.schema.metadata[b"eddyline.exact"] == b"false"
    assert about(got, "n")["eddyline.interval"] == "carried"
    assert about(got, "n")["eddyline.low"] == "n_low"
    for row in got.to_pylist():
        assert row["n_low"] <= row["n"] <= row["n_high"]


MONOTONE = {
    "2 * COUNT(*) + 1": lambda n: 2 * n + 1,
    "10 - COUNT(*)": lambda n: 10 - n,
    "COUNT(*) / 4": lambda n: n / 4,
    "-3 * COUNT(*)": lambda n: -3 * n,
    "FLOOR(COUNT(*) / 7)": lambda n: n // 7,
    "COALESCE(COUNT(*), 0) - 5": lambda n: n - 5,
    "ROUND(COALESCE(COUNT(*), 0) / 8, 3)": lambda n: n / 8,
    "CAST(COUNT(*) / 7 AS INT)": lambda n: n // 7,
}


@pytest.mark.parametrize("expression", MONOTONE)
def test_the_interval_of_a_monotone_function_is_that_of_its_estimate(sampled, expression):
    state, _ = sampled
    inner = "SELECT region, COUNT(*) AS n FROM orders WHERE status = 1 GROUP BY region"
    outer = expression.replace("COUNT(*)", "n")
    got = state.sql(f"WITH t AS ({inner}) SELECT n, {outer} AS x FROM t")
    function = MONOTONE[expression]
    for row in got.to_pylist():
        ends = sorted([function(row["n_low"]), function(row["n_high"])])
        assert [row["x_low"], row["x_high"]] == pytest.approx(ends)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("SELECT AVG(n) AS x FROM (SELECT region, COUNT(*) AS n FROM orders WHERE status = 1 GROUP BY region)", "x"),
        ("SELECT region, COUNT(*) / SUM(COUNT(*)) OVER () AS x FROM orders WHERE status = 1 GROUP BY region", "x"),
        ("WITH a AS (SELECT region, COUNT(*) AS n FROM orders WHERE status = 1 GROUP BY region) SELECT a.n - b.n AS x FROM a JOIN by_region b ON a.region = b.region", "x"),
        ("SELECT COUNT(*) AS x FROM orders WHERE amount > (SELECT AVG(amount) FROM orders WHERE status = 1)", "x"),
        ("SELECT CASE WHEN COUNT(*) > 5 THEN 1 ELSE 0 END AS x FROM orders WHERE status = 1", "x"),
    ],
)  # fmt: skip
def test_an_interval_that_is_not_carried_is_said_so(sampled, text, column):
    got = sampled[0].sql(text)
    assert about(got, column)["eddyline.exact"] == "false"
    assert about(got, column)["eddyline.interval"] == "not carried"
    assert "interval not carried: x" in notes(got)
    if f"{column}_low" in got.column_names:
        assert got[f"{column}_low"].null_count == got.num_rows


def test_decisions_by_estimates_have_a_note(sampled):
    state, _ = sampled
    inner = "SELECT region, COUNT(*) AS n FROM orders WHERE status = 1 GROUP BY region"
    assert "HAVING decided by estimates" in notes(state.sql(f"{inner} HAVING COUNT(*) > 300"))
    assert "WHERE decided by estimates" in notes(state.sql(f"SELECT n FROM ({inner}) WHERE n > 300"))
    assert "ORDER BY with LIMIT decided" in notes(state.sql(f"SELECT n FROM ({inner}) ORDER BY n LIMIT 2"))
    assert "from the groups that are seen" in notes(state.sql(f"SELECT SUM(n) AS s FROM ({inner})"))
    assert "groups that are not seen are missing" in notes(state.sql(inner))
    assert "decided" not in notes(state.sql(f"SELECT n FROM ({inner}) WHERE region = 'north'"))


CORRELATED = {
    "(SELECT t.n * 2)": "",
    "(SELECT u.n + t.n FROM by_region u WHERE u.region = t.region)": "",
    "(SELECT MAX(u.n) FROM by_region u WHERE u.n <= t.n)": "WHERE decided by estimates",
    "CASE WHEN EXISTS (SELECT 1 WHERE t.n > 300) THEN 1 END": "WHERE decided by estimates",
}


@pytest.mark.parametrize("expression", CORRELATED)
def test_a_subquery_that_reads_an_estimate_of_the_outer_query_has_no_interval(sampled, expression):
    inner = "SELECT region, COUNT(*) AS n FROM orders WHERE status = 1 GROUP BY region"
    got = sampled[0].sql(f"WITH t AS ({inner}) SELECT region, {expression} AS x FROM t")
    assert about(got, "x")["eddyline.role"] == "value"
    assert about(got, "x")["eddyline.interval"] == "not carried"
    assert CORRELATED[expression] in notes(got)


def test_totals_of_rollup_have_the_intervals_of_their_own_queries(sampled):
    state, _ = sampled
    where = "FROM orders WHERE status = 1"
    got = state.sql(
        f"SELECT region, GROUPING(region) AS g, COUNT(*) AS n {where} GROUP BY ROLLUP (region)"
    ).to_pylist()
    (total,) = [row for row in got if row["g"] == 1]
    alone = state.sql(f"SELECT COUNT(*) AS n {where}").to_pylist()[0]
    assert {name: total[name] for name in alone} == alone
    groups = state.sql(f"SELECT region, COUNT(*) AS n {where} GROUP BY region").to_pylist()
    shown = [{name: row[name] for name in groups[0]} for row in got if row["g"] == 0]
    assert sorted(map(repr, shown)) == sorted(map(repr, groups))


def test_groupings_in_other_words(exact):
    wanted = exact.sql("SELECT region, status, COUNT(*) AS n FROM orders GROUP BY ROLLUP (region, status)")
    for clause in ("region, status WITH ROLLUP", "ROLLUP (1, 2)", "GROUPING SETS ((1, 2), region, ())"):
        got = exact.sql(f"SELECT region, status, COUNT(*) AS n FROM orders GROUP BY {clause}")
        assert got.to_pylist() == wanted.to_pylist()
    got = exact.sql(
        "SELECT GROUPING_ID() AS i, GROUPING_ID(status, region) AS j, COUNT(*) AS n FROM orders "
        "GROUP BY CUBE (region, status) HAVING n = 300"
    )
    assert got.select(["i", "j", "n"]).to_pylist() == [{"i": 3, "j": 3, "n": 300}]


def test_ends_can_be_selected_by_name(sampled):
    got = sampled[0].sql("SELECT region, n, n_low, n_high FROM by_region ORDER BY region")
    assert got.column_names == ["region", "n", "n_low", "n_high"]
    inner = "SELECT region, COUNT(*) AS n FROM orders WHERE status = 1 GROUP BY region"
    wide = sampled[0].sql(f"SELECT region FROM ({inner}) WHERE n_high - n_low > 0")
    assert wide.num_rows > 0


REFUSED = {
    "SELECT region FROM by_region WHERE n >= ALL (SELECT n FROM by_region)": "MAX or MIN of the subquery",
    "SELECT n FROM (SELECT COUNT(*) AS n, SUM(price) AS n FROM orders)": "two columns with the name 'n'",
    "SELECT COUNT(*) AS n FROM orders UNION ALL SELECT 1, 2": "UNION of results with 1 and with 2 columns",
    "SELECT bround(COUNT(*) / 8, 1) AS b FROM orders": "'BROUND\\(COUNT\\(\\*\\) / 8, 1\\)'",
    "SELECT * FROM orders": "selects rows, and rows are not kept",
    "SELECT region, amount FROM orders WHERE status = 1 OFFSET 5": "not supported|rows are not kept|OFFSET",
    "SELECT o.region, t.n FROM orders o JOIN by_region t ON o.region = t.region": "is a stream and is joined with a query",
    "SELECT rand() AS r, COUNT(*) AS n FROM orders": "not on the list",
    "SELECT COUNT(*) AS n FROM orders WHERE rand() < 0.5": "RAND",
    "SELECT region, GROUPING(status) AS g FROM orders GROUP BY ROLLUP (region)": "takes columns of ROLLUP",
    "SELECT COUNT(*) AS n FROM orders GROUP BY CUBE (region, status, customer, day, at, amount, price)": "more than 64 groupings",
    "SELECT COUNT(*) AS n FROM orders GROUP BY ROLLUP (1, 7)": "position 7 is not in the SELECT list",
    "SELECT ARRAY_AGG(n) AS a FROM by_region": "lists have no order",
    "SELECT COLLECT_SET(n) AS a FROM by_region": "lists have no order",
    "SELECT b.region, x.n FROM by_region b, LATERAL (SELECT COUNT(*) AS n FROM orders o WHERE o.region = b.region) x": "reads b.region of the query around it",
    "SELECT b.region FROM by_region b LATERAL VIEW explode(array(1)) e AS z": "LATERAL is translated for a subquery alone",
    "SELECT CAST(AVG(amount) AS STRING) AS s FROM orders": "Spark writes fractions",
    "SELECT COUNT(*) AS n FROM nothing": "there is no stream or planned query 'nothing'",
    "SELECT region, COUNT(*) AS n FROM orders GROUP BY region; SELECT 1": "one query is expected",
    "SELECT nothing, COUNT(*) AS n FROM orders GROUP BY nothing": "nothing",
    "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT * FROM t": "RECURSIVE",
    "SELECT * FROM read_csv('/etc/passwd')": "READ_CSV",
    "SELECT region, COUNT(*) AS n FROM (SELECT region FROM orders UNION ALL SELECT city FROM customers) GROUP BY region": "selects rows",
    "DELETE FROM orders": "not a query",
    "SELECT region FROM by_region b WHERE n > (SELECT AVG(amount) FROM orders o WHERE o.region = b.region)": "o.region|b.region",
    "SELECT regexp_extract(region, '(.)', 1) AS r, COUNT(*) AS n FROM orders GROUP BY region": "not on the list",
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_outside_is_refused_and_named(exact, text):
    with pytest.raises(el.EddylineError, match=REFUSED[text]):
        exact.sql(text)


def test_the_time_of_the_answer_is_noted(exact):
    got = exact.sql(
        "SELECT COUNT(*) AS n FROM orders WHERE day >= current_date() - INTERVAL 7 DAYS AND at < now()"
    )
    assert got.to_pylist()[0]["n"] == 0
    assert "now() and current_date are the time of this answer" in notes(got)


def test_without_duckdb_the_extra_is_named(exact, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert exact.sql("SELECT region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY n").num_rows == 5
    with pytest.raises(el.PlanError, match=r"eddyline\[sql\]"):
        exact.sql("SELECT MAX(n) AS m FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region)")


def test_types_are_those_of_the_text_and_not_of_the_state(exact, sampled):
    text = "SELECT region, COUNT(*) AS n, SUM(status) AS s, SUM(price) AS p, MAX(day) AS d FROM orders GROUP BY region"
    more = f"SELECT region, n * 2 AS n, s, p / 2 AS p, d FROM ({text})"
    for each in (text, more):
        assert exact.sql(each).schema.types == sampled[0].sql(each).schema.types


def test_sums_over_several_relations_are_taken_apart(exact, oracle):
    text = (
        "SELECT SUM((o.amount - c.credit) * 2 - o.status) AS a, AVG(o.amount - c.credit) FILTER (WHERE o.status = 1) AS b "
        "FROM orders o JOIN customers c ON o.customer = c.id"
    )
    got = exact.answer(text)
    wanted = oracle.execute(text).fetchall()[0]
    assert [row[name] for row in got for name in ("a", "b")] == pytest.approx(list(wanted))


def test_a_store_is_asked_with_sql_in_a_terminal(tmp_path):
    store = MovingStore(tmp_path / "store")
    store.commit("orders", orders(0))
    text = "SELECT region, n * 2 AS x, 'a' AS a FROM by_region ORDER BY region"
    expected = el.open(store.where).sql(text)
    for form in ("table", "json", "csv"):
        result = CliRunner().invoke(app, ["ask", store.where, "--sql", text, "--format", form])
        assert result.exit_code == 0, result.output
        for row in expected.to_pylist():
            assert row["region"] in result.output
    shown = json.loads(
        CliRunner().invoke(app, ["ask", store.where, "--sql", text, "--format", "json"]).stdout
    )
    assert shown[0]["rows"] == [list(row.values()) for row in expected.to_pylist()]
    refused = CliRunner().invoke(app, ["ask", store.where, "--sql", "SELECT * FROM orders"])
    assert refused.exit_code == 1
