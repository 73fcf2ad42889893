"""What one relation of a query needs to know about its stream's rows, and on which rows that is evaluated."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from eddyline.aggregates.moments import Powers
from eddyline.expressions.nodes import may_fail
from eddyline.plan.demands import weights_of
from eddyline.plan.layout import Demand, Flag, Guard, Measure, Tier, tier_of
from eddyline.sample.join import KEEPS_NULL
from eddyline.sql.join_tree import sides_of
from eddyline.sql.query import (
    Aggregate,
    AnyQuery,
    Expression,
    JoinDistinctQuery,
    Key,
    Member,
    Query,
    Role,
    SetQuery,
)
from eddyline.types import SqlType

# A facet holds the keys of a relation's links, which rows count, what is summed and what they are grouped by.


_EVERYTHING = Expression("TRUE", SqlType("boolean"))
"""The grouping of a query without GROUP BY: all rows are one group."""


@dataclass(frozen=True)
class Facet:
    """What one relation of a query reads from a stream; variables: the link that each key belongs to.

    null_is_value: for a set expression, or groups whose key is one column, NULL counts as a value of the key.
    groups: the keys that its rows are grouped by. roles: the role of the relation in each of its links, empty if
    all are inner joins. apart: its links are followed at their own rates, and its groups are held as codes, without
    their values. explored: its links are followed at the rates of queries that are not known yet.
    """

    stream: str
    keys: tuple[Key, ...]
    variables: tuple[int, ...]
    flags: tuple[Flag, ...] = ()
    measure: Measure | None = None
    null_is_value: bool = False
    groups: tuple[Key, ...] = ()
    roles: tuple[Role, ...] = ()
    apart: bool = False
    explored: bool = False

    @property
    def tier(self) -> Tier:
        """Which rates its links are followed at."""
        return tier_of(apart=self.apart, explored=self.explored)

    @property
    def predicates(self) -> tuple[str, ...]:
        """The predicates that its rows meet, as written in its query."""
        return next((flag.predicates for flag in self.flags if flag.predicates), ())

    def demand(self) -> Demand:
        """Return the exact total of what the facet sums, over the rows that could join."""
        roles = self.roles or ("inner",) * len(self.keys)
        joined = {key for key, role in zip(self.keys, roles, strict=True) if role not in KEEPS_NULL}
        return Demand(
            self.stream,
            "total",
            () if self.null_is_value else tuple(sorted(joined)),
            tuple(sorted(p for flag in self.flags for p in flag.predicates)),
            self.measure,
            tuple(sorted(e for flag in self.flags for e in flag.presence)),
        )


def facets_of(query: AnyQuery) -> dict[str, tuple[Facet, ...]]:
    """Return what the relations of a query read for each quantity; nothing for an aggregate of one stream."""
    if isinstance(query, SetQuery):
        members = (
            Facet(
                member.stream,
                (element_key(member.key),),
                (0,),
                _flags(member.predicates),
                null_is_value=member.key.null_is_value,
            )
            for member in query.members
        )
        return {"set": tuple(members)}
    if isinstance(query, JoinDistinctQuery):
        return {PAIRS: _pair_facets(query)}
    if query.is_total:
        return {}
    found = _sums_of(query)
    if query.links:
        return found
    return {name: tuple(_by_groups(query, facet) for facet in facets) for name, facets in found.items()}


def facets_of_rows(query: AnyQuery) -> tuple[Facet, ...]:
    """Return what the relations of a join read so that its rows are counted, whatever it sums."""
    assert isinstance(query, Query)
    return _quantity_facets(query, Aggregate("count"), (0,))


def unplanned_facets(query: AnyQuery) -> dict[str, tuple[Facet, ...]]:
    """Return what the relations of an ad hoc query read: rows of one stream have no link of their own.

    An aggregate also reads all rows of its relations that could join, whose exact number may be known.
    """
    if isinstance(query, Query):
        read = _sums_of(query)
        if query.is_table:
            return read
        first = next(iter(read.values()))
        return read | {EVERY_ROW: tuple(replace(facet, flags=(), measure=None) for facet in first)}
    return {
        name: tuple(replace(facet, groups=_columns_of(facet.groups), apart=False) for facet in facets)
        for name, facets in facets_of(query).items()
    }


def _columns_of(keys: tuple[Key, ...]) -> tuple[Key, ...]:
    """Return the columns of some keys, each as a separate key: explored columns are held one by one."""
    return tuple(dict.fromkeys(Key((column,)) for key in keys for column in key.columns))


EVERY_ROW = "every row"
"""The quantity of an ad hoc query that counts all rows, whatever its predicates."""
PAIRS = "pairs"
"""The quantity of a distinct count over a join: what is counted on each side."""
ROWS = "rows"
"""The quantity of a grouped query that counts the joined rows, whatever it selects."""


def quantity_of_group(aggregate: int, name: str) -> str:
    """Return the name of a quantity of a grouped query's aggregate."""
    return f"{aggregate}.{name}"


def _pair_facets(query: JoinDistinctQuery) -> tuple[Facet, ...]:
    """Return what a distinct count over a join reads from each side: its join key and its counted columns.

    A pair of values needs every row of a join value, far more than sums need: at the rates of other queries it
    would use up their memory. A side that only decides whether others join has nothing to count.
    """
    sides = ((query.join.left_key, query.left), (query.join.right_key, query.right))
    return tuple(
        Facet(
            relation.stream,
            (key,),
            (0,),
            _flags(relation.predicates),
            groups=() if query.form == "semi" and side == 1 else (counted,),
            apart=True,
        )
        for side, (relation, (key, counted)) in enumerate(zip(query.relations, sides, strict=True))
    )


def _sums_of(query: Query) -> dict[str, tuple[Facet, ...]]:
    """Return what the relations of a query read: for each sum of each aggregate, and of a table for its rows."""
    made = {
        name if query.is_scalar else quantity_of_group(i, name): _quantity_facets(
            query, each.aggregate, powers
        )
        for i, each in enumerate(query.aggregates)
        for name, powers in each.aggregate.moment.sums.items()
    }
    return made if query.is_scalar else made | {ROWS: facets_of_rows(query)}


def _by_groups(query: Query, facet: Facet) -> Facet:
    """Return the facet of the only relation of a query, whose groups are followed: it has no link to follow."""
    columns = tuple(group.expression for group in query.groups) or (_EVERYTHING,)
    key = Key(columns) if len(columns) == 1 else Key(columns, null_is_value=True)
    return replace(facet, keys=(key,), variables=(0,), null_is_value=True)


def element_key(key: Key) -> Key:
    """Return the key of a set expression as elements hold it: a single column as joins hold it, with NULL separate.

    Thus a column is held once, whatever queries do with it.
    """
    return Key(key.columns) if len(key.columns) == 1 else key


def uses_sample(query: AnyQuery) -> bool:
    """Return whether a stream sample answers a query: any query except an aggregate of one stream."""
    return not query.is_total


def totals_of(query: AnyQuery) -> set[Demand]:
    """Return the exact totals of the relations of an aggregate or a distinct count over a join."""
    quantities = {} if query.kind == "set" else facets_of(query)
    found = {facet.demand() for facets in quantities.values() for facet in facets}
    return found.union(*map(totals_of, query.parts))


def _quantity_facets(query: Query, aggregate: Aggregate, powers: Powers) -> tuple[Facet, ...]:
    weights = weights_of(aggregate, powers)
    there = {(side.relation, side.link) for side in sides_of(query.links) if side.relations & weights.keys()}
    facets = []
    for index, relation in enumerate(query.relations):
        met = [
            (member.key, link, _role(member, needed=(index, link) in there))
            for link, each in enumerate(query.links)
            for member in each.members
            if member.relation == index
        ]
        roles = tuple(role for _, _, role in met)
        measure, presence = weights.get(index, (None, ()))
        own = tuple(Key((column.expression,)) for column in query.held if column.relation == index)
        facet = Facet(
            relation.stream,
            tuple(key for key, _, _ in met),
            tuple(link for _, link, _ in met),
            _flags(relation.predicates, presence),
            measure,
            groups=own,
            roles=roles if set(roles) - {"inner"} else (),
        )
        facets.append(facet)
    return tuple(facets)


def _role(member: Member, *, needed: bool) -> Role:
    """Return the role of a relation in a link for one quantity; needed: the measure is NULL if its side is missing.

    Rows without the side then add nothing: an outer join gives the same result as an inner one.
    """
    needless: dict[Role, Role] = {"outer": "inner", "full": "preserved"}
    return needless.get(member.role, member.role) if needed else member.role


def _flags(predicates: tuple[str, ...], presence: tuple[Expression, ...] = ()) -> tuple[Flag, ...]:
    flags = [Flag(predicates=predicates)] if predicates else []
    return (*flags, *(Flag(presence=(part,)) for part in presence))


def flags_of(demand: Demand) -> tuple[Flag, ...]:
    """Return the flags that an element needs so that a synopsis knows whether its rows count."""
    return _flags(demand.predicates, demand.presence)


SET_KINDS = ("distinct", "two-level", "two-level-copies")
"""Kinds of synopses that hold the elements of sets, in which NULL is a value."""


def element_keys(demand: Demand) -> tuple[Key, ...]:
    """Return the keys of a synopsis as elements hold them."""
    return tuple(map(element_key, demand.keys)) if demand.kind in SET_KINDS else demand.keys


# Guards: on which rows of a stream an expression that can fail is evaluated.
#
# It is evaluated where a query that reads it counts the row: `SELECT SUM(a / b) FROM t WHERE b <> 0` has an
# answer, though t has rows with b = 0. If some query reads it on all rows, it is evaluated on all.


_DIGITS_OF_64_BITS = 18
_Use = tuple[str, int]
"""An expression and the power to which it is a measure, 0 if it is a key or a presence condition."""


def guards_of(facets: Iterable[Facet], demands: Iterable[Demand] = ()) -> dict[str, tuple[Guard, ...]]:
    """Return the guards of each stream, given everything that is read from it."""
    read: dict[str, dict[_Use, set[tuple[str, ...]]]] = defaultdict(lambda: defaultdict(set))
    for facet in facets:
        for use in _uses((*facet.keys, *facet.groups), facet.flags, facet.measure):
            read[facet.stream][use].add(facet.predicates)
    for demand in demands:
        for use in _uses(demand.keys, flags_of(demand), demand.measure):
            read[demand.stream][use].add(demand.predicates)
    return {
        stream: tuple(
            Guard(*use, tuple(sorted(predicates)))
            for use, predicates in sorted(uses.items())
            if () not in predicates
        )
        for stream, uses in read.items()
    }


def _uses(keys: Iterable[Key], flags: Iterable[Flag], measure: Measure | None) -> Iterator[_Use]:
    """Yield the expressions that can fail among those that are read together."""
    parts: list[Expression] = [part for key in keys for part in key.columns]
    parts += [part for flag in flags for part in flag.presence]
    parts += [each.expression for each in measure.parts] if measure is not None else []
    yield from ((part.text, 0) for part in parts if may_fail(part.text))
    if measure is not None and measure_may_fail(measure):
        yield measure.text, measure.power


def measure_may_fail(measure: Measure) -> bool:
    """Return whether a measure has no value on some rows: its expression or its fixed-point number can fail."""
    if measure.times or measure.power > 1:
        return True
    kind = measure.expression.type
    wide = kind.is_float or (kind.kind == "decimal" and kind.precision > _DIGITS_OF_64_BITS)
    return wide or may_fail(measure.expression.text)
