"""SQL types and Arrow types, both ways."""

import pyarrow as pa

from eddyline.types import SqlType

_TO_ARROW: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}
_FROM_ARROW: dict[pa.DataType, SqlType] = {
    pa.bool_(): SqlType("boolean"),
    pa.int8(): SqlType("tinyint"),
    pa.int16(): SqlType("smallint"),
    pa.uint8(): SqlType("smallint"),
    pa.int32(): SqlType("int"),
    pa.uint16(): SqlType("int"),
    pa.int64(): SqlType("bigint"),
    pa.uint32(): SqlType("bigint"),
    pa.float32(): SqlType("float"),
    pa.float64(): SqlType("double"),
    pa.string(): SqlType("string"),
    pa.large_string(): SqlType("string"),
    pa.string_view(): SqlType("string"),
    pa.binary(): SqlType("binary"),
    pa.large_binary(): SqlType("binary"),
    pa.date32(): SqlType("date"),
}


def to_arrow(kind: SqlType) -> pa.DataType:
    """Return the Arrow type that Spark gives columns of a SQL type."""
    if kind.kind == "decimal":
        return pa.decimal128(kind.precision, kind.scale)
    return _TO_ARROW[kind.kind]


def from_arrow(kind: pa.DataType) -> SqlType | None:
    """Return the SQL type of an Arrow type, or None where there is none."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_decimal(kind):
        return SqlType("decimal", kind.precision, kind.scale) if kind.precision <= 38 else None
    if pa.types.is_timestamp(kind):
        return SqlType("timestamp" if kind.tz else "timestamp_ntz")
    return _FROM_ARROW.get(kind)
