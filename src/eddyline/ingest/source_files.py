"""Whether a source has files on the local disk, before Spark starts to read them."""

from collections.abc import Mapping
from pathlib import Path

FILE_FORMATS = ("csv", "json", "parquet", "orc", "text")
"""Formats that Spark reads from files in folders."""
RECURSIVE = "recursiveFileLookup"


def lacks_files(form: str, path: str | None, options: Mapping[str, str]) -> bool:
    """Return whether a source is one of files and is known to have none; patterns and other systems are Spark's.

    Of folders in a folder Spark reads those of partitions, `day=2026-01-31`, and all of them if an option says so.
    """
    where = local_path(form, path)
    if where is None or where.is_file():
        return False
    deep = any(
        name.lower() == RECURSIVE.lower() and value.lower() == "true" for name, value in options.items()
    )
    files = (file for file in where.rglob("*") if is_read(file, where))
    return not any(deep or all("=" in name for name in file.relative_to(where).parts[:-1]) for file in files)


def local_path(form: str, path: str | None) -> Path | None:
    """Return where the files of a source are on the local disk, None where that is not known."""
    if path is None or form not in FILE_FORMATS or "://" in path or any(sign in path for sign in "*?[{"):
        return None
    return Path(path)


def is_read(file: Path, folder: Path) -> bool:
    """Return whether Spark would read a file of a folder: no name on the way begins as those of unfinished ones do."""
    names = file.relative_to(folder).parts
    hidden = any(name[0] == "." or (name[0] == "_" and "=" not in name) for name in names)
    return not hidden and file.is_file()
