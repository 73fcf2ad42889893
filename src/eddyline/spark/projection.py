"""The projection in the JVM: keys, predicates, measures and weight of each row, nothing else leaves the scan."""

from collections.abc import Mapping

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType

from eddyline.errors import PipelineError
from eddyline.expressions.nodes import may_fail, safe_first
from eddyline.ingest.arrow_path import referenced
from eddyline.ingest.changes import change_format
from eddyline.ingest.projection import (
    FLAG_BITS,
    TIME,
    WEIGHT,
    Predicates,
    Projection,
    is_made_in_jvm,
    is_whole_number,
    lean_columns,
    part_name,
)
from eddyline.plan.layout import Stream
from eddyline.spark import changes, tasks
from eddyline.spark.causes import cause_of
from eddyline.spark.changes import from_spark
from eddyline.sql.query import Expression, Key
from eddyline.types import SqlType

Guards = Mapping[str, Predicates]


def project_frame(stream: Stream, frame: DataFrame, projection: Projection) -> DataFrame:
    """Return the projected frame of a stream: the columns of `ingest.projection`, each value once, and bad rows."""
    rows = changes.decode_changes(stream, frame, referenced(projection))
    _check_types(stream, rows, projection)
    lean = lean_columns(projection)
    guards = projection.guards
    made = {name: _number(part, guards) for name, part in projection.numbers.items()}
    for i, key in enumerate(projection.keys):
        part_of = _value if key in projection.labelled else _key_part
        made |= {part_name(i, j): part_of(part, guards) for j, part in enumerate(key.columns)}
    columns = [made[name].alias(name) for name in lean.names]
    columns += [_hashed_key(projection.keys[i], guards).alias(f"k{i}") for i in sorted(lean.hashed)]
    columns += _flag_words(projection)
    if projection.event_time is not None:
        columns.append(_micros(stream, projection.event_time).alias(TIME))
    if changes.may_be_bad(stream, frame):
        columns.append(sf.col(tasks.BAD))
    if tasks.MARK in rows.columns:
        columns += [sf.col(tasks.MARK), sf.col(tasks.MARK_KEY)]
    if change_format(stream.name, stream.changes).form != "insert" or not columns:
        columns.append(sf.col(tasks.WEIGHT).alias(WEIGHT))
    return rows.select(*columns)


def _micros(stream: Stream, name: str) -> Column:
    """Return an event time in microseconds; a time without a zone counts as UTC."""
    kind = next(column.type.kind for column in stream.columns if column.name == name)
    value = sf.col(f"`{name}`")
    return sf.unix_micros(value if kind == "timestamp" else sf.to_utc_timestamp(value, sf.current_timezone()))


def _flag_words(projection: Projection) -> list[Column]:
    """Return truth values of predicates, presence and values as bits of few integers; no bits for values alone."""
    truths = [_flag(predicate) for predicate in projection.predicates]
    truths += [_value(part, projection.guards).isNotNull() for part in projection.presence]
    if truths:
        truths += [sf.col(f"`{name}`").isNotNull() for name in projection.watched]
    words = []
    for start in range(0, len(truths), FLAG_BITS):
        bits = [_bit(truth, place) for place, truth in enumerate(truths[start : start + FLAG_BITS])]
        words.append(_either(bits).alias(f"b{start // FLAG_BITS}"))
    return words


def _bit(truth: Column, place: int) -> Column:
    return sf.when(truth, sf.lit(1 << place).cast("bigint")).otherwise(sf.lit(0).cast("bigint"))


def _either(bits: list[Column]) -> Column:
    """Return the bits combined by a tree: a chain would nest as deep as it is long."""
    if len(bits) == 1:
        return bits[0]
    half = len(bits) // 2
    return _either(bits[:half]).bitwiseOR(_either(bits[half:]))


def _flag(predicate: tuple[str, ...]) -> Column:
    """Return whether all conjuncts are TRUE; one that can fail is evaluated only where all before it are TRUE.

    CASE guarantees that, and AND does not: Spark may factor out what two of its operands have in common.
    """
    first, *others = safe_first(predicate)
    flag = sf.expr(first).cast("boolean")  # a bare NULL is VOID, which CASE refuses
    for conjunct in others:
        flag = sf.when(flag, sf.expr(conjunct)) if may_fail(conjunct) else flag & sf.expr(conjunct)
    return sf.coalesce(flag, sf.lit(False))


def _hashed_key(key: Key, guards: Guards) -> Column:
    """Return the 64-bit key of several columns, computed as in `sketch.keys`."""
    made = [_key_part(part, guards) for part in key.columns]
    valid = made[0].isNotNull()
    for part in made[1:]:
        valid = valid & part.isNotNull()
    whole = sf.when(valid, sf.xxhash64(*made))
    if not key.null_is_value:
        return whole
    filled = [sf.coalesce(part, sf.lit(0).cast("bigint")) for part in made]
    nulls = _either([_bit(part.isNull(), place) for place, part in enumerate(made)])
    return whole.otherwise(sf.xxhash64(*filled, nulls))


def _value(part: Expression, guards: Guards) -> Column:
    """Return the value of an expression, NULL on rows on which it is not evaluated."""
    value = sf.expr(part.text)
    guard = guards.get(part.text)
    if not guard:
        return value
    counted = _flag(guard[0])
    for predicate in guard[1:]:
        counted = counted | _flag(predicate)
    return sf.when(counted, value)


def _key_part(part: Expression, guards: Guards) -> Column:
    """Return a part of a key: its 64-bit key where the JVM can make it, else the value itself."""
    value, kind = _value(part, guards), part.type
    if not is_made_in_jvm(kind):
        return value
    if kind.kind == "date":
        return sf.unix_date(value).cast("bigint")
    if kind.kind == "timestamp":
        return sf.unix_micros(value)
    if kind.kind in ("string", "binary"):
        return sf.when(value.isNotNull(), sf.xxhash64(value))
    return (value.cast("int") if kind.kind == "boolean" else value).cast("bigint")


def _number(part: Expression, guards: Guards) -> Column:
    value, kind = _value(part, guards), part.type
    if is_whole_number(kind):
        return value.cast("bigint")
    if kind.kind == "decimal" and kind.precision <= 18:
        return (value.cast(str(kind)) * sf.lit(10**kind.scale).cast(f"DECIMAL({kind.scale + 1},0)")).cast(
            "bigint"
        )
    return value.cast(str(kind))


def _check_types(stream: Stream, rows: DataFrame, projection: Projection) -> None:
    """Raise PipelineError unless Spark gives every expression the type that the plan worked out."""
    wanted = [part for key in projection.keys for part in key.columns]
    wanted += projection.numbers.values()
    wanted += [
        Expression(text, SqlType("boolean")) for predicate in projection.predicates for text in predicate
    ]
    for part, found in zip(wanted, _spark_types(stream, rows, wanted), strict=True):
        kind = from_spark(found)
        if found.simpleString() != "void" and (kind is None or not kind.widens_to(part.type)):
            raise PipelineError(
                f"stream {stream.name!r}: {part.text!r} is {found.simpleString()} on Spark and {part.type} in the "
                "plan: CAST it in the query to the type that you mean."
            )


def _spark_types(stream: Stream, rows: DataFrame, parts: list[Expression]) -> list[DataType]:
    """Return the types that Spark gives expressions, analyzed together; one by one to find which one it refuses."""
    try:
        return [
            field.dataType for field in rows.select(*(sf.expr(part.text) for part in parts)).schema.fields
        ]
    except AnalysisException as error:
        if len(parts) > 1:
            return [kind for part in parts for kind in _spark_types(stream, rows, [part])]
        raise PipelineError(
            f"stream {stream.name!r}: Spark cannot evaluate {parts[0].text!r}: {cause_of(error)}"
        ) from error
