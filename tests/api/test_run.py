"""States from stores, without Spark: freshness, negative net counts, plans that change."""

import pickle

import numpy as np
import pytest

import eddyline as el
from eddyline.answer.freshness import Freshness, StreamFreshness
from eddyline.api.durable import from_epoch, stamp
from eddyline.api.run import StartOptions, open_store
from eddyline.ingest.sections import to_sections


def workload(*, added=False):
    made = (
        el.Workload(budget="40 KB" if added else "20 KB", seed=1, samples=False)
        .stream("a", "k BIGINT")
        .stream("b", "k BIGINT")
    )
    made.query("pairs", "SELECT COUNT(*) FROM a JOIN b USING (k)").query("n", "SELECT COUNT(*) FROM a")
    return made.query("kinds", "SELECT COUNT(*) FROM a x JOIN a y USING (k)") if added else made


def deliver(store, plan, stream, batch, keys, weight=1, **counts):
    """Commit a batch as a run would, made without Spark."""
    weights = np.full(len(keys), weight)
    counts = {"rows": len(keys), "deletes": len(keys) if weight < 0 else 0, **counts}

    def change(epoch):
        state = el.State(from_epoch(epoch)).update(stream, {"k": np.array(keys)}, weights)
        return to_sections(state.snapshot)

    return store.commit(stream, f"query-{stream}", batch, change, at=1000.0 + batch, **counts)


def test_answers_from_a_store_tell_how_fresh_they_are(tmp_path):
    plan = workload().plan()
    with open_store(plan.layout, str(tmp_path), StartOptions()) as store:
        assert el.open(tmp_path).answer("n").freshness.lag is None
        assert "no batch yet" in repr(el.open(tmp_path).answer("n"))
        assert deliver(store, plan, "a", 0, [1, 2, 3])
        assert not deliver(store, plan, "a", 0, [1, 2, 3])
        assert deliver(store, plan, "b", 0, [1, 1], bad=4)
        assert deliver(store, plan, "b", 1, [1], weight=-1)
    state = el.open(tmp_path)
    fresh = state.answer("pairs").freshness
    assert (fresh.epoch, fresh.rows, fresh.deletes, fresh.bad) == (3, 6, 1, 4)
    assert fresh.last_batch_time == 1001.0
    assert fresh.lag > 1e6
    assert state.answer("pairs").value == 1
    assert "4 rows of stream 'b' could not be read" in state.answer("pairs").notes[-1]
    alone = state.answer("n")
    assert (alone.freshness.rows, alone.freshness.bad, alone.notes) == (3, 0, ())
    assert state.update("a", {"k": np.array([1])}).answer("n").freshness is None


def test_deletes_of_rows_never_seen_are_reported(tmp_path):
    plan = workload().plan()
    with open_store(plan.layout, str(tmp_path), StartOptions()) as store:
        deliver(store, plan, "a", 0, [5, 6], weight=-1)
    answer = el.open(tmp_path).answer("n")
    assert answer.value == -2
    assert "net count of -2" in answer.notes[0]


def test_a_changed_plan_is_refused_with_the_difference_and_keeps_what_is_unchanged(tmp_path):
    old = workload().plan()
    with open_store(old.layout, str(tmp_path), StartOptions()) as store:
        deliver(store, old, "a", 0, [1, 1, 2])
    kept = el.open(tmp_path)
    assert workload().plan(keep=kept.snapshot.layout).layout == old.layout
    new = workload(added=True).plan(keep=kept.snapshot.layout)
    with pytest.raises(el.WrongRun, match=r"\+ kinds"):
        open_store(new.layout, str(tmp_path), StartOptions())
    open_store(new.layout, str(tmp_path), StartOptions(change_plan=True)).close()
    state = el.open(tmp_path)
    assert state.answer("n").value == 3
    assert state.answer("kinds").value == 5  # the sketch of "pairs" serves it, and has counted all along
    assert state.answer("kinds").notes == ()
    other = (
        el.Workload(budget="40 KB", seed=2, samples=False)
        .stream("a", "k BIGINT")
        .query("n", "SELECT COUNT(*) FROM a")
        .plan()
    )
    with pytest.raises(el.WrongRun, match="- b-"):
        open_store(other.layout, str(tmp_path), StartOptions())


def test_a_budget_that_is_used_up_says_what_is_missing():
    plan = workload().plan()
    made = el.Workload(budget="20 KB", seed=1, samples=False).stream("a", "k BIGINT").stream("b", "k BIGINT")
    made.query("pairs", "SELECT COUNT(*) FROM a JOIN b USING (k)").query("n", "SELECT COUNT(*) FROM a")
    made.query("more", "SELECT COUNT(*) FROM a JOIN b USING (k) WHERE a.k > 5")
    with pytest.raises(el.PlanError, match="no memory for more"):
        made.plan(keep=plan.layout)


def test_every_name_of_a_plan_is_described():
    plan = workload(added=True).plan()
    assert stamp(plan.layout).describe.keys() == {*(k.id for k in plan.layout.kept), "pairs", "n", "kinds"}


def test_freshness_covers_the_streams_that_are_named():
    whole = Freshness(7, (StreamFreshness("a", 5, 1, 0, 2, 3, 50.0), StreamFreshness("b")), 60.0)
    assert whole.lag is None
    assert whole.of(["a"]).lag == 10.0
    assert (whole.of(["a"]).late, whole.of(["b"]).late) == (2, 0)
    assert "10.0 s ago" in str(whole.of(["a"]))


def test_a_batch_writer_says_what_it_cannot_use(tmp_path):
    plan = el.Workload(budget="64 KB").stream("s", "k BIGINT").query("n", "SELECT COUNT(*) FROM s").plan()
    with pytest.raises(el.PipelineError, match="'t' is not in the plan, which has s"):
        plan.batch_writer("t", store=tmp_path / "state", checkpoint=tmp_path / "c")
    with pytest.raises(el.PipelineError, match="give a path"):
        plan.batch_writer("s", store=tmp_path / "state", checkpoint="s3://bucket/c")
    writer = pickle.loads(pickle.dumps(plan.batch_writer("s", store=tmp_path / "state", checkpoint=tmp_path)))
    with pytest.raises(el.PipelineError, match="there is no checkpoint at"):
        writer(None, 0)
    assert not (tmp_path / "state").exists()
