"""CSV and JSON files: their columns by the names that the files have, and not by their places.

The first file tells which columns there are, in which order; Spark holds the header of every other CSV file against it.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from eddyline.errors import PipelineError
from eddyline.spark.causes import SPARK_ERRORS

_LOOKED_AT = 200
"""Records of JSON files that tell which fields there are."""


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

    def named(self, frame: DataFrame) -> DataFrame:
        """Return the frame under the names that are wanted; Spark puts columns of folders (day=2024-01-01) last."""
        names = dict(zip(self.written, self.names, strict=True))
        return frame.toDF(*(names.get(name, name) for name in frame.columns))


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
    if given.get("mode", "").upper() == "DROPMALFORMED":
        raise PipelineError(
            f"stream {stream!r}: mode = {given['mode']!r} drops lines in silence; take it out, and say on_bad = "
            '"skip" in [run] to go on without them: then they are counted.'
        )
    if form == "json":
        fields = _json_fields(spark, path, given) if path is not None else []
        return _named(fields, wanted, adding=True)
    written = _first_line(spark, path, given) if path is not None else None
    if given.get("header", "").lower() == "true":
        return _by_header(stream, path, written, wanted)
    if "header" not in given and written and _lower(wanted) <= _lower(written):
        raise PipelineError(
            f"stream {stream!r}: the first line of {path!r} is a header ({', '.join(written)}), which would count as a "
            'row: add header = "true" to the options of the stream, or "false" if it is a row.'
        )
    return _named(wanted, wanted)


def _by_header(
    stream: str, path: str | None, written: list[str] | None, wanted: Mapping[str, str]
) -> TextColumns:
    """Return the columns of files with a header, or raise PipelineError where it lacks one."""
    missing = [] if written is None else [name for name in wanted if name.lower() not in _lower(written)]
    if missing:
        raise PipelineError(
            f"stream {stream!r}: the header of {path!r} has no column {missing[0]!r}; it has "
            f"{', '.join(name.strip() for name in written or ())}."
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
    return ["" if name == f"_c{place}" else name for place, name in enumerate(names)] or None


def _json_fields(spark: SparkSession, path: str, options: Mapping[str, str]) -> list[str]:
    """Return the fields of the first JSON records, none where there are no files yet; each once, whatever its case."""
    if options.get("multiline", "").lower() == "true":
        return []
    try:
        lines = [row[0] for row in spark.read.options(**options).text(path).limit(_LOOKED_AT).collect()]
    except SPARK_ERRORS:
        return []
    fields: dict[str, str] = {}
    for line in lines:
        for name in _fields_of(line):
            fields.setdefault(name.lower(), name)
    return list(fields.values())


def _fields_of(line: str) -> list[str]:
    """Return the fields of a record, none of a line that is no record."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return []
    return list(record) if isinstance(record, dict) else []
