"""The projection in the JVM: keys, predicates, measures and weight of each row, nothing else leaves the scan."""

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType

from eddyline.errors import PipelineError
from eddyline.ingest.arrow_path import referenced
from eddyline.ingest.projection import TIME, WEIGHT, Projection
from eddyline.plan.layout import Measure, Stream
from eddyline.sketch.keys import NULL_KEY
from eddyline.spark import changes, marks
from eddyline.spark.causes import cause_of
from eddyline.spark.schema import from_spark
from eddyline.sql.query import Expression, Key
from eddyline.types import SqlType


def project_frame(stream: Stream, frame: DataFrame, projection: Projection) -> DataFrame:
    """Return the projected frame of a stream: the columns of `ingest.projection`, and bad rows."""
    rows = changes.decode_changes(stream, frame, referenced(projection))
    _check_types(stream, rows, projection)
    columns = [sf.col(marks.WEIGHT).alias(WEIGHT)]
    for i, key in enumerate(projection.keys):
        columns += _key_columns(i, key)
    columns += [_flag(predicate).alias(f"f{i}") for i, predicate in enumerate(projection.predicates)]
    columns += [_measure(measure).alias(f"m{i}") for i, measure in enumerate(projection.measures)]
    columns += [sf.expr(part.text).isNotNull().alias(f"p{i}") for i, part in enumerate(projection.presence)]
    if projection.event_time is not None:
        columns.append(_micros(stream, projection.event_time).alias(TIME))
    if changes.may_be_bad(stream, frame):
        columns.append(sf.col(marks.BAD))
    if marks.MARK in rows.columns:
        columns += [sf.col(marks.MARK), sf.col(marks.MARK_KEY)]
    return rows.select(*columns)


def _micros(stream: Stream, name: str) -> Column:
    """Return an event time in microseconds; one without a zone counts as UTC."""
    kind = next(column.type.kind for column in stream.columns if column.name == name)
    value = sf.col(f"`{name}`")
    return sf.unix_micros(value if kind == "timestamp" else sf.to_utc_timestamp(value, sf.current_timezone()))


def _flag(predicate: tuple[str, ...]) -> Column:
    flag = sf.expr(predicate[0])
    for conjunct in predicate[1:]:
        flag = flag & sf.expr(conjunct)
    return sf.coalesce(flag, sf.lit(False))


def _key_columns(index: int, key: Key) -> list[Column]:
    """Return the columns of a key: one 64-bit key where the JVM can make it, else the values themselves."""
    parts = [jvm_key(part) for part in key.columns]
    made = [part for part in parts if part is not None]
    if len(made) < len(parts):
        return [sf.expr(value.text).alias(f"k{index}_{j}") for j, value in enumerate(key.columns)]
    if key.null_is_value:
        made = [sf.coalesce(part, sf.lit(NULL_KEY)) for part in made]
    if len(made) == 1:
        return [made[0].alias(f"k{index}")]
    valid = made[0].isNotNull()
    for part in made[1:]:
        valid = valid & part.isNotNull()
    return [sf.when(valid, sf.xxhash64(*made)).alias(f"k{index}")]


def jvm_key(part: Expression) -> Column | None:
    """Return the 64-bit key of one value as a JVM expression, or None where Python makes it from the value."""
    value, kind = sf.expr(part.text), part.type
    if kind.is_integer or (kind.kind == "decimal" and kind.scale == 0 and kind.precision <= 18):
        return value.cast("bigint")
    if kind.kind == "boolean":
        return value.cast("int").cast("bigint")
    if kind.kind == "date":
        return sf.unix_date(value).cast("bigint")
    if kind.kind == "timestamp":
        return sf.unix_micros(value)
    if kind.kind in ("string", "binary"):
        return sf.when(value.isNotNull(), sf.xxhash64(value))
    return None


def _measure(measure: Measure) -> Column:
    value, kind = sf.expr(measure.expression.text), measure.expression.type
    if kind.is_integer:
        return value.cast("bigint")
    if kind.kind == "decimal" and kind.precision <= 18:
        return (value.cast(str(kind)) * sf.lit(10**kind.scale).cast(f"DECIMAL({kind.scale + 1},0)")).cast(
            "bigint"
        )
    return value.cast(str(kind))


def _check_types(stream: Stream, rows: DataFrame, projection: Projection) -> None:
    """Raise PipelineError unless Spark gives every expression the type that the plan worked out."""
    wanted = [part for key in projection.keys for part in key.columns]
    wanted += [measure.expression for measure in projection.measures]
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
    """Return the types that Spark gives expressions, all analysed at once; one by one to tell which it refuses."""
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
