"""CSV and JSON files: their columns by the names that the files have, and not by their places.

The first file tells which columns there are, in which order; Spark holds the header of every other CSV file against it.
"""

import csv
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from eddyline.errors import PipelineError
from eddyline.ingest.json_lines import json_fields
from eddyline.spark.causes import SPARK_ERRORS

_LOOKED_AT = 200
"""Records of JSON files that tell which fields there are."""
_DECODED = 10_000
"""Lines that are looked at for what is not UTF-8."""


@dataclass(frozen=True)
class TextColumns:
    """The columns of text files as they are written there, by their places, and under which names they are read."""

    names: tuple[str, ...]
    written: tuple[str, ...]
    types: tuple[str, ...]

    @property
    def ddl(self) -> str:
        """The schema that a reader takes."""
        quoted = [name.replace("`", "``") for name in self.written]
        return ", ".join(f"`{name}` {kind}" for name, kind in zip(quoted, self.types, strict=True))


def text_columns(
    spark: SparkSession,
    stream: str,
    form: str,
    path: str | None,
    options: Mapping[str, str],
    wanted: Mapping[str, str],
) -> TextColumns:
    """Return the columns of CSV or JSON files, the wanted ones (names and types) among them, or raise PipelineError.

    Before the first file is there, they are taken to be as they are wanted.
    """
    given = {name.lower(): value for name, value in options.items()}
    if path is not None and not {"encoding", "charset"} & given.keys():
        _check_encoding(spark, stream, path, given)
    if form == "json":
        lines = _first_lines(spark, path, given) if path is not None else []
        return _named(json_fields(stream, str(path), lines, given, wanted), wanted, adding=True)
    written = _first_line(spark, path, given) if path is not None else None
    if given.get("header", "").lower() == "true":
        return _by_header(stream, path, written, wanted)
    if "header" not in given and written and _lower(wanted) <= _lower(written):
        raise PipelineError(
            f"stream {stream!r}: the first line of {path!r} is a header ({', '.join(written)}), which would count as a "
            'row: add header = "true" to the options of the stream, or "false" if it is a row.'
        )
    others = [f"_c{place}" for place in range(len(wanted), len(written or ()))]
    return _named([*wanted, *others], wanted)


def _check_encoding(spark: SparkSession, stream: str, path: str, options: Mapping[str, str]) -> None:
    """Raise PipelineError where the first lines are not UTF-8, of which a reader would make other texts."""
    try:
        lines = spark.read.options(**options).text(path).limit(_DECODED)
        strange = lines.where("NOT is_valid_utf8(value)").limit(1).count()
    except SPARK_ERRORS:
        return  # where files cannot be read, the reader itself says so
    if strange:
        raise PipelineError(
            f"stream {stream!r}: {path!r} has texts that are not UTF-8: name their encoding in the options of the stream "
            '(encoding = "ISO-8859-1"), or write the files as UTF-8.'
        )


def _by_header(
    stream: str, path: str | None, written: list[str] | None, wanted: Mapping[str, str]
) -> TextColumns:
    """Return the columns of files with a header, or raise PipelineError where it lacks one."""
    missing = [] if written is None else [name for name in wanted if name.lower() not in _lower(written)]
    if missing:
        separator = next((each for each in ";\t|" if len(written or ()) == 1 and each in (written or ())[0]), None)
        raise PipelineError(
            f"stream {stream!r}: the header of {path!r} has no column {missing[0]!r}; it has "
            f"{', '.join(name.strip() for name in written or ())}"
            + (f"; add sep = {json.dumps(separator)} to the options of the stream." if separator else ".")
        )
    doubled = [name for name in wanted if [each.strip().lower() for each in written or ()].count(name.lower()) > 1]
    if doubled:
        raise PipelineError(
            f"stream {stream!r}: the header of {path!r} has {doubled[0]!r} more than once, in upper or lower case: "
            "rename one of them in the files."
        )
    return _named(wanted if written is None else written, wanted)


def _named(written: Iterable[str], wanted: Mapping[str, str], *, adding: bool = False) -> TextColumns:
    """Return the columns that are written, of the type that is wanted of each; others are texts.

    adding: those that are wanted and not written come at the end.
    """
    types = {name.lower(): (name, kind) for name, kind in wanted.items()}
    columns = list(written)
    columns += [name for name in wanted if adding and name.lower() not in _lower(columns)]
    found = [types.get(name.strip().lower(), (name.strip(), "STRING")) for name in columns]
    return TextColumns(tuple(name for name, _ in found), tuple(columns), tuple(kind for _, kind in found))


def _lower(names: Iterable[str]) -> set[str]:
    return {name.strip().lower() for name in names}


def _first_line(spark: SparkSession, path: str, options: Mapping[str, str]) -> list[str] | None:
    """Return the cells of the first line of the first CSV file, None where there is none yet."""
    try:
        names = spark.read.options(**{**options, "header": "true", "inferschema": "false"}).csv(path).columns
    except SPARK_ERRORS:
        return None  # where files cannot be read, the reader itself says so
    written = ["" if name == f"_c{place}" else name for place, name in enumerate(names)]
    numbered = [name for place, name in enumerate(names) if name != str(place) and name.endswith(str(place))]
    return (_with_twins(spark, path, options, written) if len(numbered) > 1 else written) or None


def _with_twins(spark: SparkSession, path: str, options: Mapping[str, str], names: list[str]) -> list[str]:
    """Return the names of a header as they are written: Spark adds the place to those that are there twice."""
    lines = spark.read.options(**options).text(path).where("length(trim(value)) > 0").take(1)
    read = csv.reader([row[0].removeprefix("\ufeff") for row in lines], delimiter=options.get("sep", ","))
    written = next(read, names)
    twins = [f"{name}{place}" for place, name in enumerate(written)]
    same = len(written) == len(names) and all(
        name in each for name, each in zip(names, zip(written, twins, strict=True), strict=False)
    )
    return written if same else names


def _first_lines(spark: SparkSession, path: str, options: Mapping[str, str]) -> list[str]:
    """Return the first lines of text files, none where there are no files yet."""
    try:
        return [row[0] for row in spark.read.options(**options).text(path).limit(_LOOKED_AT).collect()]
    except SPARK_ERRORS:
        return []
