"""Quotients over joins in shared plans: their terms are read from equal rows, whatever sizes the planner gave."""

import numpy as np
import pytest

import eddyline as el

CHAIN = "FROM r JOIN s ON r.a = s.a JOIN t ON s.b = t.b"
WORKLOADS = [
    ({"mean": f"SELECT AVG(t.y) {CHAIN}", "other": f"SELECT AVG(r.x) {CHAIN}"}, [280_000, 400_000]),
    (
        {"mean": f"SELECT AVG(t.y) {CHAIN}", "self": "SELECT COUNT(*) FROM t u JOIN t v ON u.b = v.b"},
        [780_000],
    ),
    (
        {"mean": f"SELECT AVG(t.y) {CHAIN}", "spread": f"SELECT VARIANCE(r.x) {CHAIN}"},
        [300_000, 450_000, 500_000],
    ),
]
SHARED = {"pair": "SELECT SUM(t.y) FROM s JOIN t ON s.b = t.b", "total": f"SELECT SUM(t.y) {CHAIN}"}
CASES = [({**queries, **SHARED}, budget) for queries, budgets in WORKLOADS for budget in budgets]


def filled(queries, budget, method="skimmed"):
    w = el.Workload(samples=False, budget=budget, seed=1)
    w.stream("r", "a BIGINT, x BIGINT").stream("s", "a BIGINT, b BIGINT").stream("t", "b BIGINT, y BIGINT")
    for name, sql in queries.items():
        w.query(name, sql, method=method)
    state, rng, n = w.plan().empty(), np.random.default_rng(5), 20_000
    state.update("r", {"a": rng.zipf(1.4, n) % 20_000, "x": rng.integers(0, 100, n)})
    state.update("s", {"a": rng.zipf(1.4, n) % 20_000, "b": rng.integers(0, 20_000, n)})
    return state.update("t", {"b": rng.integers(0, 20_000, n), "y": rng.integers(0, 100, n)})


def depths(state, name):
    planned = next(each for each in state.snapshot.layout.queries if each.name == name)
    specs = state.snapshot.layout.by_id
    return {min(specs[each].spec.depth for each in term.sketches[0]) for term in planned.quantities.values()}


@pytest.mark.parametrize(("queries", "budget"), CASES)
def test_averages_in_shared_plans_are_answered_whatever_the_depths(queries, budget):
    state = filled(queries, budget)
    for name in queries:
        found = state.answer(name)
        assert found.low <= found.value <= found.high


@pytest.mark.parametrize("method", ["skimmed", "hash", "agms"])
def test_every_method_reads_the_terms_of_an_average_at_one_shape(method):
    queries = CASES[0][0]
    found = filled(queries, 60_000 if method == "agms" else 400_000, method).answer("mean")
    assert found.low <= found.value <= found.high
