"""Differences of nearly equal streams, read from the difference of their sketches.

Sketches are linear, so A - B is the sketch of the elements whose net counts differ. Where elements of both
streams have equal counts, only those of one stream remain, and a positive count says which stream it was:
far fewer elements, hence a far sharper reading (|A EXCEPT B| at 1/128 of the union: 19% -> 2.6%).

Elements of both streams with different counts would be counted too. The cells show how many there can be:
if any cell with one such element is seen, this reading is not used; if none is, the lower end of the interval
makes room for as many as may have gone unseen.
"""

import numpy as np

from eddyline.answer import notes
from eddyline.answer.interval import most_unseen, of_relative_error
from eddyline.answer.sets.likelihood import Fit, Observation, fit, observe
from eddyline.answer.sets.reading import SetReading
from eddyline.answer.sets.streams import Streams
from eddyline.sketch.counters import Int64Array
from eddyline.sketch.distinct import DistinctSpec

_NEARLY_EQUAL = 1 / 8  # only where so small a share of the union differs is it worth the assumption
_EVIDENCE = 100  # elements seen in both streams, all with equal counts
_SIGNS = {(False, True, False, False): 1, (False, False, True, False): -1, (False, True, True, False): 0}


def difference_reading(
    streams: Streams, seen: Observation, fitted: Fit, confidence: float
) -> SetReading | None:
    """Return the reading of A EXCEPT B, B EXCEPT A or their union by subtraction, or None where it would
    not be sharper or is not known to hold.
    """  # noqa: D205
    if streams.wanted not in _SIGNS:
        return None
    spec, (left, right) = streams.spec, streams.counters
    equal, different = _common(spec, left, right)
    union = float(fitted.numbers.sum())
    if different or equal < _EVIDENCE or fitted.numbers[1:3].sum() > _NEARLY_EQUAL * union:
        return None
    reading = _signed_count(spec, spec.subtract(left, right), _SIGNS[streams.wanted], confidence)
    unseen = most_unseen(union, equal, confidence)
    certain = float(seen.witnesses[np.array(streams.wanted)].sum())
    low = max(certain, reading.low - unseen, 0.0)
    return SetReading(
        reading.value,
        min(low, reading.value),
        reading.high,
        exact=False,
        witnesses=reading.witnesses,
        note=notes.from_difference(equal),
    )


def _common(spec: DistinctSpec, left: Int64Array, right: Int64Array) -> tuple[int, int]:
    """Return how many cells show one element of both streams with equal counts, and with different ones."""
    a, b = spec.cells_of(left), spec.cells_of(right)
    both = (a.fingerprints >= 0) & (a.fingerprints == b.fingerprints)
    equal = both & (a.counts == b.counts)
    return int(equal.sum()), int(both.sum() - equal.sum())


def _signed_count(spec: DistinctSpec, words: Int64Array, sign: int, confidence: float) -> SetReading:
    """Return how many elements have a positive (sign 1), a negative (-1) or any (0) net count."""
    elements = spec.decode(words)
    if elements is not None:
        number = int((elements.counts * sign > 0).sum() if sign else len(elements.counts))
        return SetReading(float(number), float(number), float(number), exact=True, witnesses=number)
    fitted = fit(observe(spec, (words,)))
    counts = spec.cells_of(words).counts
    singletons = int((counts != 0).sum())
    witnesses = int((counts * sign > 0).sum()) if sign else singletons
    share, total = witnesses / singletons, float(fitted.numbers.sum())
    if witnesses == 0:
        high = most_unseen(total, singletons, confidence)
        return SetReading(0.0, 0.0, high, exact=False, witnesses=0)
    variance = max(fitted.relative_variance((False, True)) - 1 / total, 0.0) + (1 - share) / witnesses
    value, low, high = of_relative_error(total * share, variance, confidence)
    return SetReading(value, low, high, exact=False, witnesses=witnesses, note=notes.few_witnesses(witnesses))
