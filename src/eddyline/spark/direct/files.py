"""Files of Parquet: those of a path, and how they are shared out among tasks."""

from collections.abc import Sequence
from pathlib import PurePosixPath

import msgspec
from pyarrow import fs

from eddyline.errors import PipelineError, StoreError
from eddyline.spark.direct.doubt import READ_ERRORS, Doubt
from eddyline.store.filesystem import Place, open_filesystem

TASK_BYTES = 4 << 20
"""A task has at least so many bytes, if there are: each one sends a partial state, however few rows it had."""
WHOLE_BYTES = 8 << 20
"""Smaller files are never cut: opening a file twice costs more than the balance gains."""
_GLOB = "*?[]{}"
_LOCAL = "file:"


class DataFile(msgspec.Struct, frozen=True):
    """A file by its path in the filesystem, and its size when it was listed."""

    path: str
    size: int


class Piece(msgspec.Struct, frozen=True):
    """The row groups of a file whose middle lies in a range of its bytes."""

    file: DataFile
    start: int
    end: int


class Listing(msgspec.Struct, frozen=True):
    """Files of one filesystem; where: a path or a URI that opens it."""

    where: str
    files: tuple[DataFile, ...]


def place_of(where: str) -> Place:
    """Return the filesystem of a path or a URI, or raise Doubt."""
    try:
        return open_filesystem(where)
    except StoreError as error:
        raise Doubt(str(error).rstrip(".")) from None


def is_data(name: str) -> bool:
    """Return whether Spark takes a file or a folder of this name for data."""
    return not name.startswith(".") and (not name.startswith("_") or "=" in name)


def list_path(stream: str, where: str) -> Listing:
    """Return the files that Spark would read from a path: a file, or those of a folder, not of folders in it."""
    place = place_of(where)
    if any(letter in place.root for letter in _GLOB):
        raise Doubt("its path is a pattern")
    try:
        found = place.filesystem.get_file_info(place.root)
        if found.type == fs.FileType.File:
            return Listing(where, (DataFile(found.path, found.size),))
        entries = place.filesystem.get_file_info(fs.FileSelector(place.root))
    except READ_ERRORS:
        raise Doubt(f"{place.shown} cannot be listed by Arrow") from None
    if any(entry.base_name == "_delta_log" for entry in entries):
        raise PipelineError(
            f"stream {stream!r}: {place.shown} holds a Delta table, whose files are not all its rows: give the frame "
            '`spark.read.format("delta").load(...)`.'
        )
    data = [entry for entry in entries if is_data(entry.base_name)]
    if any(entry.type != fs.FileType.File for entry in data):
        raise Doubt(f"{place.shown} has folders in it")
    return Listing(where, tuple(DataFile(entry.path, entry.size) for entry in data if entry.size))


def listing_of(uris: Sequence[tuple[str, int]]) -> Listing:
    """Return files that Spark listed, by Hadoop's names for them, all of one filesystem."""
    opened = [_of_hadoop(uri) for uri, _ in uris]
    places = {where for where, _ in opened}
    if len(places) > 1:
        raise Doubt("its files are on several filesystems")
    files = [
        DataFile(path, size)
        for (_, path), (_, size) in zip(opened, uris, strict=True)
        if size and is_data(PurePosixPath(path).name)
    ]
    return Listing(places.pop() if places else "", tuple(files))


def _of_hadoop(uri: str) -> tuple[str, str]:
    """Return (a URI that opens the filesystem, the path in it) of a Hadoop path."""
    if uri.startswith(_LOCAL):
        path = uri.removeprefix(_LOCAL)
        return "/", path if not path.startswith("//") else "/" + path.lstrip("/")
    scheme, _, rest = uri.partition("://")
    bucket = rest.partition("/")[0]
    if scheme in ("s3", "s3a", "s3n"):
        return f"s3://{bucket}", rest
    if scheme == "gs":
        return f"gs://{bucket}", rest
    raise Doubt(f"files of {scheme}: are read by Hadoop only")


def in_tasks(files: Sequence[DataFile], most: int) -> list[list[Piece]]:
    """Return the files in at most so many tasks of about equal bytes."""
    total = sum(file.size for file in files)
    count = max(1, min(most, -(-total // TASK_BYTES)))
    borders = [total * i // count for i in range(count + 1)]
    tasks: list[list[Piece]] = [[] for _ in range(count)]
    before = 0
    for file in files:
        if file.size <= WHOLE_BYTES:
            middle = before + file.size // 2
            number = next(i for i in range(count) if middle < borders[i + 1])
            tasks[number].append(Piece(file, 0, file.size))
        else:
            for i, pieces in enumerate(tasks):
                start, end = max(borders[i] - before, 0), min(borders[i + 1] - before, file.size)
                if start < end:
                    pieces.append(Piece(file, start, end))
        before += file.size
    return tasks
