"""Parameters of prepared statements: their types, how their values are decoded, and how both replace $1."""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from math import isfinite

from sqlglot import exp

from eddyline.serve.postgres import values
from eddyline.serve.postgres.refusals import Refusal
from eddyline.sql.parse import MAX_NODES

_NAMES = {
    values.BOOL: "boolean", values.INT2: "smallint", values.INT4: "int", values.INT8: "bigint",
    values.FLOAT4: "float", values.FLOAT8: "double", values.NUMERIC: "decimal", values.DATE: "date",
    values.TIMESTAMP: "timestamp", values.TIMESTAMPTZ: "timestamptz", values.TIME: "time",
    values.OID: "bigint", values.UUID: "uuid",
}  # fmt: skip
_WHOLE = frozenset({values.INT2, values.INT4, values.INT8, values.OID})
_FRACTIONS = frozenset({values.FLOAT4, values.FLOAT8, values.NUMERIC})
_SIZES = {values.INT2: "!h", values.INT4: "!i", values.INT8: "!q", values.OID: "!I"}
_SIZES |= {values.FLOAT4: "!f", values.FLOAT8: "!d"}
_TYPES = {
    "BOOLEAN": values.BOOL, "SMALLINT": values.INT2, "INT": values.INT4, "BIGINT": values.INT8, "FLOAT": values.FLOAT4,
    "DOUBLE": values.FLOAT8, "DECIMAL": values.NUMERIC, "TEXT": values.TEXT, "VARCHAR": values.VARCHAR,
    "CHAR": values.BPCHAR, "DATE": values.DATE, "TIMESTAMP": values.TIMESTAMP, "TIMESTAMPTZ": values.TIMESTAMPTZ,
    "NAME": values.NAME, "UUID": values.UUID,
}  # fmt: skip
_COMPARED = (
    exp.EQ,
    exp.NEQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
)

ParameterValue = str | bool | None | tuple["ParameterValue", ...]


@dataclass(frozen=True)
class Parameter:
    """A value of a parameter as SQL writes it, with the oid of its type; an array is a tuple of values."""

    oid: int
    value: ParameterValue

    def expression(self) -> exp.Expr:
        """Return the value as a part of a query."""
        if isinstance(self.value, tuple):
            element = values.ELEMENTS.get(self.oid, values.TEXT)
            return exp.Array(expressions=[Parameter(element, each).expression() for each in self.value])
        if self.value is None:
            return exp.Null()
        if isinstance(self.value, bool):
            return exp.Boolean(this=self.value)
        if self.oid in _WHOLE | _FRACTIONS:
            number = exp.Literal.number(self.value.lstrip("+-"))
            return exp.Paren(this=exp.Neg(this=number)) if self.value.startswith("-") else number
        literal = exp.Literal.string(self.value)
        if self.oid in _NAMES:
            return exp.Cast(this=literal, to=exp.DataType.build(_NAMES[self.oid], dialect="postgres"))
        return literal


def example(oid: int) -> Parameter:
    """Return an example value of a type, to describe a statement before its parameters are known."""
    if oid in values.ELEMENTS:
        return Parameter(oid, (example(values.ELEMENTS[oid]).value,))
    shown: Mapping[int, ParameterValue] = {
        values.BOOL: False, values.DATE: "2000-01-01", values.TIMESTAMP: "2000-01-01", values.TIME: "00:00:00",
        values.TIMESTAMPTZ: "2000-01-01 00:00:00+00", values.UUID: "00000000-0000-0000-0000-000000000000",
    }  # fmt: skip
    return Parameter(oid, shown.get(oid, "0" if oid in _WHOLE else "0.0" if oid in _FRACTIONS else ""))


def read_parameters(
    oids: Sequence[int], given: Sequence[bytes | None], formats: Sequence[int]
) -> list[Parameter]:
    """Return parameters as a client sent them; Refusal if their values are too many for one query."""
    found, left = list[Parameter](), MAX_NODES
    for oid, each, form in zip(oids, given, formats, strict=True):
        read = read_parameter(oid, each, binary=form == 1)
        left -= len(read.value) if isinstance(read.value, tuple) else 1
        if left < 0:
            raise _too_many()
        found.append(read)
    return found


def _too_many() -> Refusal:
    return Refusal("54000", f"the parameters have more than {MAX_NODES:,} values", hint="Send them in parts.")


def read_parameter(oid: int, given: bytes | None, *, binary: bool) -> Parameter:
    """Return a parameter as a client sent it; Refusal 22P02 or 22P03 if it is not a value of its type."""
    if given is None:
        return Parameter(oid, None)
    try:
        return Parameter(oid, _read_binary(oid, given) if binary else _read_text(oid, given.decode()))
    except (ValueError, struct.error, IndexError, InvalidOperation, OverflowError) as error:
        state = "22P03" if binary else "22P02"
        raise Refusal(state, f"a parameter is not a valid value of its type (oid {oid})") from error


def _read_text(oid: int, text: str) -> ParameterValue:
    if oid in values.ELEMENTS:
        element = values.ELEMENTS[oid]
        return tuple(None if each is None else _read_text(element, each) for each in _array_items(text))
    if oid == values.BOOL:
        return {"t": True, "true": True, "1": True, "on": True, "y": True, "yes": True}.get(
            text.strip().lower()
        ) or _false(text)
    if oid in _WHOLE:
        return str(int(text))
    if oid in _FRACTIONS:
        return _finite(Decimal(text.strip()))
    if "\0" in text:
        raise ValueError(text)
    return text


def _false(text: str) -> bool:
    if text.strip().lower() not in ("f", "false", "0", "off", "n", "no"):
        raise ValueError(text)
    return False


def _finite(number: Decimal) -> str:
    if not number.is_finite():
        raise Refusal("0A000", "a parameter that is infinite or not a number is not supported")
    return f"{number:f}" if abs(number.adjusted()) < 40 else f"{number:e}"


def _read_binary(oid: int, given: bytes) -> ParameterValue:  # noqa: PLR0911 - a case for each kind of type
    if oid in _WHOLE:
        return str(struct.unpack(_SIZES[oid], given)[0])
    if oid in (values.FLOAT4, values.FLOAT8):
        number = struct.unpack(_SIZES[oid], given)[0]
        return _finite(Decimal(repr(number)) if isfinite(number) else Decimal("NaN"))
    if oid == values.NUMERIC:
        return _finite(values.read_decimal(given))
    if oid == values.BOOL:
        return bool(struct.unpack("!?", given)[0])
    if oid in values.ELEMENTS:
        return _read_array(values.ELEMENTS[oid], given)
    if oid in _MOMENTS:
        size, write = _MOMENTS[oid]
        return write(struct.unpack(size, given)[0])
    if oid == values.UUID:
        return f"{given[:4].hex()}-{given[4:6].hex()}-{given[6:8].hex()}-{given[8:10].hex()}-{given[10:16].hex()}"
    return _read_text(values.TEXT, given.decode())


_MOMENTS: dict[int, tuple[str, Callable[[int], str]]] = {
    values.DATE: ("!i", values.date_text),
    values.TIMESTAMP: ("!q", values.moment_text),
    values.TIMESTAMPTZ: ("!q", lambda moment: values.moment_text(moment) + "+00"),
    values.TIME: ("!q", lambda moment: values.moment_text(moment).partition(" ")[2]),
}


def _read_array(element: int, given: bytes) -> tuple[ParameterValue, ...]:
    dimensions, _, _ = struct.unpack_from("!iiI", given)
    if dimensions == 0:
        return ()
    (length,) = struct.unpack_from("!i", given, 12)
    if dimensions != 1 or not 0 <= length <= len(given):
        raise ValueError(dimensions)
    found: list[ParameterValue] = []
    at = 20
    for _ in range(length):
        (size,) = struct.unpack_from("!i", given, at)
        at += 4
        if size < 0:
            found.append(None)
            continue
        if at + size > len(given):
            raise ValueError(size)
        if len(found) > MAX_NODES:
            raise _too_many()
        found.append(_read_binary(element, given[at : at + size]))
        at += size
    return tuple(found)


def _array_items(text: str) -> list[str | None]:  # noqa: C901 - a case for each kind of letter
    """Return the items of an array of one dimension as PostgreSQL writes it: {a,"b c",NULL}."""
    text = text.strip()
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError(text)
    found: list[str | None] = []
    item, quoted, was_quoted, escaped = "", False, False, False
    inner = text[1:-1]
    if not inner.strip():
        return []
    for letter in inner + ",":
        if escaped:
            item, escaped = item + letter, False
        elif letter == "\\":
            escaped = True
        elif letter == '"':
            item = item if was_quoted or item.strip() else ""  # blanks before a quoted item do not count
            quoted, was_quoted = not quoted, True
        elif letter == "," and not quoted:
            plain = item.strip()
            found.append(item if was_quoted else None if plain.upper() == "NULL" else plain)
            item, was_quoted = "", False
            if len(found) > MAX_NODES:
                raise _too_many()
        elif quoted or not was_quoted:
            item += letter
        elif not letter.isspace():
            raise ValueError(text)
    if quoted:
        raise ValueError(text)
    return found


def with_values(tree: exp.Expr, given: Sequence[Parameter]) -> exp.Expr:
    """Return a query with values in place of its parameters."""
    if not given:
        return tree

    def replaced(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Parameter):
            return node
        number = int(node.name) if node.name.isdigit() else 0
        if not 1 <= number <= len(given):
            raise Refusal("42P02", f"there is no parameter ${node.name}")
        return given[number - 1].expression()

    return tree.copy().transform(replaced)


def parameter_types(
    tree: exp.Expr, count: int, given: Sequence[int], columns: Mapping[str, int]
) -> list[int]:
    """Return the types of a statement's parameters: as the client gave them, else inferred from their positions.

    columns: the types of the columns that the statement may read, by their names in lower case.
    """
    found = [oid if oid != values.UNKNOWN else 0 for oid in given[:count]]
    found += [0] * (count - len(found))
    for node in tree.find_all(exp.Parameter):
        place = int(node.name) - 1 if node.name.isdigit() else -1
        if 0 <= place < count and not found[place]:
            found[place] = _type_at(node, columns)
    return [oid or values.TEXT for oid in found]


def _type_at(node: exp.Expr, columns: Mapping[str, int]) -> int:
    """Return the type that the position of a parameter requires, 0 if any type fits."""
    inner, parent = node, node.parent
    while isinstance(parent, exp.Paren | exp.Neg):
        inner, parent = parent, parent.parent
    if isinstance(parent, exp.Cast):
        return type_oid(parent.to)
    if isinstance(parent, exp.Limit | exp.Offset | exp.Fetch):
        return values.INT8
    if isinstance(parent, exp.Any | exp.All) and isinstance(parent.parent, exp.Binary):
        return values.ARRAYS.get(_type_of(_other(parent.parent, parent), columns), values.ARRAYS[values.TEXT])
    if isinstance(parent, _COMPARED):
        return _type_of(_other(parent, inner), columns)
    if isinstance(parent, exp.In | exp.Between):
        return _type_of(parent.this, columns) if parent.this is not inner else 0
    return 0


def _other(node: exp.Binary, side: exp.Expr) -> exp.Expr:
    found: exp.Expr = node.expression if node.this is side else node.this
    return found


def _type_of(node: exp.Expr, columns: Mapping[str, int]) -> int:  # noqa: PLR0911 - a case for each kind of node
    if isinstance(node, exp.Column):
        return columns.get(node.name.lower(), 0)
    if isinstance(node, exp.Paren):
        return _type_of(node.this, columns)
    if isinstance(node, exp.Cast):
        return type_oid(node.to)
    if isinstance(node, exp.Count):
        return values.INT8
    if isinstance(node, exp.Avg | exp.Sum):
        return values.FLOAT8
    if isinstance(node, exp.Literal) and not node.is_string:
        return values.INT8 if node.name.isdigit() else values.NUMERIC
    if isinstance(node, exp.TimestampTrunc | exp.CurrentTimestamp):
        return values.TIMESTAMP
    return 0


def type_oid(kind: exp.Expr) -> int:
    """Return the oid of a type that a cast names; text if it is not known."""
    if isinstance(kind, exp.DataType):
        if kind.this is exp.DataType.Type.ARRAY and kind.expressions:
            return values.ARRAYS.get(type_oid(kind.expressions[0]), values.ARRAYS[values.TEXT])
        name = kind.this.name if hasattr(kind.this, "name") else str(kind.this)
        if name == "USERDEFINED":
            return (
                values.OID if str(kind.args.get("kind")).lower().rpartition(".")[2] == "oid" else values.TEXT
            )
        return _TYPES.get(name, values.TEXT)
    return values.OID if str(kind.this).upper() == "OID" else values.TEXT
