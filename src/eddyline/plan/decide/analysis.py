"""The analysis of a workload: the queries and synopses whose state tells what a plan wants to know.

Beside the workload's own joins it keeps distinct counts of every join key, the number of rows (or the sum of the
measure) of every relation, and samples of key columns for histograms. One pass over
history fills it; `answer.statistics` reads it.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from eddyline.plan.demands import WorkloadQuery
from eddyline.plan.layout import Demand
from eddyline.plan.size.specs import PlanSettings, least_words
from eddyline.sql.query import Key, Query, SetLeaf, SetMember, SetQuery, is_for_samples_alone

HISTOGRAM_KEYS = (4096, 2048, 1024, 512, 256)
"""Sampled values of a key column that a histogram is made of, as many as a third of the budget allows: with no more
different values than that it is exact."""


def analysis_of(
    asked: Sequence[WorkloadQuery], settings: PlanSettings
) -> tuple[list[WorkloadQuery], set[Demand]]:
    """Return the queries of an analysis, and the exact counters and samples that it keeps."""
    joins = [
        replace(each, method="skimmed")
        for each in asked
        if isinstance(each.query, Query) and each.query.links and not is_for_samples_alone(each.query)
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
    """Return samples of key columns, of the largest size that fits; none where none does."""
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
