"""Debezium envelopes on frames: as structs (op, before, after), or as the JSON text of Kafka records.

JSON text lies in a column `value` (string or binary), with or without the payload wrapper, and is read by the
declared columns. What is refused, each with its reason:

- text that is not JSON of the declared types; an op other than c, r, u, d; a missing image or column;
- a `before` that holds only the key, which a delete cannot be undone by: with a `key` column beside, one whose
  other columns are all NULL. `changes="debezium:full"` says that tables have REPLICA IDENTITY FULL and such
  rows are meant;
- dates and timestamps as numbers, whose unit depends on the connector: send them as ISO text.

A NULL value is a tombstone; `spark.tombstones` has the rule for it.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from eddyline.errors import ChangeError
from eddyline.ingest.changes import DEBEZIUM_OPS, ChangeFormat
from eddyline.plan.layout import Stream
from eddyline.spark.marks import BAD, DELETE, MARK, MARK_KEY, OTHER, TOMBSTONE, WEIGHT
from eddyline.spark.schema import declared_columns

REPLICA_IDENTITY = "let the database send whole rows: ALTER TABLE ... REPLICA IDENTITY FULL"
_CORRUPT = "_corrupt_record"
_TEXT_KINDS = ("date", "timestamp", "timestamp_ntz")


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
        sf.struct(_why(frame["op"], sf.lit(None)).alias("reason"), "op", "before", "after"),
        {"ignoreNullFields": "false"},
    )
    images = _images(sides)
    exploded = frame.select(
        sf.explode_outer(images).alias("image"), sf.when(images.isNull(), shown).alias(BAD)
    )
    return exploded.select("image.*", BAD)


def _images(sides: dict[str, list[Column]], *also: Column) -> Column:
    """Return the array of images that the op asks for, NULL where one is missing or `also` is not so."""
    weights = {"before": -1, "after": 1}
    made = {
        side: sf.struct(*columns, sf.lit(weights[side]).cast("bigint").alias(WEIGHT))
        for side, columns in sides.items()
    }
    images = sf.when(sf.lit(False), sf.array(made["after"]))
    for op, needed in DEBEZIUM_OPS.items():
        there = sf.col("op") == op
        for part in (*(sf.col(side).isNotNull() for side in needed), *also):
            there = there & part
        images = images.when(there, sf.array(*(made[side] for side in needed)))
    return images


def _why(op: Column, other: Column) -> Column:
    """Return why an envelope cannot be read: what is wrong with its op and images, else the other reason."""
    reason = sf.when(op.isNull() | ~op.isin(list(DEBEZIUM_OPS)), sf.lit("its op is not c, r, u or d"))
    for side, hint in (("before", f"; {REPLICA_IDENTITY}"), ("after", "")):
        needing = [name for name, sides in DEBEZIUM_OPS.items() if side in sides]
        missing = op.isin(needing) & sf.col(side).isNull()
        reason = reason.when(missing, sf.lit(f"its op needs {side}, which is missing{hint}"))
    return reason.otherwise(other)


def _from_text(stream: Stream, frame: DataFrame, names: Sequence[str], *, full: bool) -> DataFrame:
    """Return the images of envelopes in JSON text, with the marks that tombstones are judged by."""
    key = sf.col("key").cast("string") if "key" in frame.columns else sf.lit(None).cast("string")
    text = sf.col("value").cast("string")
    keys = [column.name for column in stream.columns]
    parsed = frame.select(
        text.alias("text"),
        key.alias("key"),
        sf.from_json(text, _schema(stream), {"columnNameOfCorruptRecord": _CORRUPT}).alias("read"),
        sf.from_json(text, _KEYS).alias("raw"),
        sf.from_json(key, "payload MAP<STRING,STRING>").alias("key_wrapped"),
        sf.from_json(key, "MAP<STRING,STRING>").alias("key_plain"),
    )
    envelopes = parsed.select(
        "text",
        "key",
        sf.col(f"read.{_CORRUPT}").alias("corrupt"),
        *(
            sf.coalesce(f"read.payload.{part}", f"read.{part}").alias(part)
            for part in ("op", "before", "after")
        ),
        sf.coalesce("raw.payload.before", "raw.before").alias("before_raw"),
        sf.coalesce("raw.payload.after", "raw.after").alias("after_raw"),
        sf.coalesce(sf.map_keys("key_wrapped.payload"), sf.map_keys("key_plain")).alias("key_names"),
    )
    reason = _why(sf.col("op"), _text_reason(stream, keys, full=full))
    reason = sf.when(
        sf.col("corrupt").isNotNull(), sf.lit("it is not JSON of the declared columns")
    ).otherwise(reason)
    judged = envelopes.withColumn("reason", sf.when(sf.col("text").isNotNull(), reason))
    return _marked(stream, judged, names)


def _marked(stream: Stream, judged: DataFrame, names: Sequence[str]) -> DataFrame:
    declared = {column.name: column.type for column in stream.columns}
    sides = {
        side: [sf.col(f"{side}.`{name}`").try_cast(str(declared[name])).alias(name) for name in names]
        for side in ("before", "after")
    }
    good = sf.col("reason").isNull() & sf.col("text").isNotNull()
    mark = sf.when(sf.col("text").isNull(), TOMBSTONE).when(sf.col("op") == "d", DELETE).otherwise(OTHER)
    no_delete = sf.lit(
        "a NULL value that does not follow the delete of its key: deletes must come with their row"
    )
    bad = sf.when(sf.col("text").isNull(), no_delete).otherwise(sf.col("reason"))
    shown = sf.when(
        bad.isNotNull(), sf.to_json(sf.struct(bad.alias("reason"), "key", sf.col("text").alias("value")))
    )
    exploded = judged.select(
        sf.explode_outer(_images(sides, good)).alias("image"),
        shown.alias(BAD),
        mark.alias(MARK),
        sf.xxhash64("key").alias(MARK_KEY),
    )
    return exploded.select("image.*", BAD, MARK, MARK_KEY)


_IMAGES = "before MAP<STRING,STRING>, after MAP<STRING,STRING>"
_KEYS = f"{_IMAGES}, payload STRUCT<{_IMAGES.replace(' MAP', ': MAP')}>"


def _schema(stream: Stream) -> str:
    """Return the schema of envelopes: dates and times as text, because numbers have no known unit."""
    fields = [
        f"`{column.name}`: {'STRING' if column.type.kind in _TEXT_KINDS else column.type}"
        for column in stream.columns
    ]
    row = f"STRUCT<{', '.join(fields)}>"
    parts = {"op": "STRING", "before": row, "after": row}
    wrapped = ", ".join(f"{name}: {kind}" for name, kind in parts.items())
    plain = ", ".join(f"{name} {kind}" for name, kind in parts.items())
    return f"{plain}, payload STRUCT<{wrapped}>, {_CORRUPT} STRING"


def _text_reason(stream: Stream, names: Sequence[str], *, full: bool) -> Column:
    """Return why the images of an envelope cannot be used, NULL where they can."""
    reason = sf.when(sf.lit(False), sf.lit(None).cast("string"))
    for side in ("before", "after"):
        needed = sf.col("op").isin([op for op, sides in DEBEZIUM_OPS.items() if side in sides])
        hint = f"; {REPLICA_IDENTITY}" if side == "before" else ""
        for name in names:
            absent = ~sf.map_contains_key(f"{side}_raw", name)
            reason = reason.when(needed & absent, sf.lit(f"its {side} has no column {name}{hint}"))
        for column in stream.columns:
            if column.type.kind in _TEXT_KINDS:
                value = sf.col(f"{side}.`{column.name}`")
                unread = value.isNotNull() & value.try_cast(str(column.type)).isNull()
                told = f"its {side}.{column.name} is not a {column.type} in ISO text"
                reason = reason.when(needed & unread, sf.lit(told))
    if full:
        return reason
    others = sf.map_filter("before_raw", lambda name, _value: ~sf.array_contains("key_names", name))
    valued = sf.map_filter(others, lambda _name, value: value.isNotNull())
    only_key = sf.col("op").isin("u", "d") & (sf.size(others) > 0) & (sf.size(valued) == 0)
    told = f'its before holds only the key; {REPLICA_IDENTITY}, then say changes="debezium:full"'
    return reason.when(sf.col("key_names").isNotNull() & only_key, sf.lit(told))
