"""Plans with stream samples that change: what stays is kept bit for bit, and what is new has names of its own."""

import pytest

import eddyline as el
from eddyline.api.durable import from_epoch
from eddyline.api.run import StartOptions, open_store
from eddyline.ingest.sections import to_sections
from tests.data.stream_samples import CHAIN, PAIRS, STREAMS, filled, in_second_stage, rows, workload

ADDED = {
    "another partner": "SELECT COUNT(*) FROM a JOIN c ON a.k = c.k",
    "the same text": PAIRS,
    "another key": "SELECT COUNT(*) FROM a JOIN b ON a.j = b.j",
    "a measure": "SELECT SUM(a.x) FROM a JOIN b ON a.k = b.k",
    "a chain": CHAIN,
    "a distinct count": "SELECT COUNT(DISTINCT k) FROM a",
}
FILLED = ("the same text", "a distinct count")
"""Those that the sample of PAIRS answers, so that nothing new is kept for them."""


def deliver(store, stream, batch, table):
    """Commit a batch as a run would, made without Spark."""

    def change(epoch):
        return to_sections(el.State(from_epoch(epoch)).update(stream, table).snapshot)

    return store.commit(stream, f"query-{stream}", batch, change, at=1000.0, rows=len(table), deletes=0)


@pytest.mark.parametrize("case", ADDED)
def test_samples_of_added_queries_have_names_of_their_own(case):
    old = workload({"q": PAIRS}).plan()
    new = workload({"q": PAIRS, "more": ADDED[case]}, "96 KB").plan(keep=old)
    samples = new.layout.samples
    names = [name for sample in samples for name in (sample.id, *(kept.id for kept in sample.sketches))]
    assert len(samples) == (1 if case in FILLED else 2)
    assert len(set(names)) == len(names)
    state = filled(new, 20_000, 60_000)
    assert in_second_stage(state)
    assert state.nbytes <= new.nbytes
    again = el.State.from_bytes(state.to_bytes())
    for name in ("q", "more"):
        assert again.answer(name) == state.answer(name)
        assert state.answer(name).low <= state.answer(name).value <= state.answer(name).high


def test_a_query_alone_reads_the_same_beside_one_that_was_added():
    old = workload({"q": PAIRS}, "48 KB").plan()
    new = workload({"q": PAIRS, "more": PAIRS}, "96 KB").plan(keep=old)
    sizes = [sample.spec.budget for sample in new.layout.samples]
    alone = workload({"q": PAIRS}, sizes[0] + 40).plan(keep=old)
    assert alone.layout.samples[0].spec.budget == sizes[0]
    left, right = filled(new, 20_000, 15_000), filled(alone, 20_000, 15_000)
    assert left.answer("q") == right.answer("q")


def test_samples_that_group_links_otherwise_have_other_names():
    straight = {"p": "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k JOIN c ON a.j = c.j AND b.x = 1"}
    crossed = {"p": "SELECT COUNT(*) FROM a JOIN b ON a.j = b.k JOIN c ON a.k = c.j AND b.x = 1"}
    plans = [workload(each).plan() for each in (straight, crossed)]
    elements = [plan.layout.samples[0].exact for plan in plans]
    assert elements[0] == elements[1]
    assert plans[0].layout.samples[0].id != plans[1].layout.samples[0].id


CHANGES = {
    "nothing but the budget": ({}, ()),
    "a query less": ({}, ("chain",)),
    "a query that would share a sketch": ({"more": "SELECT COUNT(*) FROM a JOIN c ON a.k = c.k"}, ()),
    "a query of its own": ({"more": "SELECT COUNT(*) FROM a JOIN c ON a.j = c.j"}, ()),
    "the same query again": ({"more": PAIRS}, ()),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_store_in_its_second_stage_survives_a_change_of_plan(tmp_path, case):
    added, removed = CHANGES[case]
    asked = {"pairs": PAIRS, "chain": CHAIN}
    with open_store(workload(asked, "48 KB").plan().layout, str(tmp_path), StartOptions()) as store:
        for seed, name in enumerate(STREAMS):
            deliver(store, name, 0, rows(seed, 30_000, 20_000))
    before = el.open(tmp_path)
    assert in_second_stage(before)
    assert before.snapshot.layout.samples[0].sketches
    wanted = {name: text for name, text in (asked | added).items() if name not in removed}
    new = workload(wanted, "128 KB").plan(keep=before.snapshot.layout)
    open_store(new.layout, str(tmp_path), StartOptions(change_plan=True)).close()
    after = el.open(tmp_path)
    for name in wanted.keys() - added.keys():
        assert after.answer(name).value == before.answer(name).value
        assert after.answer(name).notes == before.answer(name).notes
    for name in added:
        if added[name] == PAIRS:
            assert after.answer(name).numbers() == after.answer("pairs").numbers()
        else:
            assert "earlier rows are not in it" in after.answer(name).notes[-1]
            assert not after.answer(name).exact
            assert after.answer(name).method.endswith("since epoch 3")
    after.update("a", rows(7, 100, 20_000)).update("c", rows(8, 100, 20_000))
    assert after.nbytes <= new.nbytes


def test_a_plan_of_another_size_starts_again_without_keep(tmp_path):
    with open_store(workload({"q": PAIRS}, "48 KB").plan().layout, str(tmp_path), StartOptions()) as store:
        for seed, name in enumerate(STREAMS):
            deliver(store, name, 0, rows(seed, 30_000, 20_000))
    other = workload({"q": PAIRS}, "96 KB").plan()
    open_store(other.layout, str(tmp_path), StartOptions(change_plan=True)).close()
    answer = el.open(tmp_path).answer("q")
    assert "earlier rows are not in it" in answer.notes[-1]


def test_a_smaller_budget_holds_from_the_change_of_plan_on(tmp_path):
    with open_store(workload({"q": CHAIN}, "48 KB").plan().layout, str(tmp_path), StartOptions()) as store:
        for seed, name in enumerate(STREAMS):
            deliver(store, name, 0, rows(seed, 10_000, 20_000))
    smaller = workload({"q": CHAIN}, "8 KB").plan(keep=el.open(tmp_path).snapshot.layout)
    open_store(smaller.layout, str(tmp_path), StartOptions(change_plan=True)).close()
    assert el.open(tmp_path).nbytes <= smaller.nbytes


def test_a_query_that_stays_takes_its_new_weight():
    old = workload({"pairs": PAIRS}).plan()
    heavier = workload({}).query("pairs", PAIRS, weight=5)
    kept = heavier.plan(keep=old)
    assert [shape.weight for shape in kept.layout.samples[0].spec.shapes] == [5.0]


@pytest.mark.parametrize(("before", "after"), [(True, False), (False, True)])
def test_samples_can_be_switched_on_and_off_beside_a_plan_that_is_kept(before, after):
    old = workload({"pairs": PAIRS, "chain": CHAIN}, samples=before).plan()
    new = workload({"pairs": PAIRS, "chain": CHAIN}, "256 KB", samples=after).plan(keep=old)
    assert bool(new.layout.samples) == after
    assert filled(new, 100, 10).answer("pairs").value > 0


def test_queries_that_are_gone_are_no_longer_followed_and_still_answered():
    asked = {"pairs": PAIRS, "chain": "SELECT COUNT(*) FROM a JOIN c ON a.j = c.j JOIN b ON c.k = b.x"}
    old = workload(asked, "16 KB").plan()
    new = workload({"pairs": PAIRS}, "12 KB").plan(keep=old)
    state = filled(new, 20_000, 15_000)
    answer = state.answer(asked["chain"])
    assert not answer.exact
    assert answer.low <= answer.value <= answer.high
