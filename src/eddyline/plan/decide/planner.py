"""The planner: streams and queries to a layout within the budget, and the layout of an analysis."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from eddyline.errors import PlanError
from eddyline.plan.decide.coverage import filled_queries
from eddyline.plan.decide.elements import is_exploring, sample_totals
from eddyline.plan.decide.facets import uses_sample
from eddyline.plan.decide.samples import decide, plan_samples
from eddyline.plan.demands import DecidedQuery, WorkloadQuery
from eddyline.plan.layout import Decision, Demand, Layout, PlannedQuery, Stream
from eddyline.plan.size.allocation import kept_for, planned_query
from eddyline.plan.size.expected import expected_of_sketches, query_weights
from eddyline.plan.size.guarantee import guaranteed_specs
from eddyline.plan.size.specs import PlanSettings, least_words
from eddyline.plan.statistics import PlanningInputs
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sql.query import Key, SetLeaf, SetMember, SetQuery

# With stream samples, the samples hold what queries need, with sketches alongside. Without them, each query
# gets a decision (its parts, and hash slots by what it can share) that determines what is kept, and the
# budget is divided over that. Equal demands share one synopsis.


def make_layout(
    streams: Sequence[Stream],
    asked: Iterable[WorkloadQuery],
    settings: PlanSettings,
    samples: Iterable[Demand] = (),
    keep: Layout | None = None,
    known: PlanningInputs = PlanningInputs(),  # noqa: B008 - a frozen value
) -> Layout:
    """Return the layout of a workload: never over budget, the same whatever the order of the queries.

    samples: distinct samples that were requested. keep: a layout whose synopses and stream samples stay as they
    are, if they are still needed. Added queries are answered from them if possible; new state for the other queries
    shares the remaining budget.
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
    specs, guarantees = guaranteed_specs(decided, known.statistics, settings)
    kept = kept_for(decided, weights, fixed, settings, old, known.objective, specs)
    sizes = {each.id: each.size for each in kept}
    expected = {
        each.asked.name: expected_of_sketches(
            each, weights[each.asked.name], sizes, known.statistics, settings.confidence
        )
        for each in decided
    }
    planned = tuple(
        replace(
            planned_query(each, expected[each.asked.name], weight=weights[each.asked.name]),
            guarantee=guarantees.get(each.asked.name),
        )
        for each in decided
    )
    return Layout(settings.seed, settings.confidence, by_name, kept, planned, objective=known.objective_name)


def _sampled_layout(
    streams: tuple[Stream, ...],
    queries: Sequence[WorkloadQuery],
    fixed: set[Demand],
    settings: PlanSettings,
    old: Layout | None,
    known: PlanningInputs,
) -> Layout:
    """Return a layout with stream samples: exact counters next to them, and sketches for their second stage."""
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
    return Layout(
        settings.seed,
        settings.confidence,
        streams,
        kept,
        ordered,
        samples=made,
        objective=known.objective_name,
    )


def _filled(
    streams: Sequence[Stream], queries: Sequence[WorkloadQuery], old: Layout | None
) -> list[tuple[PlannedQuery, set[str]]]:
    """Return the queries that samples of an older layout answer unchanged, on streams that do not change."""
    if old is None:
        return []
    same = {stream.name for stream in streams if stream in old.streams}
    asked = [each for each in queries if not is_exploring(each) and set(each.streams) <= same]
    return filled_queries(old, asked)


def _check_keep(old: Layout | None, settings: PlanSettings) -> None:
    """Raise PlanError if kept state cannot stay because it hashes differently than new synopses would."""
    hashes = {kept.spec.hash for kept in old.kept if isinstance(kept.spec, HashSketchSpec)} if old else set()
    if hashes - {settings.hash}:
        raise PlanError(
            f"the plan to keep hashes by {', '.join(sorted(hashes))} and this workload by {settings.hash}: give "
            f"Workload(hash={min(hashes)!r})."
        )


# The analysis of a workload: the queries and synopses whose state provides the statistics of a plan.
#
# In addition to the workload's own joins it keeps distinct counts of every join key, the number of rows (or
# the sum of the measure) of every relation, and samples of key columns for histograms. One pass over history
# fills it; `answer.statistics` reads it.


HISTOGRAM_KEYS = (4096, 2048, 1024, 512, 256)
"""Number of sampled values of a key column from which a histogram is made, as far as a third of the budget allows.
A column with no more distinct values than that gets an exact histogram."""


def analysis_of(
    asked: Sequence[WorkloadQuery], settings: PlanSettings
) -> tuple[list[WorkloadQuery], set[Demand]]:
    """Return the queries of an analysis, and the exact counters and samples that it keeps."""
    joins = [
        replace(each, method="skimmed", partitions="off", guarantee=None)
        for each in asked
        if each.query.is_scalar and each.query.links and not each.query.needs_sample
    ]
    counts: dict[SetMember, WorkloadQuery] = {}
    columns = []
    for demand, key in _keys(joins):
        member = SetMember(demand.stream, key, demand.predicates)
        counts[member] = WorkloadQuery(f"distinct_{len(counts)}", SetQuery("", (member,), SetLeaf(0)))
        if len(key.columns) == 1:
            columns.append(Demand(demand.stream, "peeling", (key,), demand.predicates))
    totals = {
        replace(demand, kind="total", keys=(), places=())
        for each in joins
        for quantity in each.quantities.values()
        for demand in quantity.whole
    }
    return joins + list(counts.values()), _sampled(columns, settings) | totals


def _sampled(columns: Sequence[Demand], settings: PlanSettings) -> set[Demand]:
    """Return samples of key columns, of the largest size that fits; none if no size fits."""
    for size in HISTOGRAM_KEYS:
        samples = {replace(column, sample=size) for column in columns}
        if 8 * sum(least_words(each, settings) for each in samples) <= settings.budget // 3:
            return samples
    return set()


def _keys(joins: Sequence[WorkloadQuery]) -> Iterator[tuple[Demand, Key]]:
    """Yield each relation and key of the joins once."""
    seen = set()
    for each in joins:
        for quantity in each.quantities.values():
            for demand in quantity.whole:
                for key in demand.keys:
                    if (demand.stream, demand.predicates, key) not in seen:
                        seen.add((demand.stream, demand.predicates, key))
                        yield demand, key
