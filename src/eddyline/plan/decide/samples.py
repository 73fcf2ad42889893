"""Stream samples of a workload: their budgets, and the hash slots, parts and sketches of each query."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from msgspec.structs import replace

from eddyline.errors import PlanError
from eddyline.plan.decide.coverage import reads_emptiness
from eddyline.plan.decide.elements import explored_names, is_exploring, plan_sample, weight_of
from eddyline.plan.decide.facets import facets_of
from eddyline.plan.decide.rest_sketches import rest_ids, rest_sketches
from eddyline.plan.demands import DEFAULT_METHOD, DecidedQuery, WorkloadQuery, is_planned_for
from eddyline.plan.layout import Decision, KeptSynopsis, Layout, PlannedQuery, PlannedSample
from eddyline.plan.partition.partitioning import parts_of
from eddyline.plan.sharing.coalesce import Objective, chosen_slots
from eddyline.plan.size.allocation import kept_for, planned_query
from eddyline.plan.size.expected import expected_of_sketches, guessed_of_sample, query_weights, sketch_weight
from eddyline.plan.size.specs import OverBudget, PlanSettings
from eddyline.plan.statistics import PlanningInputs, Statistics
from eddyline.sample.spec import Shape

# What the planner decides for each query before memory is divided: hash slots and parts.


def decide(
    asked: Sequence[WorkloadQuery],
    weights: Mapping[str, float],
    settings: PlanSettings,
    statistics: Statistics,
    objective: Objective,
    keep: Layout | None = None,
) -> list[DecidedQuery]:
    """Return the queries with the decision for each; queries of an older layout that stays keep theirs.

    weights: W of each query, which determines how its error falls with the words of its sketches.
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
    optional: dict[str, Decision] = {}
    for each in fresh:
        made[each.name] = Decision()
        if each.query.is_scalar and each.query.links:
            made[each.name] = Decision(slots[each.name])
            parts = parts_of(each, statistics, words)
            if parts.predicates:
                divided = Decision(
                    slots[each.name], parts.predicates, parts.shares, parts.gain, independent=True
                )
                given = each.name not in sharing or each.partitions != "auto"
                (made if given else optional)[each.name] = divided
    if optional:
        made = _divided(asked, made, optional, weights, settings, statistics, objective)
    return [DecidedQuery(each, made[each.name]) for each in asked]


def _divided(
    asked: Sequence[WorkloadQuery],
    whole: Mapping[str, Decision],
    optional: Mapping[str, Decision],
    weights: Mapping[str, float],
    settings: PlanSettings,
    statistics: Statistics,
    objective: Objective,
) -> dict[str, Decision]:
    """Return decisions in which queries that share sketches are divided, where that lowers the workload's error.

    A divided query no longer shares with queries that stay whole. So each is tried, the largest expected gain first,
    with the memory divided again.
    """

    def error(made: Mapping[str, Decision]) -> float:
        decided = [DecidedQuery(each, made[each.name]) for each in asked]
        try:
            kept = kept_for(decided, weights, set(), settings, None, objective)
        except OverBudget:
            return inf
        sizes = {each.id: each.size for each in kept}
        found = []
        for each in decided:
            weight = weights[each.asked.name]
            relative = expected_of_sketches(each, weight, sizes, statistics, 0.95) or 0.0
            if callable(objective) and relative:
                found.append(each.asked.weight * weight * objective(weight / relative**2))
            else:
                found.append(each.asked.weight * relative**2)
        return max(found) if objective == "largest" else sum(found)

    best, least = dict(whole), error(whole)
    for name in sorted(optional, key=lambda name: (-optional[name].gain, name)):
        trial = best | {name: optional[name]}
        reached = error(trial)
        if reached < least:
            best, least = trial, reached
    return best


def _relations(asked: WorkloadQuery) -> int:
    return sum(len(quantity.all) for quantity in asked.quantities.values())


def _kept_decisions(asked: Sequence[WorkloadQuery], keep: Layout | None) -> dict[str, Decision]:
    """Return the decisions of an older layout for the queries that it has in common with the new ones.

    Sketches next to a stream sample are removed with it, and so are their decisions.
    """
    if keep is None:
        return {}
    old = {(each.name, each.query.text, each.method): each for each in keep.queries if each.sample is None}
    found = {}
    for each in asked:
        planned = old.get((each.name, each.query.text, each.method))
        if planned is not None and is_planned_for(each, planned):
            found[each.name] = planned.decision
    return found


# Stream samples of a workload: their budgets, and which sketches are kept alongside in the second stage.
#
# Until memory runs out, the whole budget holds exact dictionaries. From then on a share of it holds sketches:
# those of joins of two relations, which sketches estimate better than samples if few values dominate or come
# late; and those of distinct counts, also over joins, which deletes do not wear out. Joins of three and more
# relations gain nothing from sketches: docs/decisions/0007-stream-samples.md has
# the figures.


LEAST_BYTES = 1024
"""The least bytes of a stream sample."""
ROSTER_BYTES = 16
"""The least bytes that a link takes from a stream sample."""
NULL_RATE_BYTES = 8
"""The bytes that the rate of rows with a NULL link takes, for each dictionary."""
TWO_WAY_SHARE = 1 / 3
SET_SHARE = 0.2
PAIR_SHARE = 0.1
"""For distinct counts over joins: followed values estimate them better at equal bytes. Deletes do not wear out the
synopsis for such counts, which is kept if this share can hold one."""


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

    read: samples of the older layout that answer other queries.
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
    """Return the bytes of each sample that stays, by the number of queries, counting `fresh` new ones, too.

    If queries are added, no sample gets less than it holds now, so that its content stays.
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
            f"the samples of {len(staying)} plans take {sum(shares.values()):,} of {budget:,} bytes, and a sample "
            "for new queries does not fit: raise the budget."
        )
    return shares


def _staying(
    asked: Sequence[WorkloadQuery], old: Layout | None, read: Collection[str]
) -> dict[str, tuple[list[WorkloadQuery], PlannedSample]]:
    """Return the samples of an older layout with those of their queries that are still in the workload."""
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
    """Return a sample that stays, under another budget; removed queries no longer affect which keys to follow."""
    assert old is not None
    names = {each.name for each in queries}
    read = {each.name: each.weight for each in with_details(queries)}
    sketches = sum(kept.nbytes for kept in sample.sketches)
    if budget - sketches < LEAST_BYTES:
        raise OverBudget(
            f"what is kept with {', '.join(sorted(names))} takes {sketches:,} bytes of sketches and its share of "
            f"the budget is {budget:,}: raise the budget, or plan again."
        )
    shapes = tuple(
        replace(shape, weight=weight)
        for shape in sample.spec.shapes
        if (weight := weight_of(shape.name, read)) is not None
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
    """Return a new sample of queries, with the sketches next to it; taken: ids of the samples that stay.

    Exact totals of an older layout count rows that a new sample has not seen, so they are not read with it.
    """
    around, decided = _sketches(queries, settings, budget, known)
    around += rest_sketches(queries, settings, budget, decided)
    used = budget - sum(kept.nbytes for kept in around)
    planned = plan_sample(with_details(queries), around, settings.seed, budget, used, taken)
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
        if asked.query.kind != "set"
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
            rest_sketches=rest_ids(asked.query, sample),
        )
    weight = sketch_weight(asked, statistics, settings.max_distinct)
    made = planned_query(decided, expected, ids, weight)
    return replace(made, sample=sample.id, totals=totals, shape=shape)


def _expected(
    asked: WorkloadQuery,
    decided: DecidedQuery | None,
    sample: PlannedSample,
    shape: Shape | None,
    statistics: Statistics,
    settings: PlanSettings,
) -> float | None:
    """Return the error that is expected once the sample overflows.

    It is the error of the sketches if they alone answer then, otherwise a guess of the sample's error.
    """
    if decided is None or not _names_its_method(asked):
        links = len(shape.classes) if shape is not None else 1
        return guessed_of_sample(links, sample.spec, settings.confidence)
    sizes = {kept.demand.id: kept.size for kept in sample.sketches}
    weight = sketch_weight(asked, statistics, settings.max_distinct)
    return expected_of_sketches(decided, weight, sizes, statistics, settings.confidence)


def _names_its_method(asked: WorkloadQuery) -> bool:
    """Return whether a query is to be answered by other than the default synopses, which then have to be kept."""
    return asked.method != DEFAULT_METHOD


def sketch_share(asked: WorkloadQuery) -> float:
    """Return the part of its memory that a query would use for sketches."""
    if asked.query.needs_sample or is_exploring(asked):
        return 0.0
    if _names_its_method(asked):
        return 1.0
    if asked.query.kind == "pairs":
        return PAIR_SHARE
    if asked.query.kind == "set":
        return SET_SHARE
    return TWO_WAY_SHARE if len(asked.query.relations) == 2 else 0.0


def _sketches(
    queries: Sequence[WorkloadQuery], settings: PlanSettings, budget: int, known: PlanningInputs
) -> tuple[tuple[KeptSynopsis, ...], dict[str, DecidedQuery]]:
    """Return (sketches, decisions of the queries that have some) within the sketches' share of the budget.

    If the share is too small for all, sketches of distinct counts over joins are left out first, then distinct
    sketches, and then every sketch that a sample can replace.
    """
    wanted = [each for each in queries if sketch_share(each) > 0]
    share = min(int(budget * sum(map(sketch_share, queries)) / len(queries)), budget - LEAST_BYTES)
    others = [each for each in wanted if sketch_share(each) != PAIR_SHARE]
    less = min(int(budget * sum(map(sketch_share, others)) / len(queries)), budget - LEAST_BYTES)
    joins = [each for each in others if sketch_share(each) != SET_SHARE]
    needed = [each for each in wanted if sketch_share(each) == 1.0]
    attempts = [
        (wanted, share),
        (others, less),
        (joins, less),
        (needed, less),
        (needed, budget - LEAST_BYTES),
    ]
    error: PlanError | None = None
    for place, (some, words) in enumerate(attempts):
        if (some, words) in attempts[:place]:
            continue
        limited = replace(settings, budget=words)
        try:
            weights = query_weights(some, known, limited)
            decided = [
                each
                if _names_its_method(each.asked)
                else DecidedQuery(each.asked, Decision(each.decision.hash_slots))
                for each in decide(some, weights, limited, known.statistics, known.objective)
            ]
            kept = kept_for(decided, weights, set(), limited, None, known.objective)
            return kept, {each.asked.name: each for each in decided}
        except PlanError as failure:
            error = failure
    assert error is not None
    raise error
