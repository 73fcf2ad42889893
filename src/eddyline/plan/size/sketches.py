"""The synopses of queries: what is kept under what was decided for them, each with its words of the budget."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from eddyline.plan.demands import DecidedQuery, QuantityDemands
from eddyline.plan.layout import Demand, KeptSynopsis, Layout, PlannedQuery, SketchedQuantity
from eddyline.plan.sharing.coalesce import Objective
from eddyline.plan.size.allocation import Bundle, Reader, share_words
from eddyline.plan.size.budget import OverBudget
from eddyline.plan.size.specs import PlanSettings, candidates_for, least_words, spec_for, words_per_size


def kept_for(
    queries: Sequence[DecidedQuery],
    weights: Mapping[str, float],
    fixed: set[Demand],
    settings: PlanSettings,
    old: Layout | None,
    objective: Objective,
) -> tuple[KeptSynopsis, ...]:
    """Return every synopsis with its spec, those of the old layout as they are. weights: W of each query."""
    demands = set(fixed)
    skimmed: set[Demand] = set()
    for each in queries:
        demands |= each.demands
        skimmed |= each.demands if each.asked.method == "skimmed" else set()
    held = {kept.demand: kept for kept in old.kept if kept.demand in demands} if old is not None else {}
    taken = sum(each.nbytes for each in held.values())
    if taken > settings.budget:
        raise OverBudget(
            f"what is to stay takes {taken:,} bytes and the budget is {settings.budget:,}: raise it, or plan anew."
        )
    rest = replace(settings, budget=settings.budget - taken)
    counted = fixed | {demand for demand in demands if demand.kind == "total"}
    sized = {demand: least_words(demand, settings) for demand in counted - held.keys()}
    readers = _readers(queries, weights, held.keys() | sized.keys())
    shares = share_words(readers, sized, rest, objective)
    made = {
        demand: _synopsis(demand, words, settings, skim=demand in skimmed) for demand, words in shares.items()
    }
    return tuple((held | made)[demand] for demand in sorted(demands, key=msgspec.json.encode))


def _readers(
    queries: Sequence[DecidedQuery], weights: Mapping[str, float], held: Iterable[Demand]
) -> list[Reader]:
    """Return the queries as readers of bundles: what each relation keeps, without what has its size already."""
    have = set(held)
    readers = []
    for each in queries:
        bundles: dict[Bundle, None] = {}
        for quantity in each.quantities.values():
            for index in range(len(quantity.whole)):
                members = _members(quantity, index, each)
                left = tuple((demand, share) for demand, share in members if demand not in have)
                if left and left[0][0].kind != "total":
                    bundles[Bundle(left)] = None
        if bundles:
            name = each.asked.name
            readers.append(Reader(name, each.asked.weight * weights[name], tuple(bundles)))
    return readers


def _members(quantity: QuantityDemands, index: int, query: DecidedQuery) -> list[tuple[Demand, float]]:
    """Return the sketches of one relation, one for each part, with their words per unit of size."""
    parts: dict[Demand, float] = {}
    skimmed = query.asked.method == "skimmed"
    for row, share in zip(quantity.parts, query.decision.shares, strict=True):
        words = share * words_per_size(row[index], skimmed=skimmed)
        parts[row[index]] = max(parts.get(row[index], 0.0), words)
    return list(parts.items())


def planned_query(
    decided: DecidedQuery, expected_error: float | None, ids: Mapping[Demand, str] | None = None
) -> PlannedQuery:
    """Return a query with the ids of the synopses that it reads; ids: where they are not those of the demands."""
    names, asked = ids or {}, decided.asked
    quantities = {
        name: SketchedQuantity(
            tuple(tuple(names.get(demand, demand.id) for demand in part) for part in quantity.parts)
        )
        for name, quantity in decided.quantities.items()
    }
    return PlannedQuery(
        asked.name,
        asked.query,
        asked.method,
        quantities,
        decision=decided.decision,
        expected_error=expected_error,
    )


def _synopsis(demand: Demand, words: int, settings: PlanSettings, *, skim: bool) -> KeptSynopsis:
    candidates = candidates_for(demand, words, settings) if skim and demand.kind == "hash" else None
    if candidates is not None:
        words -= candidates.words
    return KeptSynopsis(demand.id, demand, spec_for(demand, words, settings), candidates)
