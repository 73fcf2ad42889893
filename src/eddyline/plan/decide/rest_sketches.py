"""Sketches of the rows whose key a sample does not follow: they find keys that become heavy late.

A sample decides early which keys to follow, and a key that it does not follow may become the heaviest of all. So
part of the budget holds linear sketches of all other rows, with a table of candidate keys. A row of a followed key
is only in the dictionary, a row of another key only in the sketches.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from eddyline.plan.decide.elements import is_exploring
from eddyline.plan.decide.facets import ROWS, Facet, facets_of, quantity_of_group
from eddyline.plan.decide.shapes import code_tells
from eddyline.plan.demands import WorkloadQuery
from eddyline.plan.layout import Demand, KeptSynopsis, Place, PlannedSample
from eddyline.plan.size.allocation import sized_synopsis
from eddyline.plan.size.specs import PlanSettings, least_words, words_per_size
from eddyline.sql.query import AnyQuery, GroupQuery

_ALONE = Place(0, 0, 1)
"""The place of a key that meets no other relation: such a sketch is never mistaken for that of a join."""
_ROWS_WEIGHT = 2.0
"""The sketch of the rows of groups shows which groups are heavy: it is twice as large as those of sums."""
REST_SHARE = 0.25
"""The part of a query's memory for its sketches: a tenth finds too little, a half costs dictionaries too much."""


def rest_demands(query: AnyQuery) -> dict[str, Demand]:
    """Return the sketch that each quantity of a query reads; nothing for a query that reads none.

    They serve groups of one stream. Variances would need squares, which take half as much memory again: the
    variance of a group that is not followed stays unknown. Joins gain less than the memory costs them:
    docs/decisions/0015-one-place-per-row.md has the figures.
    """
    if not isinstance(query, GroupQuery) or query.links or not query.groups or query.details:
        return {}
    large = {
        quantity_of_group(place, name)
        for place, each in enumerate(query.aggregates)
        for name, powers in each.aggregate.moment.sums.items()
        if sum(powers) > 1 or not each.aggregate.moment.is_sketched
    }
    return {name: _demand(*facets) for name, facets in facets_of(query).items() if name not in large}


def _demand(facet: Facet) -> Demand:
    (key,) = facet.keys
    presence = tuple(part for flag in facet.flags for part in flag.presence)
    return Demand(facet.stream, "hash", (key,), facet.predicates, facet.measure, presence, places=(_ALONE,))


def rest_sketches(
    asked: Sequence[WorkloadQuery], settings: PlanSettings, budget: int
) -> tuple[KeptSynopsis, ...]:
    """Return the sketches of unfollowed keys of some queries.

    If the budget is too small for all of them, those of sums are left out, and then the others.
    """
    named = [each for each in asked if not is_exploring(each)]
    wanted = [found for each in named if (found := rest_demands(each.query))]
    words = int(budget * REST_SHARE * len(wanted) / max(len(asked), 1)) // 8
    rows = dict.fromkeys(query[ROWS] for query in wanted)
    for demands in (dict.fromkeys(demand for query in wanted for demand in query.values()), rows):
        sizes = {
            demand: words_per_size(demand, skimmed=True) * (_ROWS_WEIGHT if demand in rows else 1.0)
            for demand in demands
        }
        given = {demand: int(words * size / sum(sizes.values())) for demand, size in sizes.items()}
        if all(given[demand] >= least_words(demand, settings) for demand in demands):
            made = (sized_synopsis(demand, given[demand], settings, skim=True) for demand in demands)
            return tuple(
                replace(
                    each, unfollowed=True, has_labels=each.demand in rows and not _tells_values(each.demand)
                )
                for each in made
            )
    return ()


def rest_ids(query: AnyQuery, sample: PlannedSample) -> dict[str, str]:
    """Return the sketches of unfollowed keys that a query reads; nothing if the sketch of its rows is missing."""
    ids = {kept.demand: kept.id for kept in sample.sketches if kept.unfollowed}
    found = {name: ids[demand] for name, demand in rest_demands(query).items() if demand in ids}
    return found if ROWS in found else {}


def _tells_values(demand: Demand) -> bool:
    """Return whether the code of a key determines the values of its columns."""
    (key,) = demand.keys
    return len(key.columns) == 1 and code_tells(key)
