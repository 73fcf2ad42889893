"""Rows that no query counts are not held, and nothing is answered as if they were."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eddyline as el

SCHEMA = "k BIGINT, x INT, s STRING"
JOIN = "FROM a JOIN b ON a.k = b.k"
FILTERED = f"SELECT COUNT(*) {JOIN} WHERE a.x < 5 AND b.s = 'u'"


def rows(rng, number):
    return pa.table(
        {
            "k": rng.integers(0, 50, number),
            "x": pa.array(rng.integers(0, 100, number), pa.int32(), mask=rng.random(number) < 0.1),
            "s": rng.choice(["u", "v", "w"], number),
        }
    )


def workload(*queries, explore=False, budget="1 MB"):
    w = el.Workload(budget=budget, seed=2).stream("a", SCHEMA).stream("b", SCHEMA)
    for number, text in enumerate(queries):
        w.query(f"q{number}", text)
    return w.explore("a", "x") if explore else w


def filled(plan, number=4_000):
    rng = np.random.default_rng(1)
    return plan.empty().update("a", rows(rng, number)).update("b", rows(rng, number))


def test_a_filter_saves_the_memory_of_what_it_excludes():
    some = filled(workload(FILTERED.replace("COUNT(*)", "SUM(a.x)")).plan())
    every = filled(workload(f"SELECT SUM(a.x) {JOIN}").plan())
    counted = sum(len(each) for sample in some.snapshot.samples.values() for each in sample.dictionaries)
    everything = sum(len(each) for sample in every.snapshot.samples.values() for each in sample.dictionaries)
    assert counted <= everything
    for sample in some.snapshot.samples.values():
        for each in sample.dictionaries:
            assert bool(np.logical_or.reduce([each.flag(f) for f in range(each.spec.flags)]).all())


def test_what_would_count_rows_that_are_not_held_is_refused():
    state = filled(workload(FILTERED).plan())
    assert state.answer(FILTERED).exact
    with pytest.raises(el.PlanError, match=r"rows of stream '[ab]' that no planned query counts.*w\.explore"):
        state.answer(f"SELECT COUNT(*) {JOIN}")
    with pytest.raises(el.PlanError):
        state.answer(f"SELECT COUNT(*) {JOIN} WHERE a.x < 5")


def test_explored_streams_hold_every_row():
    texts = (FILTERED, f"SELECT COUNT(*) {JOIN} WHERE b.s = 'u'")
    state = filled(workload(*texts, explore=True).plan())
    every = filled(workload(f"SELECT COUNT(*) {JOIN} WHERE a.x < 50 AND b.s = 'u'").plan())
    found = state.answer(f"SELECT COUNT(*) {JOIN} WHERE a.x < 50 AND b.s = 'u'")
    assert found.exact
    assert found.value == every.answer("q0").value


def test_the_frequency_of_a_key_counts_every_row_or_none_is_told_as_exact():
    state = filled(workload(FILTERED).plan())
    table = rows(np.random.default_rng(1), 4_000)
    truth = int((np.asarray(table["k"]) == 7).sum())
    try:
        found = state.frequency("a", {"k": 7})
    except el.PlanError:
        return
    assert not found.exact or found.value == truth


@given(st.lists(st.tuples(st.sampled_from([1, -1]), st.integers(0, 3), st.integers(0, 9)), max_size=30))
def test_states_are_functions_of_net_rows_whatever_is_filtered(changes):
    plan = workload(FILTERED, f"SELECT SUM(a.x) {JOIN} WHERE a.x BETWEEN 3 AND 7").plan()
    at_once, one_by_one = plan.empty(), plan.empty()
    table = pa.table(
        {
            "k": pa.array([k for _, k, _ in changes], pa.int64()),
            "x": pa.array([x for _, _, x in changes], pa.int32()),
            "s": pa.array(["u"] * len(changes), pa.string()),
        }
    )
    weights = np.array([weight for weight, _, _ in changes], dtype=np.int64)
    at_once.update("a", table, weights)
    for place in reversed(range(len(changes))):
        one_by_one.update("a", table.slice(place, 1), weights[place : place + 1])
    assert at_once == one_by_one
