"""A disk and an object store in memory that fail as real ones do, and schedules of a store's life on them.

A schedule is a seed. It decides where processes are killed, where the machine loses power, which calls fail, when a
second writer or a reader comes in between two calls, and which batches are delivered again. Each ends in checks: what
was confirmed is there, the state is that of a prefix of the batches, and the rest can be delivered.
"""

import errno
import functools
import hashlib
import itertools
import json
import random
from pathlib import Path

from eddyline.errors import CorruptState, Locked, StoreError
from eddyline.spark.checkpoint import Checkpoint
from eddyline.store import Batch, Epoch, Options, PlanStamp, Reader, Store, last_to_keep, verify
from eddyline.store.filesystem import ArrowFiles, Disk, LocalFiles, Unread

PLAN = PlanStamp("hash-1", "{}", {"sum": "a sum"})
BATCHES = 5
ROOT = "/simulated"
_ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT)


class Ended(BaseException):
    """The process was killed, or the machine lost power, between or in two calls."""


def chained(state: bytes, batch: int) -> bytes:
    """Return a state with one batch more: it depends on all before it."""
    return hashlib.blake2b(state + bytes([batch]), digest_size=16).digest()


_AFTER = list(itertools.accumulate(range(64), chained, initial=bytes(16)))
_BATCHES_OF = {state: batches for batches, state in enumerate(_AFTER)}


class Faults:
    """When the calls of a process fail: one count over all calls since `arm`."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.disarm()

    def disarm(self) -> None:
        """Let all calls work."""
        self.calls, self.end_at, self.fail_at, self.between_at, self.is_ended = 0, 0, 0, 0, False
        self.between = None

    def arm(self, *, end_at: int, fail_at: int, between_at: int, between) -> None:
        """End the process at a call, let a call fail, and run something between two calls; 0 for never."""
        self.disarm()
        self.end_at, self.fail_at, self.between_at, self.between = end_at, fail_at, between_at, between

    def call(self) -> bool:
        """Count a call; return whether it is to fail after it was done, and raise where it ends or fails before."""
        if self.is_ended:
            raise Ended
        self.calls += 1
        if self.calls == self.between_at and self.between is not None:
            between, self.between = self.between, None
            kept = (self.calls, self.end_at, self.fail_at)
            self.calls = self.end_at = self.fail_at = 0
            try:
                between()
            finally:
                self.calls, self.end_at, self.fail_at = kept
        if self.calls == self.end_at:
            self.is_ended = True
            raise Ended
        if self.calls == self.fail_at:
            if self.rng.random() < 0.5:
                raise OSError(self.rng.choice(_ERRORS), "simulated")
            return True
        return False

    def done(self, fails: bool) -> None:
        """Raise where a call is to fail that was done."""
        if fails:
            raise OSError(errno.EIO, "simulated, after it was done")


class _File:
    __slots__ = ("data", "stamp", "synced")
    stamps = itertools.count()

    def __init__(self) -> None:
        self.data, self.synced, self.stamp = b"", 0, next(self.stamps)

    def after_crash(self, rng: random.Random) -> "_File":
        """Return what a crash leaves: the synced bytes, and of the others all, none, a part, or zeros."""
        left = _File()
        loose = len(self.data) - self.synced
        kept = rng.choice((0, loose, rng.randint(0, loose))) if loose else 0
        data = self.data[: self.synced + kept]
        if loose and rng.random() < 0.25:
            data = data[: self.synced] + bytes(loose)
        left.data, left.synced = data, len(data)
        return left


class SimulatedDisk(Disk):
    """One directory. Names and bytes that were not synced are kept or lost at random when power is lost."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.names_now: dict[str, _File] = {}
        self.names_durable: dict[str, _File] = {}
        self.changes: dict[str, list[_File | None]] = {}
        self.locks: dict[int, _File] = {}
        self.open_files: dict[int, _File] = {}
        self.descriptors = itertools.count(3)

    def end(self, *, power: bool) -> None:
        """Take away the process and, where power is lost, what was not durable."""
        self.locks.clear()
        self.open_files.clear()
        if power:
            rng, left, same = self.faults.rng, {}, {}
            for name in {**self.names_durable, **self.changes}:
                file = rng.choice([self.names_durable.get(name), *self.changes.get(name, ())])
                if file is not None:
                    if id(file) not in same:
                        same[id(file)] = file.after_crash(rng)
                    left[name] = same[id(file)]
            self.names_now, self.names_durable, self.changes = left, dict(left), {}

    def _set(self, path: str, file: _File | None) -> None:
        name = path[len(ROOT) + 1 :]
        self.changes.setdefault(name, []).append(file)
        if file is None:
            del self.names_now[name]
        else:
            self.names_now[name] = file

    def _get(self, path: str) -> _File:
        try:
            return self.names_now[path[len(ROOT) + 1 :]]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "simulated", path) from None

    def make_directory(self, _root) -> None:
        self.faults.done(self.faults.call())

    def names(self, _root: str) -> list[str]:
        self.faults.done(self.faults.call())
        return sorted(self.names_now)

    def read(self, path: str, check) -> bytes:
        self.faults.done(self.faults.call())
        data = self._get(path).data
        check(Unread(len(data), data, lambda: iter([data])))
        return data

    def stamp(self, path: str) -> str:
        self.faults.done(self.faults.call())
        return str(self._get(path).stamp)

    def open_new(self, path: str) -> int:
        fails = self.faults.call()
        file, descriptor = _File(), next(self.descriptors)
        self._set(path, file)
        self.faults.done(fails)
        self.open_files[descriptor] = file
        return descriptor

    def write(self, descriptor: int, data: memoryview) -> None:
        file, whole = self.open_files[descriptor], bytes(data)
        try:
            fails = self.faults.call()
        except (Ended, OSError):
            file.data += whole[: self.faults.rng.randint(0, len(whole))]
            raise
        file.data += whole
        self.faults.done(fails)

    def sync(self, descriptor: int) -> None:
        fails = self.faults.call()
        file = self.open_files[descriptor]
        file.synced = len(file.data)
        self.faults.done(fails)

    def close(self, descriptor: int) -> None:
        self.open_files.pop(descriptor, None)

    def link(self, path: str, name: str) -> None:
        fails = self.faults.call()
        if name[len(ROOT) + 1 :] in self.names_now:
            raise FileExistsError(errno.EEXIST, "simulated", name)
        self._set(name, self._get(path))
        self.faults.done(fails)

    def rename(self, path: str, name: str) -> None:
        fails = self.faults.call()
        file = self._get(path)
        self._set(name, file)
        self._set(path, None)
        self.faults.done(fails)

    def unlink(self, path: str) -> None:
        fails = self.faults.call()
        self._get(path)
        self._set(path, None)
        self.faults.done(fails)

    def sync_directory(self, _root: str) -> None:
        fails = self.faults.call()
        self.names_durable, self.changes = dict(self.names_now), {}
        self.faults.done(fails)

    def lock(self, path: str, content: bytes) -> int:
        self.faults.done(self.faults.call())
        name = path[len(ROOT) + 1 :]
        if name not in self.names_now:
            self._set(path, _File())
        file = self.names_now[name]
        if file in self.locks.values():
            raise BlockingIOError
        file.data, file.synced, descriptor = content, 0, next(self.descriptors)
        self.locks[descriptor] = file
        return descriptor

    def is_locked(self, path: str, descriptor: int) -> bool:
        self.faults.done(self.faults.call())
        return self.names_now.get(path[len(ROOT) + 1 :]) is self.locks[descriptor]

    def unlock(self, descriptor: int) -> None:
        if self.faults.is_ended:
            raise Ended
        file = self.locks.pop(descriptor)
        file.data, file.synced = b"", 0


class SimulatedObjects(ArrowFiles):
    """A bucket: uploads are whole or absent, also where the client gets an error; reads of other clients may be old."""

    def __init__(self, faults: Faults, objects: dict[str, list[bytes]] | None = None) -> None:
        self.faults, self.where = faults, "simulated://bucket"
        self.objects: dict[str, list[bytes]] = {} if objects is None else objects
        self.stale = 0

    def stale_reader(self, reads: int) -> "SimulatedObjects":
        """Return the bucket as a client sees it whose next reads of CURRENT may be old."""
        other = SimulatedObjects(self.faults, self.objects)
        other.stale = reads
        return other

    def end(self, *, power: bool) -> None:
        """Take away the process; the bucket is elsewhere."""

    def make(self) -> None:
        self.faults.done(self.faults.call())

    def names(self) -> list[str]:
        self.faults.done(self.faults.call())
        return sorted(self.objects)

    def read(self, name: str, check) -> bytes:
        self.faults.done(self.faults.call())
        if name not in self.objects:
            raise FileNotFoundError(errno.ENOENT, "simulated", name)
        versions = self.objects[name]
        data = versions[-1]
        if self.stale and name == "CURRENT":
            self.stale -= 1
            data = self.faults.rng.choice(versions)
        check(Unread(len(data), data, lambda: iter([data])))
        return data

    def stamp(self, name: str) -> str:
        self.faults.done(self.faults.call())
        if name not in self.objects:
            raise FileNotFoundError(errno.ENOENT, "simulated", name)
        return str(len(self.objects[name]))

    def create(self, name: str, data: bytes, _step=None) -> None:
        self.faults.done(self.faults.call())
        if name in self.objects:
            raise FileExistsError(name)
        self.replace(name, data)

    def replace(self, name: str, data: bytes, _step=None) -> None:
        fails = self.faults.call()
        self.objects.setdefault(name, []).append(bytes(data))
        self.faults.done(fails)

    def remove(self, name: str) -> None:
        fails = self.faults.call()
        self.objects.pop(name, None)
        self.faults.done(fails)


class Schedule:
    """The life of one store under one seed. ends_by: errors with which a process ends by itself."""

    ends_by: tuple[type[Exception], ...] = (StoreError,)

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.faults = Faults(self.rng)
        is_local = self.rng.random() < 0.7
        self.files = (
            LocalFiles(Path(ROOT), SimulatedDisk(self.faults)) if is_local else SimulatedObjects(self.faults)
        )
        self.device = self.files.disk if is_local else self.files
        self.plan = PLAN
        self.confirmed = self.sent = 0
        self.was_broken = self.has_failed = False

    def first(self) -> dict[str, bytes]:
        """Return the sections of a store without rows."""
        return {"sum": _AFTER[0]}

    def add(self, old: Epoch, batch: int) -> dict[str, bytes]:
        """Return the sections that a batch changes."""
        return {"sum": chained(old.sections["sum"], batch)}

    def batches_in(self, epoch: Epoch) -> int:
        """Return of how many batches this is the state, or fail."""
        assert epoch.sections["sum"] in _BATCHES_OF
        return _BATCHES_OF[epoch.sections["sum"]]

    def run(self) -> None:
        """Let processes live and end, then check what they leave."""
        for _ in range(self.rng.randint(1, 3)):
            self._live()
        self.faults.disarm()
        self._check_left()
        self._go_on()

    def _live(self) -> None:
        chance = self.rng.random()
        self.faults.arm(
            end_at=self.rng.randint(1, 90) if chance < 0.8 else 0,
            fail_at=self.rng.randint(1, 90) if self.rng.random() < 0.3 else 0,
            between_at=self.rng.randint(1, 90) if self.rng.random() < 0.3 else 0,
            between=self.rng.choice((self._other_writer, self._reader, self._reader)),
        )
        try:
            self._deliver(break_lock=True)
        except Ended:
            self.device.end(power=self.rng.random() < 0.5)
        except self.ends_by:  # a call failed: the process ends by itself, and its locks with it
            self.device.end(power=False)
        self.has_failed = self.has_failed or 0 < self.faults.fail_at <= self.faults.calls
        self.faults.disarm()

    def _open(self, *, break_lock: bool, check=lambda _: None) -> Store:
        options = Options(keep=self.rng.randint(1, 3), break_lock=break_lock)
        if Store.exists(self.files):
            return Store.open(self.files, self.plan, "run", check=check, options=options)
        check({})
        return Store.create(self.files, self.plan, "run", self.first(), options=options)

    def _deliver(self, *, break_lock: bool, most: int = BATCHES) -> None:
        with self._open(break_lock=break_lock) as store:
            first = max(0, self.confirmed - self.rng.randint(0, 1))
            for batch in range(first, most):
                self.sent = max(self.sent, batch + 1)
                clock = self.rng.choice((0.0, 1e9, -1e9, float(batch)))
                for attempt in range(2):
                    try:
                        self._commit(store, batch, clock)
                    except Locked:
                        raise
                    except StoreError:
                        if attempt:
                            raise
                    else:
                        break
                self.confirmed = max(self.confirmed, batch + 1)

    def _commit(self, store: Store, batch: int, clock: float) -> None:
        store.commit("s", "q-1", batch, lambda old: self.add(old, batch), at=clock)

    def _other_writer(self) -> None:
        """Try to write while another process holds the store, now and then with its lock broken by mistake."""
        breaks = self.rng.random() < 0.2
        try:
            held = self._holders()
            self._deliver(break_lock=breaks, most=min(BATCHES, self.confirmed + 1))
            self.was_broken = self.was_broken or (breaks and held)
        except (Locked, StoreError):
            self.was_broken = self.was_broken or (breaks and held)

    def _holders(self) -> bool:
        if isinstance(self.files, SimulatedObjects):
            return any(name.endswith(".claim") for name in self.files.objects)
        return bool(self.device.locks)

    def _reader(self) -> None:
        """Read between two calls of a writer: an old prefix or a new one, never anything else."""
        files = self.files
        if isinstance(files, SimulatedObjects):
            files = files.stale_reader(self.rng.randint(0, 3))
        try:
            epoch = Reader(files).latest()
        except CorruptState as error:
            if files is self.files:  # elsewhere, an old pointer may name an epoch that was collected
                raise AssertionError("a reader met damage") from error
        except StoreError:
            assert self.confirmed == 0
        else:
            assert (self.confirmed if files is self.files else 0) <= self.batches_in(epoch) <= self.sent

    def _check_left(self) -> None:
        if not Store.exists(self.files):
            assert self.confirmed == 0
            return
        found = [problem for problem in verify(self.files) if problem.kind != "leftover"]
        if (
            self.was_broken
        ):  # a person broke the lock of a living writer: batches may be lost, and numbers not wrong
            self.confirmed = 0
            if found:
                self._restore()
        else:
            assert found == []
        batches = self.batches_in(Reader(self.files).latest())
        assert self.confirmed <= batches <= self.sent
        self.confirmed = batches

    def _restore(self) -> None:
        number = Reader(self.files).newest_readable()
        if number is not None:
            Store.restore(self.files, number, options=Options(break_lock=True))
        else:  # rebuild the store, as its message says
            self.files.objects.clear()
            self._open(break_lock=True).close()

    def _go_on(self) -> None:
        self._deliver(break_lock=True, most=BATCHES + 1)
        assert self.batches_in(Reader(self.files).latest()) == BATCHES + 1
        assert [problem for problem in verify(self.files) if problem.kind != "leftover"] == []


# Spark's checkpoint on a disk of its own, with the product's code that reads, syncs and rewinds it.


class SimulatedFolder:
    """A checkpoint's folder. Spark writes and renames files in it without any sync; `sync` is the product's."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk, self.where = disk, "simulated checkpoint"

    def names(self, folder: str) -> list[str]:
        return [
            name.rpartition("/")[2] for name in self.disk.names(ROOT) if name.rpartition("/")[0] == folder
        ]

    def read(self, name: str) -> bytes | None:
        try:
            return self.disk.read(f"{ROOT}/{name}", lambda _: None)
        except FileNotFoundError:
            return None

    def remove(self, name: str) -> None:
        for each in self.disk.names(ROOT):
            if each == name or each.startswith(f"{name}/") or not name:
                self.disk.unlink(f"{ROOT}/{each}")

    def sync(self) -> None:
        self.disk.faults.done(self.disk.faults.call())
        for file in self.disk.names_now.values():
            file.synced = len(file.data)
        self.disk.sync_directory(ROOT)

    def write(self, name: str, content: bytes) -> None:
        """Write a file as Spark does: under another name, which is then changed, without sync."""
        descriptor = self.disk.open_new(f"{ROOT}/.{name.replace('/', '.')}.tmp")
        self.disk.write(descriptor, memoryview(content))
        self.disk.close(descriptor)
        self.disk.rename(f"{ROOT}/.{name.replace('/', '.')}.tmp", f"{ROOT}/{name}")


class SparkSchedule(Schedule):
    """The life of a store whose batches Spark plans; every planning of a batch may take other rows.

    The state is a chain over rows, so a row that is lost, or counted twice, or in another order, changes it. Spark ends
    where it cannot write its checkpoint.
    """

    ends_by = (StoreError, OSError)

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.spark = SimulatedDisk(self.faults)
        self.folder = SimulatedFolder(self.spark)
        store = self.device

        class Both:
            def end(self, *, power: bool) -> None:
                store.end(power=power)
                spark.end(power=power)

            def __getattr__(self, name: str):
                return getattr(store, name)

        spark, self.device = self.spark, Both()

    def _deliver(self, *, break_lock: bool, most: int = BATCHES) -> None:
        checkpoint, back = Checkpoint(self.folder, "simulated"), []

        def check(positions):
            checkpoint.drop_torn()
            back.append(last_to_keep(positions.get("s"), "s", checkpoint, adopt=False))

        with self._open(break_lock=break_lock, check=check) as store:
            if back and back[0] is not None:
                checkpoint.rewind(back[0])
            if checkpoint.query_id is None:
                self.folder.write("metadata", json.dumps({"id": f"q-{self.rng.randint(1, 10**9)}"}).encode())
            self._run_spark(store, checkpoint, most)

    def _live(self) -> None:
        if self.rng.random() < 0.2:
            self._restore_some()
        super()._live()

    def _restore_some(self) -> None:
        """Go back to some epoch, as a person does; the rows since then are to be read again."""
        if Store.exists(self.files):
            epoch = self.rng.choice(Reader(self.files).epochs())
            restored = Store.restore(self.files, epoch, options=Options(break_lock=True))
            self.confirmed = self.batches_in(restored)

    def _run_spark(self, store: Store, checkpoint: Checkpoint, most: int) -> None:
        planned = [int(name) for name in self.folder.names("offsets")]
        last = max(planned, default=-1)
        if last >= 0 and not checkpoint.is_done(last):
            self._take(store, checkpoint, last)
        while self._end(last) < most:
            end = min(most, self._end(last) + self.rng.randint(1, 2))
            last += 1
            content = f"v1\n{json.dumps({'token': self.rng.randint(1, 10**9)})}\n{end}"
            self.folder.write(f"offsets/{last}", content.encode())
            self._take(store, checkpoint, last)

    def _end(self, batch: int) -> int:
        """Return how many rows there are up to a batch, as Spark reads it; it fails where the file is torn."""
        return 0 if batch < 0 else int((self.folder.read(f"offsets/{batch}") or b"").splitlines()[2])

    def _take(self, store: Store, checkpoint: Checkpoint, batch: int) -> None:
        first, last = self._end(batch - 1), self._end(batch)
        self.sent = max(self.sent, last)
        checkpoint.sync()
        held = Batch(checkpoint.held(batch))

        def change(old: Epoch) -> dict[str, bytes]:
            return {"sum": functools.reduce(chained, range(first, last), old.sections["sum"])}

        store.commit("s", str(checkpoint.query_id), batch, change, rows=last - first, at=0.0, batch=held)
        self.confirmed = max(self.confirmed, last)
        self.folder.write(f"commits/{batch}", b'v1\n{"nextBatchWatermarkMs":0}')

    def _other_writer(self) -> None:
        """Try to start the same run a second time: the lock refuses it before it touches the checkpoint."""
        if self._holders():
            try:
                self._deliver(break_lock=False, most=self.confirmed + 1)
            except self.ends_by:
                return
