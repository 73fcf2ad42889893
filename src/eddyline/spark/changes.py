"""Change rows on frames: every spelling becomes the declared columns, a weight, and what could not be read."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from eddyline.errors import ChangeError
from eddyline.ingest.changes import UNREADABLE, ChangeFormat, change_format
from eddyline.plan.layout import Stream
from eddyline.spark.debezium import decode_debezium
from eddyline.spark.marks import BAD, WEIGHT
from eddyline.spark.schema import declared_columns, from_spark

CORRUPT = "_corrupt_record"
"""The column where Spark's JSON and CSV readers leave the text of a record that they could not read."""


def may_be_bad(stream: Stream, frame: DataFrame) -> bool:
    """Return whether a frame can hold rows that cannot be read."""
    return change_format(stream.name, stream.changes).form != "insert" or CORRUPT in frame.columns


def decode_changes(stream: Stream, frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return a frame of the named columns, WEIGHT (bigint) and BAD (reason and row as JSON, else NULL)."""
    form = change_format(stream.name, stream.changes)
    if form.form == "debezium":
        return decode_debezium(stream, frame, form, names)
    columns = declared_columns(stream, frame, names)
    weight = sf.lit(1).cast("bigint")
    reason = sf.lit(None).cast("string")
    if form.form != "insert":
        weight = _weight(stream, frame, form)
        reason = sf.when(weight.isNull(), sf.lit(f"its {form.column} says no change that is known"))
    named = [*([form.column] if form.column else []), *(name for name in names if name != form.column)]
    told = [sf.col(f"`{name}`") for name in named]
    if CORRUPT in frame.columns:
        reason = sf.when(sf.col(CORRUPT).isNotNull(), sf.lit(UNREADABLE)).otherwise(reason)
        file = sf.nullif(sf.input_file_name(), sf.lit("")).alias("file")
        told = [file, *_first_column(frame, named), *told, sf.col(CORRUPT)]
    shown = sf.to_json(sf.struct(reason.alias("reason"), *told))
    return frame.select(*columns, weight.alias(WEIGHT), sf.when(reason.isNotNull(), shown).alias(BAD))


def _first_column(frame: DataFrame, named: Sequence[str]) -> list[Column]:
    """Return a column that is in the files and not named yet: Spark refuses to read unreadable records alone.

    That is what COUNT(*) asks for, and what columns do that are names of folders, which come last.
    """
    first = [name for name in frame.columns if name and name != CORRUPT][:1]
    return [sf.col("`" + name.replace("`", "``") + "`") for name in first if name not in named]


def _weight(stream: Stream, frame: DataFrame, form: ChangeFormat) -> Column:
    if form.column not in frame.columns:
        raise ChangeError(
            f"stream {stream.name!r}: the frame has no column {form.column!r}, which carries the change; it has "
            f"{', '.join(frame.columns)}."
        )
    column = sf.col(f"`{form.column}`")
    if form.form == "words":
        weight = sf.when(sf.lit(False), sf.lit(None).cast("bigint"))
        for word, value in form.words.items():
            weight = weight.when(column == word, sf.lit(value).cast("bigint"))
        return weight
    kind = from_spark(frame.schema[form.column].dataType)
    if kind is None or not kind.is_integer:
        raise ChangeError(
            f"stream {stream.name!r}: weight column {form.column!r} is "
            f"{frame.schema[form.column].dataType.simpleString()}, not an integer."
        )
    return column.cast("bigint")
