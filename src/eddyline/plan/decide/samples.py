"""Stream samples of a workload: their budgets, and which sketches stand beside them in the second stage.

Until memory runs out the whole budget holds exact dictionaries. From then on a share of it holds sketches: of joins
of two relations, which sketches read better than samples where few values carry them or come late; of distinct
counts, which do not wear out by deletes; and of distinct counts over joins, which no sample answers. Joins of three
and more relations gain nothing from sketches: docs/decisions/0007-stream-samples.md has the figures.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from eddyline.errors import PlanError
from eddyline.plan.decide.choices import choose
from eddyline.plan.decide.elements import facets_of, plan_sample
from eddyline.plan.demands import Choice, WorkloadQuery
from eddyline.plan.layout import KeptSynopsis, Layout, PlannedQuery, PlannedSample
from eddyline.plan.size.sketches import PlanningInputs, kept_for, planned_query
from eddyline.plan.size.specs import PlanSettings
from eddyline.sql.query import JoinDistinctQuery, Query, SetQuery

LEAST_BYTES = 1024
"""The least that a stream sample gets."""
ROSTER_BYTES = 16
"""The least that a link takes of a stream sample."""
TWO_WAY_SHARE = 1 / 3
SET_SHARE = 0.2


@dataclass(frozen=True)
class SampledQueries:
    """A stream sample, and the queries that it answers."""

    planned: PlannedSample
    queries: tuple[PlannedQuery, ...]


def plan_samples(
    asked: Sequence[WorkloadQuery],
    settings: PlanSettings,
    budget: int,
    old: Layout | None,
    known: PlanningInputs,
) -> list[SampledQueries]:
    """Return the stream samples of queries within a budget: those of an older layout, and one for the rest."""
    staying = _staying(asked, old)
    settled = {each.name for queries, _ in staying.values() for each in queries}
    fresh = [each for each in asked if each.name not in settled]
    if not asked:
        return []
    if budget < LEAST_BYTES * (len(staying) + bool(fresh)):
        raise PlanError(
            f"the stream samples of {len(asked)} queries take at least {LEAST_BYTES:,} bytes and {budget:,} are left "
            f"of the budget: raise it to {settings.budget + LEAST_BYTES - budget:,} bytes, or drop queries."
        )
    made = []
    for queries, sample in staying.values():
        share = budget * len(queries) // len(asked)
        made.append(_resized(queries, sample, share, old))
    if fresh:
        share = budget - sum(each.planned.spec.budget for each in made)
        made.append(_new(fresh, settings, share, known, staying))
    return made


def _staying(
    asked: Sequence[WorkloadQuery], old: Layout | None
) -> dict[str, tuple[list[WorkloadQuery], PlannedSample]]:
    """Return the samples of an older layout with those of their queries that are still asked."""
    if old is None:
        return {}
    before = {(q.name, q.query.text, q.method): q.sample for q in old.queries}
    found: dict[str, tuple[list[WorkloadQuery], PlannedSample]] = {}
    for each in asked:
        name = before.get((each.name, each.query.text, each.method))
        if name is not None:
            found.setdefault(name, ([], old.sample(name)))[0].append(each)
    return found


def _resized(
    queries: Sequence[WorkloadQuery], sample: PlannedSample, budget: int, old: Layout | None
) -> SampledQueries:
    """Return a sample that stays, under another budget; queries that are gone no longer say whom to follow."""
    assert old is not None
    names = {each.name for each in queries}
    sketches = sum(kept.nbytes for kept in sample.sketches)
    if budget - sketches < LEAST_BYTES:
        raise PlanError(
            f"what is to stay beside {', '.join(sorted(names))} takes {sketches:,} bytes of sketches and its share of "
            f"the budget is {budget:,}: raise the budget, or plan anew."
        )
    shapes = tuple(shape for shape in sample.spec.shapes if shape.name in names)
    weights = {each.name: each.weight for each in queries}
    shapes = tuple(replace(shape, weight=weights[shape.name]) for shape in shapes)
    spec = replace(sample.spec, shapes=shapes, budget=budget, kept_budget=budget - sketches)
    return SampledQueries(replace(sample, spec=spec), tuple(q for q in old.queries if q.name in names))


def _new(
    queries: Sequence[WorkloadQuery],
    settings: PlanSettings,
    budget: int,
    known: PlanningInputs,
    taken: Collection[str],
) -> SampledQueries:
    """Return a new sample of queries, with the sketches beside it; taken: ids of the samples that stay."""
    beside, choices = _sketches(queries, settings, budget, known)
    used = budget - sum(kept.nbytes for kept in beside)
    planned = plan_sample(queries, beside, settings.seed, budget, used, taken)
    least = ROSTER_BYTES * len(planned.spec.seeds)
    if used < least:
        raise PlanError(
            f"the stream samples of {len(queries)} queries follow the values of {len(planned.spec.seeds)} links, which "
            f"take at least {least:,} bytes, and {used:,} are left of the budget: raise it to "
            f"{settings.budget + least - used:,} bytes, or drop queries."
        )
    made = tuple(_planned(each, choices.get(each.name), planned) for each in queries)
    return SampledQueries(planned, made)


def _planned(asked: WorkloadQuery, choice: Choice | None, sample: PlannedSample) -> PlannedQuery:
    """Return a query with its sample, the exact totals of its relations, and the sketches that it reads, if any."""
    totals = {
        name: tuple(facet.demand().id for facet in facets)
        for name, facets in facets_of(asked.query).items()
        if isinstance(asked.query, Query)
    }
    ids = {kept.demand: kept.id for kept in sample.sketches}
    quantities = planned_query(asked, choice, ids).quantities if choice is not None else {}
    shape = next((shape for shape in sample.spec.shapes if shape.name == asked.name), None)
    return PlannedQuery(asked.name, asked.query, asked.method, quantities, sample.id, totals, shape)


def sketch_share(asked: WorkloadQuery) -> float:
    """Return the part of its memory that a query would give to sketches."""
    if isinstance(asked.query, JoinDistinctQuery) or asked.method != "skimmed":
        return 1.0
    if isinstance(asked.query, SetQuery):
        return SET_SHARE
    return TWO_WAY_SHARE if len(asked.query.relations) == 2 else 0.0


def _sketches(
    queries: Sequence[WorkloadQuery], settings: PlanSettings, budget: int, known: PlanningInputs
) -> tuple[tuple[KeptSynopsis, ...], dict[str, Choice]]:
    """Return (sketches, choices of the queries that have some) within the sketches' share of the budget.

    Where the share is too small for all, distinct sketches are left out first, then all that a sample can replace,
    and at last those of distinct counts over joins, which are then answered only while everything fits.
    """
    wanted = [each for each in queries if sketch_share(each) > 0]
    share = min(int(budget * sum(map(sketch_share, queries)) / len(queries)), budget - LEAST_BYTES)
    needed = [each for each in wanted if sketch_share(each) == 1.0]
    joins = [each for each in wanted if not isinstance(each.query, SetQuery)]
    asked_for = [each for each in needed if not isinstance(each.query, JoinDistinctQuery)]
    most = budget - LEAST_BYTES
    attempts = [(wanted, share), (joins, share), (needed, share), (needed, most), (asked_for, most)]
    error: PlanError | None = None
    for place, (some, words) in enumerate(attempts):
        if (some, words) in attempts[:place]:
            continue
        limited = replace(settings, budget=words)
        try:
            chosen = choose(some, limited, known.statistics, known.objective)
            choices = {name: Choice(each.hash_slots) for name, each in chosen.items()}
            return kept_for(some, choices, set(), limited, None, known), choices
        except PlanError as failure:
            error = failure
    assert error is not None
    raise error
