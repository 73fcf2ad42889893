"""Every call that the store makes to a local disk, in one small class that a fault simulator can replace.

A store relies only on this:

- `sync` makes the bytes of a file durable, and `sync_directory` the names in a directory. Before that, a crash of the
  machine may keep, lose or cut what was written, in any order.
- `link` fails where the name exists. `rename` replaces: a reader finds the old file or the new one.
- `lock` is given to one process at a time, and released when that process ends.
"""

import contextlib
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from eddyline.errors import CorruptState

BLOCK = 1 << 20
"""Bytes to read at once before the whole file is read."""
FILE_MODE = 0o640
"""A state holds values of the source's rows: its user and group may read it, others may not."""
DIRECTORY_MODE = 0o750


@dataclass(frozen=True, slots=True)
class Unread:
    """A file before it is read: its size, its first bytes (up to BLOCK), and all of it in blocks."""

    size: int
    first: bytes
    blocks: Callable[[], Iterator[bytes]]


Check = Callable[[Unread], None]


class Disk:
    """The calls to the operating system."""

    def make_directory(self, root: Path) -> None:
        """Create a directory and its parents durably where they are missing."""
        missing = [path for path in (root, *root.parents) if not path.exists()]
        root.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        for path in missing:
            self.sync_directory(str(path.parent))

    def names(self, root: str) -> list[str]:
        """Return the names of all regular files of a directory, none where it is missing."""
        try:
            return sorted(entry.name for entry in os.scandir(root) if entry.is_file())
        except FileNotFoundError:
            return []

    def read(self, path: str, check: Check) -> bytes:
        """Return the content of a file that passes a check; a pipe or a device is refused and not waited for."""
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode):
                raise CorruptState("it is not a regular file")
            size = about.st_size

            def blocks() -> Iterator[bytes]:
                for start in range(0, size, BLOCK):
                    yield os.pread(descriptor, min(BLOCK, size - start), start)

            first = os.pread(descriptor, min(BLOCK, size), 0)
            check(Unread(size, first, blocks))
            if size <= BLOCK:
                return first
            with open(descriptor, "rb", closefd=False) as file:
                return file.read(size)
        finally:
            os.close(descriptor)

    def stamp(self, path: str) -> str:
        """Return what distinguishes a file from another file of the same name."""
        about = os.stat(path)  # noqa: PTH116 - paths are strings here, as for the system
        return f"{about.st_ino} {about.st_mtime_ns} {about.st_size}"

    def open_new(self, path: str) -> int:
        """Create a file and return its descriptor, or raise FileExistsError."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)

    def write(self, descriptor: int, data: memoryview) -> None:
        """Append bytes to a file."""
        while data:
            data = data[os.write(descriptor, data) :]

    def sync(self, descriptor: int) -> None:
        """Make what was written to a file durable."""
        os.fsync(descriptor)

    def close(self, descriptor: int) -> None:
        """Close a file."""
        os.close(descriptor)

    def link(self, path: str, name: str) -> None:
        """Give a file another name, or raise FileExistsError."""
        os.link(path, name)

    def rename(self, path: str, name: str) -> None:
        """Give a file another name, in place of the file that has it."""
        os.rename(path, name)  # noqa: PTH104 - paths are strings here, as for the system

    def unlink(self, path: str) -> None:
        """Remove a file, or raise FileNotFoundError."""
        os.unlink(path)  # noqa: PTH108 - paths are strings here, as for the system

    def sync_directory(self, root: str) -> None:
        """Make the names in a directory durable."""
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: str, content: bytes) -> int:
        """Return the descriptor of a lock, whose file then names its holder, or raise BlockingIOError."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, FILE_MODE | stat.S_IWGRP)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(descriptor)
            raise
        with contextlib.suppress(OSError):  # a full disk: the lock holds, only its holder stays unnamed
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, content, 0)
        return descriptor

    def is_locked(self, path: str, descriptor: int) -> bool:
        """Return whether the file of a lock is still the one that was locked: someone may have removed it."""
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(path))  # noqa: PTH116
        except FileNotFoundError:
            return False

    def unlock(self, descriptor: int) -> None:
        """Release a lock, and leave no name in its file."""
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
        os.close(descriptor)
