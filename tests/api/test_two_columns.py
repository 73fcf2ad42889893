"""COVAR_SAMP, COVAR_POP, CORR, REGR_SLOPE and SKEWNESS: one stream, joins, groups, filters, ad hoc."""

import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eddyline as el
from tests.oracles.coverage import Coverage
from tests.oracles.duckdb_sql import database, exact, net_rows
from tests.oracles.moments import ORACLES

STREAMS = {"o": "k BIGINT, g STRING, x DOUBLE, d DECIMAL(9,2)", "i": "k BIGINT, y INT, z DOUBLE"}
JOIN = "FROM o JOIN i ON o.k = i.k"
PAIRS = ("COVAR_SAMP", "COVAR_POP", "CORR", "REGR_SLOPE")
ROW = st.fixed_dictionaries(
    {
        "n": st.none() | st.integers(-9, 9),
        "d": st.none() | st.decimals(-9, 9, places=2, allow_nan=False),
        "x": st.none() | st.floats(-1e6, 1e6).map(lambda value: round(value, 6)),
    }
)
SCHEMA = pa.schema([("n", pa.int32()), ("d", pa.decimal128(8, 2)), ("x", pa.float64())])


def for_duckdb(text):
    """DuckDB's SKEWNESS is that of a sample: the population's, as Spark has it, by moments."""
    moments = r"(AVG(\1 * \1 * \1) - 3 * AVG(\1) * AVG(\1 * \1) + 2 * AVG(\1) ** 3)"
    return re.sub(r"SKEWNESS\(([^()]*)\)", rf"({moments} / VAR_POP(\1) ** 1.5)", text)


def tables(seed, rows=4000, keys=1500):
    """Columns of both relations hold an effect of their key, so that they correlate over the join."""
    random = np.random.default_rng(seed)
    chance = 1.0 / np.arange(1, keys + 1) ** 0.6
    left, right = (random.choice(keys, size, p=chance / chance.sum()) for size in (rows, 2 * rows))
    effect = random.normal(0.0, 1.0, keys)
    x = effect[left] + random.normal(0.0, 1.0, rows)
    cents = np.rint(100 * (0.5 * x + random.normal(0.0, 1.0, rows))).astype(int)
    null = [random.random(size) < 0.03 for size in (rows, 2 * rows)]
    return {
        "o": pa.table(
            {
                "k": left,
                "g": [f"g{k % 5}" for k in left],
                "x": pa.array(x, mask=null[0]),
                "d": pa.array([Decimal(int(each)).scaleb(-2) for each in cents], pa.decimal128(9, 2)),
            }
        ),
        "i": pa.table(
            {
                "k": right,
                "y": pa.array(np.rint(3 * effect[right] + random.normal(0, 2, 2 * rows)), pa.int32()),
                "z": pa.array(0.7 * effect[right] + random.normal(0.0, 1.0, 2 * rows), mask=null[1]),
            }
        ),
    }


def filled(workload, data):
    state = workload.plan().empty()
    for name, table in data.items():
        state.update(name, table)
    return el.State.from_bytes(state.to_bytes())


def workload(budget, queries, seed=1):
    made = el.Workload(budget=budget, seed=seed, timezone="UTC")
    for name, columns in STREAMS.items():
        made.stream(name, columns)
    for name, text in queries.items():
        made.query(name, text)
    return made


ALONE = {
    f"{f}_{x}_{y}": f"SELECT {f}(o.{x}, {y}) {JOIN}".replace(", y", ", i.y")
    .replace(", z", ", i.z")
    .replace(", d", ", o.d")
    for f in PAIRS
    for x, y in ("xy", "dz", "xd")
}
ALONE |= {
    "skewness": f"SELECT SKEWNESS(o.x) {JOIN}",
    "skewness_of_integers": f"SELECT SKEWNESS(i.y) {JOIN}",
    "products": f"SELECT CORR(o.x * i.z, o.d) {JOIN}",
    "outer": "SELECT CORR(i.z, o.x) FROM o LEFT JOIN i ON o.k = i.k",
    "semi": "SELECT REGR_SLOPE(o.x, o.d) FROM o LEFT SEMI JOIN i ON o.k = i.k",
    "filtered": f"SELECT COVAR_POP(o.x, i.z) FILTER (WHERE i.y > 0) {JOIN}",
    "chosen": f"SELECT CORR(CASE WHEN i.y > 0 THEN o.x END, i.z) {JOIN}",
}
GROUPED = {
    "of_a_join": f"SELECT o.g, CORR(o.x, i.z) AS r, COVAR_SAMP(o.d, i.y) AS c, REGR_SLOPE(o.x, o.d) AS b, "
    f"SKEWNESS(i.z) AS s, CORR(o.x, i.z) FILTER (WHERE i.y > 0) AS f {JOIN} GROUP BY o.g",
    "of_one_stream": "SELECT g, CORR(x, d) AS r, SKEWNESS(d) AS s FROM o GROUP BY g",
    "one_row": f"SELECT CORR(o.x, i.z) AS r, SKEWNESS(o.d) AS s, COUNT(*) AS n {JOIN}",
}


@pytest.fixture(scope="module")
def data():
    return tables(1)


def truths(text, data):
    text = text.replace("LEFT SEMI JOIN", "SEMI JOIN")
    with database().cursor() as connection:
        for name, table in data.items():
            connection.register(name, table)
        return connection.sql(for_duckdb(text)).fetchall()


@pytest.fixture(scope="module")
def plan():
    made = el.Workload(budget="8 KB", samples=False).stream("s", "n INT, d DECIMAL(8,2), x DOUBLE")
    for function in ORACLES:
        for pair in ("n, d", "d, n", "x, n", "x, x"):
            arguments = pair if function in PAIRS else pair.split(",")[0]
            made.query(
                f"{function}_{pair[0]}_{pair[-1]}",
                f"SELECT {function}({arguments}) FROM s WHERE n <> 3 OR n IS NULL",
            )
    return made.plan()


@given(st.lists(st.tuples(ROW, st.integers(0, 2)), max_size=8), st.lists(ROW, max_size=4))
@settings(max_examples=20)
def test_one_stream_is_exact_after_inserts_and_deletes(plan, rows, churn):
    table = pa.Table.from_pylist([row for row, _ in rows] + 2 * churn, schema=SCHEMA)
    weights = np.array([weight for _, weight in rows] + [1] * len(churn) + [-1] * len(churn), dtype=np.int64)
    state = plan.empty().update("s", table, weights)
    net = [row for row in net_rows(table, weights).to_pylist() if row["n"] != 3]
    for function, oracle in ORACLES.items():
        for pair in ("n, d", "d, n", "x, n", "x, x"):
            estimate, (one, other) = state.answer(f"{function}_{pair[0]}_{pair[-1]}"), pair.split(", ")
            truth = oracle([(row[one], row[other]) for row in net])
            assert estimate.exact
            assert estimate.value == (truth if truth is None else pytest.approx(truth, rel=1e-9, abs=1e-9)), (
                function,
                pair,
            )


def test_large_numbers_that_hardly_vary_lose_no_digit():
    random = np.random.default_rng(2)
    x, y = (1e9 + random.normal(0.0, 1e-3, 500) for _ in range(2))
    made = el.Workload(budget="8 KB").stream("s", "x DOUBLE, y DOUBLE")
    for function in ORACLES:
        made.query(function, f"SELECT {function}({'x, y' if function in PAIRS else 'x'}) FROM s")
    state = made.plan().empty().update("s", pa.table({"x": x, "y": y}))
    for function, oracle in ORACLES.items():
        found = state.answer(function)
        assert found.exact
        assert found.value == pytest.approx(oracle(list(zip(x.tolist(), y.tolist(), strict=True))), rel=1e-12)


def test_joins_are_exact_while_everything_fits(data):
    state = filled(workload("64 MB", ALONE), data)
    for name, text in ALONE.items():
        found, ((truth,),) = state.answer(name), truths(text, data)
        assert found.exact, name
        assert found.value == pytest.approx(float(truth), rel=1e-8, abs=1e-10), name


def test_joins_hold_their_intervals_by_a_sample(data):
    # 95% intervals, measured to hold 97% of the time and more; answers of one state fail together
    state = filled(workload("80 KB", ALONE), data)
    found = {name: state.answer(name) for name in ALONE}
    for each in found.values():
        assert not each.exact
    missed = [
        name
        for name, text in ALONE.items()
        if not found[name].low <= float(truths(text, data)[0][0]) <= found[name].high
    ]
    assert len(missed) <= 3, missed
    correlation = found["CORR_x_y"]
    assert 0.4 < correlation.low < correlation.high < 0.8  # columns of different relations


@pytest.mark.parametrize("budget", ["64 MB", "120 KB"])
def test_groups(data, budget):
    state = filled(workload(budget, GROUPED), data)
    for name, text in GROUPED.items():
        found = state.answer(name)
        assert found.exact == (budget == "64 MB" or name == "of_one_stream"), name
        rows = {}
        for row in truths(text, data):
            rows[row[0] if found.group_columns else None] = row[len(found.group_columns) :]
        missed = 0
        for row in found.to_arrow().to_pylist():
            truth = rows[row["g"] if found.group_columns else None]
            for column, value in zip(found.aggregates, truth, strict=True):
                near = 1e-8 * abs(value)
                missed += not row[f"{column}_low"] - near <= value <= row[f"{column}_high"] + near
        assert missed <= (0 if found.exact else 3), name


@pytest.mark.parametrize("budget", ["64 MB", "150 KB"])
def test_ad_hoc_over_explored_columns(data, budget):
    made = (
        workload(budget, {"n": f"SELECT COUNT(*) {JOIN}"}).explore("o", "g", "x", "d").explore("i", "y", "z")
    )
    state = filled(made, data)
    for text in (
        "SELECT CORR(x, d) FROM o",
        "SELECT REGR_SLOPE(d, x) FROM o WHERE g = 'g1'",
        f"SELECT CORR(o.x, i.z) {JOIN}",
        f"SELECT COVAR_SAMP(o.d, i.y) {JOIN} WHERE o.g <> 'g2'",
        f"SELECT SKEWNESS(o.d) {JOIN}",
    ):
        found, ((truth,),) = state.answer(text), truths(text, data)
        near = 1e-8 * abs(float(truth))
        assert found.exact == (budget == "64 MB")
        assert found.low - near <= float(truth) <= found.high + near, text


def test_sketches_alone_refuse_joins():
    made = el.Workload(budget="1 MB", samples=False).stream("o", STREAMS["o"]).stream("i", STREAMS["i"])
    with pytest.raises(
        el.PlanError, match="CORR, REGR_SLOPE, SKEWNESS over joins are answered by stream samples alone"
    ):
        made.query("r", f"SELECT CORR(o.x, i.z) {JOIN}")


def test_what_is_not_answered_is_refused():
    made = el.Workload(budget="1 MB").stream("o", STREAMS["o"])
    with pytest.raises(el.SqlError, match="lacks an argument"):
        made.query("r", "SELECT CORR(x) FROM o")
    with pytest.raises(el.UnsupportedQuery, match=r"KURTOSIS.*write COUNT, SUM.*SKEWNESS"):
        made.query("r", "SELECT KURTOSIS(x) FROM o")
    with pytest.raises(el.UnsupportedQuery, match="type STRING"):
        made.query("r", "SELECT CORR(x, g) FROM o")


def test_values_too_small_for_their_digits_are_not_called_exact():
    made = el.Workload(budget="8 KB").stream("s", "x DOUBLE, y DOUBLE").query("r", "SELECT CORR(x, y) FROM s")
    tiny = pa.table({"x": [1e-37, 3e-37, 9e-37], "y": [1.0, 2.0, 5.0]})
    found = made.plan().empty().update("s", tiny).answer("r")
    assert not found.exact
    assert (found.low, found.high) == (-1.0, 1.0)
    assert exact("SELECT CORR(x, y) FROM s", {"s": tiny}) > 0.99


@pytest.mark.calibration
def test_intervals_hold_over_seeds():
    # Measured: 99% of the answers and 98% of the groups here, 97% over 360 states of other data.
    chosen = [f"{f}_{a}" for f in ("COVAR_SAMP", "CORR", "REGR_SLOPE") for a in ("x_y", "d_z", "x_d")]
    queries = {name: ALONE[name] for name in (*chosen, "skewness", "skewness_of_integers", "outer")}
    coverage, groups = Coverage(), Coverage()
    for seed in range(300, 320):
        data = tables(seed)
        state = filled(workload("70 KB", queries | {"groups": GROUPED["of_a_join"]}, seed), data)
        for name, text in queries.items():
            found, ((truth,),) = state.answer(name), truths(text, data)
            assert not found.exact
            coverage.add(seed, found.low <= float(truth) <= found.high, name)
        found = state.answer("groups")
        expected = {row[0]: row[1:] for row in truths(GROUPED["of_a_join"], data)}
        for row in found.to_arrow().to_pylist():
            for column, value in zip(found.aggregates, expected[row["g"]], strict=True):
                groups.add(seed, row[f"{column}_low"] <= value <= row[f"{column}_high"], column)
    coverage.check(right=0.97)
    groups.check(right=0.97)


def test_sums_of_products_have_names_of_their_own():
    made = el.Workload(budget="8 KB").stream("s", "x DOUBLE, y INT").query("r", "SELECT CORR(x, y) FROM s")
    text = (
        made.query("b", "SELECT REGR_SLOPE(y, x) FROM s")
        .query("t", "SELECT SKEWNESS(y) FROM s")
        .plan()
        .explain()
    )
    held = re.findall(r"total (of .*)", text)
    assert len(held) == len(set(held))
    assert "of x * y" in held
    assert "of y to the power of 3" in held


def test_windows_and_panes_add_up():
    from datetime import datetime, timedelta

    random, start = np.random.default_rng(4), datetime(2026, 1, 1)
    seconds = np.sort(random.integers(0, 3600, 2000))
    table = pa.table(
        {
            "x": random.normal(0.0, 1.0, 2000),
            "y": random.normal(0.0, 1.0, 2000),
            "t": pa.array([start + timedelta(seconds=int(each)) for each in seconds], pa.timestamp("us")),
        }
    )
    made = el.Workload(budget="64 KB").stream("s", "x DOUBLE, y DOUBLE, t TIMESTAMP_NTZ", event_time="t")
    made.query("r", "SELECT CORR(x, x + y) FROM s", window="15 minutes", slide="5 minutes")
    found = made.plan().empty().update("s", table).answer("r")
    last = table.filter(pa.array((seconds >= 2400) & (seconds < 3300)))
    assert found.exact
    assert found.value == pytest.approx(exact("SELECT CORR(x, x + y) FROM last", {"last": last}), rel=1e-9)
