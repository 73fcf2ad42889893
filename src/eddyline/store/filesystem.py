"""A directory of small immutable files, on a local disk or on any filesystem of pyarrow.

Both kinds offer the same verbs. `create` refuses a name that exists and `replace` overwrites it; either
way a reader finds the old bytes or the new ones. Locally that is: write a temporary file, fsync it, link or
rename it to its name, fsync the directory. Object stores publish an object when its upload is closed.
HDFS does not, so readers check every byte and look again (`Reader.current`).

`step` is called with each of `layout.WRITE_STEPS` as it is done; pyarrow has only "written"
and "named".
"""

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from eddyline.errors import StoreError
from eddyline.store.layout import TEMPORARY

Step = Callable[[str], None]
Where: TypeAlias = str | os.PathLike[str] | fs.FileSystem


def no_step(_name: str) -> None:
    """Do nothing: the `step` of everyone but the tests that kill a writer."""


def _fsync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


class LocalFiles:
    """A directory on a local disk, with real fsync."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.where = str(root)

    def make(self) -> None:
        """Create the directory where it is missing."""
        missing = [path for path in (self.root, *self.root.parents) if not path.exists()]
        self.root.mkdir(parents=True, exist_ok=True)
        for path in missing:
            _fsync_directory(path.parent)

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
        try:
            return sorted(entry.name for entry in os.scandir(self.root) if entry.is_file())
        except FileNotFoundError:
            return []

    def read(self, name: str) -> bytes:
        """Return the content of a file, or raise FileNotFoundError."""
        return (self.root / name).read_bytes()

    def stamp(self, name: str) -> str:
        """Return what tells a file from another one of its name, or raise FileNotFoundError."""
        about = (self.root / name).stat()
        return f"{about.st_ino} {about.st_mtime_ns} {about.st_size}"

    def create(self, name: str, data: bytes, step: Step = no_step) -> None:
        """Write a new file durably, or raise FileExistsError."""
        with self._temporary(name, data, step) as temporary:
            os.link(temporary, self.root / name)
            step("named")
        _fsync_directory(self.root)
        step("listed")

    def replace(self, name: str, data: bytes, step: Step = no_step) -> None:
        """Write a file durably in place of the one of that name."""
        with self._temporary(name, data, step) as temporary:
            temporary.replace(self.root / name)
            step("named")
        _fsync_directory(self.root)
        step("listed")

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self.root / name).unlink(missing_ok=True)

    @contextlib.contextmanager
    def _temporary(self, name: str, data: bytes, step: Step) -> Iterator[Path]:
        path = self.root / f"{name}.{secrets.token_hex(8)}{TEMPORARY}"
        view = memoryview(data)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            try:
                _write_all(descriptor, view[: len(view) // 2])
                step("half-written")
                _write_all(descriptor, view[len(view) // 2 :])
                step("written")
                os.fsync(descriptor)
                step("synced")
            finally:
                os.close(descriptor)
            yield path
        finally:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


class ArrowFiles:
    """A directory of a pyarrow filesystem: s3://, gs://, abfs://, hdfs:// and the like.

    Deviation: pyarrow offers no conditional create, so `create` looks before it writes. That two writers do
    not look at the same moment is the business of the claim in `lock`.
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

    def read(self, name: str) -> bytes:
        """Return the content of a file, or raise FileNotFoundError."""
        with self._filesystem.open_input_stream(self._path(name), compression=None) as stream:
            return bytes(stream.read())

    def stamp(self, name: str) -> str:
        """Return what tells a file from another one of its name, or raise FileNotFoundError."""
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
        """Write a file in place of the one of that name."""
        with self._filesystem.open_output_stream(self._path(name), compression=None) as stream:
            stream.write(data)  # in one piece: closing publishes whatever was written, also after an error
            step("written")
        step("named")

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
class Place:
    """A directory or a file of a pyarrow filesystem; shown: its name, fit for a message."""

    filesystem: fs.FileSystem
    root: str
    shown: str


def open_filesystem(where: str | os.PathLike[str]) -> Place:
    """Return the filesystem of a local path or a URI and the path in it, or raise StoreError."""
    text = os.fspath(where)
    if "://" not in text:
        path = str(Path(text).absolute())
        return Place(fs.LocalFileSystem(), path, path)
    shown = without_secrets(text)
    try:
        filesystem, root = fs.FileSystem.from_uri(text)
    except (OSError, ValueError, pa.ArrowException):
        # Not chained: pyarrow's sentence repeats the URI with its keys.
        raise StoreError(f"no filesystem of pyarrow opens {shown}: check its scheme and options.") from None
    return Place(filesystem, root, shown)


def without_secrets(uri: str) -> str:
    """Return a URI without user, password and query, fit for a message."""
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
