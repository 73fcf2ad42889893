"""Distinct counts over a join: exact while everything fits in memory, then from a synopsis."""

from dataclasses import replace
from math import sqrt

import numpy as np

from eddyline.answer import notes
from eddyline.answer.distinct_joins.document import EPSILON, Composed, document_pairs_count
from eddyline.answer.distinct_joins.followed import PairCount, count_followed
from eddyline.answer.distinct_joins.reading import join_distinct
from eddyline.answer.distinct_joins.samples import MOST_PAIRS, SketchedSide
from eddyline.answer.estimate import Estimate
from eddyline.answer.joins.missing import missing_of, relation_gaps, unseen_join
from eddyline.answer.joins.sampled import held_join, in_second_stage
from eddyline.answer.joins.sampled_values import sampled_quantities
from eddyline.answer.sets.expression import SetReading
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.decide.ad_hoc import AdHocQuery
from eddyline.plan.decide.facets import EVERY_ROW, PAIRS, flags_of
from eddyline.plan.demands import DEFAULT_METHOD
from eddyline.plan.layout import Demand, PlannedQuery, PlannedSample
from eddyline.sample.dictionary import Dictionary
from eddyline.sample.join import Join
from eddyline.sample.packing import BoolArray, IntArray
from eddyline.sample.state import SampleState
from eddyline.sketch.jd_sketch import JdSketchSpec
from eddyline.sketch.join_distinct import JoinDistinctSpec
from eddyline.sql.query import JoinDistinctQuery, Key

# Distinct counts over a join of two exact dictionaries, by joining the distinct values of either side.


def count_pairs(planned: PlannedSample, state: SampleState, query: JoinDistinctQuery) -> int | None:
    """Return how many different values a join projects, None where too many pairs meet to count them."""
    sides = (
        (query.relations[0].stream, query.relations[0].predicates, query.left, query.join.left_key),
        (query.relations[1].stream, query.relations[1].predicates, query.right, query.join.right_key),
    )
    (left, left_key), (right, right_key) = (_exact_side(planned, state, *side) for side in sides)
    met = np.isin(left_key, right_key)
    if query.form == "semi":
        return len(np.unique(left[met]))
    left, left_key = left[met], left_key[met]
    met = np.isin(right_key, left_key)
    right, right_key = right[met], right_key[met]
    values, places = np.unique(np.concatenate([left_key, right_key]), return_inverse=True)
    at_left, at_right = places[: len(left)], places[len(left) :]
    held = np.bincount(at_left, minlength=len(values))
    other = np.bincount(at_right, minlength=len(values))
    if query.form == "full":
        return int((held * other).sum())
    return _different(left, at_left, held, right, at_right, other)


def _exact_side(
    planned: PlannedSample,
    state: SampleState,
    stream: str,
    predicates: tuple[str, ...],
    projected: Key,
    joined: Key,
) -> tuple[IntArray, IntArray]:
    """Return the distinct (projected value, join value) of one side with a net count above 0."""
    position = planned.position(stream)
    assert position is not None
    elements, dictionary = planned.exact[position], state.dictionaries[position]
    first, second = elements.keys.index(projected), elements.keys.index(joined)
    counted = ~dictionary.is_null(second) & ~dictionary.is_null(first)
    for flag in flags_of(Demand(stream, "join-distinct", (), predicates)):
        counted &= dictionary.flag(elements.flags.index(flag))
    return _present(dictionary, first, second, counted)


def _present(
    dictionary: Dictionary, first: int, second: int, counted: BoolArray
) -> tuple[IntArray, IntArray]:
    pairs = np.stack([dictionary.key(first)[counted], dictionary.key(second)[counted]], axis=1)
    if len(pairs) == 0:
        return pairs[:, 0], pairs[:, 1]
    distinct, places = np.unique(pairs, axis=0, return_inverse=True)
    totals = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(totals, places.reshape(-1), dictionary.total(-1)[counted])
    return distinct[totals > 0, 0], distinct[totals > 0, 1]


def _different(
    left: IntArray, at_left: IntArray, held: IntArray, right: IntArray, at_right: IntArray, other: IntArray
) -> int | None:
    """Return the number of different (left, right) values that meet at any join value."""
    if int((held.astype(np.float64) * other).sum()) > MOST_PAIRS:
        return None
    order = np.argsort(at_right, kind="stable")
    starts = np.concatenate([[0], np.cumsum(other)])
    repeats = other[at_left]
    firsts = np.repeat(left, repeats)
    within = np.arange(len(firsts)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    seconds = right[order][np.repeat(starts[at_left], repeats) + within]
    if len(firsts) == 0:
        return 0
    ranked = np.unique(firsts, return_inverse=True)[1] * (len(right) + 1)
    return len(np.unique(ranked + np.unique(seconds, return_inverse=True)[1]))


# While dictionaries hold all rows, the count is exact; then it is from followed values and a synopsis.


_MUCH_WIDER = 3.0
"""An interval this many times wider than the other is left out: the width of a wide one is itself badly known."""


def answer_distinct_join(
    snapshot: Snapshot, planned: PlannedQuery, query: JoinDistinctQuery, confidence: float, about: list[str]
) -> Estimate:
    """Return the number of distinct values over a join."""
    sample = planned.sample
    if sample is not None and not snapshot.samples[sample].grouped and not isinstance(planned, AdHocQuery):
        found = count_pairs(snapshot.layout.sample(sample), snapshot.samples[sample], query)
        if found is not None:
            return Estimate.exactly(planned.name, found, confidence, about)
        snapshot = in_second_stage(snapshot, sample)
    if planned.method != DEFAULT_METHOD and planned.quantities:
        read, _ = read_document_pairs(snapshot, planned, query, confidence)
        if read is None:
            return Estimate.unknown(
                planned.name, confidence, planned.method, [*about, notes.NO_INDEX_OF_PAIRS]
            )
        return read.estimate(planned.name, confidence, planned.method, about)
    followed = None
    if planned.shape is not None:
        join = held_join(snapshot, planned)
        followed = count_followed(join, query, confidence)
        if followed.width == 0.0:
            return Estimate.exactly(planned.name, followed.seen, confidence, about)
        followed = replace(
            followed, high=followed.high + _most_missing(snapshot, planned, query, join, confidence)
        )
    if not planned.quantities and followed is None:
        return Estimate.unknown(planned.name, confidence, "sample", [*about, notes.NO_ROOM_FOR_PAIRS])
    sketched = None
    if planned.quantities:
        left, right = (_sketched_side(snapshot, name) for name in planned.quantities["pairs"].sketches[0])
        sketched = join_distinct(left, right, query.form, confidence)
    reading, method = _together(followed, sketched)
    return reading.estimate(planned.name, confidence, method, about)


def _most_missing(
    snapshot: Snapshot, planned: PlannedQuery, query: JoinDistinctQuery, join: Join, confidence: float
) -> float:
    """Return how many values may be counted only at rows that exact totals show and the sample does not.

    Every missing row of the join may bring a value of its own; where only the left side is counted, every missing row
    of that side. The totals of an ad hoc query are those of all rows that could join, whatever its predicates.
    """
    counted = join.shape.quantities[PAIRS]
    ad_hoc = EVERY_ROW in planned.totals
    read = {PAIRS: counted} | ({EVERY_ROW: counted.of_every_row()} if ad_hoc else {})
    quantities, known = sampled_quantities(join.only(read)), EVERY_ROW if ad_hoc else PAIRS
    pairs = quantities[PAIRS]
    totals = [snapshot.weighed_total(each) for each in planned.totals.get(known, ())]
    gaps = relation_gaps(quantities[known], totals)
    missing = missing_of(pairs, gaps, of_rows=ad_hoc).high
    if totals and not np.any(pairs.values.probabilities[pairs.added != 0.0] < 1.0):
        missing = max(missing, unseen_join(quantities[known], totals, confidence))
    if query.form == "semi" and gaps and gaps[0] is not None:
        return min(missing, max(gaps[0].short, 0.0) * gaps[0].exact)
    return missing


def read_document_pairs(
    snapshot: Snapshot, planned: PlannedQuery, query: JoinDistinctQuery, confidence: float
) -> tuple[SetReading | None, Composed]:
    """Return (what the document's JD sketches show, at which index and from how many copies)."""
    sides = []
    for name in planned.quantities["pairs"].sketches[0]:
        spec = snapshot.layout.by_id[name].spec
        assert isinstance(spec, JdSketchSpec)
        sides.append((spec, snapshot.counters[name]))
    with_join_key = set(query.join.left_key.columns) <= set(query.left.columns)
    one_sided = query.form == "semi" and not with_join_key
    epsilon = EPSILON if planned.guarantee is None else planned.guarantee.epsilon
    return document_pairs_count(sides[0], sides[1], confidence, one_sided=one_sided, epsilon=epsilon)


def _sketched_side(snapshot: Snapshot, name: str) -> SketchedSide:
    spec = snapshot.layout.by_id[name].spec
    assert isinstance(spec, JoinDistinctSpec)
    return SketchedSide(spec, snapshot.counters[name])


def _together(followed: PairCount | None, sketched: SetReading | None) -> tuple[SetReading, str]:
    """Return both readings, weighted by their variances, and what was read; they are independent."""
    if followed is None or (sketched is not None and sketched.exact):
        assert sketched is not None
        return sketched, "join-distinct"
    own = SetReading(followed.value, followed.low, followed.high, exact=False, witnesses=followed.seen)
    if sketched is None:
        return own, "sample"
    widths = own.high - own.low, sketched.high - sketched.low
    if sketched.note is not None or not widths[1] <= _MUCH_WIDER * widths[0]:
        return own, "sample"
    if not widths[0] <= _MUCH_WIDER * widths[1]:
        return sketched, "join-distinct"
    weight = widths[1] ** 2 / (widths[0] ** 2 + widths[1] ** 2)
    value = weight * own.value + (1 - weight) * sketched.value
    below, above = (
        sqrt((weight * mine) ** 2 + ((1 - weight) * theirs) ** 2)
        for mine, theirs in (
            (own.value - own.low, sketched.value - sketched.low),
            (own.high - own.value, sketched.high - sketched.value),
        )
    )
    low = max(value - below, float(followed.seen))
    reading = SetReading(value, low, value + above, exact=False, witnesses=followed.seen)
    return reading, "sample and join-distinct"
