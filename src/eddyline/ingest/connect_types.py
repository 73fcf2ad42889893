"""What a field of Kafka Connect means in JSON, by the name that the schema of its envelope gives it.

| name in the schema | in JSON | is read by a column of type |
| --- | --- | --- |
| connect.data.Decimal | base64 of a big-endian integer, its scale in the schema; or a number | DECIMAL |
| debezium.data.VariableScaleDecimal | an object of scale and such base64 | DECIMAL |
| debezium.time.Date, connect.data.Date | days since 1970 | DATE |
| (Micro-, Nano-)Timestamp, connect.data.Timestamp | ms, us or ns since 1970, in UTC | TIMESTAMP, TIMESTAMP_NTZ |
| (Micro-, Nano-)Time, connect.data.Time | ms, us or ns since midnight | STRING, as 07:08:09.5 |
| none, or another | text, or a number for a DECIMAL | any, as it is |

What cannot be read so is refused: a number is never rounded to fit a DECIMAL, and a number in a DATE or TIMESTAMP
column means nothing without its unit. Nanoseconds are cut to microseconds, as in a CAST of text.
"""

import base64
import decimal
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Annotated, Any

import msgspec
import pyarrow as pa

from eddyline.errors import ChangeError
from eddyline.sql.arrow_types import to_arrow
from eddyline.types import SqlType

Reader = Callable[[Any], object]
"""From what JSON has to what `field_array` takes; raises ChangeError with the end of the sentence "its column ..."."""

_DEBEZIUM, _CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."
_DECIMAL, _VARIABLE = f"{_CONNECT}Decimal", "io.debezium.data.VariableScaleDecimal"
_DATES = (f"{_DEBEZIUM}Date", f"{_CONNECT}Date")
_MILLI, _MICRO, _NANO = 10**6, 10**3, 1  # nanoseconds
_TIMESTAMPS = {
    f"{_DEBEZIUM}Timestamp": _MILLI, f"{_CONNECT}Timestamp": _MILLI,
    f"{_DEBEZIUM}MicroTimestamp": _MICRO, f"{_DEBEZIUM}NanoTimestamp": _NANO,
}  # fmt: skip
_TIMES = {
    f"{_DEBEZIUM}Time": _MILLI, f"{_CONNECT}Time": _MILLI,
    f"{_DEBEZIUM}MicroTime": _MICRO, f"{_DEBEZIUM}NanoTime": _NANO,
}  # fmt: skip
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}

_EPOCH, _EPOCH_DAY = datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1).toordinal()
_MICROSECOND, _DAY_MICROS = timedelta(microseconds=1), 86_400_000_000
_DAYS = range(date.min.toordinal() - _EPOCH_DAY, date.max.toordinal() - _EPOCH_DAY + 1)
_MICROS = range(_DAYS.start * _DAY_MICROS, _DAYS.stop * _DAY_MICROS)
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?![\d-])")
_MOST_DIGITS = 200
_EXACT = decimal.Context(
    prec=_MOST_DIGITS,
    Emin=-_MOST_DIGITS,
    Emax=_MOST_DIGITS,
    traps=[decimal.Inexact, decimal.InvalidOperation],
)
UNAVAILABLE = "__debezium_unavailable_value"
_UNAVAILABLE_TEXT = re.compile(rf'[\[{{"]*{UNAVAILABLE}\b')
_UNAVAILABLE_BASE64 = base64.b64encode(UNAVAILABLE.encode()).decode()

REPLICA_IDENTITY = "let the database send whole rows: ALTER TABLE ... REPLICA IDENTITY FULL"
NOT_SENT = f"was too large to be sent with a change of other columns (TOAST); {REPLICA_IDENTITY}"
_SCHEMAS = "value.converter.schemas.enable=true"


class FieldSchema(msgspec.Struct, frozen=True):
    """What the schema of an envelope says of a field."""

    field: str = ""
    name: str | None = None
    parameters: dict[str, str] | None = None


class _VariableScale(msgspec.Struct):
    scale: int
    value: str


def json_type(kind: SqlType) -> Any:
    """Return the type by which msgspec takes a field from JSON."""
    if kind.kind == "decimal":
        return msgspec.Raw  # tells text from numbers, and has all digits
    if kind.kind in _BITS:
        most = 1 << (_BITS[kind.kind] - 1)
        return Annotated[int, msgspec.Meta(ge=-most, le=most - 1)] | None
    simple = {"boolean": bool, "float": float, "double": float, "binary": bytes}
    return simple[kind.kind] | None if kind.kind in simple else Any


def field_reader(kind: SqlType, told: FieldSchema | None, zone: tzinfo, *, schema: bool) -> Reader | None:
    """Return how a field is read, None where it is taken as it is.

    told: what the schema says of it; schema: whether the envelope has one; zone: that of text without one.
    """
    name = told.name if told is not None else None
    if kind.kind == "decimal":
        parameters = (told.parameters if told is not None else None) or {}
        return _decimal_reader(kind, _scale(parameters) if name == _DECIMAL else None, schema=schema)
    if kind.kind == "date":
        return _time_reader(kind, _days if name in _DATES else None, _iso_days, schema=schema)
    if kind.kind in ("timestamp", "timestamp_ntz"):
        unit = _TIMESTAMPS.get(name or "")
        number = None if unit is None else lambda value: value * unit // _MICRO
        text_zone = zone if kind.kind == "timestamp" else None
        return _time_reader(kind, number, lambda text: _iso_micros(text, text_zone), schema=schema)
    if kind.kind == "string":
        return _string_reader(name)
    return _read_bytes if kind.kind == "binary" else None


def field_array(kind: SqlType, values: Sequence[Any]) -> pa.Array:
    """Return what readers gave as an Arrow array: decimals without their point, days and microseconds as integers."""
    wanted = to_arrow(kind)
    if kind.kind == "decimal":
        words = [None if value is None else value.to_bytes(16, "little", signed=True) for value in values]
        return pa.Array.from_buffers(wanted, len(words), pa.array(words, pa.binary(16)).buffers())
    if kind.kind == "date":
        return pa.array(values, pa.int32()).view(wanted)
    if kind.kind in ("timestamp", "timestamp_ntz"):
        return pa.array(values, pa.int64()).view(wanted)
    return pa.array(values, wanted)


def _scale(parameters: dict[str, str]) -> int:
    try:
        return int(parameters.get("scale", 0))
    except ValueError as error:
        raise ChangeError(f"its schema has a decimal of scale {parameters['scale']!r}") from error


def _decimal_reader(kind: SqlType, scale: int | None, *, schema: bool) -> Reader:
    """scale: that of text in base64; without one, text has the digits themselves."""
    refusal = f"is not a number that {kind} holds exactly"
    if not schema:
        refusal += (
            f"; if it is encoded in bytes, set {_SCHEMAS} or decimal.handling.mode=string in the connector"
        )

    def read(raw: msgspec.Raw) -> int | None:
        value = bytes(raw)
        if value == b"null":
            return None
        try:
            if value[:1] == b"{":
                parts = msgspec.json.decode(value, type=_VariableScale)
                number = _rescaled(parts.value, parts.scale, kind.scale)
            elif value[:1] == b'"':
                text = msgspec.json.decode(value)
                number = _plain(text, kind.scale) if scale is None else _rescaled(text, scale, kind.scale)
            else:
                number = _plain(value.decode(), kind.scale)
        except (msgspec.MsgspecError, ValueError, ArithmeticError):
            number = 10**kind.precision
        if abs(number) >= 10**kind.precision:
            raise ChangeError(refusal)
        return number

    return read


def _rescaled(encoded: str, scale: int, wanted: int) -> int:
    """Return an integer in base64 that counts 10^-scale in units of 10^-wanted, or raise ValueError if it is none."""
    number = int.from_bytes(base64.b64decode(encoded, validate=True), "big", signed=True)
    if scale <= wanted:
        return number * int(pow(10, min(wanted - scale, _MOST_DIGITS)))
    whole, rest = divmod(number, int(pow(10, min(scale - wanted, _MOST_DIGITS))))
    if rest:
        raise ValueError
    return whole


def _plain(text: str, scale: int) -> int:
    """Return the number of a text in units of 10^-scale, or raise ArithmeticError where it has further digits."""
    return int(_EXACT.to_integral_exact(_EXACT.scaleb(_EXACT.create_decimal(text), scale)))


def _time_reader(
    kind: SqlType, of_number: Callable[[int], int] | None, of_text: Callable[[str], int], *, schema: bool
) -> Reader:
    refusal = f"is not a {kind} in ISO text or by the envelope's schema"
    if not schema:
        hint = "the unit of a number is not told: set"
        refusal += f"; {hint} {_SCHEMAS} or time.precision.mode=isostring in the connector"
    within = _DAYS if kind.kind == "date" else _MICROS

    def read(value: Any) -> int:
        try:
            if isinstance(value, str) and _ISO.match(value):
                return of_text(value)
            if type(value) is int and of_number is not None and of_number(value) in within:
                return of_number(value)
        except (ValueError, OverflowError):
            pass
        raise ChangeError(refusal)

    return read


def _days(value: int) -> int:
    return value


def _iso_days(text: str) -> int:
    return date.fromisoformat(text[:10]).toordinal() - _EPOCH_DAY


def _iso_micros(text: str, zone: tzinfo | None) -> int:
    """Return microseconds since 1970; text without a zone is in this one, and without any it is wall time as UTC."""
    read = datetime.fromisoformat(text.removesuffix("Z") if len(text) == 11 else text)
    if zone is None or read.tzinfo is None:
        read = read.replace(tzinfo=zone or UTC)
    return (read - _EPOCH) // _MICROSECOND


def _string_reader(name: str | None) -> Reader:
    unit = _TIMES.get(name or "")
    if unit is not None:
        return lambda value: _time_of_day(value * unit // _MICRO if type(value) is int else -1)
    if name in (_DECIMAL, _VARIABLE, *_DATES, *_TIMESTAMPS):

        def refuse(_value: Any) -> object:
            raise ChangeError(f"is encoded as {name}: declare it as DECIMAL, DATE or TIMESTAMP")

        return refuse
    return _read_text


def _time_of_day(micros: int) -> str:
    if not 0 <= micros < _DAY_MICROS:
        raise ChangeError("is not a time of a day")
    text = (_EPOCH + timedelta(microseconds=micros)).strftime("%H:%M:%S.%f")
    return text.rstrip("0").rstrip(".")


def _read_text(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if text == _UNAVAILABLE_BASE64 or (UNAVAILABLE in text and _UNAVAILABLE_TEXT.match(text)):
        raise ChangeError(NOT_SENT)
    return text


def _read_bytes(value: bytes) -> bytes:
    if value == UNAVAILABLE.encode():
        raise ChangeError(NOT_SENT)
    return value
