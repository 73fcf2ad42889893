"""Distinct counts over a join: counted while exact dictionaries hold all, then from their own synopsis."""

from eddyline.answer import notes
from eddyline.answer.distinct_joins.counted import count_pairs
from eddyline.answer.distinct_joins.reading import join_distinct
from eddyline.answer.distinct_joins.samples import SketchedSide
from eddyline.answer.estimate import Estimate
from eddyline.answer.second_stage import in_second_stage
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.layout import PlannedQuery
from eddyline.sketch.join_distinct import JoinDistinctSpec
from eddyline.sql.query import JoinDistinctQuery


def answer_distinct_join(
    snapshot: Snapshot, planned: PlannedQuery, query: JoinDistinctQuery, confidence: float, about: list[str]
) -> Estimate:
    """Return the number of distinct values over a join."""
    sample = planned.sample
    if sample is not None and not snapshot.samples[sample].grouped:
        found = count_pairs(snapshot.layout.sample(sample), snapshot.samples[sample], query)
        if found is not None:
            return Estimate.exactly(planned.name, found, confidence, about)
        snapshot = in_second_stage(snapshot, sample)
    if not planned.quantities:
        return Estimate.unknown(planned.name, confidence, "sample", [*about, notes.NO_ROOM_FOR_PAIRS])
    left, right = (_side(snapshot, name) for name in planned.quantities["pairs"].sketches[0])
    reading = join_distinct(left, right, query.form, confidence)
    return reading.told(planned.name, confidence, "join-distinct", about)


def _side(snapshot: Snapshot, name: str) -> SketchedSide:
    spec = snapshot.layout.by_id[name].spec
    assert isinstance(spec, JoinDistinctSpec)
    return SketchedSide(spec, snapshot.counters[name])
