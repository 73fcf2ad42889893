"""What the planner decides for each query before memory is shared out: hash slots and parts."""

from collections.abc import Mapping, Sequence

from eddyline.plan.demands import DecidedQuery, WorkloadQuery
from eddyline.plan.layout import Decision, Layout
from eddyline.plan.partition.parts import Parts, parts_of
from eddyline.plan.sharing.coalesce import Objective
from eddyline.plan.sharing.workload_graph import chosen_slots
from eddyline.plan.size.specs import PlanSettings
from eddyline.plan.statistics import Statistics
from eddyline.sql.query import Query


def decide(
    asked: Sequence[WorkloadQuery],
    weights: Mapping[str, float],
    settings: PlanSettings,
    statistics: Statistics,
    objective: Objective,
    keep: Layout | None = None,
) -> list[DecidedQuery]:
    """Return the queries with what is decided for each; those of an older layout that stays keep theirs.

    weights: W of each query, which says how its error falls with the words of its sketches.
    """
    made = _kept_decisions(asked, keep)
    fresh = [each for each in asked if each.name not in made]
    slots, graph = chosen_slots(
        fresh, {each.name: each.weight * weights[each.name] for each in fresh}, objective
    )
    sharing = {
        query for vertex in graph.members for query in graph.users(vertex) if len(graph.users(vertex)) > 1
    }
    words = settings.budget // 8 // max(sum(_relations(each) for each in asked), 1)
    for each in fresh:
        made[each.name] = Decision()
        if isinstance(each.query, Query) and each.query.links:
            parts = Parts() if each.name in sharing else parts_of(each, statistics, words)
            made[each.name] = Decision(slots[each.name], parts.predicates, parts.shares, parts.gain)
    return [DecidedQuery(each, made[each.name]) for each in asked]


def _relations(asked: WorkloadQuery) -> int:
    return sum(len(quantity.all) for quantity in asked.quantities.values())


def _kept_decisions(asked: Sequence[WorkloadQuery], keep: Layout | None) -> dict[str, Decision]:
    """Return the decisions of an older layout for the queries that it has in common with the new ones.

    Sketches that stand beside a stream sample go with it, and so do their decisions.
    """
    if keep is None:
        return {}
    old = {(each.name, each.query.text, each.method): each for each in keep.queries if each.sample is None}
    found = {}
    for each in asked:
        planned = old.get((each.name, each.query.text, each.method))
        if planned is not None:
            found[each.name] = planned.decision
    return found
