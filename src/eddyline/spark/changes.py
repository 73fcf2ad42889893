"""Change rows on frames: every format becomes the declared columns, a weight, and what could not be read."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType

from eddyline.errors import ChangeError, PipelineError
from eddyline.expressions.times import zone_info
from eddyline.ingest.changes import (
    CORRUPT,
    DEBEZIUM_OPS,
    IMAGE_WEIGHTS,
    NOT_SENT,
    UNAVAILABLE,
    UNKNOWN_OP,
    UNREADABLE,
    ChangeFormat,
    change_format,
    missing_image,
)
from eddyline.ingest.debezium import EnvelopeReader
from eddyline.plan.layout import Stream
from eddyline.spark.session import zone_of
from eddyline.spark.tasks import BAD, DELETE, MARK, MARK_KEY, OTHER, TOMBSTONE, WEIGHT
from eddyline.types import SqlType

# Debezium envelopes on frames: as structs (op, before, after), or as the JSON text of Kafka records.
#
# The text is in a column `value` (string or binary), the record's key in a column `key`. `ingest.debezium`
# parses it in Python tasks, because the schema that comes with a value defines its meaning. A NULL
# value is a tombstone; `spark.tasks` has the rule for it.


_LARGE = ("string", "binary")


def decode_debezium(stream: Stream, frame: DataFrame, form: ChangeFormat, names: Sequence[str]) -> DataFrame:
    """Return the images of envelopes: before with weight -1, after with +1, depending on the op."""
    if "value" in frame.columns and not {"op", "payload"} & set(frame.columns):
        return _from_text(stream, frame, names, full=form.column == "full")
    if "payload" in frame.columns:
        frame = frame.select("payload.*")
    for name in ("op", "before", "after"):
        if name not in frame.columns:
            raise ChangeError(
                f"stream {stream.name!r}: a Debezium frame has op, before and after, or their JSON in a "
                f"column value; {name!r} is missing."
            )
    sides = {side: declared_columns(stream, frame, names, f"{side}.") for side in IMAGE_WEIGHTS}
    shown = sf.to_json(
        sf.struct(sf.col("__reason").alias("reason"), "op", "before", "after"), {"ignoreNullFields": "false"}
    )
    bad = sf.col("__reason").isNotNull()
    exploded = frame.withColumn("__reason", _why(stream, names)).select(
        sf.explode_outer(sf.when(~bad, _images(sides))).alias("image"), sf.when(bad, shown).alias(BAD)
    )
    return exploded.select("image.*", BAD)


def _images(sides: dict[str, list[Column]]) -> Column:
    """Return the array of images that the op requires."""
    made = {
        side: sf.struct(*columns, sf.lit(IMAGE_WEIGHTS[side]).cast("bigint").alias(WEIGHT))
        for side, columns in sides.items()
    }
    images = sf.when(sf.lit(False), sf.array(made["after"]))
    for op, needed in DEBEZIUM_OPS.items():
        images = images.when(sf.col("op") == op, sf.array(*(made[side] for side in needed)))
    return images


def _why(stream: Stream, names: Sequence[str]) -> Column:
    """Return why an envelope cannot be used: what is wrong with its op, its images, or a column that is read."""
    op = sf.col("op")
    texts = [column for column in stream.columns if column.name in names and column.type.kind in _LARGE]
    reason = sf.when(op.isNull() | ~op.isin(list(DEBEZIUM_OPS)), sf.lit(UNKNOWN_OP))
    for side in ("after", "before"):
        needed = op.isin([name for name, sides in DEBEZIUM_OPS.items() if side in sides])
        for column in texts:
            absent = sf.col(f"{side}.`{column.name}`").cast("string") == UNAVAILABLE
            reason = reason.when(needed & absent, sf.lit(f"its {side}.{column.name} {NOT_SENT}"))
        missing = needed & sf.col(side).isNull()
        reason = reason.when(missing, sf.lit(missing_image(side)))
    return reason


def _from_text(stream: Stream, frame: DataFrame, names: Sequence[str], *, full: bool) -> DataFrame:
    """Return the images of envelopes in JSON text, with the marks that the tombstone rule needs."""
    key = sf.col("key") if "key" in frame.columns else sf.lit(None)
    records = frame.select(
        key.cast("binary").alias("key"),
        sf.col("value").cast("binary").alias("value"),
        sf.xxhash64(key.cast("string")).alias(MARK_KEY),
    )
    kinds = {column.name: column.type for column in stream.columns}
    schema = "".join(f"`{name}` {kinds[name]}, " for name in names)
    schema += f"{WEIGHT} BIGINT, {BAD} STRING, {MARK} INT, {MARK_KEY} BIGINT"
    zone = zone_info(zone_of(frame.sparkSession))
    reader = partial(EnvelopeReader, stream.columns, tuple(names), zone, full=full)
    return records.mapInArrow(partial(_read_task, reader, tuple(names)), schema)


def _read_task(
    reader: partial[EnvelopeReader], names: Sequence[str], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the images of a task's records, in their order."""
    reads = reader()
    for batch in batches:
        images = reads.read(batch.column("key").to_pylist(), batch.column("value").to_pylist())
        records = pa.array(images.records, pa.int64())
        empty = pc.is_null(batch.column("value")).take(records)
        marks = pc.if_else(empty, TOMBSTONE, pc.if_else(pa.array(images.deletes, pa.bool_()), DELETE, OTHER))
        yield pa.RecordBatch.from_pydict(
            dict(zip(names, reads.arrays(images), strict=True))
            | {
                WEIGHT: pa.array(images.weights, pa.int64()),
                BAD: pa.array(images.reasons, pa.string()),
                MARK: marks.cast(pa.int32()),
                MARK_KEY: batch.column(MARK_KEY).take(records),
            }
        )


# All formats of change rows become the declared columns, a weight, and what could not be read.


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
        reason = sf.when(weight.isNull(), sf.lit(f"its {form.column} is not a known change"))
    named = [*([form.column] if form.column else []), *(name for name in names if name != form.column)]
    shown_columns = [sf.col(f"`{name}`") for name in named]
    if CORRUPT in frame.columns:
        reason = sf.when(sf.col(CORRUPT).isNotNull(), sf.lit(UNREADABLE)).otherwise(reason)
        file = sf.nullif(sf.input_file_name(), sf.lit("")).alias("file")
        shown_columns = [file, *_first_column(frame, named), *shown_columns, sf.col(CORRUPT)]
    shown = sf.to_json(sf.struct(reason.alias("reason"), *shown_columns))
    return frame.select(*columns, weight.alias(WEIGHT), sf.when(reason.isNotNull(), shown).alias(BAD))


def _first_column(frame: DataFrame, named: Sequence[str]) -> list[Column]:
    """Return a column of the files that is not named yet: Spark refuses to read unreadable records alone.

    COUNT(*) would ask for them alone, and so would columns that are names of folders, which come last.
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


# Frames against declared schemas.


_SIMPLE = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def from_spark(kind: DataType) -> SqlType | None:
    """Return the SQL type of a Spark type, or None where eddyline has none."""
    name = kind.simpleString()
    if match := _DECIMAL.fullmatch(name):
        return SqlType("decimal", int(match[1]), int(match[2]))
    if re.fullmatch(r"(var)?char\(\d+\)", name):
        return SqlType("string")
    return SqlType(name) if name in (*_SIMPLE, "timestamp", "timestamp_ntz") else None  # type: ignore[arg-type]


def declared_columns(
    stream: Stream, frame: DataFrame, names: Sequence[str], prefix: str = ""
) -> list[Column]:
    """Return the named columns of a frame in their declared types, or raise PipelineError.

    prefix: the struct that holds the columns (`before.`), where they are not the frame's own.
    """
    schema = frame.select(f"{prefix}*").schema if prefix else frame.schema
    declared = {column.name: column for column in stream.columns}
    columns = []
    for name in names:
        found = [field for field in schema.fields if field.name.lower() == name.lower()]
        if len(found) != 1:
            number = f"{len(found)} columns" if found else "no column"
            raise PipelineError(
                f"stream {stream.name!r}: the frame has {number} {prefix + name!r}, in upper or lower case; it has "
                f"{', '.join(f.name for f in schema.fields)}."
            )
        field = found[0]
        kind, wanted = from_spark(field.dataType), declared[name].type
        if kind is None or not kind.widens_to(wanted):
            raise PipelineError(
                f"stream {stream.name!r}: column {name!r} is declared {wanted} and the frame has "
                f"{field.dataType.simpleString()}: cast it in the frame or declare it as it is."
            )
        columns.append(sf.col(f"{prefix}`{field.name}`").cast(str(wanted)).alias(name))
    return columns
