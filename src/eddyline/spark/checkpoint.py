"""Spark's checkpoint of one streaming query: its batches, what they hold, and frames that have no file yet."""

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

from eddyline.errors import PipelineError
from eddyline.spark.causes import SPARK_ERRORS, cause_of

# Streams of files that have no file yet.


class NoFileYet(PipelineError):  # noqa: N818 - the name states the condition
    """A source of files has no file, or its folder is missing."""


@dataclass(frozen=True)
class AwaitedFrame:
    """A streaming frame that can be read once its first file exists; `read` raises NoFileYet until then."""

    read: Callable[[], DataFrame]
    path: str
    isStreaming: bool = True  # noqa: N815 - Spark's word, by which frames are distinguished

    def __str__(self) -> str:
        return f"has no file yet at {self.path}"


# What a checkpoint records: which batches were planned, what they hold, and how to go back to one.
#
# - metadata: the id of the query.
# - offsets/N: up to where batch N reads its sources; written before the batch runs, never rewritten.
# - commits/N: batch N was done.
# - sources/...: what a source remembers, such as the files that it listed.
#
# Without the offsets and commits after batch N, a query is where it was when batch N was done, as if it had
# been killed then: a source whose own log is ahead takes what it listed since then into its next batch.


_METADATA, _OFFSETS, _COMMITS, _SOURCES = "metadata", "offsets", "commits", "sources"
_COMPACT = ".compact"
"""The suffix of the name of a list that also has the entries of all lists before it."""
_FILE_SOURCE = re.compile(r"FileSource\[(.*?)\]")
_LOG_OFFSET = re.compile(r'\{"logOffset":(\d+)\}')


class Folder(Protocol):
    """A folder on any filesystem that Spark writes to; names are relative to it."""

    where: str

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder; empty if the folder does not exist."""

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, None if it does not exist."""

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with everything in it, if it exists."""

    def sync(self) -> None:
        """Make everything that was written survive a loss of power."""


class LocalFolder:
    """A folder on a local disk, where Hadoop keeps a checksum `.NAME.crc` next to each file."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.where = str(root)
        self._synced: set[tuple[str, int]] = set()
        self._emptied: set[Path] = set()

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder; empty if the folder does not exist."""
        found = self._root / folder
        return [entry.name for entry in os.scandir(found) if entry.is_file()] if found.is_dir() else []

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, None if it does not exist."""
        path = self._root / name
        return path.read_bytes() if path.is_file() else None

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with everything in it, if it exists."""
        path = self._root / name
        if path.is_dir():
            shutil.rmtree(path)
            return
        path.unlink(missing_ok=True)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        self._emptied.add(path.parent)

    def sync(self) -> None:
        """Flush every file that was not flushed yet to the disk, and then the folders that name them."""
        if not self._root.is_dir():
            return
        changed = dict.fromkeys(folder for folder in self._emptied if folder.is_dir())
        self._emptied.clear()
        for path in self._files():
            try:
                descriptor = os.open(path, os.O_RDONLY)
            except FileNotFoundError:
                continue  # a temporary file of Spark, renamed since it was listed
            try:
                mark = (str(path), os.fstat(descriptor).st_mtime_ns)
                if mark not in self._synced:
                    os.fsync(descriptor)
                    self._synced.add(mark)
                    changed |= dict.fromkeys([path.parent, *path.parent.parents])
            finally:
                os.close(descriptor)
        for folder in changed:
            if folder == self._root.parent or folder.is_relative_to(self._root):
                _sync_folder(folder)

    def _files(self) -> Iterator[Path]:
        for folder, _, names in os.walk(self._root):
            yield from (Path(folder) / name for name in names)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class HadoopFolder:
    """A folder on a filesystem of Hadoop, which Spark's JVM reads and writes."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        jvm: Any = spark._jvm  # noqa: SLF001 - the only way to Hadoop's filesystems
        session: Any = spark._jsparkSession  # noqa: SLF001
        self._jvm = jvm
        self.where = location
        with self._clear_errors():
            self._root = jvm.org.apache.hadoop.fs.Path(location)
            self._files = self._root.getFileSystem(session.sessionState().newHadoopConf())
            self.where = str(self._files.makeQualified(self._root))

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name) if name else self._root

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder; empty if the folder does not exist."""
        with self._clear_errors():
            path = self._path(folder)
            found = self._files.listStatus(path) if self._files.exists(path) else ()
            return [str(each.getPath().getName()) for each in found if each.isFile()]

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, None if it does not exist."""
        with self._clear_errors():
            path = self._path(name)
            if not self._files.exists(path):
                return None
            stream = self._files.open(path)
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with everything in it, if it exists."""
        with self._clear_errors():
            self._files.delete(self._path(name), True)

    def sync(self) -> None:
        """Do nothing: these filesystems keep files that were closed."""

    @contextlib.contextmanager
    def _clear_errors(self) -> Iterator[None]:
        """Turn an error of the JVM into a PipelineError."""
        try:
            yield
        except SPARK_ERRORS as error:
            raise PipelineError(
                f"the checkpoint {self.where} cannot be read or written: {cause_of(error)}"
            ) from error


class Checkpoint:
    """What Spark remembers about one streaming query; location: the checkpointLocation that Spark gets."""

    def __init__(self, folder: Folder, location: str) -> None:
        self._folder = folder
        self.location = location

    @property
    def where(self) -> str:
        """The folder, as messages name it."""
        return self._folder.where

    @property
    def query_id(self) -> str | None:
        """The id of the query, None if there is no checkpoint."""
        content = self._folder.read(_METADATA)
        try:
            return None if content is None else str(json.loads(content)["id"])
        except (ValueError, KeyError, TypeError):
            return None

    @property
    def last(self) -> int:
        """The last batch that was planned, -1 if no batch was."""
        return max(self._batches(_OFFSETS), default=-1)

    def is_done(self, batch: int) -> bool:
        """Return whether Spark considers a batch done."""
        return batch in self._batches(_COMMITS)

    def held(self, batch: int) -> str:
        """Return a hash of what a batch holds, empty if Spark does not remember it.

        It covers the offsets and the time at which they were planned. So a batch that was planned a second time has
        another hash, even where offsets are only counts, as those of files are.
        """
        content = self._folder.read(f"{_OFFSETS}/{batch}")
        return "" if content is None else hashlib.blake2b(content, digest_size=16).hexdigest()

    def files(self, batch: int) -> list[str]:
        """Return the URIs of the files that a batch reads; empty for sources other than files."""
        before, upto = self._log_offsets(batch - 1), self._log_offsets(batch)
        found: list[str] = []
        for source, last in upto.items():
            first = before.get(source, -1) + 1
            for name in self._folder.names(f"{_SOURCES}/{source}"):
                number = name.removesuffix(_COMPACT)
                if number.isdecimal() and first <= int(number):
                    content = self._folder.read(f"{_SOURCES}/{source}/{name}") or b""
                    entries = (json.loads(line) for line in content.splitlines()[1:])
                    found += [str(each["path"]) for each in entries if first <= each["batchId"] <= last]
        return sorted(set(found))

    def _log_offsets(self, batch: int) -> dict[int, int]:
        """Return, by number of each source of files, up to which entry of its list of files a batch reads."""
        content = self._folder.read(f"{_OFFSETS}/{batch}") or b""
        found = {}
        for source, line in enumerate(content.decode().splitlines()[2:]):
            if match := _LOG_OFFSET.fullmatch(line.strip()):
                found[source] = int(match[1])
        return found

    def rewind(self, batch: int) -> None:
        """Go back to where a batch was done, or to before the first one (-1); if no batch was done, start again.

        If it is killed halfway, the checkpoint is either still ahead or already where it should be.
        """
        if batch < 0 and not self._batches(_COMMITS):
            self.clear()
            return
        for part in (_COMMITS, _OFFSETS):
            for number in sorted(self._batches(part), reverse=True):
                if number > batch:
                    self._folder.remove(f"{part}/{number}")
        self._folder.sync()

    def drop_torn(self) -> None:
        """Remove the newest files that a loss of power left empty or cut off, with which Spark does not start.

        They are later than the last batch that a store holds, because the checkpoint is synced before each commit. What
        they planned is planned again.
        """
        for part, lines in ((_COMMITS, 2), (_OFFSETS, 3)):
            for number in sorted(self._batches(part), reverse=True):
                if _is_whole(self._folder.read(f"{part}/{number}") or b"", lines):
                    break
                self._folder.remove(f"{part}/{number}")

    def clear(self) -> None:
        """Remove the checkpoint: the next query starts from the beginning.

        The batches go first, and durably: without its id, the rest of a checkpoint would look like that of another
        query.
        """
        for number in sorted(self._batches(_OFFSETS), reverse=True):
            self._folder.remove(f"{_OFFSETS}/{number}")
        self._folder.sync()
        self._folder.remove("")

    def sync(self) -> None:
        """Make what was planned survive a loss of power; call it before a batch is committed elsewhere."""
        self._folder.sync()

    def _batches(self, part: str) -> list[int]:
        return [int(name) for name in self._folder.names(part) if name.isdecimal()]


def _is_whole(content: bytes, lines: int) -> bool:
    """Return whether a file of a checkpoint has a version and at least `lines` lines, each JSON or "-"."""
    found = content.split(b"\n")
    if len(found) < lines or not found[0].startswith(b"v"):
        return False
    try:
        return all(line == b"-" or json.loads(line) is not None for line in found[1:])
    except ValueError:
        return False


def open_checkpoint(spark: SparkSession, location: str) -> Checkpoint:
    """Return the checkpoint at a path or URI as Spark understands it, or raise PipelineError."""
    folder = HadoopFolder(spark, location)
    scheme, _, path = folder.where.partition(":")
    if scheme == "file":
        return Checkpoint(LocalFolder(Path("/" + path.lstrip("/"))), location)
    return Checkpoint(folder, location)


def folder_of(frame: DataFrame) -> str:
    """Return the folder whose files a streaming frame reads, empty if it reads no folder or several."""
    plan: Any = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - the plan has no other public API
    found = _FILE_SOURCE.findall(str(plan.toString()))
    return plain_folder(found[0]) if len(found) == 1 else ""


def stream_folder(frame: DataFrame | AwaitedFrame) -> str:
    """Return the folder whose files a stream reads, or will read; empty if it reads no folder or several."""
    return plain_folder(frame.path) if isinstance(frame, AwaitedFrame) else folder_of(frame)


def plain_folder(path: str) -> str:
    """Return a folder in one spelling: local folders without their scheme, all without a slash at the end."""
    local = "/" + path.partition(":")[2].lstrip("/") if path.startswith("file:") else path
    return local.rstrip("/") or "/"


def file_names_in(folder: str, files: list[str]) -> tuple[str, ...]:
    """Return the names of files relative to their folder, so that they are the same in a copy of it."""
    root = folder.partition("*")[0].rpartition("/")[0] + "/" if "*" in folder else folder + "/"
    plain = [plain_folder(unquote(file)) for file in files]
    return tuple(file.partition(root)[2] or file for file in plain)
