"""A hundred thousand lives of a store under faults; a failure prints the seed that repeats it."""

import contextlib
import os

import pytest

from eddyline.errors import CorruptState
from eddyline.spark.checkpoint import Checkpoint
from eddyline.store import Reader
from eddyline.store.filesystem import Disk, LocalFiles
from eddyline.store.layout import CURRENT, encode_pointer, epoch_name
from eddyline.store.writer import EpochWriter
from tests.store.simulation import Schedule, SimulatedDisk, SimulatedFolder, SparkSchedule

SCHEDULES = 104_000
SPARK_SCHEDULES = 16_000
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
    size = SCHEDULES // PARTS
    run_schedules(range(FIRST + part * size, FIRST + (part + 1) * size))


@pytest.mark.parametrize("part", range(2))
def test_every_life_of_a_store_with_the_checkpoint_of_spark_counts_each_row_once(part):
    """The checkpoint is on a simulated disk, too: Spark syncs nothing, and a batch that is planned again is another."""
    size = SPARK_SCHEDULES // 2
    run_schedules(range(FIRST + part * size, FIRST + (part + 1) * size), SparkSchedule)


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
