"""What the planner chooses for each query before memory is shared out: hash families and parts."""

from collections.abc import Sequence

from eddyline.plan.demands import Asked, Choice, links_of, terms_of
from eddyline.plan.layout import Layout, Planned
from eddyline.plan.partition.parts import Parts, parts_of
from eddyline.plan.sharing.coalesce import Objective
from eddyline.plan.sharing.workload_graph import chosen_families
from eddyline.plan.size.expected import sketch_weight
from eddyline.plan.size.specs import Settings
from eddyline.plan.statistics import Statistics
from eddyline.sql.query import Query


def query_weights(asked: Sequence[Asked], statistics: Statistics, settings: Settings) -> dict[str, float]:
    """Return W of each query. Paper: sharing, W_Q."""
    return {
        each.name: sketch_weight(
            each.query, terms_of(each.query, each.method), statistics, settings.max_distinct
        )
        for each in asked
    }


def choose(
    asked: Sequence[Asked],
    settings: Settings,
    statistics: Statistics,
    objective: Objective,
    keep: Layout | None = None,
) -> dict[str, Choice]:
    """Return the choice for each query; those of an older layout that stays keep theirs."""
    weights = query_weights(asked, statistics, settings)
    old = _kept_choices(asked, keep)
    fresh = [each for each in asked if each.name not in old]
    families, graph = chosen_families(
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
            made[each.name] = Choice(families[each.name], parts.predicates, parts.shares or (1.0,))
    return old | made


def _relations(asked: Asked) -> int:
    return sum(len(term.all) for term in terms_of(asked.query, asked.method).values())


def _kept_choices(asked: Sequence[Asked], keep: Layout | None) -> dict[str, Choice]:
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


def choice_of(planned: Planned, layout: Layout) -> Choice:
    """Return the choice that a planned query was made by."""
    query = planned.query
    if not isinstance(query, Query) or not query.links:
        return Choice()
    term = next(iter(planned.terms.values()))
    families: dict[int, int] = {}
    for index, name in enumerate(term.sketches[0]):
        demand = layout.by_id[name].demand
        for link, place in zip(links_of(query, index), demand.places, strict=True):
            families[link] = place.family
    parts: tuple[tuple[tuple[str, ...], ...], ...] = ()
    if len(term.sketches) > 1:
        parts = tuple(
            tuple(
                tuple(p for p in layout.by_id[name].demand.predicates if p not in relation.predicates)
                for name, relation in zip(row, query.relations, strict=True)
            )
            for row in term.sketches
        )
    shares = (1 / len(term.sketches),) * len(term.sketches)
    return Choice(tuple(families[link] for link in range(len(query.links))), parts, shares)
