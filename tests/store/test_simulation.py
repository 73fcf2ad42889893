"""A hundred thousand lives of a store under faults; a failure prints the seed that repeats it."""

import contextlib
import os

import msgspec
import pytest

from eddyline.api.alerts import Alerts
from eddyline.errors import CorruptState
from eddyline.spark.checkpoint import Checkpoint
from eddyline.store import Reader, Store, make_epoch, store
from eddyline.store.filesystem import Disk, LocalFiles
from eddyline.store.layout import CURRENT, encode_pointer, epoch_name
from eddyline.store.writer import EpochWriter
from tests.store.schedules import NUMBERS, ChangeSchedule, CountSchedule
from tests.store.simulation import Schedule, SimulatedDisk, SimulatedFolder, SparkSchedule

PARTS = 8
FIRST = int(os.environ.get("SIMULATION_SEED", "0"))


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(Reader, "pauses", (0.0,) * 4)


def run_schedules(seeds, kind=Schedule):
    """Run schedules; where one fails, raise with its seed."""
    for seed in seeds:
        try:
            kind(seed).run()
        except Exception as error:
            raise AssertionError(
                f"schedule {seed} failed: {kind.__name__}({seed}).run() repeats it"
            ) from error


@pytest.mark.parametrize("part", range(PARTS))
def test_every_life_of_a_store_ends_in_a_prefix_of_its_batches(part):
    size = NUMBERS[Schedule][1] // PARTS
    run_schedules(range(FIRST + part * size, FIRST + (part + 1) * size))


@pytest.mark.parametrize("part", range(2))
def test_every_life_of_a_store_with_the_checkpoint_of_spark_counts_each_row_once(part):
    """The checkpoint is on a simulated disk, too: Spark syncs nothing, and a batch that is planned again is another."""
    size = NUMBERS[SparkSchedule][1] // 2
    run_schedules(range(FIRST + part * size, FIRST + (part + 1) * size), SparkSchedule)


@pytest.mark.parametrize("part", range(2))
def test_a_store_whose_plan_and_state_are_replaced_is_that_of_a_prefix_of_its_batches(part):
    """`replace_plan`, also with streams to be read again, and `swap` of a rebuilt state, each ended at any call."""
    size = NUMBERS[ChangeSchedule][1] // 2
    run_schedules(range(FIRST + part * size, FIRST + (part + 1) * size), ChangeSchedule)


def _settled(replace_plan):
    def settled(*arguments, **options):
        made = replace_plan(*arguments, **options)
        made.settle()
        return made

    return settled


def _swap_without_looking(where, rebuilt, run_id, *, options):
    writer = store._existing(where, options)
    try:
        number = writer.current().number
        commit = msgspec.structs.replace(rebuilt.commit, epoch=number + 1, parent=number, run_id=run_id)
        writer.publish(make_epoch(commit, rebuilt.sections), "not swapped")
    finally:
        writer.close()
    return True


@pytest.mark.parametrize(
    "flaw",
    [
        lambda patch: patch.setattr(store, "kept_sections", lambda *_: {}),
        lambda patch: patch.setattr(store, "kept_sections", lambda old, _: dict(old.sections)),
        lambda patch: patch.setattr(Store, "swap", _swap_without_looking),
        lambda patch: patch.setattr(Store, "replace_plan", _settled(Store.replace_plan)),
    ],
    ids=["nothing is kept", "everything is kept", "swapped again", "emptied at once"],
)
def test_the_simulation_finds_changes_that_are_wrong(monkeypatch, flaw):
    flaw(monkeypatch)
    with pytest.raises(AssertionError, match=r"schedule \d+ failed"):
        run_schedules(range(2_000), ChangeSchedule)


@pytest.mark.parametrize("part", range(2))
def test_no_exact_count_is_wrong_and_each_crossing_of_an_alert_is_one_message(part):
    """With the counters of a real COUNT(*), which is asked after each end and between two calls."""
    size = NUMBERS[CountSchedule][1] // 2
    run_schedules(range(FIRST + part * size, FIRST + (part + 1) * size), CountSchedule)


@pytest.mark.parametrize(
    "flaw",
    [
        (Alerts, "_save", lambda _: None),
        (Alerts, "_load", lambda _: {}),
        (store, "already_seen", lambda *_, **__: False),
    ],
    ids=["nothing is recorded", "nothing is read again", "batches counted twice"],
)
def test_the_simulation_finds_alerts_and_counts_that_are_wrong(monkeypatch, flaw):
    monkeypatch.setattr(*flaw)
    with pytest.raises(AssertionError, match=r"schedule \d+ failed"):
        run_schedules(range(200), CountSchedule)


def test_a_checkpoint_that_was_half_cleared_is_cleared_again():
    """Its id went first, and power was lost: a run was refused, and asked for a full refresh."""
    run_schedules([5335], SparkSchedule)


@pytest.mark.parametrize(
    "flaw",
    [(Checkpoint, "sync"), (Checkpoint, "drop_torn"), (Checkpoint, "rewind"), (SimulatedFolder, "sync")],
    ids=["not synced before a commit", "torn files stay", "no rewind", "no fsync"],
)
def test_the_simulation_finds_a_checkpoint_that_is_not_handled(monkeypatch, flaw):
    monkeypatch.setattr(*flaw, lambda *_: None)
    with pytest.raises(AssertionError, match=r"schedule \d+ failed"):
        run_schedules(range(3_000), SparkSchedule)


def test_a_schedule_is_repeated_by_its_seed():
    def trace(seed):
        schedule = Schedule(seed)
        calls = []
        count = schedule.faults.call
        schedule.faults.call = lambda: calls.append(schedule.faults.calls) or count()
        schedule.run()
        return calls, schedule.confirmed, schedule.sent

    for seed in range(20):
        assert trace(seed) == trace(seed)


def _without(method):
    return lambda monkeypatch: monkeypatch.setattr(SimulatedDisk, method, lambda *_: None)


def _pointer_first(monkeypatch):
    create = EpochWriter._create

    def early(self, epoch, data):
        self._files.replace(CURRENT, encode_pointer(epoch.number, epoch.digest))
        create(self, epoch, data)

    monkeypatch.setattr(EpochWriter, "_create", early)


def _in_place(monkeypatch):
    def overwrite(self, name, data, step=None):
        with contextlib.suppress(FileNotFoundError):
            self.disk.unlink(self.path(name))
        descriptor = self.disk.open_new(self.path(name))
        self.disk.write(descriptor, memoryview(data))
        self.disk.sync(descriptor)
        self.disk.sync_directory(self.where)

    monkeypatch.setattr(LocalFiles, "replace", overwrite)


def _not_settled(monkeypatch):
    monkeypatch.setattr(LocalFiles, "settle", lambda _: None)


def _no_sweep(monkeypatch):
    monkeypatch.setattr(EpochWriter, "sweep", lambda *_, **__: None)


def _collects_the_current(monkeypatch):
    keep_only = EpochWriter.keep_only
    monkeypatch.setattr(
        EpochWriter, "keep_only", lambda self, numbers: keep_only(self, set(numbers) - {max(numbers)})
    )


@pytest.mark.parametrize(
    "flaw",
    [
        _without("sync"),
        _without("sync_directory"),
        _pointer_first,
        _in_place,
        _not_settled,
        _no_sweep,
        _collects_the_current,
    ],
    ids=[
        "no fsync",
        "no fsync of names",
        "pointer first",
        "in place",
        "not settled",
        "no sweep",
        "collected",
    ],
)
def test_the_simulation_finds_a_store_that_is_wrong(monkeypatch, flaw):
    flaw(monkeypatch)
    with pytest.raises(AssertionError, match=r"schedule \d+ failed"):
        run_schedules(range(6_000))


def test_the_simulated_disk_has_every_call_of_the_real_one():
    real = {name for name in vars(Disk) if not name.startswith("_")}
    assert real <= set(vars(SimulatedDisk))


def test_the_simulated_disk_behaves_as_the_real_one_without_faults(tmp_path):
    """The same calls, the same names, contents and errors."""
    schedule = Schedule(3)
    simulated = SimulatedDisk(schedule.faults)
    outcomes = []
    for disk, root in ((Disk(), str(tmp_path)), (simulated, "/simulated")):
        seen = []
        one, two = f"{root}/one", f"{root}/two"
        descriptor = disk.open_new(one)
        disk.write(descriptor, memoryview(b"some bytes"))
        disk.sync(descriptor)
        disk.close(descriptor)
        disk.link(one, two)
        with pytest.raises(FileExistsError):
            disk.link(one, two)
        with pytest.raises(FileNotFoundError):
            disk.read(f"{root}/none", lambda _: None)
        disk.rename(one, f"{root}/three")
        held = disk.lock(f"{root}/LOCK", b"me")
        seen.append(disk.is_locked(f"{root}/LOCK", held))
        with pytest.raises(BlockingIOError):
            disk.lock(f"{root}/LOCK", b"another")
        seen.append(disk.read(f"{root}/LOCK", lambda _: None))
        disk.unlock(held)
        disk.unlink(two)
        seen.append((disk.names(root), disk.read(f"{root}/three", lambda _: None)))
        outcomes.append(seen)
    assert outcomes[0] == outcomes[1]


def test_a_torn_epoch_is_never_current():
    """Power loss at the end of a commit that was not synced leaves the old epoch, whatever remains of the new one."""
    schedule = Schedule(5)
    files = LocalFiles(type(schedule.files.root)("/simulated"), SimulatedDisk(schedule.faults))
    descriptor = files.disk.open_new(files.path(epoch_name(1)))
    files.disk.write(descriptor, memoryview(b"EDDY" + bytes(100)))
    files.disk.end(power=True)
    with pytest.raises((CorruptState, FileNotFoundError)):
        Reader(files).load(1)
