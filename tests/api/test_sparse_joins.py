"""Plans with statistics of streams that have no, or almost no, key in common."""

from math import inf, isinf

import numpy as np
import pytest

import eddyline as el

CHAIN = "FROM r JOIN s ON r.a = s.a JOIN t ON s.b = t.b"
POOL = [
    "SELECT COUNT(*) FROM r JOIN s ON r.a = s.a",
    "SELECT SUM(t.y) FROM s JOIN t ON s.b = t.b",
    "SELECT AVG(r.x) FROM r JOIN s ON r.a = s.a",
    f"SELECT COUNT(*) {CHAIN}",
    f"SELECT AVG(t.y) {CHAIN}",
    "SELECT COUNT(*) FROM r r1 JOIN r r2 ON r1.a = r2.a",
]


def workload(rng, budget=None):
    w = el.Workload(
        samples=False,
        budget=budget or int(rng.choice([100_000, 400_000, 1_000_000])),
        seed=int(rng.integers(99)),
    )
    w.stream("r", "a BIGINT, x BIGINT").stream("s", "a BIGINT, b BIGINT").stream("t", "b BIGINT, y BIGINT")
    for i in rng.choice(len(POOL), size=rng.integers(1, 4), replace=False):
        w.query(f"q{i}", POOL[i])
    return w


def streams(rng):
    """Three streams in ranges of their own, with 0, 1 or 5 values in common."""
    n, common = int(rng.choice([200, 3000, 20_000])), int(rng.choice([0, 1, 5]))
    apart = n + int(rng.choice([0, n, 10 * n]))

    def values(start):
        drawn = rng.zipf(1.3, n) % n if rng.random() < 0.3 else rng.integers(0, n, n)
        found = drawn + start
        found[:common] = -1 - np.arange(common)
        return found

    return {
        "r": {"a": values(0), "x": rng.integers(0, 100, n)},
        "s": {"a": values(apart), "b": values(0)},
        "t": {"b": values(apart), "y": rng.integers(0, 100, n)},
    }


def filled(plan, tables):
    state = plan.empty()
    for stream, table in tables.items():
        state.update(stream, table)
    return state


def relative_half(found):
    if found.value is None or found.exact or found.high == found.low:
        return 0.0
    return max(found.high - found.value, found.value - found.low) / abs(found.value) if found.value else inf


@pytest.mark.calibration
@pytest.mark.parametrize("seed", range(16))
def test_streams_without_common_keys_are_planned_and_no_error_is_promised_that_is_not_kept(seed):
    rng = np.random.default_rng(seed)
    w, tables = workload(rng), streams(rng)
    statistics = filled(w.analysis(budget=str(rng.choice(["1 MB", "8 MB"]))), tables).statistics()
    plan = w.plan(statistics=statistics)
    state = filled(plan, tables)
    for name, error in plan.expected_errors().items():
        assert error >= 0
        assert relative_half(state.answer(name)) <= 4 * error + 0.02


@pytest.mark.parametrize("query", POOL[:3])
def test_disjoint_ranges_plan_though_their_histograms_have_nothing_in_common(query):
    w = el.Workload(samples=False, budget=100_000, seed=3)
    w.stream("r", "a BIGINT, x BIGINT").stream("s", "a BIGINT, b BIGINT").stream("t", "b BIGINT, y BIGINT")
    w.query("q", query)
    rng, n = np.random.default_rng(1), 20_000
    tables = {
        "r": {"a": rng.integers(0, n, n), "x": rng.integers(0, 100, n)},
        "s": {"a": rng.integers(10 * n, 11 * n, n), "b": rng.integers(0, n, n)},
        "t": {"b": rng.integers(10 * n, 11 * n, n), "y": rng.integers(0, 100, n)},
    }
    statistics = filled(w.analysis(), tables).statistics()
    plan = w.plan(statistics=statistics)
    assert isinf(plan.expected_errors()["q"])
    assert "expected error: not known" in plan.explain()
    assert "expected error not known" in plan.explain("mermaid")
    found = filled(plan, tables).answer("q")
    assert found.value is None or found.low <= 0 <= found.high
    with pytest.raises(el.PlanError, match="no relative error to plan for: give a budget instead"):
        workload_for_error(query).plan(statistics=statistics)


def workload_for_error(query):
    w = el.Workload(samples=False, error=0.05, seed=3)
    w.stream("r", "a BIGINT, x BIGINT").stream("s", "a BIGINT, b BIGINT").stream("t", "b BIGINT, y BIGINT")
    return w.query("q", query)
