"""Quantiles, MIN and MAX of columns of every type: dates, times, texts, truth values, floats, wide decimals."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import inf, isnan, nan

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import eddyline as el
from tests.data.changes import inserted_and_deleted
from tests.data.groups import plan_of, with_nulls
from tests.oracles.coverage import Coverage
from tests.oracles.duckdb_sql import database

COLUMNS = {
    "day": ("DATE", pa.date32(), [date(1890, 1, 3), date(1969, 12, 31), date(2024, 2, 29), date(2200, 5, 6)]),
    "moment": ("TIMESTAMP", pa.timestamp("us", "UTC"), [datetime(y, 3, 4, 5, 6, 7, 8, UTC) for y in (1900, 1969, 2030)]),
    "clock": ("TIMESTAMP_NTZ", pa.timestamp("us"), [datetime(y, 3, 4, 5, 6, 7, 8) for y in (1900, 1969, 2030)]),
    "word": ("STRING", pa.string(), ["", "Z", "a", "ab", "é", "ß", "\U0001f600", "\uffff"]),
    "code": ("BINARY", pa.binary(), [b"", b"\x00", b"a", b"\x7f", b"\xff"]),
    "flag": ("BOOLEAN", pa.bool_(), [True, False]),
    "ratio": ("DOUBLE", pa.float64(), [-inf, -1e300, -0.5, 0.1, 1e-300, 7.0, inf, nan]),
    "single": ("FLOAT", pa.float32(), [-2.5, 0.1, 3e30]),
    "sum": ("DECIMAL(30,4)", pa.decimal128(30, 4), [Decimal("-12345678901234567890.1234"), Decimal("0.5"), Decimal(7)]),
}  # fmt: skip
STREAMS = {
    "t": "k BIGINT, g INT, " + ", ".join(f"{name} {kind[0]}" for name, kind in COLUMNS.items()),
    "u": "k BIGINT, h INT",
}
ENDS = {
    name: f"SELECT g, MIN({name}) AS lo, MAX({name}) AS hi, COUNT(*) AS n FROM t GROUP BY g"
    for name in COLUMNS
}
OF_ORDER = ("day", "moment", "clock", "single", "sum")
QUANTILES = {
    f"{name}_{int(10 * share)}": f"SELECT g, PERCENTILE_APPROX({name}, {share}) AS p FROM t GROUP BY g"
    for name in OF_ORDER
    for share in (0.4,)
}
QUERIES = {
    **ENDS,
    **QUANTILES,
    "joined": "SELECT u.h, MIN(t.word) AS w, MAX(t.day) AS d, PERCENTILE_APPROX(t.moment, 0.5) AS a FROM t JOIN u "
    "ON t.k = u.k GROUP BY u.h",
    "between": "SELECT g, MEDIAN(single) AS m, PERCENTILE(single, 0.3) AS q FROM t GROUP BY g",
}


def rows(rng, number, keys=20, *, with_nan=True):
    made = {
        "k": with_nulls(rng, rng.integers(0, keys, number), pa.int64()),
        "g": pa.array(rng.integers(0, 4, number), pa.int32()),
    }
    for name, (_, kind, values) in COLUMNS.items():
        used = [value for value in values if with_nan or str(value) != "nan"]
        chosen = [used[i] for i in rng.integers(0, len(used), number)]
        made[name] = with_nulls(rng, chosen, kind, 0.2)
    return pa.table(made)


def others(rng, number, keys=20):
    return pa.table(
        {"k": pa.array(rng.integers(0, keys, number)), "h": pa.array(rng.integers(0, 3, number), pa.int32())}
    )


def exact_rows(text, tables):
    """The rows of DuckDB's answer, the first column to the others, in Python's types."""
    text = text.replace("PERCENTILE_APPROX", "quantile_disc").replace("PERCENTILE(", "quantile_cont(")
    text = text.replace("(single, 0.3)", "(single::DOUBLE, 0.3)").replace(
        "MEDIAN(single)", "MEDIAN(single::DOUBLE)"
    )
    with database().cursor() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        table = connection.sql(text).to_arrow_table()
    return {
        first: rest for first, *rest in zip(*(column.to_pylist() for column in table.columns), strict=True)
    }


def assert_equal(found, wanted, about):
    """Equal values of one type; NaN is itself, and times compare as moments."""
    if isinstance(wanted, float) and isnan(wanted):
        assert isnan(found), about
    elif isinstance(wanted, float) and isinstance(found, float):
        assert found == pytest.approx(wanted, rel=1e-12), about
    else:
        assert found == wanted, about
        assert isinstance(found, type(wanted)), about


@given(seed=st.integers(0, 2**30), number=st.sampled_from([0, 1, 12, 200]))
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_type_is_exact_while_everything_is_held(seed, number):
    """Deletes, NULLs, merged and stored states among it; the answers' columns have the types of SQL's."""
    rng = np.random.default_rng(seed)
    made = {"t": rows(rng, number, with_nan=False), "u": others(rng, number)}  # the oracle distinguishes NaN
    left, right, net = inserted_and_deleted(rng, PLAN, made, 0.4)
    state = el.State.from_bytes((right + left).to_bytes())
    for name, text in QUERIES.items():
        groups, truth = state.answer(name), exact_rows(text, net)
        assert groups.exact, name
        printed = {row[groups.group_columns[0]]: [row[each] for each in groups.aggregates] for row in groups}
        assert printed.keys() == truth.keys(), name
        for group, values in truth.items():
            for found, wanted in zip(printed[group], values, strict=True):
                assert_equal(found, wanted, (name, group))


PLAN = plan_of(QUERIES, streams=STREAMS)


def test_the_table_has_the_types_of_the_columns():
    state = PLAN.empty().update("t", rows(np.random.default_rng(1), 50))
    for name, (_, kind, _) in COLUMNS.items():
        wanted = pa.float64() if pa.types.is_floating(kind) else kind
        table = state.answer(name).to_arrow()
        assert [table.schema.field(each).type for each in ("lo", "lo_low", "hi_high")] == [wanted] * 3


ONE = {
    "day": ("MIN(day)", date(1890, 1, 3), "1890-01-03"),
    "moment": ("MAX(moment)", datetime(2030, 3, 4, 5, 6, 7, 8, UTC), "2030-03-04 05:06:07.000008+00:00"),
    "word": ("MAX(word)", "\U0001f600", "\U0001f600"),
    "code": ("MAX(code)", b"\xff", "X'FF'"),
    "flag": ("MIN(flag)", False, "false"),
    "ratio": ("MIN(ratio)", -inf, "-Infinity"),
    "sum": ("MIN(sum)", Decimal("-12345678901234567890.1234"), "-12,345,678,901,234,567,890.1234"),
}


@pytest.mark.parametrize("name", ONE)
def test_one_value_is_told_in_its_own_type(name):
    aggregate, value, shown = ONE[name]
    state = plan_of({"q": f"SELECT {aggregate} FROM t"}, streams=STREAMS).empty()
    assert state.answer("q").value is None
    estimate = state.update("t", rows(np.random.default_rng(2), 400)).answer("q")
    assert estimate.exact
    assert (estimate.value, type(estimate.value)) == (value, type(value))
    assert str(estimate) == f"{shown} (exact)"
    assert shown.replace("'", "&#x27;") in estimate._repr_html_()
    assert estimate.relative_error == 0.0
    assert "q: exact" in state.explain()


def test_a_text_is_escaped_where_it_is_shown_as_html():
    table = rows(np.random.default_rng(2), 3).set_column(5, "word", pa.array(["<b>", "<b>", "<b>"]))
    estimate = (
        plan_of({"q": "SELECT MAX(word) FROM t"}, streams=STREAMS).empty().update("t", table).answer("q")
    )
    assert "&lt;b&gt;" in estimate._repr_html_()


def test_groups_are_ordered_by_values_of_every_type():
    table = rows(np.random.default_rng(4), 300)
    for name in COLUMNS:
        text = f"SELECT k, MAX({name}) AS v FROM t WHERE k IS NOT NULL GROUP BY k ORDER BY v DESC, k LIMIT 4"
        found = plan_of({"q": text}, streams=STREAMS).empty().update("t", table).answer("q")
        truth = exact_rows(text.replace("DESC,", "DESC NULLS LAST,"), {"t": table})
        assert [row["k"] for row in found] == list(truth), name
        assert {row["selected"] for row in found} == {"in"}


def days(rng, number):
    """Many days, of which a small budget holds a sample."""
    table = rows(rng, number)
    spread = [date(2000, 1, 1) + timedelta(days=int(x)) for x in 3_000 * rng.random(number) ** 2]
    return table.set_column(2, "day", pa.array(spread))


def test_sampled_quantiles_of_days_are_days_with_intervals():
    """12 seeds of 4 groups and 3 shares."""
    coverage, closed = Coverage(), 0
    for seed in range(12):
        table = days(np.random.default_rng(seed), 5_000)
        for share in (0.1, 0.5, 0.9):
            text = f"SELECT g, PERCENTILE_APPROX(day, {share}) AS p FROM t GROUP BY g"
            groups = plan_of({"q": text}, "10 KB", STREAMS).empty().update("t", table).answer("q")
            truth = exact_rows(text, {"t": table})
            assert not groups.exact
            assert groups.to_arrow().schema.field("p_low").type == pa.date32()
            for row in groups:
                assert isinstance(row["p"], date)
                low, high = row["p_low"] or date.min, row["p_high"] or date.max
                coverage.add(seed, low <= truth[row["g"]][0] <= high, share)
                closed += row["p_low"] is not None and row["p_high"] is not None
    coverage.check(wrong=0.78)
    assert closed >= 0.8 * coverage.trials, coverage


def test_an_end_without_a_bound_is_none_and_said_to_be_unbounded():
    table = days(np.random.default_rng(3), 4_000)
    state = plan_of({"q": "SELECT PERCENTILE_APPROX(day, 0.99999) FROM t"}, "4 KB", STREAMS).empty()
    found = state.update("t", table).answer("q")
    assert found.high is None
    assert isinstance(found.low, date)
    assert ".. unbounded]" in str(found)
    assert "to unbounded" in found._repr_html_()
    assert found.relative_error == inf
    assert f"q: from {found.low} to unbounded at 95%" in state.explain()


@pytest.mark.parametrize(
    ("column", "offer"), [("day", "ask PERCENTILE_APPROX"), ("word", "plan with a larger")]
)
def test_a_sample_refuses_min_and_max_and_offers_a_quantile_where_there_is_one(column, offer):
    table = days(np.random.default_rng(3), 4_000)
    words = pa.array([f"w{x}" for x in range(4_000)])
    table = table.set_column(5, "word", words)
    state = plan_of({"q": f"SELECT MAX({column}) FROM t"}, "4 KB", STREAMS).empty().update("t", table)
    with pytest.raises(el.PlanError, match=f"of the missing rows is unknown: {offer}"):
        state.answer("q")


def test_explored_columns_of_every_type_have_ends_and_quantiles():
    table = rows(np.random.default_rng(8), 200)
    w = el.Workload(budget="8 MB", seed=1)
    w.stream("t", STREAMS["t"]).query("q", "SELECT COUNT(DISTINCT g) FROM t").explore("t", "g", *COLUMNS)
    state = w.plan().empty().update("t", table)
    for text in [*ENDS.values(), *QUANTILES.values()]:
        found, truth = state.answer(text), exact_rows(text, {"t": table})
        for row in found:
            for name, wanted in zip(found.aggregates, truth[row["g"]], strict=True):
                assert_equal(row[name], wanted, text)


def test_deletes_that_come_before_their_inserts_do_not_make_values():
    """A row of t and a row of u are each deleted first: -1 times -1 is no row of the join."""
    plan = plan_of({"q": "SELECT MIN(t.word) FROM t JOIN u ON t.k = u.k"}, streams=STREAMS)
    first = rows(np.random.default_rng(1), 2)
    first = first.set_column(0, "k", pa.array([1, 2])).set_column(5, "word", pa.array(["a", "b"]))
    second = pa.table({"k": pa.array([1, 2]), "h": pa.array([0, 0], pa.int32())})
    signs = np.array([-1, 1])
    state = plan.empty().update("t", first, signs).update("u", second, signs)
    found = state.answer("q")
    assert found.value == "b"
    assert any("2 elements have a negative net count" in note for note in found.notes), found.notes
    state.update("t", first.slice(0, 1), np.array([2])).update("u", second.slice(0, 1), np.array([2]))
    assert (state.answer("q").value, state.answer("q").notes) == ("a", ())


def test_groups_that_only_order_or_select_by_a_detail_do_not_show_it():
    table = rows(np.random.default_rng(1), 50)
    text = "SELECT g, COUNT(*) AS n FROM t GROUP BY g HAVING COUNT(DISTINCT word) > 1 ORDER BY MAX(day) DESC"
    found = plan_of({"q": text}, streams=STREAMS).empty().update("t", table).answer("q")
    assert found.to_arrow().column_names == ["g", "n", "n_low", "n_high", "exact", "selected"]


def test_a_limit_by_a_sampled_quantile_is_undecided_where_intervals_overlap():
    """It was said to be certain, whatever the intervals were."""
    table = days(np.random.default_rng(3), 4_000)
    text = "SELECT g, PERCENTILE_APPROX(day, 0.5) AS p FROM t GROUP BY g ORDER BY p DESC LIMIT 2"
    found = plan_of({"q": text}, "8 KB", STREAMS).empty().update("t", table).answer("q")
    assert not found.exact
    assert "undecided" in {row["selected"] for row in found}
