import pytest
from msgspec.structs import replace

from eddyline.errors import WrongRun
from eddyline.store import PlanStamp, Reader, Store
from tests.store.runs import PLAN, batch_counters, deliver, new_store

OTHER = PlanStamp(
    "hash-2",
    "{}",
    {"orders-key": "hash sketch 7 x 64", "volume": "SUM(x)", "items-key": "hash sketch 7 x 128"},
)


def test_another_plan_is_refused_with_the_difference(where):
    new_store(where, batches=1).close()
    with pytest.raises(WrongRun) as caught:
        Store.open(where, OTHER, "run-2")
    text = str(caught.value)
    assert "\n  + items-key: hash sketch 7 x 128\n  ~ volume: COUNT(*) -> SUM(x)\n" in text
    assert "hash-1" in text
    assert "1 names are unchanged" in text
    with pytest.raises(WrongRun, match=r"\n  - volume: COUNT\(\*\)\n"):
        Store.open(where, PlanStamp("hash-3", "{}", {"orders-key": "hash sketch 7 x 64"}), "run-2")
    with pytest.raises(WrongRun, match="every name reads the same"):
        Store.open(where, PlanStamp("hash-4", "{}", PLAN.describe), "run-2")
    assert Reader(where).latest().commit.plan == PLAN


def test_unchanged_names_survive_a_replaced_plan(anywhere):
    with new_store(anywhere, batches=2) as store:
        store.commit("orders", "q-1", 2, {"volume": b"old", "volume/hints": b"old", "nameless": b"old"})
    with Store.replace_plan(anywhere, OTHER, "run-2", {"items-key": b"new"}) as store:
        epoch = store.current
        assert (epoch.number, epoch.commit.parent, epoch.commit.plan) == (4, 3, OTHER)
        assert set(epoch.sections) == {"orders-key", "orders-key/hints", "items-key"}
        assert epoch.sections["orders-key"] == (batch_counters(0) + batch_counters(1)).tobytes()
        assert not deliver(store, 2)
        assert deliver(store, 3)
    with Store.open(anywhere, OTHER, "run-2") as store:
        assert store.current.number == 5


def test_a_fresh_section_takes_the_place_of_a_kept_one(tmp_path):
    new_store(tmp_path, batches=1).close()
    with Store.replace_plan(tmp_path, OTHER, "run-2", {"orders-key": b"rebuilt"}) as store:
        assert store.current.sections["orders-key"] == b"rebuilt"


def test_digests_decide_what_survives_and_not_words(tmp_path):
    reworded = PlanStamp("hash-2", "{}", {"orders-key": "7 rows of 64 counters", "volume": "COUNT(*)"})
    with new_store(tmp_path / "words", batches=1) as store:
        assert "orders-key" in store.current.sections
    with Store.replace_plan(tmp_path / "words", reworded, "run-2", {}) as store:
        assert "orders-key" not in store.current.sections, "an older store has only its words"

    first = replace(PLAN, identity={"orders-key": "1a", "volume": "2b"})
    Store.create(tmp_path / "digests", first, "run-1", {"orders-key": b"held", "volume": b"held"}).close()
    same = replace(reworded, identity={"orders-key": "1a", "volume": "3c"})
    with pytest.raises(WrongRun, match=r"\n  ~ volume: COUNT\(\*\), of another size"):
        Store.open(tmp_path / "digests", same, "run-2")
    with Store.replace_plan(tmp_path / "digests", same, "run-2", {}) as store:
        assert dict(store.current.sections) == {"orders-key": b"held"}
