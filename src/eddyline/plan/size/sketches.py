"""The synopses of queries: what is kept under the planner's choices, each with its words of the budget."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from eddyline.errors import PlanError
from eddyline.plan.decide.choices import query_weights
from eddyline.plan.demands import Choice, QuantityDemands, WorkloadQuery, demands_of, quantities_of
from eddyline.plan.layout import Demand, KeptSynopsis, Layout, PlannedQuery, SketchedQuantity
from eddyline.plan.sharing.coalesce import Objective
from eddyline.plan.size.allocation import Bundle, Reader, share_words
from eddyline.plan.size.specs import PlanSettings, candidates_for, least_words, spec_for
from eddyline.plan.statistics import Statistics


class PlanningInputs(msgspec.Struct, frozen=True):
    """What the planner goes by beside the queries: statistics, and which error is to be least."""

    statistics: Statistics = Statistics()
    objective: Objective = "average"


def kept_for(
    queries: Sequence[WorkloadQuery],
    choices: Mapping[str, Choice],
    fixed: set[Demand],
    settings: PlanSettings,
    old: Layout | None,
    known: PlanningInputs,
) -> tuple[KeptSynopsis, ...]:
    """Return every synopsis with its spec, those of the old layout as they are."""
    demands = set(fixed)
    skimmed: set[Demand] = set()
    for each in queries:
        wanted = demands_of(each.query, each.method, choices[each.name])
        demands |= wanted
        skimmed |= wanted if each.method == "skimmed" else set()
    held = {kept.demand: kept for kept in old.kept if kept.demand in demands} if old is not None else {}
    taken = sum(each.nbytes for each in held.values())
    if taken > settings.budget:
        raise PlanError(
            f"what is to stay takes {taken:,} bytes and the budget is {settings.budget:,}: raise it, or plan anew."
        )
    rest = replace(settings, budget=settings.budget - taken)
    counted = fixed | {demand for demand in demands if demand.kind == "total"}
    sized = {demand: least_words(demand, settings) for demand in counted - held.keys()}
    readers = _readers(queries, choices, held.keys() | sized.keys(), known, settings)
    shares = share_words(readers, sized, rest, known.objective)
    made = {
        demand: _synopsis(demand, words, settings, skim=demand in skimmed) for demand, words in shares.items()
    }
    return tuple((held | made)[demand] for demand in sorted(demands, key=msgspec.json.encode))


def _readers(
    queries: Sequence[WorkloadQuery],
    choices: Mapping[str, Choice],
    held: Iterable[Demand],
    known: PlanningInputs,
    settings: PlanSettings,
) -> list[Reader]:
    """Return the queries as readers of bundles: what each relation keeps, without what has its size already."""
    have = set(held)
    weights = query_weights(queries, known.statistics, settings)
    readers = []
    for each in queries:
        bundles: dict[Bundle, None] = {}
        for quantity in quantities_of(each.query, each.method, choices[each.name]).values():
            for index in range(len(quantity.parts[0])):
                members = _members(quantity, index, choices[each.name])
                left = tuple((demand, share) for demand, share in members if demand not in have)
                if left and left[0][0].kind != "total":
                    bundles[Bundle(left)] = None
        if bundles:
            readers.append(Reader(each.name, each.weight * weights[each.name], tuple(bundles)))
    return readers


def _members(quantity: QuantityDemands, index: int, choice: Choice) -> list[tuple[Demand, float]]:
    """Return the sketches of one relation, one for each part, with their words per unit of size."""
    parts: dict[Demand, float] = {}
    for row, share in zip(quantity.parts, choice.shares, strict=True):
        parts[row[index]] = max(parts.get(row[index], 0.0), share)
    return list(parts.items())


def planned_query(
    asked: WorkloadQuery, choice: Choice, ids: Mapping[Demand, str] | None = None
) -> PlannedQuery:
    """Return a query with the ids of the synopses that it reads; ids: where they are not those of the demands."""
    names = ids or {}
    quantities = {
        name: SketchedQuantity(
            tuple(tuple(names.get(demand, demand.id) for demand in part) for part in quantity.parts)
        )
        for name, quantity in quantities_of(asked.query, asked.method, choice).items()
    }
    return PlannedQuery(asked.name, asked.query, asked.method, quantities)


def _synopsis(demand: Demand, words: int, settings: PlanSettings, *, skim: bool) -> KeptSynopsis:
    candidates = candidates_for(demand, words, settings) if skim and demand.kind == "hash" else None
    if candidates is not None:
        words -= candidates.words
    return KeptSynopsis(demand.id, demand, spec_for(demand, words, settings), candidates)
