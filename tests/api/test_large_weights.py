"""Weights of 2^31 and more, and what equality of states means for their bytes and answers."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import eddyline as el


def workload(*queries, samples=False):
    w = el.Workload(samples=samples, budget="1 MB", seed=3)
    w.stream("r", "a BIGINT, b BIGINT").stream("s", "b BIGINT, c BIGINT")
    for number, sql in enumerate(queries):
        w.query(f"q{number}", sql)
    return w.plan().empty()


PAIRS = "SELECT COUNT(DISTINCT r.a, s.c) FROM r JOIN s ON r.b = s.b"
SEMI = "SELECT COUNT(DISTINCT r.a) FROM r WHERE r.b IN (SELECT b FROM s)"


@pytest.mark.parametrize("weight", [2**31 - 1, 2**31, -(2**31), 2**32, 2**32 + 5, -(2**40), 2**62])
@pytest.mark.parametrize("query", [PAIRS, SEMI])
def test_weights_that_distinct_counts_over_joins_cannot_tell_are_refused_and_change_nothing(weight, query):
    state = workload(query)
    state.update("s", {"b": np.array([7, 8]), "c": np.array([1, 2])})
    before = state.to_bytes()
    with pytest.raises(el.SketchError, match=r"weight of 2\^31 - 1 or more.*nothing was changed"):
        state.update("r", {"a": np.array([1, 2]), "b": np.array([7, 8])}, weights=np.array([1, weight]))
    assert state.to_bytes() == before


@pytest.mark.parametrize("weight", [2**31 - 1, 2**32, 2**62, -(2**40)])
@pytest.mark.parametrize("query", [PAIRS, SEMI])
def test_samples_without_a_synopsis_count_any_weight(weight, query):
    state = workload(query, samples=True)
    for sample in state.snapshot.layout.samples:
        assert not sample.sketches
    state.update("s", {"b": np.array([7, 8]), "c": np.array([1, 2])})
    state.update("r", {"a": np.array([1, 2]), "b": np.array([7, 8])}, weights=np.array([1, weight]))
    found = state.answer("q0")
    assert (found.value, found.exact) == (2 if weight > 0 else 1, True)


@pytest.mark.parametrize("weight", [2**31 - 2, -(2**31 - 2), 2_097_143, 2**30])
def test_the_largest_weights_below_are_read_exactly(weight):
    state = workload(PAIRS, SEMI)
    state.update("s", {"b": np.array([7, 8]), "c": np.array([1, 2])}, weights=np.array([weight, 1]))
    state.update("r", {"a": np.array([1, 2]), "b": np.array([7, 8])}, weights=np.array([1, weight]))
    for name in ("q0", "q1"):
        found = state.answer(name)
        assert found.exact
        assert found.value == 2


@pytest.mark.parametrize("weight", [2**31, 2**32, 2**32 + 5, 2**62, 2_097_143, 2**61 - 1])
def test_distinct_counts_of_a_stream_take_any_weight(weight):
    state = workload("SELECT COUNT(DISTINCT a) FROM r")
    weights = np.array([1, 1, weight])
    state.update("r", {"a": np.array([1, 2, 3]), "b": np.array([7, 8, 9])}, weights=weights)
    found = state.answer("q0")
    assert found.low <= 3 <= found.high
    assert found.value == 3 or not found.exact


def test_equal_states_answer_alike_but_for_hints():
    sql = "SELECT COUNT(*) FROM r JOIN s ON r.b = s.b"
    rng = np.random.default_rng(1)
    rows = {"a": np.arange(30_000), "b": rng.zipf(1.2, 30_000) % 10_000}
    one, other = (
        workload(sql, "SELECT COUNT(DISTINCT b) FROM r"),
        workload(sql, "SELECT COUNT(DISTINCT b) FROM r"),
    )
    one.update("r", rows)
    order = rng.permutation(30_000)
    for part in np.array_split(order, 7):
        other.update("r", {name: column[part] for name, column in rows.items()})
    for state in (one, other):
        state.update("s", {"b": np.arange(10_000), "c": np.arange(10_000)})
    assert one == other
    assert one.answer("q1") == other.answer("q1")
    assert one.answer(sql, method="hash") == other.answer(sql, method="hash")
    first, second = one.answer("q0"), other.answer("q0")
    assert first.low <= second.value <= first.high
    assert "to_bytes" in el.State.__eq__.__doc__


@pytest.mark.parametrize("end", ["t", "t GROUP BY a", "t JOIN u ON t.a = u.a"])
def test_squares_that_do_not_fit_are_refused_with_a_cast_that_does(end):
    """Ten squares of 10,000.00000 exceed 64 bits; those of a DOUBLE take more."""
    group = "a, " if end.endswith("BY a") else ""
    rows = pa.table(
        {"a": [1] * 20, "k": pa.array([Decimal(10_000 + i) for i in range(20)], pa.decimal128(20, 5))}
    )
    for measure in ("t.k", "CAST(t.k AS DOUBLE)"):
        w = el.Workload(budget="1 MB").stream("t", "a BIGINT, k DECIMAL(20,5)").stream("u", "a BIGINT")
        state = w.query("q", f"SELECT {group}VARIANCE({measure}) AS v FROM {end}").plan().empty()
        state.update("u", {"a": [1]})
        if measure == "t.k":
            with pytest.raises(el.SketchError, match="to DOUBLE"):
                state.update("t", rows)
            continue
        found = state.update("t", rows).answer("q")
        assert (found.to_arrow()["v"][0].as_py() if group else found.value) == pytest.approx(35.0)
