"""A directory of small immutable files, on a local disk or on any filesystem of pyarrow.

Both kinds offer the same verbs. `create` refuses a name that exists and `replace` overwrites it; either way a
reader finds the old bytes or the new ones. Locally that is: write a temporary file, fsync it, link or rename it to
its name, fsync the directory. Object stores publish an object when its upload is closed. HDFS does not, so readers
check every byte and look again (`Reader.current`).

Every call to a local disk goes through `Disk`, which the fault simulator replaces. A store relies only on this:

- `sync` makes the bytes of a file durable, and `sync_directory` the names in a directory. Before that, a crash of the
  machine may keep, lose or cut what was written, in any order.
- `link` fails where the name exists. `rename` replaces: a reader finds the old file or the new one.
- `lock` is given to one process at a time, and released when that process ends.

`read` looks at the length of a file before it takes memory for it: anyone with write access to the directory could
put a file of any size there.

`step` is called with each of `layout.WRITE_STEPS` as it is done; pyarrow has only "written"
and "named".
"""

import contextlib
import fcntl
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from pyarrow import fs

from eddyline.errors import CorruptState, StoreError, without_secrets
from eddyline.store.layout import TEMPORARY

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
    """All calls to the operating system."""

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


Step = Callable[[str], None]
Where: TypeAlias = str | os.PathLike[str] | fs.FileSystem


def no_step(_name: str) -> None:
    """Do nothing: the default `step`; only tests that kill a writer pass another one."""


def at_most(length: int) -> Check:
    """Return the check of a file that has at most `length` bytes."""

    def check(file: Unread) -> None:
        if file.size > length:
            raise CorruptState(f"it is {file.size:,} bytes long, and at most {length:,} are expected")

    return check


class LocalFiles:
    """A directory on a local disk, with real fsync."""

    def __init__(self, root: Path, disk: Disk | None = None) -> None:
        self.root = root
        self.where = str(root)
        self.disk = disk or Disk()

    def path(self, name: str) -> str:
        """Return the path of a file."""
        return f"{self.where}/{name}"

    def make(self) -> None:
        """Create the directory where it is missing."""
        self.disk.make_directory(self.root)

    def try_writing(self) -> None:
        """Write a file and remove it again, with the directories that it needed; raise OSError where that fails."""
        missing = [path for path in (self.root, *self.root.parents) if not path.exists()]
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            name = f"probe.{secrets.token_hex(8)}{TEMPORARY}"
            (self.root / name).touch(exist_ok=False)
            (self.root / name).unlink()
        finally:
            for path in missing:
                with contextlib.suppress(OSError):
                    path.rmdir()

    def names(self) -> list[str]:
        """Return the names of all files, none when there is no directory."""
        return self.disk.names(self.where)

    def read(self, name: str, check: Check) -> bytes:
        """Return the content of a file, or raise FileNotFoundError, or what `check` raises before it is read."""
        return self.disk.read(self.path(name), check)

    def stamp(self, name: str) -> str:
        """Return what distinguishes a file from another of the same name, or raise FileNotFoundError."""
        return self.disk.stamp(self.path(name))

    def create(self, name: str, data: bytes, step: Step = no_step) -> None:
        """Write a new file durably, or raise FileExistsError."""
        with self._temporary(name, data, step) as temporary:
            self.disk.link(temporary, self.path(name))
            step("named")
        self.disk.sync_directory(self.where)
        step("listed")

    def replace(self, name: str, data: bytes, step: Step = no_step) -> None:
        """Replace a file durably."""
        with self._temporary(name, data, step) as temporary:
            self.disk.rename(temporary, self.path(name))
            step("named")
        self.disk.sync_directory(self.where)
        step("listed")

    def note(self, name: str, data: bytes) -> None:
        """Replace a file without fsync: a crash of the machine may undo the write or leave the file empty."""
        with self._temporary(name, data, no_step, is_synced=False) as temporary:
            self.disk.rename(temporary, self.path(name))

    def settle(self) -> None:
        """Make all current names durable, including those that another process created before it was killed."""
        self.disk.sync_directory(self.where)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            self.disk.unlink(self.path(name))

    @contextlib.contextmanager
    def _temporary(self, name: str, data: bytes, step: Step, *, is_synced: bool = True) -> Iterator[str]:
        path = self.path(f"{name}.{secrets.token_hex(8)}{TEMPORARY}")
        view = memoryview(data)
        descriptor = self.disk.open_new(path)
        try:
            try:
                self.disk.write(descriptor, view[: len(view) // 2])
                step("half-written")
                self.disk.write(descriptor, view[len(view) // 2 :])
                step("written")
                if is_synced:
                    self.disk.sync(descriptor)
                step("synced")
            finally:
                self.disk.close(descriptor)
            yield path
        finally:
            with contextlib.suppress(OSError):
                self.disk.unlink(path)


class ArrowFiles:
    """A directory of a pyarrow filesystem: s3://, gs://, abfs://, hdfs:// and the like.

    Deviation: pyarrow offers no conditional create, so `create` looks before it writes. The claim in `lock`
    prevents two writers from looking at the same moment.
    """

    def __init__(self, filesystem: fs.FileSystem, root: str, where: str) -> None:
        self._filesystem = filesystem
        self._root = root.rstrip("/")
        self.where = where

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if self._root else name

    def make(self) -> None:
        """Create the directory where it is missing."""
        if self._root:
            self._filesystem.create_dir(self._root, recursive=True)

    def try_writing(self) -> None:
        """Write a small file and remove it again; raise OSError where that fails."""
        name = f"probe.{secrets.token_hex(8)}{TEMPORARY}"
        self.make()
        self.replace(name, b"")
        self.remove(name)

    def names(self) -> list[str]:
        """Return the names of all files, none when there is no directory."""
        selector = fs.FileSelector(self._root, allow_not_found=True)
        entries = self._filesystem.get_file_info(selector)
        return sorted(entry.base_name for entry in entries if entry.type == fs.FileType.File)

    def read(self, name: str, check: Check) -> bytes:
        """Return the content of a file, or raise FileNotFoundError, or what `check` raises before it is read."""
        with self._filesystem.open_input_file(self._path(name)) as file:
            size = file.size()

            def blocks() -> Iterator[bytes]:
                for start in range(0, size, BLOCK):
                    yield file.read_at(min(BLOCK, size - start), start)

            check(Unread(size, file.read_at(min(BLOCK, size), 0), blocks))
            return bytes(file.read_at(size, 0))

    def stamp(self, name: str) -> str:
        """Return what distinguishes a file from another of the same name, or raise FileNotFoundError."""
        about = self._filesystem.get_file_info(self._path(name))
        if about.type == fs.FileType.NotFound:
            raise FileNotFoundError(name)
        return f"{about.mtime_ns} {about.size}"

    def create(self, name: str, data: bytes, step: Step = no_step) -> None:
        """Write a new file, or raise FileExistsError."""
        if self._filesystem.get_file_info(self._path(name)).type != fs.FileType.NotFound:
            raise FileExistsError(name)
        self.replace(name, data, step)

    def replace(self, name: str, data: bytes, step: Step = no_step) -> None:
        """Replace a file."""
        with self._filesystem.open_output_stream(self._path(name), compression=None) as stream:
            stream.write(data)  # in one piece: closing publishes whatever was written, also after an error
            step("written")
        step("named")

    def note(self, name: str, data: bytes) -> None:
        """Replace a file."""
        self.replace(name, data)

    def settle(self) -> None:
        """Do nothing: an object that can be read is durable."""

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            self._filesystem.delete_file(self._path(name))


Files = LocalFiles | ArrowFiles


def open_files(where: Where) -> Files:
    """Return the directory that a local path, a URI or a pyarrow filesystem names."""
    if isinstance(where, fs.FileSystem):
        return ArrowFiles(where, "", f"{where.type_name} filesystem")
    opened = open_filesystem(where)
    if isinstance(opened.filesystem, fs.LocalFileSystem):
        return LocalFiles(Path(opened.root))
    return ArrowFiles(opened.filesystem, opened.root, opened.shown)


@dataclass(frozen=True)
class Location:
    """A directory or a file of a pyarrow filesystem; shown: its name, fit for a message."""

    filesystem: fs.FileSystem
    root: str
    shown: str


def open_filesystem(where: str | os.PathLike[str]) -> Location:
    """Return the filesystem of a local path or a URI and the path in it, or raise StoreError."""
    text = os.fspath(where)
    if "://" not in text:
        path = str(Path(text).absolute())
        return Location(fs.LocalFileSystem(), path, path)
    shown = without_secrets(text)
    try:
        filesystem, root = fs.FileSystem.from_uri(text)
    except (OSError, ValueError, pa.ArrowException):
        # Not chained: pyarrow's sentence repeats the URI with its keys.
        raise StoreError(f"no filesystem of pyarrow opens {shown}: check its scheme and options.") from None
    return Location(filesystem, root, shown)
