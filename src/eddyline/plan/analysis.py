"""The analysis of a workload: the queries and synopses whose state tells what a plan wants to know.

Beside the workload's own joins it keeps distinct counts of every join key, and samples of key columns for
histograms. One pass over history fills it; `answer.statistics` reads it.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from eddyline.plan.demands import Asked, terms_of
from eddyline.plan.layout import Demand
from eddyline.sql.query import Key, Query, SetLeaf, SetMember, SetQuery

HISTOGRAM_KEYS = 4096
"""Sampled values of a key column that a histogram is made of: with no more different values it is exact."""


def analysis_of(asked: Sequence[Asked]) -> tuple[list[Asked], set[Demand]]:
    """Return the queries of an analysis, and the samples that it keeps."""
    joins = [
        replace(each, method="skimmed")
        for each in asked
        if isinstance(each.query, Query) and each.query.links
    ]
    counts: dict[SetMember, Asked] = {}
    samples = set()
    for demand, key in _keys(joins):
        member = SetMember(demand.stream, key, demand.predicates)
        counts[member] = Asked(f"distinct_{len(counts)}", SetQuery("", (member,), SetLeaf(0)))
        if len(key.columns) == 1:
            samples.add(Demand(demand.stream, "peeling", (key,), demand.predicates, sample=HISTOGRAM_KEYS))
    return joins + list(counts.values()), samples


def _keys(joins: Sequence[Asked]) -> Iterator[tuple[Demand, Key]]:
    """Yield each relation and key of the joins once."""
    seen = set()
    for each in joins:
        for term in terms_of(each.query, each.method).values():
            for demand in term.parts[0]:
                for key in demand.keys:
                    if (demand.stream, demand.predicates, key) not in seen:
                        seen.add((demand.stream, demand.predicates, key))
                        yield demand, key
