"""FLOAT and DOUBLE measures: what is called exact is the sum of real numbers, rounded once; the rest holds its interval."""

from fractions import Fraction
from hashlib import md5
from itertools import product
from math import isnan

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eddyline as el
from tests.oracles.exact_sums import aggregates, exact_sum

FUNCTIONS = ("COUNT", "SUM", "AVG", "VAR_SAMP", "VAR_POP", "STDDEV_SAMP", "STDDEV_POP")
FLOATS = st.floats(-2e9, 2e9, allow_subnormal=False).filter(lambda x: x == 0.0 or abs(x) > 1e-20)
"""All of their bits are held, of their squares, too."""
ROWS = st.lists(st.tuples(st.integers(0, 3), FLOATS), max_size=12)


def one_stream(*texts, kind="DOUBLE", **options):
    """The empty state of queries over a stream s(k, x)."""
    made = el.Workload(seed=3, **options).stream("s", f"k INT, x {kind}").stream("t", "k INT, y DOUBLE")
    for text in texts:
        made.query(named(text), text)
    return made.plan().empty()


def named(text):
    """The name of a query."""
    return f"q{md5(text.encode()).hexdigest()[:12]}"


def table(rows, name="x"):
    """Rows (k, value) as a table."""
    return pa.table(
        {"k": pa.array([k for k, _ in rows], pa.int32()), name: pa.array([x for _, x in rows], pa.float64())}
    )


def assert_exactly(found, truth):
    """An answer is exact, and the float nearest to the truth."""
    assert found.exact
    assert found.value == found.low == found.high == truth


INDEX = np.arange(1000)
REPORTED = [
    ("VARIANCE", 52.5 + 0.0000013 * INDEX, 1.4e-7),
    ("STDDEV", 0.03 + 0.0009 * np.sin(INDEX), 0.0006),
    ("SUM", np.full(10**6, 0.00000149), 1.49),
    ("AVG", np.full(100, 4e-7), 4e-7),
]


@pytest.mark.parametrize(("function", "values", "about"), REPORTED, ids=[each[0] for each in REPORTED])
def test_small_values_and_small_differences_are_exact(function, values, about):
    text = f"SELECT {function}(x) FROM s"
    found = (
        one_stream(text).update("s", {"k": np.zeros(len(values), np.int32), "x": values}).answer(named(text))
    )
    names = {"VARIANCE": "VAR_SAMP", "STDDEV": "STDDEV_SAMP"}
    distinct, counts = np.unique(values, return_counts=True)
    truth = aggregates(list(zip(counts.tolist(), distinct.tolist(), strict=True)))
    assert_exactly(found, truth[names.get(function, function)])
    assert found.value == pytest.approx(about, rel=0.1)


ONE_STREAM = [f"SELECT {function}(x) FROM s" for function in FUNCTIONS]
ONE_STREAM_STATE = one_stream(*ONE_STREAM)


@given(ROWS, ROWS)
def test_one_stream_is_exact_after_inserts_and_deletes_merged_in_any_order(rows, gone):
    empty = ONE_STREAM_STATE.to_bytes()
    parts = [el.State.from_bytes(empty).update("s", table([row])) for row in rows]
    inserted = el.State.from_bytes(empty).update("s", table(rows + gone))
    deleted = inserted.update("s", table(gone), np.full(len(gone), -1))
    merged = sum(reversed(parts), el.State.from_bytes(empty))
    assert deleted == merged == el.State.from_bytes(merged.to_bytes())
    assert merged - merged == el.State.from_bytes(empty)
    truth = aggregates([(1, x) for _, x in rows])
    for function, text in zip(FUNCTIONS, ONE_STREAM, strict=True):
        assert_exactly(deleted.answer(named(text)), truth[function])


JOIN = "FROM s JOIN t ON s.k = t.k"
JOINED = [f"SELECT {function}({what}) {JOIN}" for function in FUNCTIONS for what in ("s.x", "s.x * t.y")]
JOINED_STATE = one_stream(*JOINED)


@settings(max_examples=15)
@given(ROWS, ROWS)
def test_joins_that_fit_are_exact(left, right):
    state = el.State.from_bytes(JOINED_STATE.to_bytes())
    state.update("s", table(left)).update("t", table(right, "y"))
    pairs = [(x, y) for (k, x), (other, y) in product(left, right) if k == other]
    truths = [
        aggregates([(1, x) for x, _ in pairs]),
        aggregates([(1, Fraction(x) * Fraction(y)) for x, y in pairs]),
    ]
    for text, (function, truth) in zip(JOINED, product(FUNCTIONS, truths), strict=True):
        assert_exactly(state.answer(named(text)), truth[function])


GROUPED = "SELECT s.k, " + ", ".join(f"{function}(s.x) AS {function.lower()}" for function in FUNCTIONS)
GROUPS = [f"{GROUPED} {tables} GROUP BY s.k" for tables in ("FROM s", JOIN)]
GROUPS_STATE = one_stream(*GROUPS)


@settings(max_examples=15)
@given(ROWS, ROWS)
def test_groups_that_fit_are_exact(left, right):
    state = el.State.from_bytes(GROUPS_STATE.to_bytes())
    state.update("s", table(left)).update("t", table(right, "y"))
    for text, joins in zip(GROUPS, (False, True), strict=True):
        found = state.answer(named(text)).to_arrow().to_pylist()
        for group in found:
            copies = sum(k == group["k"] for k, _ in right) if joins else 1
            truth = aggregates([(copies, x) for k, x in left if k == group["k"]])
            for function in FUNCTIONS:
                name = function.lower()
                assert group["exact"]
                assert group[name] == group[f"{name}_low"] == group[f"{name}_high"] == truth[function]
        keys = {k for k, _ in left} & ({k for k, _ in right} if joins else {k for k, _ in left})
        assert {group["k"] for group in found} == keys


def test_every_kind_of_join_is_exact():
    rng = np.random.default_rng(1)
    size = 80
    keys, others, days, ends = (rng.integers(0, top, size).tolist() for top in (15, 25, 8, 8))
    x, y = ((rng.standard_normal(size) * 10.0 ** rng.integers(-15, 8, size)).tolist() for _ in "xy")
    pairs = [(i, j) for i in range(size) for j in range(size) if keys[i] == others[j]]
    met, reached = {i for i, _ in pairs}, {j for _, j in pairs}
    later = [(i, j) for i, j in pairs if days[i] < ends[j]]
    truths = {
        "SELECT SUM(s.x) FROM s JOIN t ON s.k = t.k WHERE s.d < t.e": [x[i] for i, _ in later],
        "SELECT SUM(s.x) FROM s LEFT JOIN t ON s.k = t.k": [x[i] for i, _ in pairs]
        + [x[i] for i in range(size) if i not in met],
        "SELECT STDDEV_SAMP(t.y) FROM s LEFT JOIN t ON s.k = t.k": [y[j] for _, j in pairs],
        "SELECT VAR_POP(t.y) FROM s FULL JOIN t ON s.k = t.k": [y[j] for _, j in pairs]
        + [y[j] for j in range(size) if j not in reached],
        "SELECT AVG(s.x) FROM s LEFT ANTI JOIN t ON s.k = t.k": [x[i] for i in range(size) if i not in met],
        "SELECT SUM(x) FROM s WHERE k IN (SELECT k FROM t)": [x[i] for i in met],
        "SELECT VAR_SAMP(s.x * t.e) FROM s JOIN t ON s.k = t.k": [Fraction(x[i]) * ends[j] for i, j in pairs],
        "SELECT SUM(a.x * b.x) FROM s a JOIN s b ON a.k = b.k": [
            Fraction(x[i]) * Fraction(x[j]) for i, j in product(range(size), repeat=2) if keys[i] == keys[j]
        ],
        "SELECT SUM(a.x) FROM s a JOIN t ON a.k = t.k JOIN s b ON t.e = b.d": [
            x[i] for i, j in pairs for day in days if ends[j] == day
        ],
    }
    made = (
        el.Workload(seed=3)
        .stream("s", "k BIGINT, d BIGINT, x DOUBLE")
        .stream("t", "k BIGINT, e BIGINT, y DOUBLE")
    )
    for text in truths:
        made.query(named(text), text)
    state = made.plan().empty().update("s", pa.table({"k": keys, "d": days, "x": x}))
    state.update("t", pa.table({"k": others, "e": ends, "y": y}))
    for text, values in truths.items():
        function = text.removeprefix("SELECT ").partition("(")[0]
        assert_exactly(state.answer(named(text)), aggregates([(1, value) for value in values])[function])


def test_windows_are_exact():
    text = "SELECT SUM(x) FROM s"
    made = el.Workload(seed=3).stream("s", "x DOUBLE, at TIMESTAMP", event_time="at")
    state = made.query("q", text, window="10 minutes", slide="5 minutes").plan().empty()
    values = [0.1 * i for i in range(60)]
    at = pa.array([60_000_000 * i for i in range(60)], pa.timestamp("us", tz="UTC"))
    found = state.update("s", pa.table({"x": values, "at": at})).answer("q")
    assert_exactly(found, aggregates([(1, value) for value in values[45:55]])["SUM"])


def test_floats_and_texts_that_nobody_planned_are_exact():
    values = np.float32([0.1, 1e-7, 3.3, -2.5e6])
    state = one_stream("SELECT SUM(x) FROM s", kind="FLOAT").update(
        "s", {"k": np.int32([1, 1, 2, 2]), "x": values}
    )
    truth = aggregates([(1, float(x)) for x in values])
    assert_exactly(state.answer(named("SELECT SUM(x) FROM s")), truth["SUM"])
    asked = el.Workload(seed=1).stream("s", "k INT, x DOUBLE").explore("s", "k", "x").plan().empty()
    asked.update("s", table([(1, 0.1), (1, 0.1), (2, 1e-9)]))
    truth = aggregates([(2, 0.1), (1, 1e-9)])
    for function in FUNCTIONS:
        assert_exactly(asked.answer(f"SELECT {function}(x) FROM s"), truth[function])


def test_a_sum_that_cancels_is_exactly_zero_and_one_of_numbers_that_are_cut_off_is_not():
    text = "SELECT SUM(x) FROM s"
    state = one_stream(text, "SELECT STDDEV(x) FROM s")
    state.update("s", table([(1, 0.1), (1, 1e9), (1, -0.1), (1, -1e9)]))
    assert_exactly(state.answer(named(text)), 0.0)
    tiny = table([(1, 1e-36), (2, 1e-300)])
    state.update("s", tiny)
    found = state.answer(named(text))
    assert not found.exact
    assert found.method == "rounded"
    assert found.low < found.value < found.high < 1e-34
    assert Fraction(found.low) <= exact_sum([(1, 1e-36), (1, 1e-300)]) <= Fraction(found.high)
    assert not state.answer(named("SELECT STDDEV(x) FROM s")).exact
    assert_exactly(state.update("s", tiny, np.array([-1, -1])).answer(named(text)), 0.0)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 2), st.floats(-1e-30, 1e-30)), min_size=2, max_size=6))
def test_intervals_hold_where_numbers_are_cut_off(rows):
    wanted = [*ONE_STREAM[1:], *GROUPS[:1], JOINED[2]]
    state = (
        one_stream(*wanted).update("s", table(rows)).update("t", table([(0, 1.0), (1, 1.0), (2, 1.0)], "y"))
    )
    truth = aggregates([(1, x) for _, x in rows])
    for function, text in zip(FUNCTIONS[1:], ONE_STREAM[1:], strict=True):
        found = state.answer(named(text))
        assert found.low <= truth[function] <= found.high
    found = state.answer(named(JOINED[2]))
    assert found.low <= truth["SUM"] <= found.high
    for group in state.answer(named(GROUPS[0])).to_arrow().to_pylist():
        truth = aggregates([(1, x) for k, x in rows if k == group["k"]])
        for function in FUNCTIONS:
            name = function.lower()
            assert truth[function] is None or group[f"{name}_low"] <= truth[function] <= group[f"{name}_high"]


def skewed(rng, rows, values):
    """Keys of a skewed stream, and measures near a value."""
    return np.minimum(rng.zipf(1.3, rows), 5000).astype(np.int32), values + 1e-6 * values * rng.random(rows)


@pytest.mark.parametrize("middle", [1e-7, 3.0, 4e11])
@pytest.mark.parametrize("samples", [True, False])
def test_intervals_of_sampled_and_sketched_joins_hold(middle, samples):
    """Each of 5 answers of 6 settings holds at 99.99% but for a chance of 1e-4; seeds are fixed."""
    functions = ["SUM", "AVG"] if middle > 1e9 else ["SUM", "AVG", "VAR_POP", "STDDEV_POP"]
    texts = [f"SELECT {function}(s.x) {JOIN}" for function in functions]
    made = el.Workload(seed=3, budget="24 KB", confidence=0.9999, samples=samples)
    made.stream("s", "k INT, x DOUBLE").stream("t", "k INT, y DOUBLE")
    for text in texts:
        made.query(named(text), text)
    rng = np.random.default_rng(5)
    keys, values = skewed(rng, 20_000, middle)
    others, _ = skewed(rng, 20_000, 1.0)
    state = (
        made.plan()
        .empty()
        .update("s", {"k": keys, "x": values})
        .update("t", {"k": others, "y": np.ones(20_000)})
    )
    copies = np.bincount(others, minlength=5001)[keys]
    truth = aggregates(list(zip(copies.tolist(), values.tolist(), strict=True)))
    for function, text in zip(functions, texts, strict=True):
        found = state.answer(named(text))
        assert not found.exact
        assert found.low <= truth[function] <= found.high
        if function == "SUM":
            assert found.relative_error < 0.5


@pytest.mark.parametrize("method", ["skimmed", "hash", "agms", "document"])
@pytest.mark.parametrize("huge", [1e12, 1e18])
def test_a_huge_value_that_joins_nothing_hides_no_digits_of_the_others(method, huge):
    """Counters of several words are read in a unit of 2^-50 of the largest: what is rounded off widens the interval.

    Without skimming or where the huge value is skimmed, nothing else is left: the interval used to be 0 +- 1e-17.
    """
    made = el.Workload(seed=3, budget="200 KB", samples=False)
    made.stream("s", "k SMALLINT, x DOUBLE").stream("t", "k SMALLINT")
    made.query("q", "SELECT SUM(s.x) FROM s JOIN t ON s.k = t.k", method=method)
    state = made.plan().empty()
    for keys, values in (((4, 4, 9), (1.5, -2.5, huge)), ((4, 7), (1 / 3, 0.1))):
        state.update("s", {"k": np.array(keys, dtype=np.int16), "x": np.array(values)})
    state.update("t", {"k": np.array([4, 5, 6], dtype=np.int16)})
    answer = state.answer("q")
    assert not answer.exact
    assert answer.low <= -1.0 + 1 / 3 <= answer.high


def test_groups_that_are_followed_whole_are_exact():
    text = f"{GROUPED} {JOIN} GROUP BY s.k"
    state = one_stream(text, budget="12 KB")
    rng = np.random.default_rng(5)
    keys, values = skewed(rng, 20_000, 0.1)
    state.update("s", {"k": keys, "x": values}).update("t", {"k": keys[:500], "y": np.ones(500)})
    found = [group for group in state.answer(named(text)).to_arrow().to_pylist() if group["exact"]]
    assert found
    copies = np.bincount(keys[:500], minlength=5001)
    for group in found[:20]:
        own = values[keys == group["k"]].tolist()
        truth = aggregates([(int(copies[group["k"]]), x) for x in own])
        for function in FUNCTIONS:
            assert group[function.lower()] == truth[function]


@pytest.mark.parametrize(
    ("function", "value", "words"),
    [
        ("SUM", float("nan"), "NaN, an infinity or a value beyond 4e18, which has no sum"),
        ("SUM", -(2.0**62), "a value beyond 4e18"),
        ("VARIANCE", 2.0**31, "a value beyond 2e9, which has no variance"),
    ],
)
def test_numbers_without_a_sum_are_refused(function, value, words):
    state = one_stream(f"SELECT {function}(x) FROM s")
    with pytest.raises(el.PipelineError, match=words):
        state.update("s", table([(1, value)]))
    state.update("s", table([(1, 2.0**61 if isnan(value) else np.nextafter(value, 0.0))]))
