"""The planner: streams and queries to a layout within the budget.

With stream samples, the samples hold what queries need and sketches stand beside them; without, each query is given
its decision (hash slots by what it can share, parts), which says what is kept, and the budget is shared out over that.
Equal demands share one synopsis.
"""

from collections.abc import Iterable, Sequence

from eddyline.errors import PlanError
from eddyline.plan.decide.coverage import filled_queries
from eddyline.plan.decide.decisions import decide
from eddyline.plan.decide.exploring import is_exploring, sample_totals
from eddyline.plan.decide.facets import uses_sample
from eddyline.plan.decide.samples import plan_samples
from eddyline.plan.demands import DecidedQuery, WorkloadQuery
from eddyline.plan.inputs import PlanningInputs
from eddyline.plan.layout import Decision, Demand, Layout, PlannedQuery, Stream
from eddyline.plan.size.expected import expected_of_sketches, query_weights
from eddyline.plan.size.sketches import kept_for, planned_query
from eddyline.plan.size.specs import PlanSettings
from eddyline.sketch.hash_sketch import HashSketchSpec


def make_layout(
    streams: Sequence[Stream],
    asked: Iterable[WorkloadQuery],
    settings: PlanSettings,
    samples: Iterable[Demand] = (),
    keep: Layout | None = None,
    known: PlanningInputs = PlanningInputs(),  # noqa: B008 - a frozen value
) -> Layout:
    """Return the layout of a workload: never over budget, the same whatever the order of the queries.

    samples: distinct samples that were asked for. keep: a layout whose synopses and stream samples stay as they
    are, where they are still asked for; added queries are answered from them where that is possible, and what is new
    for others shares what is left of the budget.
    """
    queries = sorted(asked, key=lambda each: each.name)
    old = keep if keep is not None and keep.seed == settings.seed else None
    _check_keep(old, settings)
    fixed = {Demand(stream.name, "total") for stream in streams} | set(samples)
    by_name = tuple(sorted(streams, key=lambda stream: stream.name))
    if settings.samples:
        return _sampled_layout(by_name, queries, fixed, settings, old, known)
    weights = query_weights(queries, known, settings)
    decided = decide(queries, weights, settings, known.statistics, known.objective, old)
    kept = kept_for(decided, weights, fixed, settings, old, known.objective)
    sizes = {each.id: each.size for each in kept}
    expected = {
        each.asked.name: expected_of_sketches(
            each, weights[each.asked.name], sizes, known.statistics, settings.confidence
        )
        for each in decided
    }
    planned = tuple(planned_query(each, expected[each.asked.name]) for each in decided)
    return Layout(settings.seed, settings.confidence, by_name, kept, planned)


def _sampled_layout(
    streams: tuple[Stream, ...],
    queries: Sequence[WorkloadQuery],
    fixed: set[Demand],
    settings: PlanSettings,
    old: Layout | None,
    known: PlanningInputs,
) -> Layout:
    """Return a layout with stream samples: exact counters beside them, and sketches for their second stage."""
    filled = _filled(streams, queries, old)
    staying = {each.name for each, _ in filled}
    plain = [each for each in queries if not uses_sample(each.query) and each.name not in staying]
    sampled = [each for each in queries if uses_sample(each.query) and each.name not in staying]
    totals = {demand for each in plain for demand in each.demands}
    totals |= sample_totals(sampled)
    if old is not None:
        totals |= {kept.demand for kept in old.kept if any(kept.id in ids for _, ids in filled)}
    counted = [DecidedQuery(each, Decision()) for each in plain]
    kept = kept_for(counted, {}, fixed | totals, settings, old, known.objective)
    left = settings.budget - sum(each.nbytes for each in kept)
    planned = {each.asked.name: planned_query(each, 0.0) for each in counted}
    read = {each.sample for each, _ in filled if each.sample is not None}
    samples = plan_samples(sampled, settings, left, old, known, read)
    for sample in samples:
        planned |= {each.name: each for each in sample.queries}
    planned |= {each.name: each for each, _ in filled}
    ordered = tuple(planned[each.name] for each in queries if not is_exploring(each))
    made = tuple(sample.planned for sample in samples)
    return Layout(settings.seed, settings.confidence, streams, kept, ordered, samples=made)


def _filled(
    streams: Sequence[Stream], queries: Sequence[WorkloadQuery], old: Layout | None
) -> list[tuple[PlannedQuery, set[str]]]:
    """Return the queries that samples of an older layout answer as they are, on streams that stay as they are."""
    if old is None:
        return []
    same = {stream.name for stream in streams if stream in old.streams}
    asked = [each for each in queries if not is_exploring(each) and set(each.streams) <= same]
    return filled_queries(old, asked)


def _check_keep(old: Layout | None, settings: PlanSettings) -> None:
    """Raise PlanError where what is to stay cannot: it hashes otherwise than new synopses would."""
    hashes = {kept.spec.hash for kept in old.kept if isinstance(kept.spec, HashSketchSpec)} if old else set()
    if hashes - {settings.hash}:
        raise PlanError(
            f"the plan to keep hashes by {', '.join(sorted(hashes))} and this workload by {settings.hash}: give "
            f"Workload(hash={min(hashes)!r})."
        )
