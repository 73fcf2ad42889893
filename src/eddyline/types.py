"""Column types as SQL has them, and which of them may meet in a join."""

from typing import Literal

import msgspec

Kind = Literal[
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "decimal",
    "float",
    "double",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
    "interval",
    "void",
]
_INTEGER_DIGITS: dict[str, int] = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}


class SqlType(msgspec.Struct, frozen=True):
    """A Spark SQL type of the kinds that eddyline reads.

    "void" is the type of a NULL without a cast; "interval", from day to second, that of a difference of times, which
    only answers have.
    """

    kind: Kind
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        if self.kind == "decimal":
            return f"DECIMAL({self.precision},{self.scale})"
        if self.kind == "interval":
            return "INTERVAL DAY TO SECOND"
        return self.kind.upper()

    @property
    def is_integer(self) -> bool:
        """Whether values are whole numbers of at most 64 bits."""
        return self.kind in _INTEGER_DIGITS

    @property
    def is_float(self) -> bool:
        """Whether values are binary floating point."""
        return self.kind in ("float", "double")

    @property
    def is_numeric(self) -> bool:
        """Whether values can be summed."""
        return self.is_integer or self.is_float or self.kind == "decimal"

    @property
    def key_class(self) -> str | None:
        """The class within which equal SQL values get equal keys, or None if no join may use the type."""
        if self.is_integer or self.kind == "decimal":
            return "numeric"
        return None if self.is_float or self.kind in ("void", "interval") else self.kind

    def as_decimal(self) -> "SqlType":
        """Return the decimal type that Spark gives a whole number in decimal arithmetic."""
        return SqlType("decimal", _INTEGER_DIGITS[self.kind], 0) if self.is_integer else self

    def widens_to(self, declared: "SqlType") -> bool:
        """Return whether every value of this type is a value of the declared type."""
        if self == declared:
            return True
        if self.is_integer and declared.is_integer:
            return _INTEGER_DIGITS[self.kind] <= _INTEGER_DIGITS[declared.kind]
        if declared.kind == "decimal" and (self.is_integer or self.kind == "decimal"):
            own = self.as_decimal()
            return (
                own.scale <= declared.scale
                and own.precision - own.scale <= declared.precision - declared.scale
            )
        return self.kind == "float" and declared.kind == "double"


class Column(msgspec.Struct, frozen=True):
    """A declared column of a stream."""

    name: str
    type: SqlType


class DerivedColumn(Column, frozen=True):
    """A column that is computed from others of its stream's row; text: the expression, over bare column names."""

    text: str
