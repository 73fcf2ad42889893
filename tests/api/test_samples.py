"""Stream samples are exact while everything fits: whatever the query, the order of changes and the way in."""

from functools import reduce

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import eddyline as el
from tests.data.nasty import REFUSED, ROW, SCHEMA, STREAMS, TEXTS, for_duckdb, workload
from tests.oracles.duckdb_sql import exact_answers, net_rows

BATCHES = st.lists(
    st.tuples(st.sampled_from(STREAMS), st.lists(st.tuples(ROW, st.integers(1, 3)), max_size=5)), max_size=6
)
CHURN = st.lists(st.tuples(st.sampled_from(STREAMS), ROW, st.integers(-2, 2)), max_size=4)


@pytest.fixture(scope="module")
def plan():
    return workload(TEXTS.values(), "16 MB").plan()


def table(rows):
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def update(state, stream, rows):
    """Add rows with weights; none at all is a batch, too."""
    return state.update(
        stream, table([row for row, _ in rows]), np.array([weight for _, weight in rows], dtype=np.int64)
    )


def net_of(batches):
    """The net rows of each stream."""
    found = {}
    for stream in STREAMS:
        rows = [each for name, part in batches if name == stream for each in part]
        found[stream] = net_rows(table([row for row, _ in rows]), [weight for _, weight in rows])
    return found


def check_exact(state, net):
    """Every answer is exact and DuckDB's."""
    truths = exact_answers(map(for_duckdb, TEXTS.values()), net)
    for number, (name, truth) in enumerate(zip(TEXTS, truths, strict=True)):
        answer = state.answer(f"q{number}")
        assert (answer.method, answer.exact) == ("exact", True), name
        assert answer.low == answer.value == answer.high, name
        if truth is None:
            assert answer.value is None, name
        else:
            assert answer.value == pytest.approx(truth, rel=1e-9, abs=1e-9), name


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(BATCHES, CHURN, st.booleans())
def test_every_kind_of_query_is_exact_on_the_net_rows(plan, batches, churn, deletes_first):
    """What is inserted and deleted again, in either order, changes no answer and no bit."""
    state, quiet = plan.empty(), plan.empty()
    inserted = [(stream, [(row, weight)]) for stream, row, weight in churn]
    deleted = [(stream, [(row, -weight)]) for stream, row, weight in churn]
    first, last = (deleted, inserted) if deletes_first else (inserted, deleted)
    for stream, rows in [*first, *batches, *last]:
        update(state, stream, rows)
    for stream, rows in batches:
        update(quiet, stream, rows)
    check_exact(state, net_of(batches))
    assert state == quiet
    assert el.State.from_bytes(state.to_bytes()) == state
    assert state.nbytes <= plan.nbytes


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(BATCHES, st.randoms(use_true_random=False))
def test_parts_are_merged_in_any_order(plan, batches, random):
    whole = plan.empty()
    for stream, rows in batches:
        update(whole, stream, rows)
    parts = [update(plan.empty(), stream, rows) for stream, rows in batches]
    random.shuffle(parts)
    assert reduce(el.State.__add__, parts, plan.empty()) == whole
    for part in parts:
        assert whole - part + part == whole
    singles = plan.empty()
    for stream, rows in batches:
        for each in rows:
            update(singles, stream, [each])
    assert singles == whole
    assert singles.snapshot.samples.keys() == whole.snapshot.samples.keys()


@pytest.mark.parametrize("name", TEXTS)
def test_each_text_alone_is_planned_in_little_memory(name):
    """Only distinct pairs of a join need a synopsis that does not fit a few kilobytes."""
    text = TEXTS[name]
    pairs = "DISTINCT" in text and ("JOIN" in text or " IN " in text)
    plan = workload([text], "1 MB" if pairs else "2 KB").plan()
    state = plan.empty()
    answer = state.answer("q0")
    assert answer.exact
    assert answer.value in (0, None)
    assert state.nbytes <= plan.nbytes
    assert plan.explain()
    assert state.explain()
    state.statistics()


@pytest.mark.parametrize("name", REFUSED)
def test_texts_outside_the_class_are_refused_in_whole_sentences(name):
    with pytest.raises(el.UnsupportedQuery, match=r"\.$"):
        workload([REFUSED[name]], "1 MB")


def test_nothing_has_no_sum_and_no_average():
    texts = ["SELECT SUM(u.x) FROM r JOIN u ON r.k = u.k", "SELECT AVG(u.x) FROM r JOIN u ON r.k = u.k"]
    state = workload([*texts, "SELECT COUNT(*) FROM r JOIN u ON r.k = u.k"], "64 KB").plan().empty()
    row = dict.fromkeys(SCHEMA.names) | {"k": 1}
    state.update("r", table([row]))
    assert [state.answer(f"q{i}").value for i in range(3)] == [None, None, 0]
    state.update("u", table([row]))  # a row whose measure is NULL
    assert [state.answer(f"q{i}").value for i in range(3)] == [None, None, 1]
    state.update("u", table([row | {"x": 0}]))
    assert [state.answer(f"q{i}").value for i in range(3)] == [0, 0, 2]


def test_answers_beyond_64_bits_are_exact():
    text = "SELECT SUM(r.x * u.x) FROM r JOIN u ON r.k = u.k"
    state = workload([text], "64 KB").plan().empty()
    rows = table([dict.fromkeys(SCHEMA.names) | {"k": 1, "x": 2**31 - 1}])
    state.update("r", rows, np.array([2**31])).update("u", rows, np.array([2**31]))
    assert state.answer("q0").value == (2**31 - 1) ** 2 * 2**62


def test_weights_that_overflow_change_nothing():
    text = "SELECT SUM(r.x) FROM r JOIN u ON r.k = u.k"
    state = workload([text], "64 KB").plan().empty()
    rows = table([dict.fromkeys(SCHEMA.names) | {"k": 1, "x": 2**31 - 1}])
    state.update("r", rows, np.array([2**31]))
    before = el.State.from_bytes(state.to_bytes())
    with pytest.raises(el.SketchError, match="overflow"):
        state.update("r", rows, np.array([2**62]))
    assert state == before


def test_damaged_bytes_are_corrupt():
    state = workload(["SELECT COUNT(*) FROM r JOIN u ON r.k = u.k"], "64 KB").plan().empty()
    state.update("r", table([dict.fromkeys(SCHEMA.names) | {"k": 1}]))
    data = state.to_bytes()
    for place in range(0, len(data), max(len(data) // 60, 1)):
        damaged = bytearray(data)
        damaged[place] ^= 0x10
        with pytest.raises((el.CorruptState, el.FormatVersion)):
            el.State.from_bytes(bytes(damaged))
