"""Distinct counts over a join of two exact dictionaries, by joining what is distinct on either side."""

import numpy as np

from eddyline.plan.decide.facets import flags_of
from eddyline.plan.layout import Demand, PlannedSample
from eddyline.sample.dictionary import Dictionary
from eddyline.sample.sorting import BoolArray, IntArray
from eddyline.sample.state import SampleState
from eddyline.sql.query import JoinDistinctQuery, Key

MOST_PAIRS = 20_000_000
"""Joined pairs that are counted one by one; beyond, an estimate is quicker."""


def count_pairs(planned: PlannedSample, state: SampleState, query: JoinDistinctQuery) -> int | None:
    """Return how many different values a join projects, None where too many pairs meet to count them."""
    sides = (
        (query.relations[0].stream, query.relations[0].predicates, query.left, query.join.left_key),
        (query.relations[1].stream, query.relations[1].predicates, query.right, query.join.right_key),
    )
    (left, left_key), (right, right_key) = (_side(planned, state, *side) for side in sides)
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


def _side(
    planned: PlannedSample,
    state: SampleState,
    stream: str,
    predicates: tuple[str, ...],
    projected: Key,
    joined: Key,
) -> tuple[IntArray, IntArray]:
    """Return the distinct (projected value, join value) of one side, whose net count is above 0."""
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
