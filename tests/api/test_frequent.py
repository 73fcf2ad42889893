"""Frequent keys: found with their values where keys hold them, under deletes, with intervals that hold."""

import numpy as np
import pytest

import eddyline as el


@pytest.fixture(scope="module")
def state():
    workload = el.Workload(budget="200 KB", seed=1, samples=False).stream("s", "k BIGINT, name STRING, x INT")
    workload.query("ints", "SELECT COUNT(*) FROM s a JOIN s b USING (k)")
    workload.query("names", "SELECT COUNT(*) FROM s a JOIN s b USING (name) WHERE a.x > 5 AND b.x > 5")
    rng = np.random.default_rng(2)
    keys = np.concatenate([np.repeat(np.arange(10), 3000), rng.integers(0, 10**12, 30_000)])
    x = np.tile([1, 9], len(keys) // 2).astype(np.int32)
    names = np.char.add("n", keys.astype(str))
    built = workload.plan().empty().update("s", {"k": keys, "name": names, "x": x})
    gone = {"k": np.full(3000, 3), "name": np.full(3000, "n3"), "x": np.tile([1, 9], 1500).astype(np.int32)}
    return built.update("s", gone, np.full(3000, -1))


def test_heavy_hitters_are_found_and_deleted_ones_are_not(state):
    found = state.frequent("s", "k", threshold=1000)
    assert sorted(each.value for each in found) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    for each in found:
        assert each.count.low <= 3000 <= each.count.high
    assert len(state.frequent("s", "k", top=4)) == 4


def test_strings_are_found_as_keys_under_the_predicate_of_the_sketch(state):
    found = state.frequent("s", "name", where="x > 5", threshold=800)
    assert len(found) == 9
    assert {each.value for each in found} == {None}
    for each in found:
        assert each.count.low <= 1500 <= each.count.high
    one = state.frequency("s", {"name": "n7"}, where="x > 5")
    assert one.low <= 1500 <= one.high


def test_point_frequencies(state):
    assert state.frequency("s", {"k": 5}).low <= 3000 <= state.frequency("s", {"k": 5}).high
    assert state.frequency("s", {"k": 3}).low == 0
    wider = state.frequency("s", {"k": 5}, confidence=0.999)
    assert wider.high - wider.low > state.frequency("s", {"k": 5}).high - state.frequency("s", {"k": 5}).low


def test_what_is_not_kept_is_refused(state):
    with pytest.raises(el.PlanError, match="kept are"):
        state.frequent("s", "x")
    with pytest.raises(el.PlanError, match="kept are"):
        state.frequent("s", "name")
    with pytest.raises(el.PlanError, match="NULL"):
        state.frequency("s", {"k": None})
    with pytest.raises(el.SqlError, match="no column"):
        state.frequent("s", "nope")
    with pytest.raises(el.PlanError, match="columns"):
        state.frequent("s")
    for top in (0, -1, "3"):
        with pytest.raises(el.PlanError, match="number of keys"):
            state.frequent("s", "k", top=top)
    for value in (1.5, "5", 2**80):
        with pytest.raises(el.PlanError, match="is not a valid BIGINT for column 'k'"):
            state.frequency("s", {"k": value})


@pytest.mark.parametrize("confidence", [0, 1, 1 - 1e-16, -1, float("nan"), "0.95"])
def test_a_confidence_that_no_interval_has_is_refused_everywhere(state, confidence):
    for asked in (
        lambda: state.frequency("s", {"k": 5}, confidence=confidence),
        lambda: state.frequent("s", "k", confidence=confidence),
        lambda: state.answer("ints", confidence=confidence),
        lambda: el.Workload(confidence=confidence),
    ):
        with pytest.raises(el.PlanError, match=r"between 0\.5 and 1"):
            asked()


@pytest.mark.parametrize("samples", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_where_no_key_is_frequent_none_is_called_so(samples, seed):
    asked = el.Workload(budget="8 KB", seed=seed, samples=samples).stream("s", "k BIGINT")
    state = asked.query("q", "SELECT COUNT(*) FROM s a JOIN s b USING (k)").plan().empty()
    state.update("s", {"k": np.arange(50_000)})
    assert state.frequent("s", "k") == []
    for each in state.frequent("s", "k", top=10):
        assert each.count.low <= 1 <= each.count.high
