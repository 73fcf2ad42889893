"""What a query is once it is read: relations, joins and one aggregate, as plain values."""

import msgspec

from eddyline.types import SqlType


class Expression(msgspec.Struct, frozen=True):
    """A deterministic expression over one stream's row: Spark SQL over bare column names, and its type."""

    text: str
    type: SqlType


class Relation(msgspec.Struct, frozen=True):
    """A relation of the FROM clause: an alias, its stream and the conjuncts that its rows must satisfy."""

    alias: str
    stream: str
    predicates: tuple[str, ...] = ()


class Join(msgspec.Struct, frozen=True):
    """An equi-join of two relations (by index): the keys of either side, in one order."""

    left: int
    right: int
    left_keys: tuple[Expression, ...]
    right_keys: tuple[Expression, ...]


class Factor(msgspec.Struct, frozen=True):
    """A relation's part in the measure: the aggregate sums the product of all factors."""

    relation: int
    expression: Expression


class Aggregate(msgspec.Struct, frozen=True):
    """COUNT, SUM or AVG of a product of factors; COUNT(*) has none."""

    function: str
    factors: tuple[Factor, ...] = ()


class Query(msgspec.Struct, frozen=True):
    """An aggregate over an equi-join, or over one relation."""

    text: str
    aggregate: Aggregate
    relations: tuple[Relation, ...]
    joins: tuple[Join, ...] = ()
