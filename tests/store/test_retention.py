"""Epochs kept by a rule: against a slow version, in a store, and under clocks that jump."""

import random

import pytest

from eddyline.errors import PlanError, StoreError
from eddyline.store import Options, Reader, Store, verify
from eddyline.store.retention import Kept, Retention, parse_retention
from tests.store.runs import EMPTY, PLAN, add_batch, new_store, open_store

HOUR, DAY = 3600, 86_400


def test_rules_are_read():
    rule = parse_retention("hourly for 7 days, daily for 90, at most 2 GB")
    assert rule == Retention(3, ((HOUR, 7 * DAY), (DAY, 90 * DAY)), 2_000_000_000)
    assert parse_retention("Daily for 2 weeks") == Retention(3, ((DAY, 14 * DAY),))
    assert parse_retention(5) == Retention(5)


@pytest.mark.parametrize(
    "rule", ["", "hourly", "yearly for 3 days", "hourly for ever", "3", "hourly for 7 days;"]
)
def test_other_rules_are_refused(rule):
    with pytest.raises(StoreError, match="cannot be read at"):
        Options(keep=rule)


@pytest.mark.parametrize(("rule", "error"), [(0, StoreError), ("at most nothing", PlanError)])
def test_impossible_rules_are_refused(rule, error):
    with pytest.raises(error):
        Options(keep=rule)


def slowly(epochs, newest, rule):
    """The same rule, written as it is said."""
    kept = set(sorted(each.number for each in epochs)[-(rule.recent - 1) :]) if rule.recent > 1 else set()
    for period, span in rule.periods:
        for each in epochs:
            is_in_span = newest.time - span < each.time <= newest.time
            same = [
                o for o in epochs if o.time // period == each.time // period and newest.time - span < o.time
            ]
            same = [o for o in same if o.time <= newest.time]
            if is_in_span and each.number == max(o.number for o in same):
                kept.add(each.number)
    return kept


def test_rules_choose_what_they_say():
    rng = random.Random(3)
    for _ in range(300):
        rule = Retention(
            rng.randint(1, 4), ((HOUR, rng.randint(1, 5) * DAY), (DAY, 9 * DAY))[: rng.randint(0, 2)]
        )
        times = sorted(rng.random() * 12 * DAY for _ in range(rng.randint(0, 40)))
        if rng.random() < 0.3:
            rng.shuffle(times)  # clocks that jump
        epochs = [Kept(number, time, 10) for number, time in enumerate(times)]
        newest = Kept(len(times), rng.choice([*times, 12.0 * DAY]), 10)
        assert {each.number for each in rule.chosen(epochs, newest)} == slowly(epochs, newest, rule)


def test_bytes_are_a_limit_and_the_oldest_go_first():
    epochs = [Kept(number, number * HOUR, 100) for number in range(50)]
    newest = Kept(50, 50 * HOUR, 100)
    chosen = Retention(3, ((HOUR, 7 * DAY),), 1_000).chosen(epochs, newest)
    assert [each.number for each in chosen] == list(range(41, 50))
    assert [each.number for each in Retention(3, (), 10).chosen(epochs, newest)] == [48, 49]


def commit_at(store, batch, time):
    return store.commit("orders", "q-1", batch, add_batch(batch), rows=10, at=time)


def test_a_store_keeps_an_epoch_of_each_hour(where):
    rule = "hourly for 1 day, daily for 10"
    with Store.create(where, PLAN, "run-1", EMPTY, options=Options(keep=rule)) as store:
        for batch in range(72):
            commit_at(store, batch, 1e9 + batch * HOUR / 2)
    reader = Reader(where)
    assert verify(where) == []
    numbers = reader.epochs()
    assert len(numbers) == len({*numbers}) <= 24 + 2 + 3
    assert {each.number for each in reader.latest().commit.kept} | {72} == set(numbers)
    for back in range(1, 20):
        time = reader.latest().time - back * HOUR
        found = reader.as_of(time)
        assert time - HOUR <= found.time <= time
        assert found.commit.sources["orders"].batch_id == found.number - 1


def test_a_time_before_all_epochs_is_refused(where):
    new_store(where, batches=3).close()
    assert Reader(where).as_of(1e12).number == 3
    with pytest.raises(StoreError, match=r"keeps no epoch from 1969.* Keep more by a rule"):
        Reader(where).as_of(-5.0)


def test_restore_keeps_what_its_epoch_had(where):
    with Store.create(where, PLAN, "run-1", EMPTY, options=Options(keep="hourly for 1 day")) as store:
        for batch in range(10):
            commit_at(store, batch, 1e9 + batch * HOUR)
    Store.restore(where, 5)
    assert Reader(where).epochs() == [11, 5, 4, 3, 2, 1]
    assert verify(where) == []
    with open_store(where, keep="hourly for 1 day") as store:
        commit_at(store, 5, 1e9 + 20 * HOUR)
    assert verify(where) == []


def test_a_kept_epoch_that_is_missing_is_found(where):
    with Store.create(where, PLAN, "run-1", EMPTY, options=Options(keep="hourly for 1 day")) as store:
        for batch in range(6):
            commit_at(store, batch, 1e9 + batch * HOUR)
    Reader(where).files.remove("epoch-000000000002.eddy")
    (problem,) = verify(where)
    assert (problem.kind, problem.file) == ("missing", "epoch-000000000002.eddy")
