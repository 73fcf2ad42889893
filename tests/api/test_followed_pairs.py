"""Distinct counts over joins from followed values: exact while all fit, net of deletes, honest once sampled, ad hoc."""

import numpy as np
import pyarrow as pa
import pytest

import eddyline as el
from eddyline.answer.distinct_joins.followed import PairCount, count_followed
from eddyline.answer.distinct_joins.query import _together
from eddyline.answer.sets.expression import SetReading
from eddyline.sample.join import Join
from tests.data.distinct_joins import FORMS, R_SCHEMA, S_SCHEMA, R, S
from tests.oracles.duckdb_sql import exact

COUNTED = {
    "two_sided": "SELECT COUNT(*) FROM (SELECT DISTINCT r.a, s.c FROM r JOIN s ON r.b = s.b) WHERE c IS NOT NULL",
    "semi": "SELECT COUNT(DISTINCT r.a) FROM r JOIN s ON r.b = s.b",
    "full": (
        "SELECT COUNT(*) FROM (SELECT DISTINCT r.a, r.b, s.c FROM r JOIN s ON r.b = s.b) WHERE c IS NOT NULL"
    ),
    "keys": "SELECT COUNT(DISTINCT s.b) FROM r JOIN s ON r.b = s.b",
}


def rows_of(seed, number=4000, values=1500, counted=300):
    """Rows of both streams; a third of the values of r.b, and NULLs, meet nothing."""
    rng = np.random.default_rng(seed)
    share = np.arange(1, values + 1) ** -0.5
    b = rng.choice(values, number, p=share / share.sum())
    a, c = rng.integers(0, counted, number), rng.integers(0, counted, number)
    missing = np.arange(number) % 50 == 0
    words = [None if each % 40 == 0 else str(each) for each in c]
    return {
        "r": pa.table(
            {"a": a.astype(np.int32), "b": pa.array(b, mask=missing), "d": ["u"] * number}, schema=R_SCHEMA
        ),
        "s": pa.table(
            {
                "b": (rng.permutation(b) * 2 % values).astype(np.int32),
                "c": words,
                "d": [None if each % 3 else "u" for each in c],
            },
            schema=S_SCHEMA,
        ),
    }


def workload(budget, forms, seed=1):
    w = el.Workload(budget=budget, seed=seed)
    w.stream("r", R).stream("s", S)
    for name in forms:
        w.query(name, FORMS[name])
    return w


def filled(state, tables):
    for name, rows in tables.items():
        state.update(name, rows)
    return state


def test_every_form_is_counted_from_dictionaries_of_followed_values():
    tables = rows_of(0, number=400, values=80, counted=30)
    state = filled(workload("4 MB", FORMS).plan().empty(), tables)
    snapshot = state.snapshot
    for planned in snapshot.layout.queries:
        assert planned.shape is not None, planned.name
        join = Join(snapshot.samples[planned.sample].in_second_stage(), planned.shape)
        found = count_followed(join, planned.query, 0.95)
        assert found.low == found.value == found.high == state.answer(planned.name).value, planned.name


@pytest.mark.parametrize("seed", range(3))
def test_intervals_of_sampled_joins_hold(seed):
    tables = rows_of(seed)
    state = filled(workload("16 KB", COUNTED, seed).plan().empty(), tables)
    for name, text in COUNTED.items():
        found = state.answer(name, confidence=0.99)
        truth = exact(text, tables)
        assert not found.exact
        assert found.method == "sample"
        assert found.low <= truth <= found.high, name
        assert abs(found.value / truth - 1) < 0.5, name


def test_rows_that_came_and_went_leave_no_trace():
    tables, others = rows_of(4), rows_of(5)
    plan = workload("16 KB", COUNTED).plan()
    state = filled(plan.empty(), tables)
    once = {name: state.answer(name) for name in COUNTED}
    (before,) = state.snapshot.samples.values()
    for name, rows in others.items():
        few = rows.slice(0, 40)
        state.update(name, few)
        state.update(name, few, weights=np.full(len(few), -1))
    (after,) = state.snapshot.samples.values()
    assert after.same(before)
    assert {name: state.answer(name) for name in COUNTED} == once
    for name, rows in tables.items():
        state.update(name, rows, weights=np.full(len(rows), -1))
    for name in COUNTED:
        assert state.answer(name).value == 0, name


def test_other_queries_keep_their_dictionaries():
    """Distinct counts over joins follow values at rates of their own: other queries have the same columns without them."""
    text = "SELECT COUNT(*) FROM r JOIN s ON r.b = s.b"
    alone = workload("64 KB", ()).query("n", text).plan().layout.samples[0]
    both = workload("64 KB", ("two_sided",)).query("n", text).plan().layout.samples[0]
    shared = [each for each in both.kept if not each.apart]
    assert shared == list(alone.kept)
    assert len(both.spec.seeds) == len(alone.spec.seeds) + 1
    assert {each.stream for each in both.kept if each.apart} == {"r", "s"}


@pytest.mark.parametrize("budget", ["4 MB", "24 KB"])
def test_ad_hoc_distinct_counts_over_joins(budget):
    tables = rows_of(7)
    w = workload(budget, ())
    w.query("n", "SELECT COUNT(*) FROM r JOIN s ON r.b = s.b")
    w.explore("r", "a").explore("s", "c")
    state = filled(w.plan().empty(), tables)
    for name in ("two_sided", "semi", "rows"):
        found = state.answer(FORMS[name], confidence=0.99)
        truth = exact(COUNTED.get(name, FORMS[name]), tables)
        assert found.exact == (budget == "4 MB"), name
        assert found.low <= truth <= found.high, name
        assert found.value == truth or not found.exact


def test_both_readings_are_weighted_by_their_widths():
    own = PairCount(100.0, 90.0, 110.0, 80)
    near, wide = (SetReading(120.0, 120.0 - w, 120.0 + w, exact=False, witnesses=9) for w in (10.0, 40.0))
    found, method = _together(own, near)
    assert (found.value, method) == (110.0, "sample and join-distinct")
    assert found.high - found.value == pytest.approx(np.sqrt(50))
    assert _together(own, wide) == _together(own, None)
    assert _together(PairCount(100.0, 0.0, 900.0, 0), near) == (near, "join-distinct")
    assert _together(None, near) == (near, "join-distinct")
