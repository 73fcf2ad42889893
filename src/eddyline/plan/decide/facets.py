"""Facets: what one relation of a query needs to know of its stream's rows.

The keys of its links, which rows count, what is summed and what they are grouped by.
"""

from dataclasses import dataclass, replace

from eddyline.plan.layout import Demand, Flag, Measure
from eddyline.sample.roles import KEEPS_NULL
from eddyline.sql.query import (
    Aggregate,
    AnyQuery,
    Expression,
    Function,
    GroupQuery,
    JoinDistinctQuery,
    Key,
    Member,
    Query,
    Role,
    SetQuery,
)
from eddyline.sql.sides import sides_of
from eddyline.types import SqlType

_EVERYTHING = Expression("TRUE", SqlType("boolean"))
"""What a query without GROUP BY groups by: all rows are one group."""


@dataclass(frozen=True)
class Facet:
    """What one relation of a query reads of a stream; variables: the link that each key belongs to.

    null_is_value: of a set expression or of groups whose key is one column, NULL counts as a value of it. groups: the
    keys that its rows are grouped by. roles: what the relation is to each of its links, none where all
    are inner joins.
    """

    stream: str
    keys: tuple[Key, ...]
    variables: tuple[int, ...]
    flags: tuple[Flag, ...] = ()
    measure: Measure | None = None
    null_is_value: bool = False
    groups: tuple[Key, ...] = ()
    roles: tuple[Role, ...] = ()

    @property
    def predicates(self) -> tuple[str, ...]:
        """The predicates that its rows meet, as its query has them."""
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
    """Return for each quantity of a query what its relations read; nothing for an aggregate of one stream."""
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
    if isinstance(query, GroupQuery):
        return _group_facets(query)
    if isinstance(query, JoinDistinctQuery) or not query.links:
        return {}
    return {
        name: _quantity_facets(query, query.aggregate, power)
        for name, power in powers_of(query.aggregate.function).items()
    }


def unplanned_facets(query: AnyQuery) -> dict[str, tuple[Facet, ...]]:
    """Return what the relations of a query read that was not planned: rows of one stream have no link of their own.

    An aggregate also reads all rows of its relations that could join, whose exact number may be known.
    """
    if isinstance(query, Query):
        read = {
            name: _quantity_facets(query, query.aggregate, power)
            for name, power in powers_of(query.aggregate.function).items()
        }
        first = next(iter(read.values()))
        return read | {EVERY_ROW: tuple(replace(facet, flags=(), measure=None) for facet in first)}
    found = facets_of(query)
    if not isinstance(query, GroupQuery) or query.links:
        return found
    return {
        name: tuple(replace(facet, keys=(), variables=(), null_is_value=False) for facet in facets)
        for name, facets in found.items()
    }


EVERY_ROW = "every row"
"""The quantity of a query that was not planned which counts all rows, whatever its predicates."""
ROWS = "rows"
"""The quantity of a grouped query that counts the joined rows, whatever it selects."""


def quantity_of_group(aggregate: int, name: str) -> str:
    """Return what a quantity of a grouped query's aggregate is called."""
    return f"{aggregate}.{name}"


def _group_facets(query: GroupQuery) -> dict[str, tuple[Facet, ...]]:
    """Return what the relations of a grouped query read: for each quantity of each aggregate, and for its rows."""
    made = {
        quantity_of_group(i, name): _quantity_facets(query, each.aggregate, power)
        for i, each in enumerate(query.aggregates)
        for name, power in powers_of(each.aggregate.function).items()
    }
    return made | {ROWS: _quantity_facets(query, Aggregate("count"), 0)}


def _of_groups(query: Query | GroupQuery, facet: Facet, relation: int) -> Facet:
    """Return a facet with its relation's group columns, and others that conditions between relations read.

    Groups of one stream are followed themselves.
    """
    if isinstance(query, Query):
        return facet
    own = tuple(Key((column.expression,)) for column in query.held if column.relation == relation)
    if query.links:
        return replace(facet, groups=own)
    columns = tuple(group.expression for group in query.groups) or (_EVERYTHING,)
    key = Key(columns) if len(columns) == 1 else Key(columns, null_is_value=True)
    return replace(facet, keys=(key,), variables=(0,), null_is_value=True, groups=own)


def element_key(key: Key) -> Key:
    """Return the key of a set expression as elements hold it: a single column as joins have it, NULL apart.

    So a column is held once, whatever queries do with it.
    """
    return Key(key.columns) if len(key.columns) == 1 else key


def uses_sample(query: AnyQuery) -> bool:
    """Return whether a stream sample answers a query: any but an aggregate of one stream."""
    return not isinstance(query, Query) or bool(query.links)


def totals_of(query: AnyQuery) -> set[Demand]:
    """Return the exact totals of the relations of an aggregate over a join."""
    quantities = facets_of(query) if isinstance(query, Query | GroupQuery) else {}
    found = {facet.demand() for facets in quantities.values() for facet in facets}
    if isinstance(query, GroupQuery):
        found = found.union(*(totals_of(query.part(detail)) for detail in query.details))
    return found


def powers_of(function: Function) -> dict[str, int]:
    """Return the quantities of an aggregate over a join, and to which power each takes the measure.

    Power 0 counts the rows whose measure is not NULL.
    """
    if function == "count":
        return {"count": 0}
    return {"sum": 1, "count": 0} if function in ("sum", "avg") else {"squares": 2, "sum": 1, "count": 0}


def _quantity_facets(query: Query | GroupQuery, aggregate: Aggregate, power: int) -> tuple[Facet, ...]:
    factors = {factor.relation: factor.expression for factor in aggregate.factors}
    there = {(side.relation, side.link) for side in sides_of(query.links) if side.relations & set(factors)}
    facets = []
    for index, relation in enumerate(query.relations):
        met = [
            (member.key, link, _role(member, needed=(index, link) in there))
            for link, each in enumerate(query.links)
            for member in each.members
            if member.relation == index
        ]
        roles = tuple(role for _, _, role in met)
        factor = factors.get(index)
        presence = (factor,) if factor is not None and power == 0 else ()
        facet = Facet(
            relation.stream,
            tuple(key for key, _, _ in met),
            tuple(link for _, link, _ in met),
            _flags(relation.predicates, presence),
            Measure(factor, power) if factor is not None and power else None,
            roles=roles if set(roles) - {"inner"} else (),
        )
        facets.append(_of_groups(query, facet, index))
    return tuple(facets)


def _role(member: Member, *, needed: bool) -> Role:
    """Return what a relation is to a link for one quantity; needed: the measure is NULL where its side is missing.

    Rows without the side then add nothing: an outer join is as good as an inner one.
    """
    needless: dict[Role, Role] = {"outer": "inner", "full": "preserved"}
    return needless.get(member.role, member.role) if needed else member.role


def _flags(predicates: tuple[str, ...], presence: tuple[Expression, ...] = ()) -> tuple[Flag, ...]:
    flags = [Flag(predicates=predicates)] if predicates else []
    return (*flags, *(Flag(presence=(part,)) for part in presence))


def flags_of(demand: Demand) -> tuple[Flag, ...]:
    """Return the flags that an element needs for a synopsis to know whether its rows count."""
    return _flags(demand.predicates, demand.presence)


def element_keys(demand: Demand) -> tuple[Key, ...]:
    """Return the keys of a synopsis as elements hold them."""
    return tuple(map(element_key, demand.keys)) if demand.kind == "distinct" else demand.keys
