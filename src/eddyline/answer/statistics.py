"""Statistics read from a state: what a plan's own synopses show about its streams and queries.

Self-join sizes and join sizes come from the sketches, numbers of rows from exact counters, numbers of different
values from distinct counts, and histograms from samples of keys. What is not kept is unknown.
"""

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from eddyline.answer.joins.quantities import read_quantities, self_join
from eddyline.answer.lookups import holds_value, value_of
from eddyline.answer.sets.expression import StreamLeaf, set_cardinality
from eddyline.errors import SketchError
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.layout import Demand, KeptSynopsis, PlannedQuery
from eddyline.plan.partition.histograms import Histogram, equi_depth
from eddyline.plan.statistics import RelationStatistics, Statistics, query_name, relation_name
from eddyline.sample.join import Join
from eddyline.sample.messages import sampled_messages
from eddyline.sketch.agms import AgmsSpec
from eddyline.sketch.distinct import DistinctSpec
from eddyline.sketch.dyadic import DyadicSpec
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sketch.peeling import PeelingSpec

BUCKETS = 100


def statistics_of(snapshot: Snapshot) -> Statistics:
    """Return everything that a snapshot knows and a plan can use."""
    relations, histograms = {}, {}
    counts = dict(_distinct_counts(snapshot))
    totals = {
        kept.demand: snapshot.weighed_total(kept.id)
        for kept in snapshot.layout.kept
        if kept.demand.kind == "total"
    }
    for kept in _fed(snapshot):
        if isinstance(kept.spec, HashSketchSpec | AgmsSpec | DyadicSpec):
            name = relation_name(kept.demand)
            distinct = [counts.get(_single(kept.demand, index)) for index in range(len(kept.demand.keys))]
            known = tuple(each for each in distinct if each is not None)
            relations[name] = RelationStatistics(
                self_join(snapshot, kept.id),
                known if len(known) == len(distinct) else (),
                totals.get(replace(kept.demand, kind="total", keys=(), places=(), domain_bits=0)),
            )
        elif isinstance(kept.spec, PeelingSpec):
            histogram = _histogram(snapshot, kept)
            if histogram is not None:
                histograms[relation_name(kept.demand)] = histogram
    sizes = {
        query_name(planned.query): dict(_sizes(snapshot, planned))
        for planned in snapshot.layout.queries
        if planned.query.is_scalar and planned.query.links and not planned.ad_hoc
    }
    rows = {stream.name: totals[Demand(stream.name, "total")] for stream in snapshot.layout.streams}
    return Statistics(relations, sizes, rows, histograms)


def _fed(snapshot: Snapshot) -> list[KeptSynopsis]:
    """Return the synopses that hold counters now."""
    return [kept for kept in snapshot.layout.by_id.values() if kept.id in snapshot.counters]


def _single(demand: Demand, key: int) -> str:
    """Return the name of a relation's single key, as a distinct count spells it."""
    return relation_name(Demand(demand.stream, "distinct", (demand.keys[key],), demand.predicates))


def _distinct_counts(snapshot: Snapshot) -> Iterator[tuple[str, float]]:
    for kept in _fed(snapshot):
        if isinstance(kept.spec, DistinctSpec):
            try:
                found = set_cardinality(StreamLeaf(0), (kept.spec,), (snapshot.counters[kept.id],), 0.95)
            except SketchError:
                continue  # more elements than it can count: not known
            yield relation_name(kept.demand), found.value


def _sizes(snapshot: Snapshot, planned: PlannedQuery) -> Iterator[tuple[str, float]]:
    """Yield the size of each quantity of a join, as its sketches estimate it; nothing where it is noise."""
    query = planned.query
    if planned.sample is not None and planned.shape is not None:
        join = Join(snapshot.samples[planned.sample], planned.shape)
        for name, quantity in planned.shape.quantities.items():
            yield name, sampled_messages(join, quantity).total()
        return
    for name, reading in read_quantities(snapshot, query, planned.quantities, planned.method).items():
        if abs(reading.value) > reading.half_width(0.95):
            yield name, reading.value


def _histogram(snapshot: Snapshot, kept: KeptSynopsis) -> Histogram | None:
    """Return the histogram of a sampled key column; None where keys do not hold their values."""
    (key,) = kept.demand.keys
    if not holds_value(key) or not isinstance(kept.spec, PeelingSpec):
        return None
    sample = kept.spec.decode(snapshot.counters[kept.id])
    values = [value_of(key, int(word)) for word in sample.keys.view(np.int64)]
    held = [place for place, each in enumerate(values) if not isinstance(each, bool | str | None)]
    if not held:
        return None  # dates beyond Python's calendar are strings, which sort differently
    written = [each if isinstance(each, int) else each.isoformat() for each in map(values.__getitem__, held)]
    found = equi_depth(np.array(written), sample.counts[held], BUCKETS)
    scale = 1 / sample.rate
    squares = found.squares
    return replace(
        found,
        rows=tuple(rows * scale for rows in found.rows),
        distinct=tuple(distinct * scale for distinct in found.distinct),
        squares=None if squares is None else tuple(square * scale for square in squares),
    )
