"""Derived columns: expressions over a stream's row that all queries may name."""

import datetime as dt

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import eddyline as el
from eddyline.api.pipeline import parse_pipeline

DERIVE = {"month": "trunc(day, 'MM')", "big": "amount > 50", "net": "amount * 2", "code": "upper(region)", "late": "year(month) * 100 + month(month)"}  # fmt: skip


def rows(n: int = 500):
    rng = np.random.default_rng(2)
    return pa.table(
        {
            "customer": rng.integers(0, 50, n),
            "region": pa.array(rng.choice(["n", "s", None], n)),
            "amount": rng.integers(0, 400, n) / 4,
            "day": pa.array(
                [dt.date(2024, 1, 1) + dt.timedelta(days=int(x)) for x in rng.integers(0, 90, n)]
            ),
        }
    )


@pytest.fixture(scope="module")
def state():
    w = el.Workload(budget="2 MB", seed=1, timezone="UTC")
    w.stream("orders", "customer BIGINT, region STRING, amount DOUBLE, day DATE", derive=DERIVE)
    w.stream("people", "id BIGINT, code STRING")
    w.query("by_month", "SELECT month, COUNT(*) AS n FROM orders GROUP BY month")
    w.query("joined", "SELECT SUM(o.net) FROM orders o JOIN people p ON o.code = p.code")
    w.explore("orders")
    made = w.plan().empty()
    made.update("orders", rows())
    made.update("people", {"id": [1, 2, 3], "code": ["N", "S", "S"]})
    return made


ASKED = {
    "SELECT month, COUNT(*) AS n FROM orders GROUP BY month ORDER BY month": "SELECT date_trunc('month', day)::DATE AS month, COUNT(*) FROM orders GROUP BY 1 ORDER BY 1",
    "SELECT code, big, SUM(net) AS s FROM orders WHERE big GROUP BY code, big ORDER BY code": "SELECT upper(region), true, SUM(amount * 2) FROM orders WHERE amount > 50 GROUP BY 1 ORDER BY 1 NULLS FIRST",
    "SELECT o.late, AVG(o.net) AS a FROM orders o WHERE o.month > DATE '2024-01-15' GROUP BY o.late ORDER BY 1": "SELECT year(day) * 100 + month(day), AVG(amount * 2) FROM orders WHERE date_trunc('month', day) > DATE '2024-01-15' GROUP BY 1 ORDER BY 1",
    "WITH t AS (SELECT month, SUM(net) AS s FROM orders GROUP BY month) SELECT MAX(s) AS m FROM t": "SELECT MAX(s) FROM (SELECT SUM(amount * 2) AS s FROM orders GROUP BY date_trunc('month', day))",
    "SELECT n FROM by_month ORDER BY n": "SELECT COUNT(*) AS n FROM orders GROUP BY date_trunc('month', day) ORDER BY n",
}  # fmt: skip


def test_a_doubled_quote_in_an_expression_is_one_quote():
    w = el.Workload(seed=1).stream("t", "name STRING", derive={"own": "name = 'it''s'"})
    state = w.query("n", "SELECT COUNT_IF(own) FROM t").plan().empty()
    state.update("t", {"name": ["it's", "its", "its", None]})
    assert state.answer("n").value == 1


@pytest.mark.parametrize("text", ASKED)
def test_derived_columns_are_those_of_their_expressions(state, text):
    orders = rows()
    wanted = duckdb.from_arrow(orders).query("orders", ASKED[text]).fetchall()
    got = state.sql(text, intervals=False)
    assert [tuple(row.values()) for row in got.to_pylist()] == wanted
    assert got.schema.metadata[b"eddyline.exact"] == b"true"


def test_a_derived_column_joins(state):
    table = rows().to_pylist()
    matches = {"n": 1, "s": 2, None: 0}
    assert state.answer("joined").value == sum(2 * row["amount"] * matches[row["region"]] for row in table)


def test_a_state_with_derived_columns_survives_as_bytes(state):
    again = el.State.from_bytes(state.to_bytes())
    text = next(iter(ASKED))
    assert again.sql(text).equals(state.sql(text))


@pytest.mark.parametrize(
    ("derive", "sentence"),
    [
        ({"a": "b + 1"}, "has a column of that name"),
        ({"c": "b +"}, "cannot be read"),
        ({"c": "nothing + 1"}, "nothing"),
        ({"c": "COUNT(*)"}, "aggregate"),
        ({"c": "rand()"}, "not a deterministic"),
        ({"c": "a, b"}, "not one expression"),
    ],
)
def test_what_cannot_be_derived_is_refused(derive, sentence):
    with pytest.raises(el.EddylineError, match=sentence):
        el.Workload().stream("s", "a INT, b INT", derive=derive)


def test_a_pipeline_file_derives(tmp_path):
    text = """
    [workload]
    budget = "1 MB"
    [streams.s]
    schema = "k INT, d DATE"
    derive = { year = "year(d)" }
    format = "parquet"
    path = "s"
    [queries]
    by_year = "SELECT year, SUM(k) AS k FROM s GROUP BY year"
    """
    state = parse_pipeline(text, tmp_path / "p.toml").plan().empty()
    state.update(
        "s", pa.table({"k": pa.array([1, 2], pa.int32()), "d": [dt.date(2024, 5, 1), dt.date(2025, 1, 1)]})
    )
    assert sorted((row["year"], row["k"]) for row in state.answer("by_year")) == [(2024, 1), (2025, 2)]
