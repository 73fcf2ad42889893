"""Debezium envelopes on frames: as structs (op, before, after), or as the JSON text of Kafka records.

Text lies in a column `value` (string or binary), the record's key in a column `key`; `ingest.envelopes` reads it, in
Python tasks, because what a value means is told by the schema that comes with it. A NULL value is a tombstone;
`spark.tombstones` has the rule for it.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from eddyline.errors import ChangeError
from eddyline.ingest.changes import DEBEZIUM_OPS, ChangeFormat
from eddyline.ingest.connect_types import NOT_SENT, REPLICA_IDENTITY, UNAVAILABLE
from eddyline.ingest.envelopes import EnvelopeReader
from eddyline.plan.layout import Stream
from eddyline.spark.marks import BAD, DELETE, MARK, MARK_KEY, OTHER, TOMBSTONE, WEIGHT
from eddyline.spark.schema import declared_columns
from eddyline.spark.timezone import zone_of
from eddyline.sql.timezones import zone_info

_LARGE = ("string", "binary")


def decode_debezium(stream: Stream, frame: DataFrame, form: ChangeFormat, names: Sequence[str]) -> DataFrame:
    """Return the images of envelopes: before with weight -1, after with +1, as the op asks."""
    if "value" in frame.columns and not {"op", "payload"} & set(frame.columns):
        return _from_text(stream, frame, names, full=form.column == "full")
    if "payload" in frame.columns:
        frame = frame.select("payload.*")
    for name in ("op", "before", "after"):
        if name not in frame.columns:
            raise ChangeError(
                f"stream {stream.name!r}: a Debezium frame has op, before and after, or their JSON text in a "
                f"column value; {name!r} is missing."
            )
    sides = {side: declared_columns(stream, frame, names, f"{side}.") for side in ("before", "after")}
    shown = sf.to_json(
        sf.struct(sf.col("__reason").alias("reason"), "op", "before", "after"), {"ignoreNullFields": "false"}
    )
    bad = sf.col("__reason").isNotNull()
    exploded = frame.withColumn("__reason", _why(stream, names)).select(
        sf.explode_outer(sf.when(~bad, _images(sides))).alias("image"), sf.when(bad, shown).alias(BAD)
    )
    return exploded.select("image.*", BAD)


def _images(sides: dict[str, list[Column]]) -> Column:
    """Return the array of images that the op asks for."""
    weights = {"before": -1, "after": 1}
    made = {
        side: sf.struct(*columns, sf.lit(weights[side]).cast("bigint").alias(WEIGHT))
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
    reason = sf.when(op.isNull() | ~op.isin(list(DEBEZIUM_OPS)), sf.lit("its op is not c, r, u or d"))
    for side, hint in (("after", ""), ("before", f"; {REPLICA_IDENTITY}")):
        needed = op.isin([name for name, sides in DEBEZIUM_OPS.items() if side in sides])
        for column in texts:
            absent = sf.col(f"{side}.`{column.name}`").cast("string") == UNAVAILABLE
            reason = reason.when(needed & absent, sf.lit(f"its {side}.{column.name} {NOT_SENT}"))
        missing = needed & sf.col(side).isNull()
        reason = reason.when(missing, sf.lit(f"its op needs {side}, which is missing{hint}"))
    return reason


def _from_text(stream: Stream, frame: DataFrame, names: Sequence[str], *, full: bool) -> DataFrame:
    """Return the images of envelopes in JSON text, with the marks that tombstones are judged by."""
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
