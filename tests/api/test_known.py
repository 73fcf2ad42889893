"""NULL and what is not known differ: in Python, JSON, Arrow tables, CSV and as text."""

from math import inf

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import eddyline as el
from eddyline.cli.asking import answers_csv

_QUERIES = {
    "one": "SELECT MEDIAN(x) AS middle, MAX(x) AS top, MIN(d) AS first, COUNT(*) AS n, SUM(z) AS nothing FROM r",
    "groups": "SELECT g, MAX(x) AS top, COUNT(*) AS n FROM r GROUP BY g HAVING MAX(x) > 3 ORDER BY g",
    "formulas": "SELECT g, MAX(x) - MIN(x) AS span, COALESCE(MAX(x), 0) AS zero, COUNT(*) AS n FROM r GROUP BY g",
    "top": "SELECT MAX(x) FROM r",
    "null": "SELECT SUM(z) FROM r",
}
_NAMES = ("value", "low", "high", "known")


def _rows(number: int) -> pa.Table:
    rng = np.random.default_rng(1)
    return pa.table(
        {
            "g": rng.integers(0, 4, number),
            "x": rng.integers(0, 10**9, number),
            "z": pa.array([None] * number, pa.int64()),
            "d": pa.array(rng.integers(0, 9999, number).astype(np.int32)).cast(pa.date32()),
        }
    )


def _state(number: int) -> el.State:
    w = el.Workload(budget="48 KB", seed=2)
    w.stream("r", "g BIGINT, x BIGINT, z BIGINT, d DATE")
    for name, sql in _QUERIES.items():
        w.query(name, sql)
    return w.plan().empty().update("r", _rows(number))


@pytest.fixture(scope="module")
def sampled() -> el.State:
    return _state(30_000)


def test_a_maximum_that_a_sample_cannot_tell_leaves_others_answered(sampled: el.State) -> None:
    (truth,) = _connected(30_000).sql("SELECT median(x), count(*) FROM r").fetchall()
    answer = sampled.answer("one")
    one = answer.to_dict()["groups"][0]["aggregates"]
    assert one["middle"]["low"] <= truth[0] <= one["middle"]["high"]
    assert one["n"]["value"] == truth[1]
    assert [one["top"][name] for name in _NAMES] == [None, None, None, False]
    assert [one["first"][name] for name in _NAMES] == [None, None, None, False]
    assert [one["nothing"][name] for name in _NAMES] == [None, None, None, True]
    assert (one["top"]["shown"], one["nothing"]["shown"]) == ("not known", "NULL")
    assert any("top is not known" in note and "PERCENTILE_APPROX" in note for note in answer.notes), (
        answer.notes
    )
    estimates = answer[()]
    assert not estimates["top"].known
    assert (estimates["top"].low, estimates["top"].high) == (None, None)
    assert estimates["nothing"].known
    row = answer.to_arrow().to_pylist()[0]
    assert (row["top"], row["top_low"], row["top_high"]) == (None, -inf, inf)
    assert (row["nothing"], row["nothing_low"], row["nothing_high"]) == (None, None, None)


def _connected(number: int) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.register("r", _rows(number))
    return connection


def test_what_is_not_known_decides_no_condition_and_makes_no_formula(sampled: el.State) -> None:
    truth = dict(_connected(30_000).sql("SELECT g, count(*) FROM r GROUP BY g").fetchall())
    groups = sampled.answer("groups")
    assert {row["g"]: row["n"] for row in groups} == truth
    assert {row["selected"] for row in groups} == {"undecided"}
    for row in sampled.answer("formulas"):
        assert (row["span"], row["zero"], row["n"]) == (None, None, truth[row["g"]])
    assert "not known" in str(sampled.answer("formulas"))


def test_a_query_of_nothing_else_is_refused(sampled: el.State) -> None:
    with pytest.raises(el.PlanError, match=r"the MAX of the missing rows is unknown.*PERCENTILE_APPROX"):
        sampled.answer("top")


def test_tables_and_csv_tell_them_apart(sampled: el.State) -> None:
    table = sampled.answers().to_pylist()
    found = {(row["query"], row["aggregate"]): row for row in table if row["query"] in ("one", "null", "top")}
    assert (found["one", "top"]["known"], found["one", "top"]["answer"]) == (False, "not known")
    assert (found["one", "nothing"]["known"], found["one", "nothing"]["answer"]) == (True, "NULL")
    assert (found["null", None]["known"], found["null", None]["answer"]) == (True, "NULL (exact)")
    assert (found["top", None]["known"], found["top", None]["answer"]) == (False, "refused")
    lines = answers_csv([sampled.answer("one")], {}).splitlines()
    known = lines[0].split(",").index("known")
    cells = {line.split(",")[2]: line.split(",")[known] for line in lines[1:]}
    assert (cells["top"], cells["nothing"], cells["middle"]) == ("false", "true", "true")


def test_everything_is_known_while_it_is_held() -> None:
    state = _state(500)
    (truth,) = _connected(500).sql("SELECT max(x), min(d) FROM r").fetchall()
    found = state.answer("one")[()]
    assert (found["top"].value, found["first"].value) == truth
    for each in found.values():
        assert each.known
    assert str(found["nothing"]) == "NULL (exact)"
