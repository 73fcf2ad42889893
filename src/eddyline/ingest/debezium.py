"""Debezium envelopes as JSON: images of rows, and the meaning of Kafka Connect's types."""

import base64
import decimal
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Annotated, Any

import msgspec
import pyarrow as pa
from msgspec import UNSET

from eddyline.errors import ChangeError
from eddyline.expressions.arrow_values import to_arrow
from eddyline.ingest.changes import (
    DEBEZIUM_OPS,
    IMAGE_WEIGHTS,
    NOT_SENT,
    REPLICA_IDENTITY,
    UNAVAILABLE,
    UNKNOWN_OP,
    missing_image,
)
from eddyline.types import Column, SqlType

# What a field of Kafka Connect means in JSON, by its name in the schema of the envelope:
#
# | name in the schema | in JSON | is read by a column of type |
# | --- | --- | --- |
# | connect.data.Decimal | base64 of a big-endian integer, its scale in the schema; or a number | DECIMAL |
# | debezium.data.VariableScaleDecimal | an object of scale and such base64 | DECIMAL |
# | debezium.time.Date, connect.data.Date | days since 1970 | DATE |
# | (Micro-, Nano-)Timestamp, connect.data.Timestamp | ms, us or ns since 1970, UTC | TIMESTAMP, TIMESTAMP_NTZ |
# | (Micro-, Nano-)Time, connect.data.Time | ms, us or ns since midnight | STRING, as 07:08:09.5 |
# | none, or another | text, or a number for a DECIMAL | any, as it is |
#
# Anything else is refused: a number is never rounded to fit a DECIMAL, and a number in a DATE or TIMESTAMP
# column means nothing without its unit. Nanoseconds are cut to microseconds, as in a CAST of text.


Reader = Callable[[Any], object]
"""Converts a JSON value for `field_array`, or raises ChangeError with the end of the sentence "its column ..."."""

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
_UNAVAILABLE_TEXT = re.compile(rf'[\[{{"]*{UNAVAILABLE}\b')
_UNAVAILABLE_BASE64 = base64.b64encode(UNAVAILABLE.encode()).decode()

_SCHEMAS = "value.converter.schemas.enable=true"


class FieldSchema(msgspec.Struct, frozen=True):
    """What the schema of an envelope states about a field."""

    field: str = ""
    name: str | None = None
    parameters: dict[str, str] | None = None


class _VariableScale(msgspec.Struct):
    scale: int
    value: str


def json_type(kind: SqlType) -> Any:
    """Return the type that msgspec decodes a field of JSON to."""
    if kind.kind == "decimal":
        return msgspec.Raw  # distinguishes text from numbers, and keeps all digits
    if kind.kind in _BITS:
        most = 1 << (_BITS[kind.kind] - 1)
        return Annotated[int, msgspec.Meta(ge=-most, le=most - 1)] | None
    simple = {"boolean": bool, "float": float, "double": float, "binary": bytes}
    return simple[kind.kind] | None if kind.kind in simple else Any


def field_reader(kind: SqlType, field: FieldSchema | None, zone: tzinfo, *, schema: bool) -> Reader | None:
    """Return the reader of a field, None where its value is used as it is.

    field: what the schema says about it; schema: whether the envelope has one; zone: for text without a zone.
    """
    name = field.name if field is not None else None
    if kind.kind == "decimal":
        parameters = (field.parameters if field is not None else None) or {}
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
    """Return the results of readers as an Arrow array: unscaled decimals; days and microseconds as integers."""
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
    """scale: the scale of base64 text; without a scale, text has the digits themselves."""
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
    """Return a base64 integer in units of 10^-scale, converted to units of 10^-wanted, or raise ValueError."""
    number = int.from_bytes(base64.b64decode(encoded, validate=True), "big", signed=True)
    if scale <= wanted:
        return number * int(pow(10, min(wanted - scale, _MOST_DIGITS)))
    whole, rest = divmod(number, int(pow(10, min(scale - wanted, _MOST_DIGITS))))
    if rest:
        raise ValueError
    return whole


def _plain(text: str, scale: int) -> int:
    """Return the number in a string in units of 10^-scale, or raise ArithmeticError where it has more digits."""
    return int(_EXACT.to_integral_exact(_EXACT.scaleb(_EXACT.create_decimal(text), scale)))


def _time_reader(
    kind: SqlType, of_number: Callable[[int], int] | None, of_text: Callable[[str], int], *, schema: bool
) -> Reader:
    refusal = f"is not a {kind} in ISO text or by the envelope's schema"
    if not schema:
        hint = "the unit of a number is not known: set"
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
    """Return microseconds since 1970; text without a zone is in `zone`, or, if that is None, wall time as UTC."""
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


# Debezium envelopes as Kafka delivers them: how they become images of rows, and what is refused.
#
# Text comes with or without its schema (`{"schema": ..., "payload": ...}`) and is read by the declared
# columns; the first part of this module has what the schema states about a field. These are refused, each
# with its reason:
#
# - text that is not JSON of the declared types; an op other than c, r, u, d; a missing image;
# - an image without a column that a query reads: Debezium sends all columns of a row, also those that are NULL,
#   so this one was dropped, or the connector left it out;
# - a `before` that holds only the key, from which a delete cannot be computed: its columns other than those of
#   the record's key are all NULL, or what Debezium puts into NOT NULL columns instead.
#   `changes="debezium:full"` declares that such rows are meant;
# - a value that the database did not send (TOAST), that does not fit its column, or that has no unit.


_NO_DELETE = "a NULL value that does not follow the delete of its key: deletes must come with their row"
_HINTS = {"before": f"; {REPLICA_IDENTITY}", "after": ": it was dropped, renamed or left out"}


Asked = list[tuple[tuple[object, ...], int | None]]
"""Rows and their weights."""


class _ImageSchema(msgspec.Struct):
    field: str = ""
    fields: tuple[FieldSchema, ...] = ()


class _Schema(msgspec.Struct):
    fields: tuple[_ImageSchema, ...] = ()


@dataclass
class Images:
    """Rows from envelopes; an unusable envelope gives a row with the reason, without values and weight.

    records: the number of each row's envelope; deletes: whether that envelope is a delete.
    """

    records: list[int] = field(default_factory=list)
    rows: list[tuple[object, ...]] = field(default_factory=list)
    weights: list[int | None] = field(default_factory=list)
    deletes: list[bool] = field(default_factory=list)
    reasons: list[str | None] = field(default_factory=list)


class EnvelopeReader:
    """Reads envelopes of a stream's declared columns, and returns the named ones; zone: for text without a zone."""

    def __init__(self, columns: Sequence[Column], names: Sequence[str], zone: tzinfo, *, full: bool) -> None:
        kinds = {column.name: column.type for column in columns}
        self._columns = [Column(name, kinds[name]) for name in names]
        self._zone, self._full = zone, full
        self._nothing = (None,) * len(names)
        self._decoder = msgspec.json.Decoder(_envelope_type(columns))
        self._places = [f"f{list(kinds).index(name)}" for name in names]
        self._known: dict[bytes, dict[str, list[Reader | None]]] = {}

    def read(self, keys: Iterable[bytes | None], values: Iterable[bytes | None]) -> Images:
        """Return the images of records; a NULL value is refused here, and must be skipped by callers."""
        images = Images()
        for record, (key, value) in enumerate(zip(keys, values, strict=True)):
            asked, delete, why = self._images(key, value)
            for row, weight in asked:
                images.records.append(record)
                images.rows.append(row)
                images.weights.append(weight)
                images.deletes.append(delete)
                images.reasons.append(None if why is None else _shown(why, key, value))
        return images

    def arrays(self, images: Images) -> list[pa.Array]:
        """Return the values of images as arrays, one for each named column."""
        values = list(zip(*images.rows, strict=True)) if images.rows else [()] * len(self._columns)
        return [field_array(column.type, each) for column, each in zip(self._columns, values, strict=True)]

    def _images(self, key: bytes | None, value: bytes | None) -> tuple[Asked, bool, str | None]:
        """Return a record's images, whether it is a delete, and why it cannot be used: then it has no images."""
        envelope = None
        try:
            schema, envelope = self._envelope(value)
            asked = self._asked(schema, envelope)
            if key is not None and not self._full and "before" in DEBEZIUM_OPS[envelope.op]:
                self._refuse_key_alone(key, value, asked[-1][0])
        except ChangeError as why:
            return [(self._nothing, None)], envelope is not None and envelope.op == "d", str(why)
        return asked, envelope.op == "d", None

    def _envelope(self, value: bytes | None) -> tuple[bytes, Any]:
        """Return the text of an envelope's schema, empty where it has none, and the envelope."""
        if value is None:
            raise ChangeError(_NO_DELETE)
        try:
            whole = self._decoder.decode(value)
        except (msgspec.MsgspecError, ValueError) as error:
            raise ChangeError(f"it is not JSON of the declared columns: {error}") from error
        return b"" if whole.schema is UNSET else bytes(whole.schema), whole.payload or whole

    def _asked(self, schema: bytes, envelope: Any) -> Asked:
        """Return the images that the op asks for, `after` first: errors name the column of a value not sent."""
        if envelope.op not in DEBEZIUM_OPS:
            raise ChangeError(UNKNOWN_OP)
        readers = self._known.get(schema) or self._learn(schema)
        return [
            (self._row(side, getattr(envelope, side), readers[side]), IMAGE_WEIGHTS[side])
            for side in reversed(DEBEZIUM_OPS[envelope.op])
        ]

    def _learn(self, schema: bytes) -> dict[str, list[Reader | None]]:
        """Return the readers of the named columns of both images; they are cached: many rows share few schemas."""
        try:
            field = msgspec.json.decode(schema or b"null", type=_Schema | None) or _Schema()
        except msgspec.MsgspecError as error:
            raise ChangeError(f"its schema is not one of Kafka Connect: {error}") from error
        known = {}
        for side in IMAGE_WEIGHTS:
            fields = next((image.fields for image in field.fields if image.field == side), ())
            by_name = {each.field: each for each in fields}
            known[side] = [
                field_reader(column.type, by_name.get(column.name), self._zone, schema=bool(fields))
                for column in self._columns
            ]
        self._known[schema] = known
        return known

    def _row(self, side: str, image: Any, readers: list[Reader | None]) -> tuple[object, ...]:
        if image is None:
            raise ChangeError(missing_image(side))
        row = []
        for column, place, reader in zip(self._columns, self._places, readers, strict=True):
            value = getattr(image, place)
            if value is UNSET:
                raise ChangeError(f"its {side} has no column {column.name}{_HINTS[side]}")
            try:
                row.append(value if reader is None or value is None else reader(value))
            except ChangeError as why:
                raise ChangeError(f"its {side}.{column.name} {why}") from why
        return tuple(row)

    def _refuse_key_alone(self, key: bytes, value: bytes | None, row: tuple[object, ...]) -> None:
        """Raise ChangeError if `before` is empty except for the columns of the record's key.

        Debezium fills columns that are NOT NULL with 0, an empty string or FALSE where the log has only the key.
        """
        names = _key_names(key)
        if names is None or any(
            isinstance(each, str | int | float) and each and column.name not in names
            for column, each in zip(self._columns, row, strict=True)
        ):
            return
        whole = _BEFORE.decode(value or b"")
        before = (whole.payload or whole).before or {}
        others = [each for name, each in before.items() if name not in names]
        if others and all(each in _EMPTY for each in others):
            raise ChangeError(
                f'its before holds only the key; {REPLICA_IDENTITY}, then say changes="debezium:full"'
            )


class _Before(msgspec.Struct):
    before: dict[str, Any] | None = None
    payload: "_Before | None" = None


_EMPTY = (None, 0, "", "AA==")
"""Placeholders for a value that the log does not have; the last is 0 as Connect's Decimal."""
_BEFORE = msgspec.json.Decoder(_Before)
_KEY = msgspec.json.Decoder(dict[str, Any])


def _key_names(key: bytes) -> set[str] | None:
    """Return the columns in the key of a record, None where the key has no columns."""
    try:
        read = _KEY.decode(key)
    except (msgspec.MsgspecError, ValueError):
        return None
    inner = read.get("payload") if "schema" in read else read
    return set(inner) if isinstance(inner, dict) else None


def _envelope_type(columns: Sequence[Column]) -> Any:
    """Return the type of envelopes with these columns, each under its own name, with the schema undecoded."""
    names = {f"f{place}": column.name for place, column in enumerate(columns)}
    places = [(place, json_type(column.type), UNSET) for place, column in zip(names, columns, strict=True)]
    row = msgspec.defstruct("Row", places, rename=names)
    images: list[Any] = [("op", str | None, None), *((side, row | None, None) for side in IMAGE_WEIGHTS)]
    payload = msgspec.defstruct("Payload", images)
    return msgspec.defstruct(
        "Envelope", [*images, ("schema", msgspec.Raw, UNSET), ("payload", payload | None, None)]
    )


def _shown(why: str, key: bytes | None, value: bytes | None) -> str:
    """Return a record and why it cannot be used, as JSON."""
    texts = {"key": key, "value": value}
    field = {name: text.decode(errors="replace") for name, text in texts.items() if text is not None}
    return msgspec.json.encode({"reason": why, **field}).decode()
