"""Locks: one writer at a time, and who it is.

On a local disk: flock on the file LOCK, which the kernel releases when its holder is killed.

Elsewhere there is neither flock nor, through pyarrow, a conditional create. A writer first creates a claim file
with a unique name and then looks for others: the later of any two claims sees the earlier one, so two writers never
both find themselves alone. A claim survives a killed writer. It is removed when its process is known to be dead
(same machine, same boot, no such process), or by `break_lock` when a person knows that it is dead. The writer
checks its claim again before it writes each pointer, so that a writer whose lock was broken stops.
"""

import contextlib
import os
import platform
import secrets
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import msgspec

from eddyline.errors import CorruptState, Locked
from eddyline.store.filesystem import ArrowFiles, Files, LocalFiles, at_most
from eddyline.store.layout import CLAIM, LOCK

_LONGEST = 4096  # bytes of a file that names a holder; a host's name has 64
_PROCESS = secrets.token_hex(8)  # distinguishes this process from an earlier one with the same id


class Holder(msgspec.Struct, frozen=True):
    """Who holds a store; `started` is for people to read."""

    pid: int
    host: str
    started: str
    machine: str
    process: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, which opened it at {self.started}"


@cache
def _machine() -> str:
    """Return an id shared by processes whose process ids can be compared, or nothing when it cannot be known."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _myself() -> Holder:
    started = datetime.now(UTC).isoformat(timespec="seconds")
    return Holder(os.getpid(), platform.node(), started, _machine(), _PROCESS)


def _read(files: Files, name: str) -> Holder | None:
    """Return the holder in a file, None where it is damaged or empty; raise FileNotFoundError if it is missing."""
    try:
        return msgspec.json.decode(files.read(name, at_most(_LONGEST)), type=Holder)
    except (msgspec.DecodeError, CorruptState):
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
    except (PermissionError, OverflowError):  # a number that no process has: the file is damaged
        return False
    return False


def _locked(where: str, holder: Holder | None, advice: str) -> Locked:
    return Locked(f"the store {where} is held by {holder or 'a writer that left no name'}: {advice}.")


class FileLock:
    """The lock on a local directory."""

    def __init__(self, files: LocalFiles) -> None:
        self._where, self._disk = files.where, files.disk
        self._path = files.path(LOCK)
        try:
            self._descriptor = self._disk.lock(self._path, msgspec.json.encode(_myself()))
        except BlockingIOError:
            raise _locked(files.where, _read(files, LOCK), "stop it or wait for its end") from None

    def check(self) -> None:
        """Raise Locked unless the lock is still ours: someone may have removed the file."""
        if not self._disk.is_locked(self._path, self._descriptor):
            raise Locked(f"the lock of the store {self._where} was removed under its writer: open it again.")

    def release(self) -> None:
        """Release the lock, and remove the holder's name."""
        self._disk.unlock(self._descriptor)


class ClaimLock:
    """The lock on a directory of a pyarrow filesystem."""

    def __init__(self, files: ArrowFiles, *, break_lock: bool) -> None:
        self._files = files
        self._name = f"writer-{secrets.token_hex(8)}{CLAIM}"
        try:
            files.create(self._name, msgspec.json.encode(_myself()))
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
                    found.append((name, _read(self._files, name)))
        return found

    def check(self) -> None:
        """Raise Locked unless our claim is still there."""
        if self._name not in self._files.names():
            others = self._others()
            raise _locked(
                self._files.where, others[0][1] if others else None, "it broke our lock; open again"
            )

    def release(self) -> None:
        """Release the lock."""
        with contextlib.suppress(OSError):
            self._files.remove(self._name)


Lock = FileLock | ClaimLock


def writer_of(files: Files) -> Holder | None:
    """Return the current writer of a store, as far as readers can know; None where there is none.

    A reader takes no lock, not even for a moment: it could keep a writer out. It reads the name that a writer
    leaves, and detects a killed writer only on the same machine.
    """
    names = [LOCK] if isinstance(files, LocalFiles) else [n for n in files.names() if n.endswith(CLAIM)]
    for name in names:
        with contextlib.suppress(OSError):
            holder = _read(files, name)
            if holder is not None and not _dead(holder):
                return holder
    return None


def acquire(files: Files, *, break_lock: bool = False) -> Lock:
    """Return the lock of a store, or raise Locked with the name of its holder."""
    if isinstance(files, LocalFiles):
        return FileLock(files)
    return ClaimLock(files, break_lock=break_lock)
