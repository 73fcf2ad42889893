import threading

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.errors import StoreError, WrongRun
from eddyline.store import Batch, Epoch, Options, Reader, SourcePosition, Store
from tests.oracles.store import NaiveStore
from tests.store.runs import EMPTY, PLAN, add_batch, batch_counters, deliver, new_store, open_store


def counters(epoch):
    return np.frombuffer(epoch.sections["orders-key"], dtype="<i8")


def test_a_store_keeps_what_was_committed(anywhere):
    with new_store(anywhere, batches=5) as store:
        assert store.current.number == 5
    epoch = Reader(anywhere).latest()
    assert np.array_equal(counters(epoch), sum(map(batch_counters, range(5))))
    assert bytes(epoch.sections["orders-key/hints"]) == b"batch 4"
    assert epoch.commit.sources == {"orders": SourcePosition("q-1", 4, 50, 0, 0, 4.0)}
    assert (epoch.commit.parent, epoch.commit.run_id, epoch.commit.plan) == (4, "run-1", PLAN)
    with open_store(anywhere) as store:
        assert store.current == epoch


def test_history_is_bounded(where):
    new_store(where, batches=6, keep=2).close()
    reader = Reader(where)
    assert reader.epochs() == [6, 5]
    assert reader.at(5).commit.sources["orders"].batch_id == 4
    with pytest.raises(StoreError, match=r"epoch 1 is not in .*, which keeps \[6, 5\]"):
        reader.at(1)


def test_the_same_batch_again_is_ignored_and_counted(anywhere):
    with new_store(anywhere, batches=3) as store:
        before = store.current
        assert store.seen("orders", "q-1", 2)
        assert not store.seen("orders", "q-1", 3)
        assert [deliver(store, batch_id) for batch_id in (2, 0, 2)] == [False] * 3
        assert store.repeats == 3
        assert store.current == before
    with open_store(anywhere) as store:
        assert not deliver(store, 2)
        assert deliver(store, 3)


def test_a_gap_is_refused(tmp_path):
    with new_store(tmp_path, batches=2) as store:
        with pytest.raises(WrongRun, match="batch 3 of stream orders arrived, and batch 2 is next"):
            deliver(store, 3)
        with pytest.raises(WrongRun, match="batch 7 of stream items arrived, and batch 0 is next"):
            store.commit("items", "q-2", 7, {})
        assert store.current.number == 2


def test_a_lost_checkpoint_is_refused_by_name(tmp_path):
    with (
        new_store(tmp_path, batches=2) as store,
        pytest.raises(WrongRun, match=r"up to batch 1 of query q-1, and query q-2 .*lost.*adopt=True"),
    ):
        store.seen("orders", "q-2", 0)


def test_a_batch_that_comes_again_with_other_rows_is_refused(tmp_path):
    one, other = Batch("hash-1"), Batch("hash-2")
    with new_store(tmp_path) as store:
        for batch_id in range(2):
            store.commit("orders", "q-1", batch_id, {}, batch=one)
        assert store.seen("orders", "q-1", 1, one)
        with pytest.raises(WrongRun, match="batch 1 of stream orders is not the one that the store holds"):
            store.seen("orders", "q-1", 1, other)
        with pytest.raises(WrongRun, match="batch 0 of stream orders is not the one that the store holds"):
            store.commit("orders", "q-1", 0, {}, batch=one)
        assert not store.seen("orders", "q-1", 2, other)


def test_what_is_read_again_stays_readable_until_its_first_batch(where):
    new_store(where, batches=2).close()
    before = Reader(where).latest()
    for _ in range(2):
        with Store.replace_plan(where, PLAN, "run-2", EMPTY, forget=["orders"]) as store:
            assert store.current.sections["orders-key"] == EMPTY["orders-key"]
            assert store.current.commit.sources == {}
            held = Reader(where).latest()
            assert held.sections == before.sections
            assert held.commit.sources["orders"].again
        assert Reader(where).current() == before.number + 1  # marked once
    with Store.replace_plan(where, PLAN, "run-2", EMPTY, forget=["orders"]) as store:
        assert deliver(store, 0, query_id="q-2")
        assert np.array_equal(counters(Reader(where).latest()), batch_counters(0))
    assert Reader(where).latest().commit.sources == {"orders": SourcePosition("q-2", 0, 10, 0, 0, 0.0)}
    with Store.replace_plan(where, PLAN, "run-2", EMPTY, forget=["orders"]) as store:
        store.settle()
    assert Reader(where).latest().sections["orders-key"] == EMPTY["orders-key"]


def test_nothing_is_written_where_positions_are_refused(where):
    new_store(where, batches=2).close()

    def refuse(positions):
        assert set(positions) <= {"orders"}
        raise WrongRun("not from here")

    for forget in ((), ("orders",)):
        with pytest.raises(WrongRun, match="not from here"):
            Store.replace_plan(where, PLAN, "run-2", EMPTY, forget=forget, check=refuse)
    with pytest.raises(WrongRun, match="not from here"):
        Store.open(where, PLAN, "run-2", check=refuse)
    assert Reader(where).current() == 2
    open_store(where).close()


def test_a_restored_store_knows_which_streams_it_has_to_read_again(where):
    with new_store(where, batches=1) as store:
        store.commit("items", "q-2", 0, {}, rows=3)
    restored = Store.restore(where, 0)
    assert {name: (at.query_id, at.batch_id, at.rows) for name, at in restored.commit.sources.items()} == {
        "orders": ("q-1", -1, 0),
        "items": ("q-2", -1, 0),
    }
    with open_store(where) as store:
        assert deliver(store, 0)


def test_a_store_restored_to_before_a_rebuild_knows_the_streams_of_its_own_checkpoints(where):
    with new_store(where, batches=1) as store:
        commit = store.current.commit
    after = msgspec.structs.replace(
        commit, rebuilt=1, sources={"orders": SourcePosition("q-2", 0, 10, 0, 0, 0.0)}
    )
    assert Store.swap(where, Epoch(after, EMPTY), "rebuild")
    assert Reader(where).latest().commit.sources["orders"].query_id == "q-2"
    restored = Store.restore(where, 0).commit
    at = restored.sources["orders"]
    assert (restored.rebuilt, at.query_id, at.batch_id) == (0, "q-1", -1)


def test_another_query_is_refused_by_name(tmp_path):
    with (
        new_store(tmp_path, batches=2) as store,
        pytest.raises(WrongRun, match=r"batch 2 is of query q-2.*adopt=True"),
    ):
        deliver(store, 2, query_id="q-2")


def test_adopting_takes_over_once(tmp_path):
    new_store(tmp_path, batches=3).close()
    with open_store(tmp_path, adopt=True) as store:
        assert deliver(store, 0, query_id="q-2")
        assert not deliver(store, 0, query_id="q-2")
        assert store.current.commit.sources["orders"] == SourcePosition("q-2", 0, 40, 0, 0, 0.0)
        with pytest.raises(WrongRun):
            deliver(store, 3, query_id="q-1")
        with pytest.raises(WrongRun, match="batch 2 of stream orders arrived, and batch 1 is next"):
            deliver(store, 2, query_id="q-2")


def test_streams_have_positions_of_their_own(tmp_path):
    with new_store(tmp_path, batches=2) as store:
        store.commit("items", "q-2", 0, {"items-key": b"12345678"}, rows=3, deletes=1, bad=2, at=5.0)
        epoch = store.current
    assert epoch.commit.sources["items"] == SourcePosition("q-2", 0, 3, 1, 2, 5.0)
    assert epoch.commit.sources["orders"].batch_id == 1
    assert np.array_equal(counters(epoch), batch_counters(0) + batch_counters(1))


def test_threads_that_share_a_store_lose_nothing(tmp_path):
    with new_store(tmp_path) as store:

        def stream(name):
            for batch_id in range(10):
                store.commit(name, f"query-{name}", batch_id, add_batch(batch_id))

        threads = [threading.Thread(target=stream, args=(f"s{i}",)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert store.current.number == 40
        assert np.array_equal(counters(store.current), 4 * sum(map(batch_counters, range(10))))


def test_what_the_caller_changes_later_is_not_in_the_store(tmp_path):
    mine = bytearray(b"before")
    with new_store(tmp_path) as store:
        store.commit("orders", "q-1", 0, {"orders-key": memoryview(mine)})
        mine[:] = b"after!"
        assert store.current.sections["orders-key"] == b"before"


@pytest.mark.parametrize("bad", ["", "a/b", "..", "ö", "x" * 65, "a b"])
def test_ids_that_may_not_stand_in_a_path_are_refused(tmp_path, bad):
    with pytest.raises(StoreError, match="run id"):
        Store.create(tmp_path / "new", PLAN, bad, EMPTY)
    with new_store(tmp_path / "state") as store:
        with pytest.raises(StoreError, match="stream name"):
            store.seen(bad, "q-1", 0)
        with pytest.raises(StoreError, match="query id"):
            store.seen("orders", bad, 0)
        with pytest.raises(StoreError, match="from 0"):
            store.seen("orders", "q-1", -1)


def test_opening_nothing_and_creating_twice(where):
    assert not Store.exists(where)
    with pytest.raises(StoreError, match="there is no store at"):
        open_store(where)
    new_store(where).close()
    assert Store.exists(where)
    with pytest.raises(StoreError, match="there is a store at"):
        new_store(where)
    open_store(where).close()


def test_a_closed_store_takes_nothing(where):
    store = new_store(where)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="was closed"):
        deliver(store, 0)


def test_a_history_of_no_epochs_is_refused():
    with pytest.raises(StoreError, match="1 epoch or more"):
        Options(keep=0)


deliveries = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["q1", "q2"]), st.integers(0, 4), st.booleans()),
    max_size=25,
)


@settings(max_examples=30, deadline=None)
@given(deliveries)
def test_any_deliveries_agree_with_the_naive_store(tmp_path_factory, sequence):
    where, naive = tmp_path_factory.mktemp("state"), NaiveStore()
    store = Store.create(where, PLAN, "run-1", {"a": b"0", "b": b"0"})
    for value, (source, query_id, batch_id, reopen) in enumerate(sequence):

        def change(epoch, source=source, value=value):
            return {source: str(int(epoch.sections[source]) + value).encode()}

        try:
            said = "new" if store.commit(source, query_id, batch_id, change) else "again"
        except WrongRun:
            said = "refused"
        assert said == naive.deliver(source, query_id, batch_id, value)
        if reopen:
            store.close()
            store = open_store(where)
    store.close()
    found = {name: int(content) for name, content in Reader(where).latest().sections.items()}
    assert found == {"a": 0, "b": 0} | naive.totals
