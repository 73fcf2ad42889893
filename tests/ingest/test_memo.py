"""The memo: what it forgets, and that a state never answers from rows that it had before or elsewhere."""

import copy
import pickle
from threading import Barrier, Thread

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eddyline as el
from eddyline.ingest.snapshot import Memo

QUERIES = {
    "rows": "SELECT COUNT(*) FROM a",
    "pairs": "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k",
    "joined": "SELECT SUM(a.x) FROM a JOIN b ON a.k = b.k WHERE b.x < 3",
    "distinct": "SELECT COUNT(DISTINCT k) FROM a",
    "only_a": "SELECT COUNT(*) FROM (SELECT k FROM a EXCEPT SELECT k FROM b)",
}
TEXT = "SELECT COUNT(*) FROM b JOIN a ON b.k = a.k"


def planned(*, samples: bool) -> el.Plan:
    w = el.Workload(budget="24 KB" if samples else "300 KB", samples=samples, seed=5)
    w.stream("a", "k BIGINT, x INT, t TIMESTAMP_NTZ", event_time="t").stream("b", "k BIGINT, x INT")
    for name, text in QUERIES.items():
        w.query(name, text)
    w.query("lately", "SELECT COUNT(*) FROM a", window="3 seconds", slide="1 second")
    return w.plan()


PLANS = [planned(samples=True), planned(samples=False)]


def rows(stream: str, seed: int, size: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    columns = {"k": rng.integers(0, 30_000, size), "x": rng.integers(0, 9, size, dtype=np.int32)}
    if stream == "a":
        columns["t"] = rng.integers(0, 6_000_000, size).astype("datetime64[us]")
    return pa.table(columns)


def asked(state: el.State) -> list[object]:
    """Return everything that a state can be asked."""
    answers = [state.answer(name) for name in (*QUERIES, "lately", TEXT)]
    top = [] if state.snapshot.samples else [state.frequent("a", "k", top=3), state.frequency("a", {"k": 1})]
    return [*answers, state.answer("pairs", confidence=0.8), state.answer("pairs", method="hash"), *top]


def fresh(state: el.State) -> el.State:
    """Return the same state without anything that it remembers."""
    return el.State.from_bytes(state.to_bytes())


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["update", "take back", "plus", "minus", "swap"]),
        st.sampled_from(["a", "b"]),
        st.integers(0, 5),
        st.sampled_from([1, 40, 800]),
    ),
    min_size=1,
    max_size=3,
)


@settings(max_examples=8, deadline=None)
@given(steps=STEPS, plan=st.sampled_from(PLANS))
def test_whatever_happens_between_answers_they_are_those_of_a_fresh_state(steps, plan):
    states = [plan.empty().update("a", rows("a", 9, 3000)), plan.empty().update("b", rows("b", 8, 3000))]
    for what, stream, seed, size in steps:
        before, known, others = states[0].snapshot, asked(states[0]), asked(states[1])
        if what == "swap":
            states.reverse()
        elif what in ("plus", "minus"):
            states[0] = states[0] + states[1] if what == "plus" else states[0] - states[1]
        else:
            sign = np.full(size, 1 if what == "update" else -1)
            states[0].update(stream, rows(stream, seed, size), sign)
        assert asked(states[0]) == asked(fresh(states[0]))
        assert asked(el.State(before)) == known
        assert what == "swap" or asked(states[1]) == others


def test_an_answer_is_read_once(monkeypatch):
    state = PLANS[0].empty().update("a", rows("a", 1, 500)).update("b", rows("b", 2, 500))
    first = state.answer("joined")
    monkeypatch.setattr("eddyline.api.state.answer", lambda *_, **__: pytest.fail("it was read again"))
    assert state.answer("joined") is first
    state.update("a", rows("a", 3, 1))
    with pytest.raises(pytest.fail.Exception):
        state.answer("joined")


def test_what_a_state_remembers_is_neither_written_nor_compared_nor_copied():
    state = PLANS[0].empty().update("a", rows("a", 1, 500)).update("b", rows("b", 2, 500))
    plain = state.to_bytes(), state.nbytes, hash(state), len(pickle.dumps(state))
    other = fresh(state)
    asked(state)
    assert len(state.snapshot.memo) > 0
    assert plain == (state.to_bytes(), state.nbytes, hash(state), len(pickle.dumps(state)))
    assert state == other
    for again in (pickle.loads(pickle.dumps(state)), copy.deepcopy(state)):
        assert len(again.snapshot.memo) == 0
        assert asked(again) == asked(state)


def test_errors_are_not_remembered():
    state = PLANS[0].empty()
    for _ in range(2):
        with pytest.raises(el.PlanError, match="no query 'nope'"):
            state.answer("nope")


def test_a_memo_keeps_what_was_asked_for_last():
    memo = Memo(2)
    for key in "abac":
        memo.recall(key, lambda key=key: key.upper())
    assert len(memo) == 2
    assert memo.recall("a", lambda: "again") == "A"
    assert memo.recall("b", lambda: "again") == "again"


def test_threads_share_a_memo():
    memo, start, found = Memo(50), Barrier(8), []

    def work() -> None:
        start.wait()
        found.extend(memo.recall(key % 60, lambda key=key: key % 60) == key % 60 for key in range(3000))

    threads = [Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 24_000
    assert all(found)
    assert len(memo) <= 50
