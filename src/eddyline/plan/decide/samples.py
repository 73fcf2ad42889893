"""Stream samples of a workload: their budgets, and which sketches stand beside them in the second stage.

Until memory runs out the whole budget holds exact dictionaries. From then on a share of it holds sketches: of joins
of two relations, which sketches read better than samples where few values carry them or come late; of distinct
counts, which do not wear out by deletes; and of distinct counts over joins, which no sample answers. Joins of three
and more relations gain nothing from sketches: docs/decisions/0007-stream-samples.md has the figures.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from eddyline.errors import PlanError
from eddyline.plan.decide.coverage import reads_emptiness
from eddyline.plan.decide.decisions import decide
from eddyline.plan.decide.elements import plan_sample
from eddyline.plan.decide.exploring import explored_names, is_exploring
from eddyline.plan.decide.facets import facets_of
from eddyline.plan.demands import DecidedQuery, WorkloadQuery
from eddyline.plan.inputs import PlanningInputs
from eddyline.plan.layout import Decision, KeptSynopsis, Layout, PlannedQuery, PlannedSample
from eddyline.plan.size.budget import OverBudget
from eddyline.plan.size.expected import expected_of_sketches, guessed_of_sample, query_weights, sketch_weight
from eddyline.plan.size.sketches import kept_for, planned_query
from eddyline.plan.size.specs import PlanSettings
from eddyline.plan.statistics import Statistics
from eddyline.sample.spec import Shape
from eddyline.sql.query import GroupQuery, JoinDistinctQuery, Query, SetQuery, is_for_samples_alone

LEAST_BYTES = 1024
"""The least that a stream sample gets."""
ROSTER_BYTES = 16
"""The least that a link takes of a stream sample."""
NULL_RATE_BYTES = 8
"""What the rate of rows with a NULL link takes, for each dictionary."""
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
    read: Collection[str] = (),
) -> list[SampledQueries]:
    """Return the stream samples of queries within a budget: those of an older layout, and one for the rest.

    read: samples of the older layout that other queries are answered from.
    """
    staying = _staying(asked, old, read)
    settled = {each.name for queries, _ in staying.values() for each in queries}
    fresh = [each for each in asked if each.name not in settled]
    if not asked and not staying:
        return []
    if budget < LEAST_BYTES * (len(staying) + bool(fresh)):
        raise OverBudget(
            f"the stream samples of {len(asked)} queries take at least {LEAST_BYTES:,} bytes and {budget:,} are left "
            f"of the budget: raise it to {settings.budget + LEAST_BYTES - budget:,} bytes, or drop queries."
        )
    made, given = [], _shares(staying, budget, len(fresh), known.held)
    for name, (queries, sample) in staying.items():
        made.append(_resized(queries, sample, given[name], old))
    if fresh:
        made.append(_new(fresh, settings, budget - sum(given.values()), known, staying, old))
    return made


def _shares(
    staying: Mapping[str, tuple[Sequence[WorkloadQuery], PlannedSample]],
    budget: int,
    fresh: int,
    held: Mapping[str, int],
) -> dict[str, int]:
    """Return the bytes of each sample that stays: by the number of queries, if there are `fresh` ones, too.

    Where new queries come in, none gets less than it holds now, so that what it holds stays.
    """
    if not fresh:
        whole = sum(sample.spec.budget for _, sample in staying.values())
        shares = {name: budget * each.spec.budget // whole for name, (_, each) in staying.items()}
        return {**shares, **{n: shares[n] + budget - sum(shares.values()) for n in list(shares)[-1:]}}
    readers = fresh + sum(max(len(queries), 1) for queries, _ in staying.values())
    shares = {
        name: max(budget * max(len(queries), 1) // readers, held.get(name, 0))
        for name, (queries, _) in staying.items()
    }
    if budget - sum(shares.values()) < LEAST_BYTES:
        raise OverBudget(
            f"what the samples of {len(staying)} plans hold takes {sum(shares.values()):,} of {budget:,} bytes, and a "
            "sample of new queries does not fit: raise the budget."
        )
    return shares


def _staying(
    asked: Sequence[WorkloadQuery], old: Layout | None, read: Collection[str]
) -> dict[str, tuple[list[WorkloadQuery], PlannedSample]]:
    """Return the samples of an older layout with those of their queries that are still asked."""
    if old is None:
        return {}
    before = {(q.name, q.query.text, q.method): q.sample for q in old.queries}
    explored = {name: sample.id for sample in old.samples for name in explored_names(sample)}
    found: dict[str, tuple[list[WorkloadQuery], PlannedSample]]
    found = {sample.id: ([], sample) for sample in old.samples if sample.id in read}
    for each in asked:
        name = before.get((each.name, each.query.text, each.method))
        name = explored.get(each.name) if is_exploring(each) else name
        if name is not None:
            found.setdefault(name, ([], old.sample(name)))[0].append(each)
    return found


def _resized(
    queries: Sequence[WorkloadQuery], sample: PlannedSample, budget: int, old: Layout | None
) -> SampledQueries:
    """Return a sample that stays, under another budget; queries that are gone no longer say whom to follow."""
    assert old is not None
    names = {each.name for each in queries}
    read = {each.name: each.weight for each in with_details(queries)}
    sketches = sum(kept.nbytes for kept in sample.sketches)
    if budget - sketches < LEAST_BYTES:
        raise OverBudget(
            f"what is to stay beside {', '.join(sorted(names))} takes {sketches:,} bytes of sketches and its share of "
            f"the budget is {budget:,}: raise the budget, or plan anew."
        )
    shapes = tuple(
        replace(shape, weight=read[shape.name]) for shape in sample.spec.shapes if shape.name in read
    )
    spec = replace(sample.spec, shapes=shapes, budget=budget, kept_budget=budget - sketches)
    resized = (
        replace(each, expected_error=guessed_of_sample(len(each.shape.classes), spec, old.confidence))
        if each.shape is not None
        else each
        for each in old.queries
        if each.name in names
    )
    return SampledQueries(replace(sample, spec=spec), tuple(resized))


def with_details(queries: Sequence[WorkloadQuery]) -> list[WorkloadQuery]:
    """Return queries, and those that their aggregates of single values read."""
    return [each for query in queries for each in (query, *query.details)]


def _new(
    queries: Sequence[WorkloadQuery],
    settings: PlanSettings,
    budget: int,
    known: PlanningInputs,
    taken: Collection[str],
    old: Layout | None,
) -> SampledQueries:
    """Return a new sample of queries, with the sketches beside it; taken: ids of the samples that stay.

    Exact totals of an older layout count rows that a new sample has not seen, and are not read with it.
    """
    beside, decided = _sketches(queries, settings, budget, known)
    used = budget - sum(kept.nbytes for kept in beside)
    planned = plan_sample(with_details(queries), beside, settings.seed, budget, used, taken)
    least = ROSTER_BYTES * len(planned.spec.seeds) + NULL_RATE_BYTES * len(planned.spec.kept)
    if used < least:
        raise OverBudget(
            f"the stream samples of {len(queries)} queries follow the values of {len(planned.spec.seeds)} links, which "
            f"take at least {least:,} bytes, and {used:,} are left of the budget: raise it to "
            f"{settings.budget + least - used:,} bytes, or drop queries."
        )
    older = {kept.id for kept in old.kept} if old is not None else set()
    made = (_planned(each, decided.get(each.name), planned, known.statistics, settings) for each in queries)
    return SampledQueries(planned, tuple(_without_totals(each, older) for each in made))


def _without_totals(planned: PlannedQuery, older: Collection[str]) -> PlannedQuery:
    """Return a query that reads no exact totals if some of them are older than its sample."""
    if reads_emptiness(planned.query):
        return planned
    details = tuple(_without_totals(each, older) for each in planned.details)
    mixed = any(name in older for names in planned.totals.values() for name in names)
    return replace(planned, totals={} if mixed else planned.totals, details=details)


def _planned(
    asked: WorkloadQuery,
    decided: DecidedQuery | None,
    sample: PlannedSample,
    statistics: Statistics,
    settings: PlanSettings,
) -> PlannedQuery:
    """Return a query with its sample, the exact totals of its relations, and the sketches that it reads, if any."""
    totals = {
        name: tuple(facet.demand().id for facet in facets)
        for name, facets in facets_of(asked.query).items()
        if isinstance(asked.query, Query | GroupQuery)
    }
    ids = {kept.demand: kept.id for kept in sample.sketches}
    shape = next((shape for shape in sample.spec.shapes if shape.name == asked.name), None)
    expected = _expected(asked, decided, sample, shape, statistics, settings)
    if decided is None:
        details = tuple(_planned(each, None, sample, statistics, settings) for each in asked.details)
        return PlannedQuery(
            asked.name,
            asked.query,
            asked.method,
            {},
            sample.id,
            totals,
            shape,
            expected_error=expected,
            details=details,
        )
    return replace(planned_query(decided, expected, ids), sample=sample.id, totals=totals, shape=shape)


def _expected(
    asked: WorkloadQuery,
    decided: DecidedQuery | None,
    sample: PlannedSample,
    shape: Shape | None,
    statistics: Statistics,
    settings: PlanSettings,
) -> float | None:
    """Return the error that is expected once the sample overflows; None where nothing is kept then."""
    if not isinstance(asked.query, JoinDistinctQuery):
        links = len(shape.classes) if shape is not None else 1
        return guessed_of_sample(links, sample.spec, settings.confidence)
    if decided is None:
        return None
    sizes = {kept.demand.id: kept.size for kept in sample.sketches}
    weight = sketch_weight(asked, statistics, settings.max_distinct)
    return expected_of_sketches(decided, weight, sizes, statistics, settings.confidence)


def sketch_share(asked: WorkloadQuery) -> float:
    """Return the part of its memory that a query would give to sketches."""
    if isinstance(asked.query, GroupQuery) or is_for_samples_alone(asked.query):
        return 0.0
    if isinstance(asked.query, JoinDistinctQuery) or asked.method != "skimmed":
        return 1.0
    if isinstance(asked.query, SetQuery):
        return SET_SHARE
    return TWO_WAY_SHARE if len(asked.query.relations) == 2 else 0.0


def _sketches(
    queries: Sequence[WorkloadQuery], settings: PlanSettings, budget: int, known: PlanningInputs
) -> tuple[tuple[KeptSynopsis, ...], dict[str, DecidedQuery]]:
    """Return (sketches, what is decided for the queries that have some) within the sketches' share of the budget.

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
            weights = query_weights(some, known, limited)
            decided = [
                DecidedQuery(each.asked, Decision(each.decision.hash_slots))
                for each in decide(some, weights, limited, known.statistics, known.objective)
            ]
            kept = kept_for(decided, weights, set(), limited, None, known.objective)
            return kept, {each.asked.name: each for each in decided}
        except PlanError as failure:
            error = failure
    assert error is not None
    raise error
