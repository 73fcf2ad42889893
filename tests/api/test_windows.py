"""Windows over event time: held to an exact oracle, in any order, in parts, late rows by the stated rule."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

import eddyline as el
from eddyline.plan.windows import parse_window
from tests.data.windows import MINUTE, TABLES, oracle, plan, rows


def test_answers_are_those_of_the_last_complete_window():
    state = plan().empty()
    seen = {"a": [], "b": []}
    for minute in (0, 3, 7, 12, 13, 40, 41):
        for stream in "ab":
            table = rows(stream, minute)
            seen[stream].append(table)
            state.update(stream, table)
        start, _end, exact = oracle(seen)
        assert state.answer("n").value == exact["n"], minute
        assert state.answer("total").value == exact["total"]
        assert state.answer("n_all").value == sum(
            t.num_rows - 2 * (t["w"].to_numpy() < 0).sum() for t in seen["a"]
        )
        pairs = state.answer("pairs")
        assert pairs.low <= exact["pairs"] <= pairs.high
        moment = dt.datetime.fromtimestamp(start / 1e6, dt.UTC).isoformat(" ")
        assert f"from {moment}" in pairs.notes[0]


def test_order_and_parts_do_not_matter():
    forward, backward, parts = plan().empty(), plan().empty(), plan().empty()
    for minute in TABLES:
        forward.update("a", rows("a", minute))
        parts = parts + plan().empty().update("a", rows("a", minute))
    for minute in reversed(TABLES):
        backward.update("a", rows("a", minute))
    assert forward == backward == parts
    assert el.State.from_bytes(forward.to_bytes()) == forward
    assert el.State.from_bytes(forward.to_bytes()).answer("n") == forward.answer("n")
    assert (forward - plan().empty()) == forward
    nothing = forward - forward
    assert nothing.answer("n").value == 0


def test_memory_is_planned_for():
    made = plan()
    assert made.nbytes <= 400_000
    assert len(plan().empty().to_bytes()) <= 400_000 + 20_000  # and the plan itself
    assert "panes" in made.explain()
    window = el.Workload(budget="20 KB", seed=1, samples=False).stream(
        "a", "k BIGINT, ts TIMESTAMP", event_time="ts"
    )
    window.query("pairs", "SELECT COUNT(*) FROM a x JOIN a y USING (k)", window="1 hour", slide="1 minute")
    with pytest.raises(el.PlanError, match="61 panes"):
        window.plan()


def test_a_kept_plan_keeps_its_windows():
    made = plan()
    assert plan(keep=made.layout).layout == made.layout


def test_empty_and_undated_rows():
    state = plan().empty()
    assert state.answer("n").value == 0
    assert "no row has an event time" in state.answer("n").notes[0]
    table = rows("a", 1)
    undated = table.set_column(
        table.column_names.index("ts"), "ts", pa.nulls(table.num_rows, pa.timestamp("us", "UTC"))
    )
    state.update("a", undated)
    assert state.answer("n").value == 0
    assert state.answer("n_all").value != 0


def test_declarations_are_checked():
    def workload():
        return (
            el.Workload(samples=False)
            .stream("a", "k BIGINT, ts TIMESTAMP", event_time="ts")
            .stream("b", "k BIGINT")
        )

    for sql, settings, shown in (
        ("SELECT COUNT(*) FROM b", {"window": "1 hour"}, "no event time"),
        ("SELECT COUNT(*) FROM a", {"slide": "1 hour"}, "needs a window"),
        ("SELECT COUNT(*) FROM a", {"window": "1 hour", "slide": "7 minutes"}, "divides"),
        ("SELECT COUNT(*) FROM a", {"window": "soon"}, "length of time"),
    ):
        with pytest.raises(el.PlanError, match=shown):
            workload().query("q", sql, **settings)
    wanted = el.Workload(error=0.1, samples=False).stream("a", "ts TIMESTAMP", event_time="ts")
    with pytest.raises(el.PlanError, match="give a budget"):
        wanted.query("q", "SELECT COUNT(*) FROM a", window="1 hour").plan()
    with pytest.raises(el.PlanError, match="TIMESTAMP"):
        el.Workload(samples=False).stream("a", "k BIGINT", event_time="k")
    assert parse_window("1 hour", "5 minutes").panes == 12
    assert parse_window("90 seconds", None).slide == 90 * MINUTE // 60


def test_panes_before_1970():
    state = plan().empty()
    times = np.array([-1, -5 * MINUTE, -5 * MINUTE - 1, 0], dtype="datetime64[us]")
    table = pa.table({"k": [1, 1, 1, 1], "x": pa.array([1, 2, 4, 8], pa.int32()), "w": [1, 1, 1, 1],
                      "ts": pa.array(times, pa.timestamp("us", "UTC"))})  # fmt: skip
    state.update("a", table)
    assert state.answer("total").value == 7
