"""FILTER (WHERE ...), COUNT_IF and one-armed CASE: exact as DuckDB has them, over streams and joins, planned or not."""

import re

import numpy as np
import pytest

import eddyline as el
from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.expressions.schema import parse_schema
from eddyline.sql.parse import parse_query
from tests.data import explored
from tests.data.changes import inserted_and_deleted
from tests.data.outer_joins import STREAMS, made_table
from tests.oracles.duckdb_sql import exact
from tests.oracles.grouped import assert_same, exact_groups

SINGLE = [
    "SELECT COUNT_IF(x > 2) FROM a",
    "SELECT COUNT_IF(x > 99) FROM a",
    "SELECT COUNT_IF(x IS NULL OR g = 'u') FROM a WHERE k > 1",
    "SELECT COUNT_IF(NULL) FROM a",
    "SELECT COUNT(*) FILTER (WHERE x > 2 AND g <> 'u') FROM a",
    "SELECT COUNT(x) FILTER (WHERE j = 1) FROM a",
    "SELECT SUM(x) FILTER (WHERE x > 99) FROM a",
    "SELECT SUM(x) FILTER (WHERE x < 3) FROM a WHERE x > 1",
    "SELECT AVG(x) FILTER (WHERE g = 'u') FROM a",
    "SELECT SUM(CASE WHEN x > 1 THEN x END) FILTER (WHERE g = 'u') FROM a",
    "SELECT COUNT(DISTINCT x) FILTER (WHERE g = 'u') FROM a",
    "SELECT COUNT(DISTINCT a.x) FILTER (WHERE b.y > 1) FROM a JOIN b ON a.k = b.k",
    "SELECT COUNT_IF(b.y > 1 AND a.x < 4) FROM a JOIN b ON a.k = b.k",
    "SELECT COUNT_IF(a.x < b.y) FROM a JOIN b ON a.k = b.k",
    "SELECT SUM(a.x) FILTER (WHERE b.y > 1) FROM a LEFT JOIN b ON a.k = b.k",
    "SELECT COUNT(*) FILTER (WHERE b.k IS NULL) FROM a LEFT JOIN b ON a.k = b.k",
    "SELECT SUM(CASE WHEN b.y > 1 THEN a.x END) FROM a JOIN b ON a.k = b.k",
    "SELECT COUNT(CASE WHEN b.y > 1 THEN CASE WHEN a.x > 2 THEN 1 END END) FROM a LEFT JOIN b ON a.k = b.k",
    "SELECT SUM(IF(b.y > 1 AND a.j > 1, a.x * b.y, NULL)) FROM a JOIN b ON a.k = b.k",
    "SELECT COUNT(*) FILTER (WHERE x > 1) FROM a WHERE k IN (SELECT k FROM b)",
]
ROWS = [
    "SELECT COUNT(*) AS n, COUNT_IF(x > 2) AS m, SUM(x) FILTER (WHERE x > 99) AS s, AVG(x) FILTER (WHERE j = 1) AS v FROM a",
    "SELECT COUNT_IF(TRUE) AS n, COUNT_IF(NULL) AS o, SUM(2) FILTER (WHERE NULL) AS s FROM a",
    "SELECT COUNT(DISTINCT x) FILTER (WHERE j = 1) AS d, COUNT(DISTINCT x, g) FILTER (WHERE x > 1) AS e FROM a",
    (
        "SELECT COUNT_IF(a.x > 2) AS n, SUM(a.x) FILTER (WHERE b.y > 1) AS s, SUM(a.x * b.y) FILTER (WHERE b.h = 'u' AND "
        "a.g = 'u') AS p FROM a JOIN b ON a.k = b.k"
    ),
    "SELECT COUNT_IF(b.y > 1) AS n, SUM(a.x) FILTER (WHERE b.y > 1) AS s, COUNT(*) AS m FROM a LEFT JOIN b ON a.k = b.k",
    "SELECT COUNT_IF(b.y > 1) AS n, COUNT_IF(TRUE) AS m, SUM(3) FILTER (WHERE a.x > 1) AS s FROM a RIGHT JOIN b ON a.k = b.k",
    "SELECT COUNT_IF(b.y > 1) AS n, COUNT_IF(a.x > 1) AS m, COUNT_IF(a.x > 1 AND b.y > 1) AS o FROM a FULL JOIN b ON a.k = b.k",
    "SELECT COUNT(DISTINCT a.x) FILTER (WHERE b.y > 1) AS d, MAX(a.x) FILTER (WHERE a.x < 3) AS m FROM a JOIN b ON a.k = b.k",
    (
        "SELECT STDDEV_POP(b.y) FILTER (WHERE c.z > 1) AS v, SUM(CASE WHEN c.z > 1 THEN a.x END) AS s FROM a JOIN b ON a.k = b.k "
        "JOIN c ON b.j = c.j"
    ),
]
GROUPED = [
    "SELECT g, COUNT(*) AS n, COUNT_IF(x > 2) AS m, SUM(x) FILTER (WHERE x > 99) AS s FROM a GROUP BY g",
    "SELECT g, COUNT_IF(x > 2) AS m FROM a GROUP BY g HAVING COUNT_IF(x > 2) > 0 AND COUNT(*) FILTER (WHERE j = 1) >= 0",
    "SELECT g, COUNT(DISTINCT x) FILTER (WHERE j = 1) AS d, MIN(x) FILTER (WHERE x > 1) AS m FROM a GROUP BY g",
    "SELECT a.g, SUM(a.x) FILTER (WHERE b.y > 1) AS s, COUNT_IF(b.y > 1) AS n FROM a LEFT JOIN b ON a.k = b.k GROUP BY a.g",
    ("SELECT b.h, SUM(CASE WHEN a.x > 1 THEN b.y END) AS s, COUNT(DISTINCT a.j) FILTER (WHERE b.y > 1) AS d FROM a "
    "JOIN b ON a.k = b.k GROUP BY b.h ORDER BY COUNT_IF(b.y > 1) DESC"),
]  # fmt: skip


def workload(texts, **options):
    made = el.Workload(budget="8 MB", seed=5, **options)
    for name, schema in STREAMS.items():
        made.stream(name, schema)
    for i, text in enumerate(texts):
        made.query(f"q{i}", text)
    return made


@pytest.fixture(scope="module")
def planned():
    return workload([*SINGLE, *ROWS, *GROUPED]).plan()


@pytest.fixture(scope="module")
def unplanned():
    made = workload(["SELECT COUNT(*) FROM a JOIN b ON a.k = b.k JOIN c ON b.j = c.j"])
    for stream, columns in (("a", "jxg"), ("b", "yh"), ("c", "zw")):
        made.explore(stream, *columns)
    return made.plan()


def asked_of_duckdb(text):
    """The same in DuckDB's spelling: its COUNT_IF of no rows is NULL, and its COUNT(DISTINCT ...) takes one column."""
    text = re.sub(r"COUNT_IF\(([^()]*)\)", r"COUNT(*) FILTER (WHERE \1)", text)
    return text.replace(
        "COUNT(DISTINCT x, g) FILTER (WHERE", "COUNT(DISTINCT (x, g)) FILTER (WHERE g IS NOT NULL AND"
    )


def state_of(plan, rng, rows):
    tables = {name: made_table(rng, name, rows, 6) for name in STREAMS}
    inserts, deletes, net = inserted_and_deleted(rng, plan, tables)
    return deletes + inserts, net


@pytest.mark.parametrize("rows", [0, 1, 40])
def test_planned_queries_are_exact(planned, rows):
    state, net = state_of(planned, np.random.default_rng(rows), rows)
    for text in SINGLE:
        found, truth = state.answer(text), exact(asked_of_duckdb(text), net)
        assert found.exact
        empty_sum = truth is None and "JOIN" in text and "SUM" in text  # 0 where nothing meets
        assert found.value == (0 if empty_sum and found.value == 0 else truth), text
    for text in [*ROWS, *GROUPED]:
        assert_same(state.answer(text), exact_groups(asked_of_duckdb(text), net, text in GROUPED))


def test_texts_that_nobody_planned_are_exact(unplanned):
    state, net = state_of(unplanned, np.random.default_rng(3), 40)
    asked = [
        text
        for text in [*ROWS, *GROUPED]
        if "LEFT" not in text and "RIGHT" not in text and "FULL" not in text
    ]
    assert len(asked) > 6
    for text in asked:
        assert_same(state.answer(text), exact_groups(asked_of_duckdb(text), net, text in GROUPED))
    for text in SINGLE[:10]:
        assert state.answer(text).value == exact(asked_of_duckdb(text), net), text


def test_the_only_aggregate_shares_what_where_asks_for():
    streams = {name: parse_schema(name, schema) for name, schema in STREAMS.items()}
    pairs = [
        ("SELECT COUNT_IF(x > 2) FROM a", "SELECT COUNT(*) FROM a WHERE x > 2"),
        ("SELECT SUM(x) FILTER (WHERE x > 2) FROM a WHERE j = 1", "SELECT SUM(x) FROM a WHERE j = 1 AND x > 2"),
        ("SELECT COUNT(DISTINCT x) FILTER (WHERE g = 'u') FROM a", "SELECT COUNT(DISTINCT x) FROM a WHERE g = 'u'"),
    ]  # fmt: skip
    for filtered, plain in pairs:
        one, other = (parse_query(text, streams) for text in (filtered, plain))
        assert _parts(one) == _parts(other)


def _parts(query):
    return {name: getattr(query, name) for name in query.__struct_fields__ if name != "text"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT COUNT_IF(DISTINCT x > 1) FROM a", "only COUNT takes it"),
        ("SELECT COUNT_IF(x) FROM a", "is used as a condition"),
        ("SELECT COUNT(*) FROM a WHERE g AND x > 1", r"has type STRING.*write CAST\(... AS BOOLEAN\)"),
        ("SELECT COUNT(*) FROM a JOIN b ON a.k = b.k AND a.g", r"has type STRING.*write CAST\(... AS BOOLEAN\)"),
        ("SELECT COUNT(*), COUNT(*) FILTER (WHERE x) FROM a", "is used as a condition"),
        ("SELECT COUNT(*), COUNT_IF(a.x < b.y) FROM a JOIN b ON a.k = b.k", "ask the aggregate alone"),
        ("SELECT COUNT(*), COUNT_IF(k IN (SELECT k FROM b)) FROM a", "subqueries are supported in WHERE"),
        ("SELECT COUNT(*), COUNT(*) FILTER (WHERE COUNT(*) > 1) FROM a", "holds an aggregate"),
        ("SELECT a.g, COUNT_IF(b.y IS NULL) FROM a LEFT JOIN b ON a.k = b.k GROUP BY a.g", "may have a value in rows"),
        ("SELECT a.g, MAX(a.x) FILTER (WHERE b.y > 1) FROM a JOIN b ON a.k = b.k GROUP BY a.g", "another relation"),
        ("SELECT SUM(CASE WHEN b.y > 1 THEN a.x ELSE 0 END) FROM a JOIN b ON a.k = b.k", "mixes columns"),
    ],
)  # fmt: skip
def test_what_is_refused_says_why(text, reason):
    with pytest.raises((SqlError, UnsupportedQuery), match=reason):
        workload([text])


def test_conditional_measures_of_overflowing_joins_hold_their_intervals():
    """Of 12 seeds by 3 aggregates at 95% at most 7 miss; independent ones would be more once in 3,000 times."""
    text = (
        "SELECT COUNT_IF(s.status = 1) AS n, SUM(s.amount) FILTER (WHERE v.page = 'p') AS s, AVG(v.sec) FILTER "
        "(WHERE s.region = 'a' AND v.page <> 'q') AS m FROM sales s JOIN visits v ON s.customer = v.customer"
    )
    missed = 0
    for seed in range(12):
        w = el.Workload(budget="16 KB", seed=seed)
        for name in ("sales", "visits"):
            w.stream(name, explored.SALES[name])
        tables = explored.sales(seed, rows=4000)
        state = w.query("q", text).plan().empty()
        for name in ("sales", "visits"):
            state.update(name, tables[name])
        answer = state.answer("q")
        assert not answer.exact
        (truth,) = exact_groups(text, {name: tables[name] for name in ("sales", "visits")}, 0).values()
        (row,) = answer
        missed += sum(
            not row[f"{name}_low"] <= value <= row[f"{name}_high"]
            for name, value in zip("nsm", truth, strict=True)
        )
    assert missed <= 7
