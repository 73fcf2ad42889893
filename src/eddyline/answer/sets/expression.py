"""How many distinct elements a set expression over streams holds, with an interval.

    every stream decodes                         -> exact, by evaluating B(E) on the elements
    A EXCEPT B of nearly equal A and B           -> from the difference of the sketches (`difference`)
    up to JOINT_STREAMS streams                  -> joint maximum likelihood (`likelihood`)
    more                                         -> the union, times the share of its witnesses

Paper: set expressions, paragraphs 0058-0064 (the general estimator).
"""

from math import hypot

import numpy as np

from eddyline.answer import notes
from eddyline.answer.interval import most_unseen, of_relative_error, two_sided_z
from eddyline.answer.sets.condition import Condition, Member, holds, only_unions
from eddyline.answer.sets.difference import difference_reading
from eddyline.answer.sets.likelihood import Fit, Observation, fit, observe
from eddyline.answer.sets.reading import SetReading
from eddyline.answer.sets.streams import Streams, gather, with_unions_merged
from eddyline.errors import SketchError
from eddyline.sketch.counters import Int64Array
from eddyline.sketch.distinct import DistinctSpec, Elements

JOINT_STREAMS = 5


def distinct_count(spec: DistinctSpec, counters: Int64Array, confidence: float = 0.95) -> SetReading:
    """Return the number of distinct elements of one stream."""
    return set_cardinality(Member(0), (spec,), (counters,), confidence)


def set_cardinality(
    expression: Condition,
    specs: tuple[DistinctSpec, ...],
    counters: tuple[Int64Array, ...],
    confidence: float = 0.95,
) -> SetReading:
    """Return the number of distinct elements of the expression; Member(i) is the stream of counters[i].

    Raises SketchError where the streams hold more elements than the sketches can count.
    """
    if not 0 < confidence < 1:
        raise SketchError(f"a confidence lies between 0 and 1, not {confidence}.")
    streams = gather(expression, tuple(specs), tuple(counters))
    if streams is None:
        return SetReading(0.0, 0.0, 0.0, exact=True, witnesses=0)
    decoded = [streams.spec.decode(words) for words in streams.counters]
    known = [elements for elements in decoded if elements is not None]
    if len(known) == len(decoded):
        return _exact(streams.condition, known)
    if only_unions(streams.condition) or len(streams.counters) > JOINT_STREAMS:
        streams, decoded = with_unions_merged(streams), []
    if len(streams.counters) > JOINT_STREAMS:
        return _from_witnesses(streams, confidence)
    return _joint(streams, _most(streams, decoded), confidence)


def _exact(condition: Condition, streams: list[Elements]) -> SetReading:
    """Return the exact answer from all elements of all streams."""
    identities = [own.identities for own in streams if own.identities is not None]
    names = identities if len(identities) == len(streams) else [own.codes for own in streams]
    bits = np.concatenate([np.full(len(own.codes), 1 << j, dtype=object) for j, own in enumerate(streams)])
    unique, inverse = np.unique(np.concatenate(names), return_inverse=True)
    masks = np.zeros(len(unique), dtype=object)
    np.add.at(masks, inverse, bits)
    number = sum(_mask_holds(condition, int(mask)) for mask in masks)
    negative = sum(int((own.counts < 0).sum()) for own in streams if own.identities is not None)
    note = notes.negative_elements(negative) if negative else None
    return SetReading(float(number), float(number), float(number), exact=True, witnesses=number, note=note)


def _mask_holds(condition: Condition, mask: int) -> bool:
    return holds(condition, frozenset(j for j in range(mask.bit_length()) if mask >> j & 1))


def _joint(streams: Streams, most: float, confidence: float) -> SetReading:
    """Return the answer by joint maximum likelihood, or by difference where that is sharper."""
    seen = observe(streams.spec, streams.counters)
    fitted = fit(seen)
    difference = difference_reading(streams, seen, fitted, confidence)
    return difference or _likelihood_reading(seen, fitted, streams.wanted, most, confidence)


def _likelihood_reading(
    seen: Observation, fitted: Fit, wanted: tuple[bool, ...], most: float, confidence: float
) -> SetReading:
    """Return value and interval of the fitted class numbers, which are known to be `most` together.

    Classes of which nothing is seen may hold as many elements as cost z^2/2 of log likelihood: those of the
    expression raise the upper end, the others lower the lower end.
    """
    inside, z = np.array(wanted), two_sided_z(confidence)
    witnesses, value = int(seen.witnesses[inside].sum()), fitted.total(wanted)
    variance = max(fitted.relative_variance(wanted) - 1 / value, 0.0)
    _, low, high = of_relative_error(value, variance, confidence)
    unseen = 0.5 * z**2 * fitted.unseen
    low = value - hypot(value - low, *unseen[~inside])
    high = value + hypot(high - value, *unseen[inside])
    if witnesses == 0:
        union, singletons = float(fitted.numbers.sum()), float(seen.singletons.sum())
        low, high = 0.0, max(high, most_unseen(union, singletons, confidence))
    low, value = max(low, float(witnesses)), max(value, float(witnesses))
    high = max(min(high, most), float(witnesses))
    value = min(value, high)
    return SetReading(
        value, min(low, value), high, exact=False, witnesses=witnesses, note=notes.few_witnesses(witnesses)
    )


def _most(streams: Streams, decoded: list[Elements | None]) -> float:
    """Return how many elements the expression can hold at most, as far as decoded streams contain it."""
    sizes = [float("inf")]
    for j, elements in enumerate(decoded):
        inside = all(mask >> j & 1 for mask, wanted in enumerate(streams.wanted) if wanted)
        if elements is not None and inside:
            sizes.append(float(len(elements.codes)))
    return min(sizes)


def _from_witnesses(streams: Streams, confidence: float) -> SetReading:
    """Return the union's cardinality times the share of its singletons that satisfy B(E).

    Deviation from the document: singletons of all levels, where it takes those of one.
    """
    total = streams.union()
    seen = observe(streams.spec, (total,))
    fitted = fit(seen)
    single = streams.spec.cells_of(total).kinds.reshape(-1) == 1
    present = [words[: len(single)][single] != 0 for words in streams.counters]
    masks = sum(here.astype(object) << j for j, here in enumerate(present))
    witnesses = sum(_mask_holds(streams.condition, int(mask)) for mask in np.atleast_1d(masks))
    number, union = int(single.sum()), float(fitted.numbers.sum())
    share = witnesses / max(number, 1)
    value, spread = union * share, fitted.relative_variance((False, True)) - 1 / union
    if witnesses == 0:
        high = most_unseen(union, number, confidence)
        return SetReading(0.0, 0.0, high, exact=False, witnesses=0, note=notes.few_witnesses(0))
    variance = max(spread, 0.0) + (1 - share) / witnesses
    _, low, high = of_relative_error(value, variance, confidence)
    return SetReading(
        value,
        max(low, float(witnesses)),
        high,
        exact=False,
        witnesses=witnesses,
        note=notes.few_witnesses(witnesses),
    )
