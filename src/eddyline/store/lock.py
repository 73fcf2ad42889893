"""One writer at a time, and a name for the one that is there.

On a local disk: flock on the file LOCK, which the kernel releases when its holder is killed.

Elsewhere there is neither flock nor, through pyarrow, a conditional create. A writer first puts down a
claim under a name of its own and then looks for others: the later of any two claims sees the earlier one,
so never do two writers find themselves alone. A claim survives a killed writer. It is removed when its
process is known to be dead (same machine, same boot, no such process), and by `break_lock` when a person
knows it. The claim is looked up again before each pointer is written, so that a writer whose lock was
broken stops.
"""

import contextlib
import fcntl
import os
import platform
import secrets
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from eddyline.errors import Locked
from eddyline.store.filesystem import ArrowFiles, Files, LocalFiles
from eddyline.store.layout import CLAIM, LOCK

_PROCESS = secrets.token_hex(8)  # tells this process from an earlier one with its number


class Holder(msgspec.Struct, frozen=True):
    """Who holds a store; `started` is for people to read."""

    pid: int
    host: str
    started: str
    machine: str
    process: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, which opened it at {self.started}"


def _machine() -> str:
    """Return what processes share whose numbers can be compared, or nothing when that cannot be known."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _myself() -> Holder:
    started = datetime.now(UTC).isoformat(timespec="seconds")
    return Holder(os.getpid(), platform.node(), started, _machine(), _PROCESS)


def _parse(data: bytes) -> Holder | None:
    try:
        return msgspec.json.decode(data, type=Holder)
    except msgspec.DecodeError:
        return None


def _dead(holder: Holder | None) -> bool:
    """Return whether the holder's process is known to have ended."""
    if holder is None or not holder.machine or holder.machine != _machine():
        return False
    if holder.pid == os.getpid():
        return holder.process != _PROCESS
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _locked(where: str, holder: Holder | None, advice: str) -> Locked:
    return Locked(f"the store {where} is held by {holder or 'a writer that left no name'}: {advice}.")


class FileLock:
    """The lock on a local directory."""

    def __init__(self, files: LocalFiles) -> None:
        self._where = files.where
        self._path = files.root / LOCK
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _parse(os.pread(self._descriptor, 4096, 0))
            os.close(self._descriptor)
            raise _locked(files.where, holder, "stop it or wait for its end") from None
        with contextlib.suppress(OSError):  # a full disk: the lock holds, only its holder stays unnamed
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, msgspec.json.encode(_myself()), 0)

    def check(self) -> None:
        """Raise Locked unless the lock is still ours: someone may have removed the file."""
        try:
            same = os.path.samestat(os.fstat(self._descriptor), self._path.stat())
        except FileNotFoundError:
            same = False
        if not same:
            raise Locked(f"the lock of the store {self._where} was removed under its writer: open it again.")

    def release(self) -> None:
        """Let the next writer in, and leave no name behind."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)


class ClaimLock:
    """The lock on a directory of a pyarrow filesystem."""

    def __init__(self, files: ArrowFiles, *, break_lock: bool) -> None:
        self._files = files
        self._name = f"writer-{secrets.token_hex(8)}{CLAIM}"
        files.create(self._name, msgspec.json.encode(_myself()))
        try:
            self._refuse_rivals(break_lock=break_lock)
        except BaseException:
            self.release()
            raise

    def _refuse_rivals(self, *, break_lock: bool) -> None:
        for name, holder in self._others():
            if not (break_lock or _dead(holder)):
                advice = (
                    "stop it, or, if you know that it is gone, `eddyline run --break-lock` (break_lock=True)"
                )
                raise _locked(self._files.where, holder, advice)
            self._files.remove(name)

    def _others(self) -> list[tuple[str, Holder | None]]:
        found = []
        for name in self._files.names():
            if name.endswith(CLAIM) and name != self._name:
                with contextlib.suppress(FileNotFoundError):
                    found.append((name, _parse(self._files.read(name))))
        return found

    def check(self) -> None:
        """Raise Locked unless our claim is still there."""
        if self._name not in self._files.names():
            others = self._others()
            raise _locked(
                self._files.where, others[0][1] if others else None, "it broke our lock; open again"
            )

    def release(self) -> None:
        """Let the next writer in."""
        with contextlib.suppress(OSError):
            self._files.remove(self._name)


Lock = FileLock | ClaimLock


def writer_of(files: Files) -> Holder | None:
    """Return who writes to a store now, as far as its readers can know; None where nobody does.

    A reader takes no lock, not even for a moment: it could keep a writer out. It reads the name that a writer leaves,
    and knows of a killed one only on the same machine.
    """
    names = [LOCK] if isinstance(files, LocalFiles) else [n for n in files.names() if n.endswith(CLAIM)]
    for name in names:
        with contextlib.suppress(OSError):
            holder = _parse(files.read(name))
            if holder is not None and not _dead(holder):
                return holder
    return None


def acquire(files: Files, *, break_lock: bool = False) -> Lock:
    """Return the lock of a store, or raise Locked with the name of its holder."""
    if isinstance(files, LocalFiles):
        return FileLock(files)
    return ClaimLock(files, break_lock=break_lock)
