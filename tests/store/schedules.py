"""Schedules in which a store gets other plans, full refreshes and rebuilt states, and schedules with real states.

The first kind knows a state by a chain of hashes, as `simulation.Schedule` does. The second one has the counters of a
real COUNT(*) in its epochs, asks for the answer, and has an alert, whose sender may end before and after each message.

python -m tests.store.schedules   # runs all schedules of all kinds, and prints the table of docs/internals/store.md
"""

import contextlib
import functools
import json
import threading
import time
from types import SimpleNamespace
from unittest.mock import patch

import pyarrow as pa
from msgspec.structs import replace

import eddyline as el
from eddyline.api import alerts
from eddyline.api.alerts import Alert, Alerts
from eddyline.api.durable import stamp
from eddyline.api.jobs import state_of
from eddyline.ingest.sections import to_sections
from eddyline.store import Epoch, Options, PlanStamp, Reader, SourcePosition, Store
from tests.store.simulation import BATCHES, PLAN, Schedule, SparkSchedule, chained

WIDER = PlanStamp("hash-2", "{}", {"sum": "a sum", "more": "another sum"})


def since(first: int, batches: int) -> bytes:
    """Return the state of a sum that counts from a batch on."""
    return functools.reduce(chained, range(first, batches), bytes([first]) * 16)


class ChangeSchedule(Schedule):
    """The life of a store whose plan changes, whose stream is read again, and whose state is replaced by a rebuilt one."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.rebuilt: tuple[int, Epoch] | None = (
            None  # its batches, and the state that waits to be swapped in
        )
        self.number = 0

    def batches_in(self, epoch: Epoch) -> int:
        """Hold both sums to the same batches."""
        batches = super().batches_in(epoch)
        more = epoch.sections.get("more")
        assert (more is None) == (epoch.commit.plan == PLAN)
        assert more in {None, *(since(first, batches) for first in range(batches + 1))}
        return batches

    def add(self, old: Epoch, batch: int) -> dict[str, bytes]:
        more = {"more": chained(old.sections["more"], batch)} if "more" in old.sections else {}
        return {**super().add(old, batch), **more}

    def _open(self, *, break_lock: bool, check=lambda _: None) -> Store:  # noqa: ARG002
        if not Store.exists(self.files):
            return super()._open(break_lock=break_lock)
        if self.rng.random() < 0.3:
            self._swap(break_lock=break_lock)
        commit, plan = Reader(self.files).latest().commit, self.rng.choice((PLAN, WIDER))
        is_again = any(at.again for at in commit.sources.values()) or self.rng.random() < 0.2
        options = Options(keep=self.rng.randint(1, 3), break_lock=break_lock)
        if commit.plan == plan and not is_again:
            return Store.open(self.files, plan, "run", options=options)

        def fresh(old: Epoch) -> dict[str, bytes]:
            if is_again:
                return {**self.first(), **({"more": since(0, 0)} if plan == WIDER else {})}
            batches = self.batches_in(old)
            return {"more": since(batches, batches)} if plan == WIDER and "more" not in old.sections else {}

        forget = ("s",) if is_again else ()
        store = Store.replace_plan(self.files, plan, "run", fresh, forget=forget, options=options)
        if is_again:
            self.confirmed = 0  # the old answers stay until the first batch, and count for nothing
        return store

    def _swap(self, *, break_lock: bool) -> None:
        """Replace the state by a rebuilt one that has caught up, again where a process ended in it."""
        commit = Reader(self.files).latest().commit
        if self.rebuilt is None or self.rebuilt[0] < self.confirmed:
            batches = self.rng.randint(self.confirmed, BATCHES)
            self.number += 1
            at = {"s": SourcePosition(f"rebuilt-{self.number}", batches - 1, 0, 0, 0, 0.0)} if batches else {}
            made = {"sum": functools.reduce(chained, range(batches), bytes(16))}
            made |= {"more": since(0, batches)} if commit.plan == WIDER else {}
            changed = {"plan": commit.plan, "sources": at, "rebuilt": commit.rebuilt + 1}
            self.rebuilt = batches, Epoch(replace(commit, **changed), made)
        batches, epoch = self.rebuilt
        self.sent = max(self.sent, batches)
        options = Options(keep=self.rng.randint(1, 3), break_lock=break_lock)
        if Store.swap(self.files, epoch, "rebuild", options=options):
            self.confirmed = batches
        assert not Store.swap(self.files, epoch, "rebuild", options=options)
        self.rebuilt = None

    def _commit(self, store: Store, batch: int, clock: float) -> None:
        at = store.current.commit.sources.get("s")
        self.number += at is None
        query = f"query-{self.number}" if at is None else at.query_id
        store.commit("s", query, batch, lambda old: self.add(old, batch), at=clock)


@functools.cache
def counted_states() -> tuple[PlanStamp, list[dict[str, bytes]]]:
    """Return the plan of a COUNT(*), and its sections after each batch. Batch b has 3^b rows: a count shows its batches."""
    plan = el.Workload(budget="8 KB").stream("s", "k BIGINT").query("n", "SELECT COUNT(*) FROM s").plan()
    state, found = plan.empty(), []
    for batch in range(BATCHES + 2):
        found.append(to_sections(state.snapshot))
        state.update("s", pa.table({"k": range(3**batch)}))
    return stamp(plan.layout), found


COUNTS = [sum(3**batch for batch in range(batches)) for batches in range(BATCHES + 2)]
LIMIT = 2  # batches: the alert fires once there are more rows than these have


class CountSchedule(Schedule):
    """The life of a store of exact counts, with an alert: no count is wrong, and each crossing is one message."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.plan, self.states = counted_states()
        self.accepted: list[str] = []

    def run(self) -> None:
        """As for all schedules; the alert sends its messages in this thread."""
        threads = SimpleNamespace(Lock=threading.Lock, Event=threading.Event, Thread=_AtOnce)
        with (
            patch.object(alerts, "threading", threads),
            patch.object(alerts, "_is_accepted", self._accept),
            patch.object(alerts._LOG, "disabled", new=True),
        ):
            super().run()
        assert self.accepted
        if not (
            self.was_broken or self.has_failed
        ):  # a file that was not written may let a message come twice
            assert len(set(self.accepted)) == 1, self.accepted

    def first(self) -> dict[str, bytes]:
        return self.states[0]

    def add(self, old: Epoch, _batch: int) -> dict[str, bytes]:
        return self.states[self.states.index(dict(old.sections)) + 1]

    def batches_in(self, epoch: Epoch) -> int:
        answer = state_of(epoch).answer("n")
        assert answer.exact
        assert answer.low == answer.value == answer.high
        assert answer.value in COUNTS
        return COUNTS.index(answer.value)

    def _accept(self, _name: str, _alert: Alert, message: bytes) -> bool:
        """Take a message; the sender may end before and after."""
        with contextlib.suppress(OSError):
            self.faults.call()
        self.accepted.append(json.loads(message)["id"])
        with contextlib.suppress(OSError):
            self.faults.call()
        return True

    def _deliver(self, *, break_lock: bool, most: int = BATCHES) -> None:
        self.alerts = None
        super()._deliver(break_lock=break_lock, most=most)
        self._look()

    def _commit(self, store: Store, batch: int, clock: float) -> None:
        store.commit("s", "q-1", batch, lambda old: self.add(old, batch), rows=3**batch, at=abs(clock))
        if self.rng.random() < 0.3:
            self._look()

    def _look(self) -> None:
        self.alerts = self.alerts or Alerts(
            self.files, {"many": Alert(f"> {COUNTS[LIMIT]}", query="n", log=True)}
        )
        self.alerts.look()


class _AtOnce:
    """A thread that has done its work once it has started."""

    def __init__(self, target, args, **_named) -> None:
        self.target, self.args = target, args

    def start(self) -> None:
        self.target(*self.args)

    def is_alive(self) -> bool:
        return False


NUMBERS: dict[type[Schedule], tuple[str, int]] = {
    Schedule: ("batches of one stream", 104_000),
    SparkSchedule: ("the same, with Spark's checkpoint on a disk of its own, and restores", 16_000),
    ChangeSchedule: ("the same, with other plans, full refreshes and swaps of rebuilt states", 16_000),
    CountSchedule: ("a real COUNT(*), which is asked, and an alert", 1_000),
}
"""The kinds of schedules, what each one has, and how many the tests run."""


def main() -> None:
    """Run all schedules; print how many there are and the time that they take."""
    print("| schedules | number | seconds |\n| --- | --- | --- |")  # noqa: T201
    with patch.object(Reader, "pauses", (0.0,) * 4):
        for kind, (what, number) in NUMBERS.items():
            begun = time.process_time()
            for seed in range(number):
                kind(seed).run()
            print(f"| {what} | {number:,} | {time.process_time() - begun:.0f} |", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
