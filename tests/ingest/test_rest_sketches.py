"""Every row is in one place: a followed key in the dictionary, any other in the sketches of the rest.

The oracle knows the net rows. It asks the rosters which keys are followed and sketches the other rows from scratch.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eddyline as el
from tests.oracles.rest_sketches import STREAMS, check, fed, plan_of, plan_of_joins, rows_of

OF_JOINS = {"r": 3, "s": 1, "t": 1}


def test_reductions_move_dropped_rows_into_the_sketches() -> None:
    rows = rows_of(7001)
    assert check(fed(plan_of().empty(), rows).snapshot, [rows]) > 500


@settings(max_examples=5, deadline=None)
@given(st.integers(1, 9), st.lists(st.integers(5000, 5050), min_size=2, max_size=2, unique=True))
def test_merges_keep_every_row_in_one_place(batches: int, seeds: list[int]) -> None:
    parts = [rows_of(seed, 5000 + 2000 * i) for i, seed in enumerate(seeds)]
    states = [fed(plan_of().empty(), rows, batches) for rows in parts]
    total = sum(states[1:], states[0])
    check(total.snapshot, parts)
    check(el.State.from_bytes(total.to_bytes()).snapshot, parts)
    check((total - states[0]).snapshot, [*parts, parts[0]], [*(1 for _ in parts), -1])


def test_deletes_leave_no_trace_in_the_sketches() -> None:
    rows, gone = rows_of(7002), rows_of(7003)
    state = fed(fed(plan_of().empty(), rows), gone)
    keys, x, weights = gone
    fed(state, (keys, x, -weights))
    check(state.snapshot, [rows])


@settings(max_examples=3, deadline=None)
@given(st.integers(1, 4), st.lists(st.integers(5000, 5050), min_size=2, max_size=2, unique=True))
def test_sketches_of_joins_hold_the_rows_that_are_not_followed(batches: int, seeds: list[int]) -> None:
    parts = [{name: rows_of(seed + i) for i, name in enumerate(STREAMS)} for seed in seeds]
    states = []
    for part in parts:
        state = plan_of_joins().empty()
        for name, rows in part.items():
            fed(state, rows, batches, stream=name)
        states.append(state)
    total = states[0] + states[1]
    for merged in (total, states[1] + states[0], el.State.from_bytes(total.to_bytes())):
        for name, expected in OF_JOINS.items():
            check(merged.snapshot, [part[name] for part in parts], stream=name, expected=expected)
    keys, x, weights = parts[1]["r"]
    fed(total, (keys, x, -weights), batches, stream="r")
    assert check(total.snapshot, [parts[0]["r"]], stream="r", expected=OF_JOINS["r"]) > 0
    left = total - states[0]
    for name in ("s", "t"):
        check(left.snapshot, [parts[1][name]], stream=name, expected=OF_JOINS[name])


def test_panes_of_a_window_hold_every_row_once() -> None:
    state = plan_of("84 KB", window="1 hour", slide="20 minutes").empty()
    parts = [rows_of(7010 + pane, 8000) for pane in range(4)]
    for pane, rows in enumerate(parts):
        fed(state, rows, at=pane * 1_200_000_000)
    (panes,) = state.snapshot.windows.values()
    for number, pane in panes.panes.items():
        check(pane, [parts[number]])


@pytest.mark.parametrize("strings", [False, True])
def test_heavy_groups_come_with_their_values(*, strings: bool) -> None:
    kind, write = ("STRING", "late {}".format) if strings else ("BIGINT", int)
    w = el.Workload(budget="48 KB", seed=3)
    w.stream("r", f"a {kind}, b STRING, x DOUBLE")
    w.query(
        "one", "SELECT a, COUNT(*) AS n, SUM(x) AS s, AVG(x) AS m FROM r GROUP BY a ORDER BY n DESC LIMIT 3"
    )
    w.query("two", "SELECT b, a, COUNT(*) AS n FROM r GROUP BY b, a ORDER BY n DESC LIMIT 3")
    state = w.plan().empty()
    rng = np.random.default_rng(1)
    early, late = rng.integers(0, 8000, 20_000).tolist(), [9999] * 6_000
    for keys in (early, late):
        state.update(
            "r",
            {
                "a": [write(key) for key in keys],
                "b": [None if key == 9999 else "b" for key in keys],
                "x": [0.5] * len(keys),
            },
        )
    first = state.answer("one", confidence=0.999).to_arrow().to_pylist()[0]
    assert first["a"] == write(9999)
    assert not first["exact"]
    for name, right in (("n", 6_000), ("s", 3_000.0), ("m", 0.5)):
        assert first[f"{name}_low"] <= right <= first[f"{name}_high"], name
        assert abs(first[name] - right) < 0.05 * right, name
    pair = state.answer("two", confidence=0.999).to_arrow().to_pylist()[0]
    assert (pair["b"], pair["a"]) == (None, write(9999))
    assert pair["n_low"] <= 6_000 <= pair["n_high"]
    rest = state.answer("one").rest["n"]
    known = sum(
        row["n"] for row in state.answer("SELECT a, COUNT(*) AS n FROM r GROUP BY a").to_arrow().to_pylist()
    )
    assert rest.low <= 26_000 - known <= rest.high


def test_frequent_values_of_a_group_column_are_followed_ones_and_heavy_others() -> None:
    w = el.Workload(budget="16 KB", seed=3).stream("r", "a BIGINT")
    state = w.query("groups", "SELECT a, COUNT(*) AS n FROM r GROUP BY a").plan().empty()
    rng = np.random.default_rng(4)
    state.update("r", {"a": np.concatenate([np.repeat(np.arange(3), 500), rng.integers(10, 9000, 20_000)])})
    state.update("r", {"a": np.full(2_000, 9_999)})
    found = state.frequent("r", "a", top=4)  # their intervals hold for all keys together
    assert [each.value for each in found[:1]] == [9_999]
    assert {each.value for each in found} == {9_999, 0, 1, 2}
    counts = {9_999: 2_000, 0: 500, 1: 500, 2: 500}
    for each in found:
        assert each.count.low <= counts[each.value] <= each.count.high
    one = state.frequency("r", {"a": 9_999})
    assert one.low <= 2_000 <= one.high
