"""What a query needs to be kept: for each of its quantities, one demand per relation.

A quantity is what is read from synopses of one kind: COUNT and SUM have one, AVG has both, VARIANCE
the sum of squares too. A demand states what a synopsis must hold of a stream; equal demands of different
queries share one synopsis. The planner decides which hash slot a link of a query takes: queries that
give equal keys equal slots share.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import msgspec
from msgspec.structs import replace

from eddyline.aggregates.moments import Powers
from eddyline.plan.layout import Decision, Demand, Measure, Place, PlannedQuery, SynopsisKind
from eddyline.sql.query import (
    Aggregate,
    AnyQuery,
    Expression,
    JoinDistinctQuery,
    Key,
    Query,
    SetQuery,
)

Method = Literal["skimmed", "hash", "agms", "document", "document-copies"]
METHODS: tuple[Method, ...] = get_args(Method)
DEFAULT_METHOD: Method = "skimmed"
Partitions = int | Literal["auto", "off"]
_SYNOPSES: dict[Method, tuple[SynopsisKind, SynopsisKind]] = {
    "document": ("two-level", "jd"),
    "document-copies": ("two-level-copies", "jd"),
}
"""The kinds of synopses with which a method answers set expressions, and distinct counts over joins."""
_KEY_BITS = {"boolean": 8, "tinyint": 8, "smallint": 16, "int": 32, "date": 32}
"""Bits of the keys of a column by its type; the keys of all other types have 64."""


@dataclass(frozen=True)
class QuantityDemands:
    """What one quantity of a query keeps for each relation.

    whole: for each relation as the query reads it. parts: a row of sketches for each part of a partitioned join,
    with each relation cut to the part; without partitions one row, the whole relations.
    """

    whole: tuple[Demand, ...]
    parts: tuple[tuple[Demand, ...], ...]

    @property
    def all(self) -> tuple[Demand, ...]:
        """Every demand of the quantity."""
        return tuple(demand for part in self.parts for demand in part)


Quantities = dict[str, QuantityDemands]


class WorkloadQuery(msgspec.Struct, frozen=True, dict=True):
    """A named query of the workload, the method that is to answer it, and how much its error matters.

    guarantee: (epsilon, delta) that its sketches are to be sized for. partitions: the number of parts into which
    its join is divided, or whether histograms decide it.
    """

    name: str
    query: AnyQuery
    method: Method = "skimmed"
    weight: float = 1.0
    guarantee: tuple[float, float] | None = None
    partitions: Partitions = "auto"

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that the query reads, in order."""
        return tuple(sorted(set(self.query.streams)))

    @property
    def details(self) -> tuple["WorkloadQuery", ...]:
        """The queries of groups that its aggregates of single values read."""
        return tuple(
            WorkloadQuery(f"{self.name}/{number}", part, self.method, self.weight)
            for number, part in enumerate(self.query.parts)
        )

    @cached_property
    def quantities(self) -> Quantities:
        """What the query needs to be kept, before any decision: hash slots 0, 1, 2, ..., and no parts."""
        slots = tuple(range(len(self.query.links)))
        return quantities_of(self.query, self.method, Decision(slots))

    @cached_property
    def demands(self) -> frozenset[Demand]:
        """Everything that the query needs to be kept, before any decision."""
        return frozenset(demand for quantity in self.quantities.values() for demand in quantity.all)


@dataclass(frozen=True)
class DecidedQuery:
    """A query of the workload with the decision for it, and what it therefore keeps."""

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
        kind = _SYNOPSES.get(method, ("distinct", "join-distinct"))[0]
        bits = _domain_bits([m.key for m in query.members]) if method in _SYNOPSES else 0
        members = tuple(
            Demand(m.stream, kind, (m.key,), m.predicates, domain_bits=bits) for m in query.members
        )
        return {"set": QuantityDemands(members, (members,))}
    if isinstance(query, JoinDistinctQuery):
        sides = document_pairs(query) if method in _SYNOPSES else pair_demands(query)
        return {"pairs": QuantityDemands(sides, (sides,))}
    if query.needs_sample:
        return {}
    sums = query.aggregate.moment.sketched_sums(joined=bool(query.links))
    return {name: _quantity(query, method, powers, decision) for name, powers in sums.items()}


def weights_of(
    aggregate: Aggregate, powers: Powers
) -> dict[int, tuple[Measure | None, tuple[Expression, ...]]]:
    """Return each relation's weight in a sum of an aggregate: (its measure, expressions that must not be NULL).

    Relations that are not part of the sum count their rows.
    """
    found: dict[int, dict[Expression, int]] = {}
    for factors, power in zip(aggregate.arguments, powers, strict=True):
        for factor in factors:
            own = found.setdefault(factor.relation, {})
            own[factor.expression] = own.get(factor.expression, 0) + power
    return {relation: _weight(own) for relation, own in found.items()}


def _weight(powers: Mapping[Expression, int]) -> tuple[Measure | None, tuple[Expression, ...]]:
    """Return (the product of expressions to their powers, those to the power 0), in a canonical order."""
    parts = [Measure(each, power) for each, power in sorted(powers.items()) if power]
    presence = tuple(each for each, power in sorted(powers.items()) if not power)
    if not parts:
        return None, presence
    first, *others = parts
    return Measure(first.expression, first.power, tuple(others)), presence


def pair_demands(query: JoinDistinctQuery) -> tuple[Demand, ...]:
    """Return what a distinct count over a join keeps: for each side, its projected columns and its join key."""
    keys = ((query.left, query.join.left_key), (query.right, query.join.right_key))
    return tuple(
        Demand(relation.stream, "join-distinct", key, relation.predicates, side=side)
        for side, (relation, key) in enumerate(zip(query.relations, keys, strict=True))
    )


def _quantity(query: Query, method: Method, powers: Powers, decision: Decision) -> QuantityDemands:
    if not query.links:
        kind: SynopsisKind = "total"
    else:
        kind = _join_kind(query, method)
    sketches = _relations(query, kind, powers, decision)
    parts = tuple(
        tuple(
            _restricted(demand, more, cell if decision.independent else 0)
            for demand, more in zip(sketches, part, strict=True)
        )
        for cell, part in enumerate(decision.parts)
    )
    return QuantityDemands(sketches, parts or (sketches,))


def _join_kind(query: Query, method: Method) -> SynopsisKind:
    """Return the kind of a join's sketches: the document on joins of two skims them, the other does not."""
    if method in _SYNOPSES:
        return "dyadic" if len(query.relations) == 2 else "agms"
    return "agms" if method == "agms" else "hash"


def methods_of(query: AnyQuery) -> tuple[Method, ...]:
    """Return the methods that have an effect on a query, the default one first."""
    if query.kind == "set":
        return (DEFAULT_METHOD, "document", "document-copies")
    if query.kind == "pairs":
        return (DEFAULT_METHOD, "document")
    if query.needs_sample or not query.links:
        return (DEFAULT_METHOD,)
    return (DEFAULT_METHOD, "hash", "agms", "document")


def is_planned_for(asked: WorkloadQuery, planned: PlannedQuery) -> bool:
    """Return whether a planned query has the requested guarantee and number of parts."""
    old = planned.guarantee
    if asked.guarantee != (None if old is None else (old.epsilon, old.delta)):
        return False
    parts = max(len(planned.decision.parts), 1)
    return asked.partitions == "auto" or parts == (1 if asked.partitions == "off" else asked.partitions)


def document_pairs(query: JoinDistinctQuery) -> tuple[Demand, ...]:
    """Return the JD sketches of a distinct count over a join: for each side, its first hashed columns and join key.

    For the full projection these are (a, b) instead of a, and (b, c) instead of c. Paper: join-distinct, 0062-0063.
    """
    joined = (query.join.left_key, query.join.right_key)
    bits, made = _domain_bits(joined), []
    for side, (relation, own, key) in enumerate(
        zip(query.relations, (query.left, query.right), joined, strict=True)
    ):
        first = Key((*own.columns, *key.columns)) if query.form == "full" else own
        made.append(
            Demand(relation.stream, "jd", (first, key), relation.predicates, side=side, domain_bits=bits)
        )
    return tuple(made)


def _domain_bits(keys: Iterable[Key]) -> int:
    """Return the bits of keys that meet: those of the widest type; a composite key is a hash of 64 bits."""
    return max(_KEY_BITS.get(key.columns[0].type.kind, 64) if len(key.columns) == 1 else 64 for key in keys)


def _restricted(demand: Demand, predicates: tuple[str, ...], cell: int) -> Demand:
    """Return a demand for the rows of one cell of a partitioned join, hashed as that cell is."""
    places = tuple(replace(place, cell=cell) for place in demand.places)
    return replace(demand, predicates=tuple(sorted({*demand.predicates, *predicates})), places=places)


def _relations(query: Query, kind: SynopsisKind, powers: Powers, decision: Decision) -> tuple[Demand, ...]:
    return tuple(_demand(query, i, kind, powers, decision.hash_slots) for i in range(len(query.relations)))


def _demand(query: Query, index: int, kind: SynopsisKind, powers: Powers, slots: tuple[int, ...]) -> Demand:
    """Return what a relation keeps: its measure as the weight, or only as required to be not NULL."""
    relation = query.relations[index]
    measure, presence = weights_of(query.aggregate, powers).get(index, (None, ()))
    met = sorted((key, _place(query, link, index, slots[link])) for link, key in _keys(query, index))
    return Demand(
        stream=relation.stream,
        kind=kind,
        keys=tuple(key for key, _ in met),
        predicates=relation.predicates,
        measure=measure,
        presence=presence,
        places=tuple(place for _, place in met),
        domain_bits=_domain_bits(m.key for m in query.links[0].members) if kind == "dyadic" else 0,
    )


def _keys(query: AnyQuery, relation: int) -> list[tuple[int, Key]]:
    """Return (link, key) for each link of a relation."""
    return [
        (i, member.key)
        for i, link in enumerate(query.links)
        for member in link.members
        if member.relation == relation
    ]


def _place(query: Query, link: int, relation: int, slot: int) -> Place:
    """Return a relation's place in a link. If only two relations meet, both places are equal.

    The first of three or more hashes like one of two, so it may share its sketch with a join of two.
    """
    members = query.links[link].members
    if len(members) == 2:
        return Place(slot)
    order = sorted(members, key=lambda m: (query.relations[m.relation].stream, str(m.key), m.relation))
    member = [m.relation for m in order].index(relation)
    return Place(slot, member, len(members)) if member > 0 else Place(slot)


def links_of(query: AnyQuery, relation: int) -> tuple[int, ...]:
    """Return the links of a relation in the order of the keys of its demand."""
    return tuple(link for link, _ in sorted(_keys(query, relation), key=lambda met: met[1]))
