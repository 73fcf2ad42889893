"""Values on the wire: the PostgreSQL type of a column of an Arrow table, and how its cells are encoded."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from math import inf, isfinite, isnan

import pyarrow as pa
import pyarrow.compute as pc

from eddyline.expressions.arrow_values import python_values
from eddyline.serve.postgres.refusals import Refusal, not_supported

BOOL, BYTEA, CHAR, NAME, INT8, INT2, INT4, TEXT, OID = 16, 17, 18, 19, 20, 21, 23, 25, 26
FLOAT4, FLOAT8, UNKNOWN, BPCHAR, VARCHAR, DATE, TIME = 700, 701, 705, 1042, 1043, 1082, 1083
TIMESTAMP, TIMESTAMPTZ, INTERVAL, NUMERIC, UUID, JSON = 1114, 1184, 1186, 1700, 2950, 114

LENGTHS = {
    BOOL: 1,
    CHAR: 1,
    NAME: 64,
    INT8: 8,
    INT2: 2,
    INT4: 4,
    OID: 4,
    FLOAT4: 4,
    FLOAT8: 8,
    DATE: 4,
    TIME: 8,
}
LENGTHS |= {TIMESTAMP: 8, TIMESTAMPTZ: 8, INTERVAL: 16, UUID: 16}
"""Bytes of a type's values, if all have the same number."""
ARRAYS = {BOOL: 1000, BYTEA: 1001, CHAR: 1002, NAME: 1003, INT2: 1005, INT4: 1007, TEXT: 1009, BPCHAR: 1014}
ARRAYS |= {VARCHAR: 1015, INT8: 1016, FLOAT4: 1021, FLOAT8: 1022, OID: 1028, TIMESTAMP: 1115, DATE: 1182}
ARRAYS |= {TIME: 1183, TIMESTAMPTZ: 1185, INTERVAL: 1187, NUMERIC: 1231, UUID: 2951}
ELEMENTS = {array: element for element, array in ARRAYS.items()}

_DAYS = 10_957  # from 1970-01-01 to 2000-01-01, where PostgreSQL's dates begin
_MICROSECONDS = 946_684_800_000_000  # the same for timestamps
_DAY = 86_400_000_000  # microseconds
_DIGITS = 10_000  # the base of a binary NUMERIC
WireCells = list[bytes | None]


@dataclass(frozen=True)
class WireColumn:
    """A column of a result: its name, the oid of its type, and the type's modifier (-1 for none)."""

    name: str
    oid: int
    modifier: int = -1

    @property
    def described(self) -> tuple[str, int, int, int]:
        """The column as a row description has it."""
        return self.name, self.oid, LENGTHS.get(self.oid, -1), self.modifier


def column_of(field: pa.Field) -> WireColumn:
    """Return the description of a column of a relation."""
    return WireColumn(field.name, oid_of(field.type), _modifier(field.type))


def result_column(field: pa.Field) -> WireColumn:
    """Return the description of a column of a result; a NUMERIC has no scale here: it may change with the rows."""
    return WireColumn(field.name, oid_of(field.type))


def oid_of(kind: pa.DataType) -> int:  # noqa: PLR0911 - a case for each kind of type
    """Return the PostgreSQL type of an Arrow type; text if there is no counterpart."""
    found = _SIMPLE.get(kind)
    if found is not None:
        return found
    if pa.types.is_decimal(kind):
        return NUMERIC
    if pa.types.is_timestamp(kind):
        return TIMESTAMPTZ if kind.tz else TIMESTAMP
    if pa.types.is_time(kind):
        return TIME
    if pa.types.is_dictionary(kind):
        return oid_of(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return ARRAYS.get(oid_of(kind.value_type), ARRAYS[TEXT])
    if pa.types.is_struct(kind):
        raise not_supported("a row as one value is not supported", "Name its columns.")
    return TEXT


_SIMPLE = {
    pa.bool_(): BOOL, pa.int8(): INT2, pa.uint8(): INT2, pa.int16(): INT2, pa.uint16(): INT4, pa.int32(): INT4,
    pa.uint32(): OID, pa.int64(): INT8, pa.uint64(): NUMERIC, pa.float32(): FLOAT4, pa.float64(): FLOAT8,
    pa.string(): TEXT, pa.large_string(): TEXT, pa.binary(): BYTEA, pa.large_binary(): BYTEA, pa.date32(): DATE,
    pa.month_day_nano_interval(): INTERVAL, pa.duration("us"): INTERVAL,
}  # fmt: skip


def _modifier(kind: pa.DataType) -> int:
    """Return the modifier of a type: a NUMERIC's precision and scale, as PostgreSQL packs them."""
    return (kind.precision << 16 | kind.scale) + 4 if pa.types.is_decimal(kind) else -1


def cells_of(column: pa.ChunkedArray, oid: int, *, binary: bool) -> WireCells:
    """Return the cells of a column, encoded as one PostgreSQL type."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    write = (_BINARY if binary else _TEXT).get(oid)
    if write is not None:
        return write(column)
    if oid in ELEMENTS:
        return _array_cells(column, ELEMENTS[oid], binary=binary)
    return [None if value is None else _shown(value).encode() for value in python_values(column)]


def _shown(value: object) -> str:
    """Return a value without a type of its own as text."""
    if isinstance(value, bool):
        return "t" if value else "f"
    return value if isinstance(value, str) else str(value)


def _ints(column: pa.ChunkedArray) -> list[int | None]:
    """Return integers, or raise Refusal if a number has a fraction: the column was described as integers."""
    kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        found = column.to_pylist()
        if any(value is not None and (not isfinite(value) or value != int(value)) for value in found):
            raise Refusal(
                "0A000", "cached plan must not change result type", hint="Prepare the statement again."
            )
        return [None if value is None else int(value) for value in found]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return [None if v is None else int(v) for v in column.to_pylist()]
    return list(column.to_pylist())


def _floats(column: pa.ChunkedArray) -> list[float | None]:
    return [None if value is None else float(value) for value in column.to_pylist()]


def _decimals(column: pa.ChunkedArray) -> list[Decimal | None]:
    return [
        None
        if v is None
        else v
        if isinstance(v, Decimal)
        else Decimal(repr(v) if isinstance(v, float) else v)
        for v in column.to_pylist()
    ]


def _strings(column: pa.ChunkedArray) -> list[str | None]:
    return [None if value is None else _shown(value) for value in python_values(column)]


def _truths(column: pa.ChunkedArray) -> list[bool | None]:
    return [None if value is None else bool(value) for value in column.to_pylist()]


def _days(column: pa.ChunkedArray) -> list[int | None]:
    return list(column.cast(pa.date32()).cast(pa.int32()).to_pylist())


def _moments(column: pa.ChunkedArray) -> list[int | None]:
    kind = column.type
    column = column.cast(pa.timestamp("us", kind.tz if pa.types.is_timestamp(kind) else None), safe=False)
    return list(column.cast(pa.int64()).to_pylist())


def _clock(column: pa.ChunkedArray) -> list[int | None]:
    return list(column.cast(pa.time64("us")).cast(pa.int64()).to_pylist())


def _writer(
    read: Callable[[pa.ChunkedArray], Sequence[object]], write: Callable[..., bytes]
) -> Callable[..., WireCells]:
    """Return the function that encodes a column, given functions that read its values and encode one of them."""

    def cells(column: pa.ChunkedArray) -> WireCells:
        return [None if value is None else write(value) for value in read(column)]

    return cells


def _float_text(value: float) -> bytes:
    if isnan(value):
        return b"NaN"
    if value in (inf, -inf):
        return b"Infinity" if value > 0 else b"-Infinity"
    written = repr(value)
    return (written.removesuffix(".0")).encode()


def _float4_text(value: float) -> bytes:
    if not isfinite(value):
        return _float_text(value)
    return _float_text(
        float(f"{value:.7g}")
        if struct.pack("!f", float(f"{value:.7g}")) == struct.pack("!f", value)
        else float(f"{value:.9g}")
    )


def _decimal_text(value: Decimal) -> bytes:
    return f"{value:f}".encode() if value.is_finite() else b"NaN"


def _date_text(days: int) -> bytes:
    year, month, day = _civil(days)
    return (
        f"{year:04d}-{month:02d}-{day:02d}".encode()
        if year > 0
        else f"{1 - year:04d}-{month:02d}-{day:02d} BC".encode()
    )


def _civil(days: int) -> tuple[int, int, int]:
    """Return year, month and day of a day counted from 1970-01-01, of any year (proleptic Gregorian)."""
    days += 719_468  # from 0000-03-01, where cycles of leap years begin
    era, of_era = divmod(days, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1


def _clock_text(microseconds: int) -> bytes:
    seconds, part = divmod(microseconds, 1_000_000)
    shown = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return (f"{shown}.{part:06d}".rstrip("0") if part else shown).encode()


def _moment_text(microseconds: int, zone: bytes = b"") -> bytes:
    days, of_day = divmod(microseconds, 86_400_000_000)
    date, _, era = _date_text(days).partition(b" ")
    return date + b" " + _clock_text(of_day) + zone + (b" " + era if era else b"")


def _intervals(column: pa.ChunkedArray) -> list[tuple[int, int, int] | None]:
    """Return intervals as (months, days, nanoseconds); a length of time has whole days, of 24 hours."""
    if not pa.types.is_duration(column.type):
        return list(column.to_pylist())
    lengths = column.cast(pa.duration("us")).cast(pa.int64()).to_pylist()
    days = [0 if each is None else abs(each) // _DAY * (1 if each > 0 else -1) for each in lengths]
    return [
        None if each is None else (0, whole, 1000 * (each - whole * _DAY))
        for each, whole in zip(lengths, days, strict=True)
    ]


def _interval_text(value: tuple[int, int, int]) -> bytes:
    months, days, nanoseconds = value
    microseconds = nanoseconds // 1000
    sign = "-" if microseconds < 0 else ""
    parts = [
        f"{n} {unit}"
        for n, unit in ((int(months / 12), "years"), (months - 12 * int(months / 12), "mons"), (days, "days"))
        if n
    ]
    if microseconds or not parts:
        parts.append(sign + _clock_text(abs(microseconds)).decode())
    return " ".join(parts).encode()


def _interval_binary(value: tuple[int, int, int]) -> bytes:
    months, days, nanoseconds = value
    return struct.pack("!qii", nanoseconds // 1000, days, months)


def decimal_binary(value: Decimal) -> bytes:
    """Return a NUMERIC in binary: its digits in base 10,000, the weight of the first, the sign, the scale."""
    if not value.is_finite():
        return struct.pack("!hhHh", 0, 0, 0xC000, 0)
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number, scale = int("".join(map(str, digits))), max(0, -exponent)
    number *= 10 ** (max(0, exponent) + (-scale) % 4)  # the point lies between two groups of four digits
    groups = []
    while number:
        number, group = divmod(number, _DIGITS)
        groups.append(group)
    groups.reverse()
    weight = len(groups) - (scale + 3) // 4 - 1 if groups else 0
    while groups and groups[-1] == 0:
        groups.pop()
    return struct.pack(f"!hhHh{len(groups)}H", len(groups), weight, 0x4000 if sign else 0, scale, *groups)


def read_decimal(given: bytes) -> Decimal:
    """Return a NUMERIC that was sent in binary."""
    count, weight, sign, scale = struct.unpack_from("!hhHh", given)
    if sign not in (0, 0x4000):
        raise Refusal("22P03", "a NUMERIC parameter is not a finite number")
    groups = struct.unpack_from(f"!{count}H", given, 8)
    number = 0
    for group in groups:
        number = number * _DIGITS + group
    value = Decimal(number).scaleb(4 * (weight + 1 - count)) if count else Decimal(0)
    return (
        (-value if sign else value).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_EVEN)
        if scale < 400
        else value
    )


_TEXT: dict[int, Callable[[pa.ChunkedArray], WireCells]] = {
    BOOL: _writer(_truths, lambda value: b"t" if value else b"f"),
    BYTEA: _writer(lambda column: column.to_pylist(), lambda value: b"\\x" + value.hex().encode()),
    **dict.fromkeys((INT2, INT4, INT8, OID), _writer(_ints, lambda value: b"%d" % value)),
    FLOAT4: _writer(_floats, _float4_text),
    FLOAT8: _writer(_floats, _float_text),
    NUMERIC: _writer(_decimals, _decimal_text),
    **dict.fromkeys((TEXT, VARCHAR, BPCHAR, NAME, CHAR), _writer(_strings, str.encode)),
    DATE: _writer(_days, _date_text),
    TIME: _writer(_clock, _clock_text),
    TIMESTAMP: _writer(_moments, _moment_text),
    TIMESTAMPTZ: _writer(_moments, lambda value: _moment_text(value, b"+00")),
    INTERVAL: _writer(_intervals, _interval_text),
}
_BINARY: dict[int, Callable[[pa.ChunkedArray], WireCells]] = {
    BOOL: _writer(_truths, lambda value: b"\1" if value else b"\0"),
    BYTEA: _writer(lambda column: column.to_pylist(), bytes),
    INT2: _writer(_ints, struct.Struct("!h").pack),
    INT4: _writer(_ints, struct.Struct("!i").pack),
    OID: _writer(_ints, struct.Struct("!I").pack),
    INT8: _writer(_ints, struct.Struct("!q").pack),
    FLOAT4: _writer(_floats, struct.Struct("!f").pack),
    FLOAT8: _writer(_floats, struct.Struct("!d").pack),
    NUMERIC: _writer(_decimals, decimal_binary),
    **dict.fromkeys((TEXT, VARCHAR, BPCHAR, NAME, CHAR), _writer(_strings, str.encode)),
    DATE: _writer(_days, lambda value: struct.pack("!i", value - _DAYS)),
    TIME: _writer(_clock, struct.Struct("!q").pack),
    **dict.fromkeys(
        (TIMESTAMP, TIMESTAMPTZ), _writer(_moments, lambda value: struct.pack("!q", value - _MICROSECONDS))
    ),
    INTERVAL: _writer(_intervals, _interval_binary),
}


def _array_cells(column: pa.ChunkedArray, element: int, *, binary: bool) -> WireCells:
    """Return the cells of a column of lists."""
    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        return [None if v is None else str(v).encode() for v in column.to_pylist()]
    inner = iter(
        cells_of(
            pa.chunked_array(
                [pc.list_flatten(column).combine_chunks()] if len(column) else [], column.type.value_type
            ),
            element,
            binary=binary,
        )
    )
    lengths = pc.list_value_length(column).to_pylist()
    join = _array_binary if binary else _array_text
    return [
        None if length is None else join([next(inner) for _ in range(length)], element) for length in lengths
    ]


def _array_text(items: WireCells, _element: int) -> bytes:
    return b"{" + b",".join(b"NULL" if item is None else _quoted(item) for item in items) + b"}"


def _quoted(item: bytes) -> bytes:
    """Return an item of an array, quoted if it would otherwise be read differently."""
    plain = item and item.upper() != b"NULL" and not any(c in b'{}",\\ \t\n\r\v\f' for c in item)
    return item if plain else b'"' + item.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


def _array_binary(items: WireCells, element: int) -> bytes:
    nulls = any(item is None for item in items)
    head = struct.pack("!iii", 1 if items else 0, nulls, element)
    if not items:
        return head
    parts = [struct.pack("!i", -1) if item is None else struct.pack("!i", len(item)) + item for item in items]
    return head + struct.pack("!ii", len(items), 1) + b"".join(parts)


def date_text(days: int) -> str:
    """Return a binary date as SQL writes it."""
    return _date_text(days + _DAYS).decode()


def moment_text(microseconds: int) -> str:
    """Return a binary timestamp as SQL writes it."""
    return _moment_text(microseconds + _MICROSECONDS).decode()
