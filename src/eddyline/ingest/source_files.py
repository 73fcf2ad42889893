"""Whether a source has files on the local disk, before Spark starts to read them."""

from pathlib import Path

FILE_FORMATS = ("csv", "json", "parquet", "orc", "text")
"""Formats that Spark reads from files in folders."""


def lacks_files(form: str, path: str | None) -> bool:
    """Return whether a source is one of files and is known to have none; patterns and other systems are Spark's."""
    if path is None or form not in FILE_FORMATS or "://" in path or any(sign in path for sign in "*?[{"):
        return False
    where = Path(path)
    return not where.is_file() and not any(is_read(file, where) for file in where.rglob("*"))


def is_read(file: Path, folder: Path) -> bool:
    """Return whether Spark would read a file of a folder: no name on the way begins as those of unfinished ones do."""
    names = file.relative_to(folder).parts
    hidden = any(name[0] == "." or (name[0] == "_" and "=" not in name) for name in names)
    return not hidden and file.is_file()
