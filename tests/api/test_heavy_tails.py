"""Heavy tails, the hardest that a sample is asked: joins and variances that few values carry.

Seeds are fixed; right 95% intervals would hold in 21 of 24 and more with a chance above 97%.
"""

import numpy as np
import pyarrow as pa
import pytest

import eddyline as el
from eddyline.answer.notes import HEAVY_TAIL, HEAVY_VALUE_MISSED
from tests.oracles.coverage import Coverage
from tests.oracles.duckdb_sql import exact_answers
from tests.oracles.grouped import exact_groups

pytestmark = pytest.mark.calibration
SEEDS = 24


def skewed(rng, rows, keys):
    """Keys by Zipf's law, the heavy ones in an order of their own."""
    share = 1.0 / np.arange(1, keys + 1)
    return rng.permutation(keys)[rng.choice(keys, rows, p=share / share.sum())]


def test_three_streams_on_one_key_fed_one_after_the_other():
    """Values that are heavy in later streams are let go, and what is followed by luck makes up for it in the totals.

    Products of three counts have heavy tails, so that intervals allow for values heavier than all seen. Without it intervals
    hold in 88% of such seeds, with it in 95% (200 seeds apart from these).
    """
    coverage = Coverage()
    for seed in range(80):
        rng = np.random.default_rng(seed)
        streams = {name: skewed(rng, 20_000, 8_000) for name in "abc"}
        w = el.Workload(budget="4 KB", seed=seed)
        for name in streams:
            w.stream(name, "k BIGINT")
        w.query("q", "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k JOIN c ON a.k = c.k")
        state = w.plan().empty()
        for name, keys in streams.items():
            for start in range(0, 20_000, 1_000):
                state.update(name, {"k": keys[start : start + 1_000]})
        truth = float(
            np.prod([np.bincount(keys, minlength=8_000) for keys in streams.values()], axis=0).sum()
        )
        answer = state.answer("q")
        coverage.add(seed, answer.low <= truth <= answer.high)
    coverage.check(wrong=0.82)
    assert min(coverage.shares.values()) >= 73 / 80, coverage


@pytest.mark.parametrize("tail", [2.2, 1.5])
def test_variances_of_an_explored_column_with_a_heavy_tail(tail):
    """A variance rests on the largest values, of which the sample shows few: the interval allows for larger ones above.

    With a tail of 1.5 there is no bound above, and a note says why.
    """
    coverage, unbounded = Coverage(), 0
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        x = np.minimum(rng.pareto(tail, 6_000) * 100, 10**7).astype(np.int64)
        keys = pa.array(rng.integers(0, 2_000, 6_000))
        w = el.Workload(budget="24 KB", seed=seed).stream("t", "k BIGINT, x BIGINT").stream("u", "k BIGINT")
        w.query("q", "SELECT COUNT(*) FROM t JOIN u ON t.k = u.k").explore("t", "x")
        state = (
            w.plan().empty().update("t", pa.table({"k": keys, "x": x})).update("u", {"k": np.arange(2_000)})
        )
        answer = state.answer("SELECT VAR_POP(t.x) FROM t JOIN u ON t.k = u.k")
        assert not answer.exact
        assert answer.high < np.inf or {HEAVY_TAIL, HEAVY_VALUE_MISSED} & {*answer.notes}
        unbounded += answer.high == np.inf and HEAVY_TAIL in answer.notes
        coverage.add(seed, answer.low <= x.astype(np.float64).var() <= answer.high)
    coverage.check(wrong=0.69)
    assert min(coverage.shares.values()) >= 21 / SEEDS, coverage
    assert unbounded >= 18 if tail < 2 else unbounded <= 12, unbounded


def heavy_value(seed):
    """Two streams of which 3 of 8 rows have one join value, with as many times as there are rows: too many to hold."""
    rng = np.random.default_rng(seed)

    def stream():
        b = np.concatenate([np.zeros(3_000, np.int64), rng.integers(1, 2_000, 5_000)])
        x = np.where(b == 0, 100, 10) + rng.integers(0, 5, 8_000)
        return pa.table({"b": b, "x": x, "g": rng.integers(0, 4, 8_000), "t": rng.integers(0, 10**6, 8_000)})

    return {"r": stream(), "s": stream()}


@pytest.mark.calibration
def test_answers_are_open_to_a_heavy_value_that_is_not_followed():
    """12 seeds: exact totals show that most of the join is missed, and no average, median or group leaves it out.

    A seed misses where its sample's totals happen not to show it.
    """
    join = "FROM r JOIN s ON r.b = s.b WHERE r.t < s.t"
    texts = {
        "mean": f"SELECT AVG(r.x) {join}",
        "median": f"SELECT MEDIAN(r.x) {join}",
        "groups": f"SELECT r.g, COUNT(*) AS n, AVG(r.x) AS a {join} GROUP BY r.g",
    }
    coverage = Coverage()
    for seed in range(12):
        made = heavy_value(seed)
        w = el.Workload(budget="64 KB", seed=seed)
        for name in made:
            w.stream(name, "b BIGINT, x BIGINT, g BIGINT, t BIGINT")
        for name, text in texts.items():
            w.query(name, text)
        state = w.plan().empty()
        for name, table in made.items():
            state.update(name, table)
        for name, truth in zip(
            ("mean", "median"), exact_answers([texts["mean"], texts["median"]], made), strict=True
        ):
            answer = state.answer(name)
            assert not answer.exact
            coverage.add(seed, answer.low <= truth <= answer.high, name)
        truths, groups = exact_groups(texts["groups"], made, 1), state.answer("groups")
        inside = all(
            row["n_low"] <= truths[(row["g"],)][0] <= row["n_high"]
            and row["a_low"] <= truths[(row["g"],)][1] <= row["a_high"]
            for row in groups
        )
        coverage.add(seed, inside, "groups")
        assert groups.rest["n"].low == 0
    coverage.check(wrong=0.71)
    assert min(coverage.shares.values()) >= 10 / 12, coverage


JOINED = "FROM a JOIN b ON a.k = b.k"
CROWDED = f"SELECT a.g, COUNT(*) AS n, AVG(a.x) AS v, AVG(b.y) AS w, MEDIAN(b.u) AS m {JOINED} GROUP BY a.g"
UNPLANNED = f"SELECT a.g, COUNT(*) AS n, SUM(a.x) AS v, AVG(b.y) AS w {JOINED} GROUP BY a.g"


def crowded(seed):
    """Two streams of Zipf keys whose heaviest value has three quarters of the joined rows."""
    rng = np.random.default_rng(seed)
    share = np.arange(1, 1_501) ** -1.1
    named = np.random.default_rng(99).permutation(1_500)
    left, right = (named[rng.choice(1_500, rows, p=share / share.sum())] for rows in (2_500, 1_250))
    groups = (10 * rng.random(2_500) ** 2).astype(np.int64)
    y, u = (10 * rng.pareto(2.5, 1_250)).astype(np.int64), rng.integers(0, 300, 1_250)
    a = pa.table({"k": left, "x": rng.integers(0, 100, 2_500), "g": groups})
    return {"a": a, "b": pa.table({"k": right, "y": y, "u": u})}


@pytest.mark.parametrize("planned", [True, False])
def test_groups_that_a_few_values_carry(planned):
    """40 seeds of ten groups at 8 KB, which the rows of the heaviest value alone would fill.

    The values that are followed make the averages and medians, so that they agree with them: of those planned 77% to
    82% were held. Not planned, groups knew no exact totals: 76% to 89%.
    """
    coverage = Coverage()
    for seed in range(40):
        made = crowded(seed)
        w = el.Workload(budget="8 KB", seed=seed).stream("a", "k BIGINT, x BIGINT, g BIGINT")
        w.stream("b", "k BIGINT, y BIGINT, u BIGINT")
        if planned:
            w.query("g", CROWDED).query("cross", f"SELECT COUNT(*) {JOINED} WHERE a.x < b.y")
            w.query("p", f"SELECT PERCENTILE_APPROX(b.u, 0.9) {JOINED}").query(
                "m", f"SELECT MEDIAN(a.x) {JOINED}"
            )
        else:
            w.query("p", f"SELECT COUNT(*) {JOINED}").explore("a", "x", "g").explore("b", "y", "u")
        state = w.plan().empty()
        for name, table in made.items():
            state.update(name, table)
        text = CROWDED if planned else UNPLANNED
        groups = state.answer("g" if planned else text)
        assert not groups.exact
        truths = exact_groups(text, made, 1)
        for row in groups:
            for name, truth in zip(groups.aggregates, truths[row["g"],], strict=True):
                coverage.add(seed, row[f"{name}_low"] <= truth <= row[f"{name}_high"], name)
    coverage.check()
    assert min(coverage.shares.values()) >= 0.9, coverage


TAILS = {
    "Fréchet 1.5": lambda rng, rows: 1_000 * rng.exponential(size=rows) ** (-1 / 1.5),
    "log-logistic 1.4": lambda rng, rows: 1_000 * (1 / rng.random(rows) - 1) ** (1 / 1.4),
    "lognormal 2": lambda rng, rows: rng.lognormal(5, 2, rows),
    "Pareto 1.3": lambda rng, rows: 1_000 * rng.pareto(1.3, rows),
    "signed Pareto 1.5": lambda rng, rows: 1_000 * rng.pareto(1.5, rows) * rng.choice([-1, 1], rows),
}
LIGHT = {  # the half-widths of SUM, AVG and VARIANCE over their values, as they were without an allowance for tails
    "uniform": (lambda rng, rows: rng.integers(0, 1_000, rows), 0.050, 0.050, 0.080),
    "normal": (lambda rng, rows: rng.normal(5_000, 1_000, rows), 0.018, 0.017, 0.12),
    "exponential": (lambda rng, rows: rng.exponential(1_000, rows), 0.080, 0.080, 0.43),
    "lognormal 1": (lambda rng, rows: rng.lognormal(6, 1, rows), 0.095, 0.095, 1.2),
}
AGGREGATES = {
    "SUM": lambda x: x.sum(),
    "AVG": lambda x: x.mean(),
    "VARIANCE": lambda x: x.var(ddof=1),
    "STDDEV": lambda x: x.std(ddof=1),
}


def explored_measure(make, seed):
    """A state that explores a column of a sampled stream, and the column."""
    rng = np.random.default_rng([7, seed])
    x = np.clip(make(rng, 12_000), -1e15, 1e15).astype(np.int64)
    w = el.Workload(budget="32 KB", seed=seed).stream("t", "k BIGINT, x BIGINT").stream("u", "k BIGINT")
    w.query("q", "SELECT COUNT(*) FROM t JOIN u ON t.k = u.k").explore("t", "x")
    state = w.plan().empty().update("t", {"k": rng.integers(0, 4_000, 12_000), "x": x})
    return state.update("u", {"k": np.arange(4_000)}), x.astype(np.float64)


@pytest.mark.parametrize("tail", TAILS)
def test_aggregates_of_an_explored_column_hold_or_are_unbounded(tail):
    """40 seeds: SUM held in 85% to 92% of Pareto values, VARIANCE in 55% to 70%, with ends that said otherwise."""
    coverage, unbounded = Coverage(together=0.5), dict.fromkeys(AGGREGATES, 0)
    for seed in range(40):
        state, x = explored_measure(TAILS[tail], seed)
        for name, truth in AGGREGATES.items():
            answer = state.answer(f"SELECT {name}(x) FROM t")
            coverage.add(seed, answer.low <= truth(x) <= answer.high, name)
            unbounded[name] += answer.high == np.inf
            assert (np.inf in (-answer.low, answer.high)) == any(
                "largest values dominate" in n for n in answer.notes
            )
            for note in answer.notes:
                assert "join may be empty" not in note
    coverage.check(wrong=0.81)
    assert min(coverage.shares.values()) >= 36 / 40, coverage
    assert unbounded["VARIANCE"] >= 20  # there is no bound for a sum of squares of such values
    assert unbounded["SUM"] <= 10


@pytest.mark.parametrize("kind", LIGHT)
def test_light_tails_stay_as_narrow_as_they_were(kind):
    """Medians of 16 seeds, which differ by about 3% from other seeds, and 20% for the variance of lognormal values."""
    make, *most = LIGHT[kind]
    found = []
    for seed in range(16):
        state, _ = explored_measure(make, seed)
        answers = [state.answer(f"SELECT {name}(x) FROM t") for name in ("SUM", "AVG", "VARIANCE")]
        found.append([each.relative_error for each in answers])
    assert np.all(np.median(found, axis=0) <= most), np.median(found, axis=0)


def test_variances_of_groups_hold_or_are_unbounded():
    """20 seeds of eight groups: the tail of the column says that no group's variance has a bound; 51% held."""
    text = "SELECT g, VARIANCE(x) AS v FROM t GROUP BY g"
    coverage = Coverage(together=0.4)
    for seed in range(20):
        rng = np.random.default_rng([9, seed])
        made = pa.table(
            {
                "k": rng.integers(0, 4_000, 12_000),
                "x": (1_000 * rng.pareto(1.4, 12_000)).astype(np.int64),
                "g": rng.integers(0, 8, 12_000),
            }
        )
        w = (
            el.Workload(budget="32 KB", seed=seed)
            .stream("t", "k BIGINT, x BIGINT, g BIGINT")
            .stream("u", "k BIGINT")
        )
        w.query("q", "SELECT COUNT(*) FROM t JOIN u ON t.k = u.k").explore("t", "x", "g")
        state = w.plan().empty().update("t", made).update("u", {"k": np.arange(4_000)})
        groups, truth = state.answer(text), exact_groups(text, {"t": made}, 1)
        for row in groups:
            coverage.add(seed, row["v_low"] <= truth[row["g"],][0] <= row["v_high"])
    coverage.check(wrong=0.77)
    assert min(coverage.shares.values()) >= 0.93, coverage


@pytest.mark.parametrize("tail", ["Pareto 1.3", "signed Pareto 1.5", "lognormal 2"])
def test_sums_and_averages_of_groups_have_room_for_larger_values(tail):
    """20 seeds of eight groups of an explored column: 84% to 92% held."""
    text = "SELECT t.g AS g, SUM(t.x) AS s, AVG(t.x) AS a FROM t JOIN u ON t.k = u.k GROUP BY t.g"
    coverage = Coverage()
    for seed in range(20):
        rng = np.random.default_rng([11, seed])
        x = np.clip(TAILS[tail](rng, 9_000), -1e15, 1e15).astype(np.int64)
        made = pa.table({"k": rng.integers(0, 3_000, 9_000), "x": x, "g": rng.integers(0, 8, 9_000)})
        w = el.Workload(budget="24 KB", seed=seed).stream("t", "k BIGINT, x BIGINT, g BIGINT")
        w.stream("u", "k BIGINT").query("q", "SELECT COUNT(*) FROM t JOIN u ON t.k = u.k")
        state = w.explore("t", "x", "g").plan().empty().update("t", made).update("u", {"k": np.arange(3_000)})
        truth = exact_groups(text, {"t": made, "u": pa.table({"k": np.arange(3_000)})}, 1)
        for row in state.answer(text):
            for name, right in zip("sa", truth[row["g"],], strict=True):
                coverage.add(seed, row[f"{name}_low"] <= right <= row[f"{name}_high"], name)
    coverage.check(right=0.97)  # measured 96% to 99%
    assert float(np.mean([*coverage.shares.values()])) >= 0.95, coverage
