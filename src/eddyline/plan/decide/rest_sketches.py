"""Sketches of the rows whose key a sample does not follow: they find keys that become heavy late.

A sample decides early which keys to follow, and a key that it does not follow may become the heaviest of all. So
part of the budget holds linear sketches of all other rows, with a table of candidate keys. A row of a followed key
is only in the dictionary, a row of another key only in the sketches.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec.structs import replace

from eddyline.plan.decide.elements import is_exploring
from eddyline.plan.decide.facets import ROWS, Facet, facets_of, facets_of_rows, quantity_of_group
from eddyline.plan.decide.shapes import code_identifies
from eddyline.plan.demands import WorkloadQuery
from eddyline.plan.layout import Demand, KeptSynopsis, Place, PlannedSample
from eddyline.plan.size.allocation import sized_synopsis
from eddyline.plan.size.specs import (
    LEAST_UNFOLLOWED,
    PlanSettings,
    least_words,
    number_words,
    words_per_size,
)
from eddyline.sql.query import AnyQuery, Query

_ALONE = Place(0, 0, 1)
"""The place of a key that meets no other relation: such a sketch is never mistaken for that of a join."""
_ROWS_WEIGHT = 2.0
"""The sketch of the rows of groups shows which groups are heavy: it is twice as large as those of sums."""
REST_SHARE = 0.25
"""The part of a query's memory for its sketches: a tenth finds too little, a half costs dictionaries too much."""
JOIN_SHARE, _MOST_OF_JOINS = 0.03, 0.15
"""The part of the memory of joins for their sketches, and the most for sketches of the least size.

Joins need only keys with a few percent of the rows from them, which few counters show (decision 17)."""


def rest_demands(query: AnyQuery) -> dict[str, Demand]:
    """Return the sketch that each quantity of a query reads; nothing for a query that reads none.

    They serve groups of one stream, and joins on one link that have no sketches of all rows. Variances of groups
    would need squares, which take half as much memory again: that of a group that is not followed stays unknown.
    """
    if query.links or query.is_scalar:
        return _demands_of_join(query)
    if not query.groups or query.details:
        return {}
    large = {
        quantity_of_group(place, name)
        for place, each in enumerate(query.aggregates)
        for name, powers in each.aggregate.moment.sums.items()
        if sum(powers) > 1 or not each.aggregate.moment.is_sketched
    }
    return {name: _demand(*facets) for name, facets in facets_of(query).items() if name not in large}


def _demands_of_join(query: AnyQuery) -> dict[str, Demand]:
    """Return the sketches of each relation of a join on one link: of its rows, and of what one aggregate sums.

    Sums that sketches do not have are read from the rows. A stream that is joined with itself would have the same
    noise twice, which is not modelled. A NULL in a NOT IN decides the whole answer, and is in no sketch.
    """
    members = [member for link in query.links for member in link.members]
    roles, streams = {member.role for member in members}, {each.stream for each in query.relations}
    alone = len(query.links) == 1 and len(streams) == len(query.relations) == len(members)
    if not isinstance(query, Query) or not alone or "not in" in roles:
        return {}
    facets = {ROWS: facets_of_rows(query)}
    if query.is_scalar and max(map(sum, query.aggregate.moment.sums.values())) <= 1:
        facets |= facets_of(query)
    return {
        sketch_of_relation(name, relation): _demand(facet)
        for name, each in facets.items()
        for relation, facet in enumerate(each)
    }


def sketch_of_relation(quantity: str, relation: int) -> str:
    """Return the name in `PlannedQuery.rest_sketches` of the sketch of a relation, as a quantity of a join reads it."""
    return f"{quantity}.{relation}"


def is_needed(name: str) -> bool:
    """Return whether a sketch is one of rows, which a query cannot do without."""
    return _quantity_of(name) == ROWS


def _quantity_of(name: str) -> str:
    """Return the quantity of the sketch of a group, or of a relation of a join."""
    return name.rsplit(".", 1)[0]


def _demand(facet: Facet) -> Demand:
    (key,) = facet.keys
    presence = tuple(part for flag in facet.flags for part in flag.presence)
    return Demand(facet.stream, "hash", (key,), facet.predicates, facet.measure, presence, places=(_ALONE,))


def rest_sketches(
    asked: Sequence[WorkloadQuery], settings: PlanSettings, budget: int, sketched: Collection[str] = ()
) -> tuple[KeptSynopsis, ...]:
    """Return the sketches of unfollowed keys of some queries, as far as the budget is large enough for them.

    sketched: the names of queries that have sketches of all rows.
    """
    wanted = [
        rest_demands(each.query) for each in asked if not is_exploring(each) and each.name not in sketched
    ]
    groups = [each for each in wanted if ROWS in each]
    joins = [each for each in wanted if each and ROWS not in each]
    made = _sketches_of_groups(groups, budget * len(groups) / max(len(asked), 1), settings)
    held = {kept.demand for kept in made}
    left = [{name: demand for name, demand in each.items() if demand not in held} for each in joins]
    return made + _sketches_of_joins(left, budget * len(joins) / max(len(asked), 1), settings)


def _distinct(wanted: Sequence[Mapping[str, Demand]]) -> list[Demand]:
    return list(dict.fromkeys(demand for query in wanted for demand in query.values()))


def _sketches_of_groups(
    wanted: Sequence[Mapping[str, Demand]], budget: float, settings: PlanSettings
) -> tuple[KeptSynopsis, ...]:
    """Return the sketches of groups; budget: the bytes of their queries.

    If the budget is too small for all of them, those of sums are left out, and then the others.
    """
    words = int(budget * REST_SHARE) // 8
    rows = list(dict.fromkeys(query[ROWS] for query in wanted))
    for demands in (_distinct(wanted), rows):
        made = _sized(demands, words, settings, larger=frozenset(rows))
        if made:
            return tuple(
                replace(each, has_labels=each.demand in rows and not _tells_values(each.demand))
                for each in made
            )
    return ()


def _sketches_of_joins(
    wanted: Sequence[Mapping[str, Demand]], budget: float, settings: PlanSettings
) -> tuple[KeptSynopsis, ...]:
    """Return the sketches of joins, as far as the least ones fit; budget: the bytes of their queries.

    A join needs all sketches of its rows. If a budget is small, the first joins for which it is enough have theirs.
    Sketches of sums come after those of rows.
    """
    words, most, least = int(budget * JOIN_SHARE) // 8, int(budget * _MOST_OF_JOINS) // 8, 0
    chosen: list[Demand] = []
    for optional in (False, True):
        for query in wanted:
            needed = {name: demand for name, demand in query.items() if is_needed(name)}
            if optional and not {*needed.values()} <= {*chosen}:
                continue
            more = [each for each in _distinct([query if optional else needed]) if each not in chosen]
            size = least + sum(_least_of_join(demand, settings) + 1 for demand in more)
            if size <= most:
                least, chosen = size, chosen + more
    return _sized(chosen, max(words, least), settings, _least_of_join)


def _least_of_join(demand: Demand, settings: PlanSettings) -> int:  # noqa: ARG001 - as `least_words`
    """Return the words of the smallest sketch of unfollowed keys of a join."""
    return LEAST_UNFOLLOWED * number_words(demand)


def _sized(
    demands: Sequence[Demand],
    words: int,
    settings: PlanSettings,
    least: Callable[[Demand, PlanSettings], int] = least_words,
    larger: frozenset[Demand] = frozenset(),
) -> tuple[KeptSynopsis, ...]:
    """Return sketches that share a number of words; no sketch if one of them would be too small."""
    sizes = {
        demand: words_per_size(demand, skimmed=True) * (_ROWS_WEIGHT if demand in larger else 1.0)
        for demand in demands
    }
    given = {demand: int(words * size / sum(sizes.values())) for demand, size in sizes.items()}
    if not all(given[demand] >= least(demand, settings) for demand in demands):
        return ()
    made = (sized_synopsis(demand, given[demand], settings, skim=True) for demand in demands)
    return tuple(replace(each, unfollowed=True) for each in made)


def rest_ids(query: AnyQuery, sample: PlannedSample) -> dict[str, str]:
    """Return the sketches of unfollowed keys that a query reads; nothing if one that it cannot do without is missing.

    Only the sketches of rows are needed.
    """
    ids = {kept.demand: kept.id for kept in sample.sketches if kept.unfollowed}
    wanted = rest_demands(query)
    found = {name: ids[demand] for name, demand in wanted.items() if demand in ids}
    needed = {name for name in wanted if is_needed(name)}
    if not needed or not needed <= found.keys():
        return {}
    # a sum needs the sketches of all relations
    return {
        name: each
        for name, each in found.items()
        if all(other in found for other in wanted if _quantity_of(other) == _quantity_of(name))
    }


def _tells_values(demand: Demand) -> bool:
    """Return whether the code of a key determines the values of its columns."""
    (key,) = demand.keys
    return len(key.columns) == 1 and code_identifies(key)
