"""Passes over a stream in tasks: partials that spill by themselves, merged in any order, add up to one state."""

from itertools import permutations

import numpy as np
import pytest

from eddyline.ingest import projection as stream_spec
from eddyline.ingest.arrow_path import project_table, read_table
from eddyline.ingest.stream_pass import StreamPass
from eddyline.spark.tasks import Merger, partial_rows
from tests.data.stream_samples import CHAIN, PAIRS, STREAMS, filled, rows, skewed, workload

QUERIES = {"pairs": PAIRS, "chain": CHAIN, "kinds": "SELECT COUNT(DISTINCT k) FROM b"}


def passed(plan, snapshot, stream, tables):
    """A task's pass over some tables."""
    made = StreamPass(snapshot.stream_spec(stream))
    of = plan.layout.stream(stream)
    for table in tables:
        each, counts = read_table(of, table, None)
        made.feed(project_table(of, each, counts, made.projection, plan.layout.timezone))
    return made


def merged(spec, passes, *, twice=False):
    """The pass of the driver from those of tasks, over a tree of merges or at once."""
    groups = [passes[::2], passes[1::2]] if twice else [passes]
    mergers = []
    for group in groups:
        merger = Merger(spec)
        for each in group:
            for row in partial_rows(each):
                merger.take(*row)
        mergers.append(merger)
    last = Merger(spec)
    for merger in mergers:
        for row in merger.rows():
            last.take(*row)
    return last.stream_pass()


def samples_are_alike(left, right):
    return all(left.samples[name].same(right.samples[name]) for name in left.samples)


def counters_are_alike(left, right):
    return left.counters.keys() == right.counters.keys() and all(
        np.array_equal(left.counters[name], right.counters[name]) for name in left.counters
    )


@pytest.fixture(scope="module")
def plan():
    return workload(QUERIES, "32 KB").plan()


@pytest.fixture(params=["first stage", "second stage"])
def before(plan, request):
    """A snapshot in either stage."""
    count = 100 if request.param == "first stage" else 4000
    snapshot = filled(plan, count, 5000, skewed).snapshot
    assert all(s.grouped == (count > 100) for s in snapshot.samples.values())
    return snapshot


@pytest.mark.parametrize("twice", [False, True])
def test_tasks_add_up_to_one_pass(plan, before, twice):
    tables = [rows(seed, 60, 400) for seed in range(4)]
    alone = before.plus_stream("b", passed(plan, before, "b", tables))
    for order in list(permutations(range(4)))[::5]:
        passes = [passed(plan, before, "b", [tables[i]]) for i in order]
        found = before.plus_stream("b", merged(before.stream_spec("b"), passes, twice=twice))
        assert samples_are_alike(found, alone)
        assert counters_are_alike(found, alone)
        assert found.nbytes <= plan.nbytes


@pytest.mark.parametrize("room", [200, 2_000, 20_000])
@pytest.mark.parametrize("twice", [False, True])
def test_tasks_that_outgrow_their_room_go_over_by_themselves(plan, before, room, twice, monkeypatch):
    """Sketches are those of all rows, and of what is followed in the end every row is there."""
    monkeypatch.setattr(stream_spec.SampleTask, "bytes_allowed", room)
    tables = [skewed(seed, 1500, 5000) for seed in range(4)]
    passes = [passed(plan, before, "b", [table]) for table in tables]
    passes[1] = passed(plan, before, "b", [tables[1].slice(0, 3)])  # too small to spill
    tables[1] = tables[1].slice(0, 3)
    found = before.plus_stream("b", merged(before.stream_spec("b"), passes, twice=twice))
    monkeypatch.undo()
    alone = before.plus_accumulated(passed(plan, before, "b", tables).whole)
    for name, sample in found.samples.items():
        assert sample.grouped
        whole = alone.in_second_stage(name)
        assert sample.same(whole.samples[name].under(sample.rosters))
        for kept in plan.layout.samples[0].sketches:
            assert np.array_equal(found.counters[kept.id], whole.counters[kept.id])
    assert found.nbytes <= plan.nbytes


def test_a_pass_under_an_older_state_is_brought_up_to_date(plan):
    """Another stream's commit may come between a pass and its own commit."""
    old = filled(plan, 100, 5000).snapshot
    late = passed(plan, old, "a", [rows(3, 500, 800)])
    newer = filled(plan, 100, 5000).update("b", rows(8, 6000, 5000)).snapshot
    assert all(sample.grouped for sample in newer.samples.values())
    found = newer.plus_stream("a", late)
    direct = newer.plus_stream("a", passed(plan, newer, "a", [rows(3, 500, 800)]))
    assert samples_are_alike(found, direct)
    assert counters_are_alike(found, direct)
    again = newer.plus_stream("a", late)  # a commit that is tried twice
    assert samples_are_alike(again, found)
    assert counters_are_alike(again, found)


def test_streams_without_rows_add_nothing(plan, before):
    for name in STREAMS:
        spec = before.stream_spec(name)
        found = before.plus_stream(name, merged(spec, [passed(plan, before, name, [])]))
        assert samples_are_alike(found, before)
        assert counters_are_alike(found, before)
