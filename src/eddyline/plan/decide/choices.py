"""What the planner chooses for each query before memory is shared out: hash slots and parts."""

from collections.abc import Sequence

from eddyline.plan.demands import Choice, WorkloadQuery, links_of, quantities_of
from eddyline.plan.layout import Layout, PlannedQuery
from eddyline.plan.partition.parts import Parts, parts_of
from eddyline.plan.sharing.coalesce import Objective
from eddyline.plan.sharing.workload_graph import chosen_slots
from eddyline.plan.size.expected import sketch_weight
from eddyline.plan.size.specs import PlanSettings
from eddyline.plan.statistics import Statistics
from eddyline.sql.query import Query


def query_weights(
    asked: Sequence[WorkloadQuery], statistics: Statistics, settings: PlanSettings
) -> dict[str, float]:
    """Return W of each query. Paper: sharing, W_Q."""
    return {
        each.name: sketch_weight(
            each.query, quantities_of(each.query, each.method), statistics, settings.max_distinct
        )
        for each in asked
    }


def choose(
    asked: Sequence[WorkloadQuery],
    settings: PlanSettings,
    statistics: Statistics,
    objective: Objective,
    keep: Layout | None = None,
) -> dict[str, Choice]:
    """Return the choice for each query; those of an older layout that stays keep theirs."""
    weights = query_weights(asked, statistics, settings)
    old = _kept_choices(asked, keep)
    fresh = [each for each in asked if each.name not in old]
    slots, graph = chosen_slots(
        fresh, {each.name: each.weight * weights[each.name] for each in fresh}, objective
    )
    sharing = {
        query for vertex in graph.members for query in graph.users(vertex) if len(graph.users(vertex)) > 1
    }
    words = settings.budget // 8 // max(sum(_relations(each) for each in asked), 1)
    made = {}
    for each in fresh:
        made[each.name] = Choice()
        if isinstance(each.query, Query) and each.query.links:
            parts = Parts() if each.name in sharing else parts_of(each, statistics, words)
            made[each.name] = Choice(slots[each.name], parts.predicates, parts.shares or (1.0,))
    return old | made


def _relations(asked: WorkloadQuery) -> int:
    return sum(len(quantity.all) for quantity in quantities_of(asked.query, asked.method).values())


def _kept_choices(asked: Sequence[WorkloadQuery], keep: Layout | None) -> dict[str, Choice]:
    """Return the choices of an older layout for the queries that it has in common with the new ones.

    Sketches that stand beside a stream sample go with it, and so do their choices.
    """
    if keep is None:
        return {}
    old = {(each.name, each.query.text, each.method): each for each in keep.queries if each.sample is None}
    found = {}
    for each in asked:
        planned = old.get((each.name, each.query.text, each.method))
        if planned is not None:
            found[each.name] = choice_of(planned, keep)
    return found


def choice_of(planned: PlannedQuery, layout: Layout) -> Choice:
    """Return the choice that a planned query was made by."""
    query = planned.query
    if not isinstance(query, Query) or not query.links:
        return Choice()
    quantity = next(iter(planned.quantities.values()))
    slots: dict[int, int] = {}
    for index, name in enumerate(quantity.sketches[0]):
        demand = layout.by_id[name].demand
        for link, place in zip(links_of(query, index), demand.places, strict=True):
            slots[link] = place.slot
    parts: tuple[tuple[tuple[str, ...], ...], ...] = ()
    if len(quantity.sketches) > 1:
        parts = tuple(
            tuple(
                tuple(p for p in layout.by_id[name].demand.predicates if p not in relation.predicates)
                for name, relation in zip(row, query.relations, strict=True)
            )
            for row in quantity.sketches
        )
    shares = (1 / len(quantity.sketches),) * len(quantity.sketches)
    return Choice(tuple(slots[link] for link in range(len(query.links))), parts, shares)
