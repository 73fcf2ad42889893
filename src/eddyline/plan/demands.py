"""What a query asks to be kept: for each of its quantities, one demand per relation.

A quantity is what is read from synopses of one kind: COUNT and SUM have one, AVG has both, VARIANCE
the sum of squares too. A demand says what of a stream a synopsis must hold; equal demands of different
queries share one synopsis. Which hash slot a link of a query takes is the planner's decision: queries that
give equal keys equal slots share.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import msgspec
from msgspec.structs import replace

from eddyline.plan.layout import Decision, Demand, Measure, Place, SynopsisKind
from eddyline.sql.query import (
    AnyQuery,
    GroupQuery,
    JoinDistinctQuery,
    Key,
    Query,
    SetQuery,
    is_for_samples_alone,
)

Method = Literal["skimmed", "hash", "agms"]
METHODS: tuple[Method, ...] = get_args(Method)


@dataclass(frozen=True)
class QuantityDemands:
    """What one quantity of a query keeps of each relation.

    whole: of each relation as the query reads it. parts: a row of sketches for each part of a partitioned join, each
    relation cut to the part; one row, the whole relations, without partitions.
    """

    whole: tuple[Demand, ...]
    parts: tuple[tuple[Demand, ...], ...]

    @property
    def all(self) -> tuple[Demand, ...]:
        """Every demand of the quantity."""
        return tuple(demand for part in self.parts for demand in part)


Quantities = dict[str, QuantityDemands]


class WorkloadQuery(msgspec.Struct, frozen=True, dict=True):
    """A named query of the workload, the method that is to answer it, and how much its error matters."""

    name: str
    query: AnyQuery
    method: Method = "skimmed"
    weight: float = 1.0

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that the query reads, in order."""
        parts = self.query.members if isinstance(self.query, SetQuery) else self.query.relations
        return tuple(sorted({part.stream for part in parts}))

    @property
    def details(self) -> tuple["WorkloadQuery", ...]:
        """The queries of groups that its aggregates of single values read."""
        if not isinstance(self.query, GroupQuery):
            return ()
        return tuple(
            WorkloadQuery(f"{self.name}/{number}", self.query.part(detail), self.method, self.weight)
            for number, detail in enumerate(self.query.details)
        )

    @cached_property
    def quantities(self) -> Quantities:
        """What the query asks to be kept, before anything is decided: hash slots 0, 1, 2, ..., and no parts."""
        slots = tuple(range(len(self.query.links))) if isinstance(self.query, Query) else ()
        return quantities_of(self.query, self.method, Decision(slots))

    @cached_property
    def demands(self) -> frozenset[Demand]:
        """Everything that the query asks to be kept, before anything is decided."""
        return frozenset(demand for quantity in self.quantities.values() for demand in quantity.all)


@dataclass(frozen=True)
class DecidedQuery:
    """A query of the workload with what was decided for it, and what it therefore keeps."""

    asked: WorkloadQuery
    decision: Decision

    @cached_property
    def quantities(self) -> Quantities:
        """What is kept for the query."""
        return quantities_of(self.asked.query, self.asked.method, self.decision)

    @cached_property
    def demands(self) -> frozenset[Demand]:
        """Everything that is kept for the query."""
        return frozenset(demand for quantity in self.quantities.values() for demand in quantity.all)


def quantities_of(query: AnyQuery, method: Method, decision: Decision) -> Quantities:
    """Return the quantities of a query under a decision."""
    if isinstance(query, SetQuery):
        members = tuple(Demand(m.stream, "distinct", (m.key,), m.predicates) for m in query.members)
        return {"set": QuantityDemands(members, (members,))}
    if isinstance(query, JoinDistinctQuery):
        sides = pair_demands(query)
        return {"pairs": QuantityDemands(sides, (sides,))}
    if isinstance(query, GroupQuery) or is_for_samples_alone(query):
        return {}
    return {name: _quantity(query, method, power, decision) for name, power in _powers(query).items()}


def _powers(query: Query) -> dict[str, int]:
    """Return the quantities of an aggregate, and to which power each takes the measure; 0: it must not be NULL."""
    function = query.aggregate.function
    if function == "count":
        return {"count": 1}
    if function == "sum" and query.links:
        return {"sum": 1}
    return {"sum": 1, "count": 0} if function in ("sum", "avg") else {"sum": 1, "count": 0, "squares": 2}


def pair_demands(query: JoinDistinctQuery) -> tuple[Demand, ...]:
    """Return what a distinct count over a join keeps: of either side, its projected columns and its join key."""
    keys = ((query.left, query.join.left_key), (query.right, query.join.right_key))
    return tuple(
        Demand(relation.stream, "join-distinct", key, relation.predicates, side=side)
        for side, (relation, key) in enumerate(zip(query.relations, keys, strict=True))
    )


def _quantity(query: Query, method: Method, power: int, decision: Decision) -> QuantityDemands:
    if not query.links:
        kind: SynopsisKind = "total"
    else:
        kind = "agms" if method == "agms" else "hash"
    sketches = _relations(query, kind, power, decision)
    parts = tuple(
        tuple(_restricted(demand, more) for demand, more in zip(sketches, part, strict=True))
        for part in decision.parts
    )
    return QuantityDemands(sketches, parts or (sketches,))


def _restricted(demand: Demand, predicates: tuple[str, ...]) -> Demand:
    return replace(demand, predicates=tuple(sorted({*demand.predicates, *predicates})))


def _relations(query: Query, kind: SynopsisKind, power: int, decision: Decision) -> tuple[Demand, ...]:
    return tuple(_demand(query, i, kind, power, decision.hash_slots) for i in range(len(query.relations)))


def _demand(query: Query, index: int, kind: SynopsisKind, power: int, slots: tuple[int, ...]) -> Demand:
    """Return what a relation keeps: with its measure as weight, or with it only required to be there."""
    relation = query.relations[index]
    factors = {factor.relation: factor.expression for factor in query.aggregate.factors}
    met = sorted((key, _place(query, link, index, slots[link])) for link, key in _keys(query, index))
    return Demand(
        stream=relation.stream,
        kind=kind,
        keys=tuple(key for key, _ in met),
        predicates=relation.predicates,
        measure=Measure(factors[index], power) if power and index in factors else None,
        presence=(factors[index],) if not power and index in factors else (),
        places=tuple(place for _, place in met),
    )


def _keys(query: Query, relation: int) -> list[tuple[int, Key]]:
    """Return (link, key) for each link of a relation."""
    return [
        (i, member.key)
        for i, link in enumerate(query.links)
        for member in link.members
        if member.relation == relation
    ]


def _place(query: Query, link: int, relation: int, slot: int) -> Place:
    """Return a relation's place in a link. Where only two meet, both places are alike.

    The first of three or more hashes as one of two does, and may share its sketch with a join of two.
    """
    members = query.links[link].members
    if len(members) == 2:
        return Place(slot)
    order = sorted(members, key=lambda m: (query.relations[m.relation].stream, str(m.key), m.relation))
    member = [m.relation for m in order].index(relation)
    return Place(slot, member, len(members)) if member > 0 else Place(slot)


def links_of(query: Query, relation: int) -> tuple[int, ...]:
    """Return the links of a relation in the order of the keys of its demand."""
    return tuple(link for link, _ in sorted(_keys(query, relation), key=lambda met: met[1]))
