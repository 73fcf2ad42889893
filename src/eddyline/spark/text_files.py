"""CSV and JSON files: their columns by the names that the files have, and not by their places.

The first file tells which columns there are, in which order; Spark holds the header of every other CSV file against it.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession

from eddyline.errors import PipelineError
from eddyline.ingest.json_lines import json_fields
from eddyline.spark.causes import SPARK_ERRORS
from eddyline.spark.text_decimals import refuse_rounding, with_all_digits

_LOOKED_AT = 200
"""Records of JSON files that tell which fields there are."""
_DECODED = 10_000
"""Lines that are looked at for what is not UTF-8."""


@dataclass(frozen=True)
class TextColumns:
    """The columns of text files as they are written there, by their places, and under which names they are read.

    doubled: a header has names twice, which Spark reads under others.
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
        """Return the frame with the names and types that are wanted; columns of folders (day=2024-01-01) come last."""
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
    """Return the columns of CSV or JSON files, the wanted ones (names and types) among them, or raise PipelineError.

    Before the first file is there, they are taken to be as they are wanted.
    """
    given = {name.lower(): value for name, value in options.items()}
    if path is not None and not {"encoding", "charset"} & given.keys():
        _check_encoding(spark, stream, path, given)
    if given.get("mode", "").upper() == "DROPMALFORMED":
        raise PipelineError(
            f"stream {stream!r}: mode = {given['mode']!r} drops lines in silence; take it out, and say on_bad = "
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
    """Raise PipelineError where the first lines are not UTF-8, of which a reader would make other texts."""
    try:
        lines = spark.read.options(**options).text(path).limit(_DECODED)
        strange = lines.where("NOT is_valid_utf8(value)").limit(1).count()
    except SPARK_ERRORS:
        return  # where files cannot be read, the reader itself says so
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
    """Return the columns of files with a header, or raise PipelineError where it lacks one."""
    twins = [name for name in wanted if name.lower() in doubled]
    if twins:
        raise PipelineError(
            f"stream {stream!r}: the header of {path!r} has {twins[0]!r} more than once, in upper or lower case: "
            "rename one of them in the files."
        )
    missing = [] if written is None else [name for name in wanted if name.lower() not in _lower(written)]
    if missing:
        separator = next((each for each in ";\t|" if each in "".join(written or ())), None)
        raise PipelineError(
            f"stream {stream!r}: the header of {path!r} has no column {missing[0]!r}; it has "
            f"{', '.join(name.strip() for name in written or ())}"
            + (f"; add sep = {json.dumps(separator)} to the options of the stream." if separator else ".")
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
    return (written if written.count("") < 2 else names) or None


def _cells(spark: SparkSession, path: str, options: Mapping[str, str]) -> list[str]:
    """Return Spark's names for the cells of a line without a header; columns of folders have names of their own."""
    names = spark.read.options(**{**options, "header": "false", "inferschema": "false"}).csv(path).columns
    return [name for place, name in enumerate(names) if name == f"_c{place}"]


def _doubled(spark: SparkSession, path: str, options: Mapping[str, str], names: Sequence[str]) -> set[str]:
    """Return the names, in lower case, that a header has more than once: to these Spark adds their places."""
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
    """Return the first lines of text files, none where there are no files yet."""
    try:
        return [row[0] for row in spark.read.options(**options).text(path).limit(_LOOKED_AT).collect()]
    except SPARK_ERRORS:
        return []
