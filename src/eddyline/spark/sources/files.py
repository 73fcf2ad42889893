"""Files as frames: Parquet, ORC, CSV, JSON and Debezium lines, with columns by name and decimals in full."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from eddyline.errors import PipelineError
from eddyline.ingest.changes import CORRUPT
from eddyline.ingest.files import json_fields, separator_advice
from eddyline.spark.causes import SPARK_ERRORS
from eddyline.spark.sources import SparkSource

# Decimals of CSV and JSON are read with all their digits, so that one which its column would round is
# reported instead.


_DECIMAL = re.compile(r"DECIMAL\((\d+), ?(\d+)\)")
_MOST_DIGITS = 38


def with_all_digits(kind: str) -> str:
    """Return the type to read a column as: a DECIMAL with as many decimal places as possible without overflow."""
    decimal = _DECIMAL.fullmatch(kind)
    if decimal is None:
        return kind
    before = int(decimal[1]) - int(decimal[2])
    return f"DECIMAL({_MOST_DIGITS},{_MOST_DIGITS - before})"


def refuse_rounding(frame: DataFrame, kinds: Mapping[str, str]) -> DataFrame:
    """Return a frame with decimals of the declared types, CORRUPT where a column cannot hold its value."""
    narrowed, corrupt = {}, sf.col(f"`{CORRUPT}`")
    for name, kind in kinds.items():
        if with_all_digits(kind) == kind:
            continue
        wide = sf.col("`" + name.replace("`", "``") + "`")
        narrow = wide.try_cast(kind)
        digits = sf.regexp_replace(wide.cast("string"), r"0+$", "")
        why = sf.concat(sf.lit(f"{name} is "), digits, sf.lit(f", which {kind} does not hold"))
        is_lost = wide.isNotNull() & (narrow.isNull() | (narrow != wide))
        corrupt = sf.coalesce(corrupt, sf.when(is_lost, why))
        narrowed[name] = narrow
    return frame.withColumns({**narrowed, CORRUPT: corrupt}) if narrowed else frame


# CSV and JSON files: columns are found by the names in the files, not by their positions.
#
# The first file determines the columns and their order; Spark compares the header of every other CSV
# file with it.


_LOOKED_AT = 200
"""The number of records of JSON files that determine the fields."""
_DECODED = 10_000
"""The number of lines that are checked for bytes that are not UTF-8."""


@dataclass(frozen=True)
class TextColumns:
    """The columns of text files as written there, by position, and the names under which they are read.

    doubled: a header has a name twice; Spark reads such columns under other names.
    """

    names: tuple[str, ...]
    written: tuple[str, ...]
    types: tuple[str, ...]
    doubled: bool = False

    @property
    def ddl(self) -> str:
        """The schema that a reader takes."""
        quoted = [name.replace("`", "``") for name in self.written]
        kinds = map(with_all_digits, self.types)
        return ", ".join(f"`{name}` {kind}" for name, kind in zip(quoted, kinds, strict=True))

    def named(self, frame: DataFrame) -> DataFrame:
        """Return the frame with the wanted names and types; columns of folders (day=2024-01-01) come last."""
        names = dict(zip(self.written, self.names, strict=True))
        found = frame.toDF(*(names.get(name, name) for name in frame.columns))
        return refuse_rounding(found, dict(zip(self.names, self.types, strict=True)))


def text_columns(
    spark: SparkSession,
    stream: str,
    form: str,
    path: str | None,
    options: Mapping[str, str],
    wanted: Mapping[str, str],
) -> TextColumns:
    """Return the columns of CSV or JSON files, including the wanted ones (names and types), or raise PipelineError.

    Before the first file exists, the columns are assumed to be the wanted ones.
    """
    given = {name.lower(): value for name, value in options.items()}
    if path is not None and not {"encoding", "charset"} & given.keys():
        _check_encoding(spark, stream, path, given)
    if given.get("mode", "").upper() == "DROPMALFORMED":
        raise PipelineError(
            f"stream {stream!r}: mode = {given['mode']!r} drops lines silently; remove it, and set on_bad = "
            '"skip" in [run] to go on without them: then they are counted.'
        )
    if form == "json":
        lines = _first_lines(spark, path, given) if path is not None else []
        return _named(json_fields(stream, str(path), lines, given, wanted), wanted, adding=True)
    written = _first_line(spark, path, given) if path is not None else None
    if given.get("header", "").lower() == "true":
        doubled = _doubled(spark, path, given, written) if path is not None and written else set()
        return replace(_by_header(stream, path, written, wanted, doubled), doubled=bool(doubled))
    if "header" not in given and written and _lower(wanted) <= _lower(written):
        raise PipelineError(
            f"stream {stream!r}: the first line of {path!r} is a header ({', '.join(written)}), which would count as a "
            'row: add header = "true" to the options of the stream, or "false" if it is a row.'
        )
    cells = _cells(spark, path, given) if path is not None and written else []
    return _named([*wanted, *cells[len(wanted) :]], wanted)


def _check_encoding(spark: SparkSession, stream: str, path: str, options: Mapping[str, str]) -> None:
    """Raise PipelineError if the first lines are not UTF-8: a reader would decode them to other strings."""
    try:
        lines = spark.read.options(**options).text(path).limit(_DECODED)
        strange = lines.where("NOT is_valid_utf8(value)").limit(1).count()
    except SPARK_ERRORS:
        return  # the reader itself reports files that cannot be read
    if strange:
        raise PipelineError(
            f"stream {stream!r}: {path!r} has texts that are not UTF-8: name their encoding in the options of the "
            'stream (encoding = "ISO-8859-1"), or write the files as UTF-8; compressed ones end in .gz, .bz2 or .zst.'
        )


def _by_header(
    stream: str,
    path: str | None,
    written: list[str] | None,
    wanted: Mapping[str, str],
    doubled: Collection[str],
) -> TextColumns:
    """Return the columns of files with a header, or raise PipelineError if it lacks one."""
    twins = [name for name in wanted if name.lower() in doubled]
    if twins:
        raise PipelineError(
            f"stream {stream!r}: the header of {path!r} has {twins[0]!r} more than once, in upper or lower case: "
            "rename one of them in the files."
        )
    missing = [] if written is None else [name for name in wanted if name.lower() not in _lower(written)]
    if missing:
        raise PipelineError(
            f"stream {stream!r}: the header of {path!r} has no column {missing[0]!r}; it has "
            f"{', '.join(name.strip() for name in written or ())}" + separator_advice(written or ())
        )
    return _named(wanted if written is None else written, wanted)


def _named(written: Iterable[str], wanted: Mapping[str, str], *, adding: bool = False) -> TextColumns:
    """Return the columns as written, with the wanted type where there is one; others are strings.

    adding: wanted columns that are not written come at the end.
    """
    types = {name.lower(): (name, kind) for name, kind in wanted.items()}
    columns = list(written)
    columns += [name for name in wanted if adding and name.lower() not in _lower(columns)]
    found = [types.get(name.strip().lower(), (name.strip(), "STRING")) for name in columns]
    return TextColumns(tuple(name for name, _ in found), tuple(columns), tuple(kind for _, kind in found))


def _lower(names: Iterable[str]) -> set[str]:
    return {name.strip().lower() for name in names}


def _first_line(spark: SparkSession, path: str, options: Mapping[str, str]) -> list[str] | None:
    """Return the cells of the first line of the first CSV file, None if there is no file yet."""
    try:
        names = spark.read.options(**{**options, "header": "true", "inferschema": "false"}).csv(path).columns
    except SPARK_ERRORS:
        return None  # the reader itself reports files that cannot be read
    written = ["" if name == f"_c{place}" else name for place, name in enumerate(names)]
    return (written if written.count("") < 2 else names) or None


def _cells(spark: SparkSession, path: str, options: Mapping[str, str]) -> list[str]:
    """Return Spark's names for the cells of a line without a header; columns of folders have their own names."""
    names = spark.read.options(**{**options, "header": "false", "inferschema": "false"}).csv(path).columns
    return [name for place, name in enumerate(names) if name == f"_c{place}"]


def _doubled(spark: SparkSession, path: str, options: Mapping[str, str], names: Sequence[str]) -> set[str]:
    """Return the names, in lower case, that a header has more than once: Spark appends their positions to them."""
    if sum(name.endswith(str(place)) for place, name in enumerate(names)) < 2:
        return set()
    lines = [
        row[0] for row in spark.read.options(**options).text(path).where("length(trim(value)) > 0").take(1)
    ]
    separator = options.get("sep", options.get("delimiter", ","))
    header = lines[0].removeprefix("\ufeff").split(separator) if lines else []
    written = [name.strip().strip('"').lower() for name in header]
    return {name for name in written if written.count(name) > 1}


def _first_lines(spark: SparkSession, path: str, options: Mapping[str, str]) -> list[str]:
    """Return the first lines of text files; empty if there are no files yet."""
    try:
        return [row[0] for row in spark.read.options(**options).text(path).limit(_LOOKED_AT).collect()]
    except SPARK_ERRORS:
        return []


# Readers of each format.
#
# CSV and JSON are read with the declared columns, the change column, and a column for records that
# do not fit them, so that no record is lost silently. CSV files with a header and JSON files are also read
# with their other columns.


_TEXT = ("csv", "json")
_CHECKED = {"enforceSchema": "false", "columnPruning": "false"}
"""Makes Spark compare the header of every CSV file, and the cells of every line, with the given columns."""
_EVERY_FILE = {"maxFileAge": "1000000d"}
"""By default Spark skips files whose times are more than 7 days older than the newest that it has seen."""


def file_rows(spark: SparkSession, source: SparkSource) -> DataFrame:
    """Return the rows of a source's files."""
    envelopes = source.format == "json" and source.change.form == "debezium"
    chosen = "text" if envelopes else source.format
    checked = _CHECKED if chosen == "csv" else {}
    every = _EVERY_FILE if source.streaming else {}
    if source.streaming and not source.may_lose_rows:
        _refuse_age(source)
    reader = source.reader(spark).format(chosen).options(**{**checked, **every, **source.options})
    if chosen in _TEXT and "inferSchema" not in source.options:
        columns = text_columns(spark, source.stream, chosen, source.path, source.options, source.columns())
        # Spark reads doubled columns under names that no header has, and compares what it reads with the header
        twins = {"columnPruning": "true"} if columns.doubled else {}
        reader = reader.options(**twins).schema(f"{columns.ddl}, `{CORRUPT}` STRING")
        return columns.named(reader.load(source.path))
    if source.streaming and chosen != "text":
        reader = reader.schema(spark.read.format(chosen).options(**source.options).load(source.path).schema)
    return reader.load(source.path)


def _refuse_age(source: SparkSource) -> None:
    """Raise PipelineError if options let files be skipped by their times."""
    if any(name.lower() == "maxfileage" for name in source.options):
        raise PipelineError(
            f"stream {source.stream!r}: maxFileAge silently skips files that are older than others; remove "
            "it, or set may_lose_rows = true in the stream's table if that is intended."
        )
