"""Whether a source has files on the local disk, before Spark starts to read them."""

from pathlib import Path

FILE_FORMATS = ("csv", "json", "parquet", "orc", "text")
"""Formats that Spark reads from files in folders."""


def lacks_files(form: str, path: str | None) -> bool:
    """Return whether a source is one of files and is known to have none; patterns and other systems are Spark's."""
    if path is None or form not in FILE_FORMATS or "://" in path or any(sign in path for sign in "*?[{"):
        return False
    where = Path(path)
    return not where.is_file() and not any(map(is_read, where.rglob("*")))


def is_read(file: Path) -> bool:
    """Return whether Spark would read a file: its name does not begin as those of markers and of unfinished ones."""
    return not file.name.startswith(("_", ".")) and file.is_file()
