"""Formulas of aggregates: as DuckDB has them while everything is held, intervals that hold beyond, refusals in sentences."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import eddyline as el
from eddyline.errors import PlanError, SqlError
from tests.data import explored
from tests.data.changes import inserted_and_deleted
from tests.data.outer_joins import STREAMS, made_table
from tests.oracles.coverage import Coverage
from tests.oracles.duckdb_sql import exact
from tests.oracles.grouped import assert_same, exact_groups

JOIN = "FROM a JOIN b ON a.k = b.k"
SINGLE = [
    "SELECT SUM(x) / COUNT(*) FROM a",
    "SELECT SUM(x) / COUNT(x) AS mean FROM a WHERE j > 1",
    "SELECT 100.0 * COUNT_IF(x > 2) / COUNT(*) FROM a",
    "SELECT COUNT(*) FILTER (WHERE x > 2) * 100 / NULLIF(COUNT(*), 0) FROM a",
    "SELECT SUM(x) - SUM(j) FROM a",
    "SELECT -(SUM(x) + COUNT(*)) * 2 FROM a",
    "SELECT SUM(x) / COUNT(*) / COUNT(*) FROM a",
    "SELECT SUM(x) / (COUNT(x) / COUNT(*)) FROM a",
    "SELECT 3 * SUM(x) / NULLIF(COUNT(x) / COUNT(*), 0) / COUNT(x) FROM a",
    "SELECT COALESCE(SUM(x), 0) + COUNT(DISTINCT j) FROM a",
    "SELECT ROUND(AVG(x) * 10, 1) FROM a WHERE x >= 0",
    "SELECT MAX(x) - MIN(x) FROM a",
    "SELECT try_divide(SUM(x), COUNT_IF(x > 99)) FROM a",
    f"SELECT SUM(b.y) / COUNT(*) {JOIN}",
    f"SELECT SUM(a.x * b.y) / SUM(b.y) - 0.5 {JOIN} WHERE b.y > 0",
    f"SELECT 1 - CAST(COUNT_IF(b.y > 1) AS DOUBLE) / COUNT(*) {JOIN}",
    "SELECT COUNT(b.y) / COUNT(*) FROM a LEFT JOIN b ON a.k = b.k",
]
GROUPED = [
    "SELECT g, SUM(x) / COUNT(*) AS m, COUNT(*) AS n FROM a GROUP BY g",
    ("SELECT g, 100 * COUNT_IF(x > 2) / COUNT(*) AS share FROM a GROUP BY g HAVING 100 * COUNT_IF(x > 2) / COUNT(*) > 1 "
    "ORDER BY share DESC"),
    f"SELECT a.g, SUM(b.y) - COUNT(*) AS d, SUM(a.x) / SUM(b.y) AS r {JOIN} WHERE b.y > 0 GROUP BY a.g HAVING SUM(a.x) >= COUNT(b.y)",
]  # fmt: skip


def workload(texts, **options):
    made = el.Workload(**{"budget": "8 MB", "seed": 5, **options})
    for name, schema in STREAMS.items():
        made.stream(name, schema)
    for i, text in enumerate(texts):
        made.query(f"q{i}", text)
    return made


@pytest.mark.parametrize("rows", [1, 40])
def test_formulas_are_exact_while_everything_is_held(rows):
    rng, plan = np.random.default_rng(rows), workload([*SINGLE, *GROUPED]).plan()
    inserts, deletes, net = inserted_and_deleted(
        rng, plan, {name: made_table(rng, name, rows, 6) for name in STREAMS}, share=0.2
    )
    state = el.State.from_bytes((deletes + inserts).to_bytes())
    for text in SINGLE:
        found = state.answer(text)
        truth = exact(
            text.replace("try_divide(SUM(x), COUNT_IF(x > 99))", "SUM(x) / NULLIF(COUNT_IF(x > 99), 0)"), net
        )
        assert found.exact
        if truth is None or found.value is None:
            assert found.value is None or (truth is None and "JOIN" in text), text
            continue
        assert float(found) == pytest.approx(truth, rel=1e-12), text
        assert found.low == found.high == found.value
    if rows > 1:
        for text in GROUPED:
            assert_same(state.answer(text), exact_groups(text, net, 1))


def test_whole_numbers_stay_whole_and_parts_are_not_shown():
    state = workload(["SELECT SUM(x) - COUNT(*) FROM a", GROUPED[1]]).plan().empty()
    state.update("a", made_table(np.random.default_rng(1), "a", 30, 5))
    assert isinstance(state.answer("q0").value, int)
    assert state.answer("q1").to_arrow().column_names == [
        "g",
        "share",
        "share_low",
        "share_high",
        "exact",
        "selected",
    ]


def test_a_divisor_of_zero_is_null_and_says_what_spark_does():
    state = (
        workload(["SELECT COUNT(*) / COUNT_IF(x > 99) FROM a", "SELECT SUM(x) / COUNT(*) FROM a", SINGLE[3]])
        .plan()
        .empty()
    )
    table = made_table(np.random.default_rng(1), "a", 3, 5)
    full = state + workload(
        ["SELECT COUNT(*) / COUNT_IF(x > 99) FROM a", "SELECT SUM(x) / COUNT(*) FROM a", SINGLE[3]]
    ).plan().empty().update("a", table)
    found = full.answer("q0")
    assert (found.value, found.exact) == (None, True)
    assert any("Spark raises an error" in note for note in found.notes), found.notes
    assert state.answer("q1").value is None  # SUM is NULL, and NULL / 0 is no error in Spark
    for note in (*state.answer("q1").notes, *state.answer("q2").notes):
        assert "Spark raises" not in note


def test_unplanned_formulas_and_windows():
    w = el.Workload(budget="4 MB", seed=1).stream("s", "k BIGINT, v INT, t TIMESTAMP", event_time="t")
    w.query("r", "SELECT SUM(v) / COUNT(*) FROM s", window="1 hour")
    w.query("groups", "SELECT k, COUNT(*) AS n FROM s GROUP BY k").explore("s", "v")
    state = w.plan().empty()
    state.update(
        "s",
        {"k": [1, 2, 2, 3], "v": [1, 2, 6, 9], "t": pa.array([0, 10, 20, 3601], pa.timestamp("s", "UTC"))},
    )
    assert state.answer("r").value == 3.0
    assert state.answer("SELECT SUM(v) / COUNT(*) - 1 FROM s WHERE k = 2").value == 3.0


LONG = "g INT, d DECIMAL(18,2), e DECIMAL(18,2), i BIGINT, j BIGINT, x DOUBLE, y DOUBLE"
LONG_ROWS = {
    "g": [1, 1, 2],
    "d": pa.array([Decimal("9999999999999999.99"), Decimal("0.01"), Decimal("9999999999999999.99")]),
    "e": pa.array([Decimal("9999999999999999.99"), Decimal("0.00"), Decimal("9999999999999999.98")]),
    "i": [2**53, 1, 2**53],
    "j": [2**53, 0, 2**53 - 1],
    "x": [1e16, 1.0, 1.005],
    "y": [1e16, 0.0, 0.25],
}


@pytest.mark.parametrize(
    ("selected", "having", "truth"),
    [
        ("SUM(d) - SUM(e)", None, [(1, 0.01), (2, 0.01)]),
        ("(SUM(x) - SUM(y)) * 100", None, [(1, 100.0), (2, 75.5)]),
        ("AVG(i) - AVG(j)", None, [(1, 0.5), (2, 1.0)]),
        ("ROUND(SUM(x), 2)", None, [(1, 1e16), (2, 1.01)]),
        ("NULLIF(SUM(x), 1.005)", None, [(1, 1e16), (2, None)]),
        ("COUNT(*)", "SUM(d) > SUM(e)", [(1, 2), (2, 1)]),
        ("COUNT(*)", "SUM(d) = SUM(e)", []),
        ("SUM(i)", "SUM(i) > 9007199254740992", [(1, 2**53 + 1)]),
        ("SUM(i)", "n = 9007199254740993", [(1, 2**53 + 1)]),
        ("SUM(i)", "SUM(i) > 5", [(1, 2**53 + 1), (2, 2**53)]),
        ("COUNT(*)", "9999999999999999.99 < SUM(d)", [(1, 2)]),
    ],
)
def test_only_the_formula_is_rounded_and_not_its_parts(selected, having, truth):
    text = f"SELECT g, {selected} AS n FROM s GROUP BY g" + (f" HAVING {having}" if having else "")
    state = el.Workload(budget="1 MB").stream("s", LONG).query("q", text).plan().empty()
    found = state.update("s", LONG_ROWS).answer("q")
    assert found.exact
    rows = sorted((row["g"], row["n"]) for row in found.to_arrow().to_pylist())
    assert rows == [(g, None if n is None else pytest.approx(n, rel=1e-12)) for g, n in truth]


@pytest.mark.parametrize("text", ["1e300 * SUM(x) * 1e300", "SUM(i) * SUM(i) * SUM(i) * SUM(i) * SUM(i)"])
def test_a_formula_beyond_all_numbers_is_refused_in_a_sentence(text):
    w = el.Workload(budget="1 MB").stream("s", LONG).query("q", f"SELECT {text} FROM s")
    with pytest.raises(PlanError, match="beyond 1e76"):
        w.plan().empty().update("s", LONG_ROWS).answer("q")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT SUM(x) + g FROM a", "neither an aggregate nor a number"),
        ("SELECT SQRT(SUM(x)) FROM a", "SQRT"),
        ("SELECT SUM(x) % 2 FROM a", "%"),
        ("SELECT MAX(g) + 1 FROM a", "does not return a number"),
        ("SELECT COALESCE(SUM(x), COUNT(*)) FROM a", "take one number"),
    ],
)
def test_what_is_refused_says_why(text, reason):
    with pytest.raises(SqlError, match=reason):
        workload([text])


SALES = "FROM sales s JOIN visits v ON s.customer = v.customer"
FORMULAS = (
    f"SELECT SUM(s.amount) / COUNT(*) AS mean, 100.0 * COUNT_IF(v.page = 'p') / COUNT(*) AS share, SUM(s.amount) - "
    f"SUM(v.sec) AS difference, SUM(s.amount) / SUM(v.sec) AS ratio, AVG(s.amount) AS average {SALES}"
)

GROUPS = f"SELECT s.region, SUM(s.amount) / COUNT(*) AS mean, SUM(s.amount) / SUM(v.sec) AS ratio {SALES} GROUP BY s.region"


@pytest.mark.calibration
def test_intervals_of_formulas_hold():
    coverage, of_groups = Coverage(), Coverage()
    for seed in range(25):
        w = el.Workload(budget="16 KB", seed=seed)
        tables = explored.sales(seed, rows=4000)
        for name in ("sales", "visits"):
            w.stream(name, explored.SALES[name])
        state = w.query("q", FORMULAS).query("groups", GROUPS).plan().empty()
        for name in ("sales", "visits"):
            state.update(name, tables[name])
        answer = state.answer("q")
        assert not answer.exact
        (row,) = answer
        (truth,) = exact_groups(FORMULAS, {name: tables[name] for name in ("sales", "visits")}, 0).values()
        for name, value in zip(("mean", "share", "difference", "ratio"), truth, strict=False):
            assert row[f"{name}_low"] <= row[name] <= row[f"{name}_high"]
            coverage.add(seed, row[f"{name}_low"] <= value <= row[f"{name}_high"], name)
        widths = [row[f"{name}_high"] - row[f"{name}_low"] for name in ("mean", "average")]
        assert widths[0] == pytest.approx(widths[1], rel=0.2)  # an average is read as AVG is
        grouped = state.answer("groups")
        found = exact_groups(GROUPS, {name: tables[name] for name in ("sales", "visits")}, 1)
        for each in grouped:
            for name, value in zip(("mean", "ratio"), found[(each["region"],)], strict=True):
                of_groups.add(seed, each[f"{name}_low"] <= value <= each[f"{name}_high"], name)
    coverage.check(wrong=0.82)
    of_groups.check()
