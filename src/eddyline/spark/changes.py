"""Change rows on frames: every spelling becomes the declared columns, a weight, and what could not be read."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from eddyline.errors import ChangeError
from eddyline.ingest.changes import DEBEZIUM_OPS, ChangeFormat, change_format
from eddyline.plan.layout import Stream
from eddyline.spark.schema import declared_columns, from_spark

WEIGHT = "__eddyline_weight"
UNREADABLE = "__eddyline_unreadable"


def decode_changes(stream: Stream, frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return a frame of the named columns, WEIGHT (bigint) and UNREADABLE (the row as JSON, else NULL)."""
    form = change_format(stream.name, stream.changes)
    if form.form == "debezium":
        return _debezium(stream, frame, names)
    columns = declared_columns(stream, frame, names)
    if form.form == "insert":
        return frame.select(
            *columns, sf.lit(1).cast("bigint").alias(WEIGHT), sf.lit(None).cast("string").alias(UNREADABLE)
        )
    if form.column not in frame.columns:
        raise ChangeError(
            f"stream {stream.name!r}: the frame has no column {form.column!r}, which carries the change; it has "
            f"{', '.join(frame.columns)}."
        )
    weight = _weight(stream, frame, form)
    shown = sf.to_json(
        sf.struct(sf.col(form.column), *(sf.col(name) for name in names if name != form.column))
    )
    return frame.select(*columns, weight.alias(WEIGHT), sf.when(weight.isNull(), shown).alias(UNREADABLE))


def _weight(stream: Stream, frame: DataFrame, form: ChangeFormat) -> Column:
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


def _debezium(stream: Stream, frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return the images of Debezium envelopes: before with weight -1, after with +1, as the op asks."""
    if "payload" in frame.columns:
        frame = frame.select("payload.*")
    for name in ("op", "before", "after"):
        if name not in frame.columns:
            raise ChangeError(
                f"stream {stream.name!r}: a Debezium frame has op, before and after; {name!r} is missing."
            )
    sides = {
        "before": _image(stream, frame, names, "before", -1),
        "after": _image(stream, frame, names, "after", 1),
    }
    nothing = sf.struct(
        *(sf.lit(None).alias(name) for name in names), sf.lit(None).cast("bigint").alias(WEIGHT)
    )
    images = sf.when(sf.lit(False), sf.array(nothing))
    for op, needed in DEBEZIUM_OPS.items():
        there = sf.col("op") == op
        for side in needed:
            there = there & sf.col(side).isNotNull()
        images = images.when(there, sf.array(*(sides[side] for side in needed)))
    shown = sf.to_json(sf.struct("op", "before", "after"), {"ignoreNullFields": "false"})
    unreadable = sf.when(images.isNull(), shown).alias(UNREADABLE)
    exploded = frame.select(sf.explode_outer(images).alias("image"), unreadable)
    return exploded.select("image.*", UNREADABLE)


def _image(stream: Stream, frame: DataFrame, names: Sequence[str], side: str, weight: int) -> Column:
    columns = declared_columns(stream, frame, names, prefix=f"{side}.")
    return sf.struct(*columns, sf.lit(weight).cast("bigint").alias(WEIGHT))
