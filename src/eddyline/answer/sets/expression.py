"""Set expressions: how many distinct elements they hold, from distinct sketches, with an interval."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import ceil, floor, hypot, inf

import numpy as np

from eddyline.answer import notes
from eddyline.answer.estimate import Estimate
from eddyline.answer.interval import most_unseen, of_relative_error
from eddyline.answer.sets.likelihood import Fit, Observation, fit, observed_cells
from eddyline.errors import SketchError
from eddyline.plan.size.specs import two_sided_z
from eddyline.sketch.counters import Int64Array
from eddyline.sketch.distinct import DecodedElements, DistinctSpec, at_common_size

# Set expressions as values: members of streams under UNION, INTERSECT and EXCEPT, nested in any way.
#
# `holds` is the document's Boolean condition B(E) on which of the streams hold an element: union becomes
# "or", intersection "and", difference "and not". Paper: set expressions, paragraphs 0059-0063.


@dataclass(frozen=True)
class StreamLeaf:
    """The elements of the stream with this index."""

    stream: int


@dataclass(frozen=True)
class Union:
    """The elements of either side."""

    left: "Condition"
    right: "Condition"


@dataclass(frozen=True)
class Intersect:
    """The elements of both sides."""

    left: "Condition"
    right: "Condition"


@dataclass(frozen=True)
class Except:
    """The elements of the left side that are not in the right one."""

    left: "Condition"
    right: "Condition"


Condition = StreamLeaf | Union | Intersect | Except


def occurrences(condition: Condition) -> tuple[int, ...]:
    """Return the index of the stream of each member, from left to right."""
    if isinstance(condition, StreamLeaf):
        return (condition.stream,)
    return occurrences(condition.left) + occurrences(condition.right)


def streams_of(condition: Condition) -> tuple[int, ...]:
    """Return the indices of all streams in the expression, ascending, each once."""
    return tuple(sorted(set(occurrences(condition))))


def holds(condition: Condition, present: frozenset[int]) -> bool:
    """Return whether an element that is in exactly the streams `present` is in the expression: B(E).

    >>> holds(Except(Union(StreamLeaf(0), StreamLeaf(1)), StreamLeaf(2)), frozenset({1}))
    True
    """
    match condition:
        case StreamLeaf(stream):
            return stream in present
        case Union(left, right):
            return holds(left, present) or holds(right, present)
        case Intersect(left, right):
            return holds(left, present) and holds(right, present)
        case Except(left, right):
            return holds(left, present) and not holds(right, present)


def renamed(condition: Condition, names: dict[int, int]) -> Condition:
    """Return the expression with every stream index replaced by its new name."""
    if isinstance(condition, StreamLeaf):
        return StreamLeaf(names[condition.stream])
    return type(condition)(renamed(condition.left, names), renamed(condition.right, names))


def truth_table(condition: Condition, streams: tuple[int, ...]) -> tuple[bool, ...]:
    """Return B(E) for every subset of the streams: entry `mask` has streams[j] present where bit j is set."""
    subsets = (
        frozenset(stream for j, stream in enumerate(streams) if mask >> j & 1)
        for mask in range(1 << len(streams))
    )
    return tuple(holds(condition, subset) for subset in subsets)


def only_unions(condition: Condition) -> bool:
    """Return whether the expression is made of unions alone, so that adding its sketches gives its own."""
    if isinstance(condition, StreamLeaf):
        return True
    return isinstance(condition, Union) and only_unions(condition.left) and only_unions(condition.right)


def without_streams(condition: Condition, empty: frozenset[int]) -> Condition | None:
    """Return the expression where the streams `empty` hold nothing, or None where it then holds nothing."""
    if isinstance(condition, StreamLeaf):
        return None if condition.stream in empty else condition
    left, right = without_streams(condition.left, empty), without_streams(condition.right, empty)
    if left is None:
        return right if isinstance(condition, Union) else None
    if right is None:
        return None if isinstance(condition, Intersect) else left
    return type(condition)(left, right)


# What is known of the cardinality of a set expression.


@dataclass(frozen=True)
class SetReading:
    """A cardinality with its interval; `witnesses` are sampled elements seen to be in the expression."""

    value: float
    low: float
    high: float
    exact: bool
    witnesses: int
    note: str | None = None

    def estimate(self, query: str, confidence: float, method: str, about: Sequence[str]) -> Estimate:
        """Return this reading as the estimate of a query, in whole numbers."""
        about = (*about, self.note) if self.note else tuple(about)
        high = ceil(self.high) if self.high < inf else inf
        value, low = round(self.value), floor(self.low)
        method = "exact" if self.exact else method
        return Estimate(query, value, low, high, confidence, method, exact=self.exact, notes=about)


# The streams of one set expression, prepared for a joint reading.
#
# All are brought to one size. Two synopses with equal counters are one stream, a stream without elements is
# dropped, and sub-expressions that are plain unions can become one stream by adding their sketches.


_TABULATED = 10  # streams up to which all classes of elements are tried for a contradiction


@dataclass(frozen=True)
class Streams:
    """Non-empty streams of one size, and an expression whose members are 0 .. len(counters) - 1."""

    spec: DistinctSpec
    counters: tuple[Int64Array, ...]
    condition: Condition

    @property
    def wanted(self) -> tuple[bool, ...]:
        """For every mask of streams: whether an element in exactly these streams is in the expression."""
        return truth_table(self.condition, tuple(range(len(self.counters))))

    def union(self) -> Int64Array:
        """Return the counters of the union of all streams."""
        return reduce(self.spec.add, self.counters)


def gather(
    condition: Condition, specs: tuple[DistinctSpec, ...], counters: tuple[Int64Array, ...]
) -> Streams | None:
    """Return the streams of an expression, or None where it can hold nothing."""
    used = streams_of(condition)
    if len(specs) != len(counters) or used[-1] >= len(specs) or used[0] < 0:
        raise SketchError(
            f"this expression names the streams {list(used)}, and {len(specs)} specs with {len(counters)} "
            "arrays of counters were given."
        )
    spec, words = at_common_size([specs[i] for i in used], [counters[i] for i in used])
    own = dict(zip(used, words, strict=True))
    first = {i: next(j for j in used if np.array_equal(own[j], own[i])) for i in used}
    alive = without_streams(renamed(condition, first), frozenset(i for i in used if not own[i].any()))
    if alive is None:
        return None
    kept = streams_of(alive)
    names = {stream: index for index, stream in enumerate(kept)}
    streams = Streams(spec, tuple(own[stream] for stream in kept), renamed(alive, names))
    possible = len(kept) > _TABULATED or any(streams.wanted)
    return streams if possible else None


def with_unions_merged(streams: Streams) -> Streams:
    """Return the streams with each plain union, of streams that occur nowhere else, added into one."""
    uses = Counter(occurrences(streams.condition))
    merged: list[Int64Array] = []
    names: dict[int, int] = {}

    def merge(condition: Condition) -> Condition:
        own = Counter(occurrences(condition))
        if isinstance(condition, StreamLeaf):
            parts: tuple[int, ...] = (condition.stream,)
        elif only_unions(condition) and all(uses[stream] == own[stream] for stream in own):
            parts = tuple(own)
        else:
            return type(condition)(merge(condition.left), merge(condition.right))
        if parts[0] not in names:
            names[parts[0]] = len(merged)
            merged.append(reduce(streams.spec.add, [streams.counters[stream] for stream in parts]))
        return StreamLeaf(names[parts[0]])

    condition = merge(streams.condition)
    return Streams(streams.spec, tuple(merged), condition)


# Differences of nearly equal streams, read from the difference of their sketches.
#
# Sketches are linear, so A - B is the sketch of the elements whose net counts differ. Where elements of both
# streams have equal counts, only those of one stream remain, and the sign of the count shows which stream it was:
# far fewer elements, hence a far sharper reading (|A EXCEPT B| at 1/128 of the union: 19% -> 2.6%).
#
# Elements of both streams with different counts would be counted too. The cells show how many there can be. If any
# cell with one such element is seen, this reading is not used; otherwise the lower end of the interval allows for
# as many as may be unseen.


_NEARLY_EQUAL = 1 / 8  # the assumption pays only where at most this share of the union differs
_EVIDENCE = 100  # elements seen in both streams, all with equal counts
_SIGNS = {(False, True, False, False): 1, (False, False, True, False): -1, (False, True, True, False): 0}


def difference_reading(
    streams: Streams, seen: Observation, fitted: Fit, confidence: float
) -> SetReading | None:
    """Return the reading of A EXCEPT B, B EXCEPT A or their union by subtraction.

    None where it would not be sharper or is not known to hold.
    """
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
    fitted = fit(observed_cells(spec, (words,)))
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


# How many distinct elements a set expression over streams holds, with an interval.
#
# - Every stream decodes: exact, by evaluating B(E) on the elements.
# - A EXCEPT B of nearly equal A and B: from the difference of the sketches.
# - Up to JOINT_STREAMS streams: joint maximum likelihood (`likelihood`).
# - More streams: the union, times the share of its witnesses.
#
# Paper: set expressions, paragraphs 0058-0064 (the general estimator).


JOINT_STREAMS = 5


def distinct_count(spec: DistinctSpec, counters: Int64Array, confidence: float = 0.95) -> SetReading:
    """Return the number of distinct elements of one stream."""
    return set_cardinality(StreamLeaf(0), (spec,), (counters,), confidence)


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


@dataclass(frozen=True)
class SeenCells:
    """What the cells of an expression's sketches show: levels and cells, elements that they name, and the union.

    known: elements whose streams are known; witnesses: those of them in the expression. None: all are decoded.
    """

    streams: int
    levels: int
    cells: int
    known: int
    witnesses: int
    union: float | None = None


def seen_in_cells(
    expression: Condition, specs: tuple[DistinctSpec, ...], counters: tuple[Int64Array, ...]
) -> SeenCells | None:
    """Return what `set_cardinality` reads; None where the expression can hold nothing."""
    streams = gather(expression, specs, counters)
    if streams is None:
        return None
    spec, number = streams.spec, len(streams.counters)
    decoded = [spec.decode(words) for words in streams.counters]
    known = [elements for elements in decoded if elements is not None]
    if len(known) == len(decoded):
        union = len(np.unique(np.concatenate([elements.codes for elements in known])))
        return SeenCells(number, spec.levels, spec.cells, union, _exact(streams.condition, known).witnesses)
    if only_unions(streams.condition) or number > JOINT_STREAMS:
        streams = with_unions_merged(streams)
    if len(streams.counters) > JOINT_STREAMS:
        reading, seen = _from_witnesses(streams, 0.95), observed_cells(spec, (streams.union(),))
        known_there = int(seen.singletons.sum())
        return SeenCells(
            number, spec.levels, spec.cells, known_there, reading.witnesses, float(fit(seen).numbers.sum())
        )
    seen = observed_cells(spec, streams.counters)
    inside = int(seen.witnesses[np.array(streams.wanted)].sum())
    whole = float(fit(seen).numbers.sum())
    return SeenCells(number, spec.levels, spec.cells, int(seen.witnesses.sum()), inside, whole)


def _exact(condition: Condition, streams: list[DecodedElements]) -> SetReading:
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
    seen = observed_cells(streams.spec, streams.counters)
    fitted = fit(seen)
    difference = difference_reading(streams, seen, fitted, confidence)
    return difference or _likelihood_reading(seen, fitted, streams.wanted, most, confidence)


def _likelihood_reading(
    seen: Observation, fitted: Fit, wanted: tuple[bool, ...], most: float, confidence: float
) -> SetReading:
    """Return value and interval of the fitted class numbers, whose sum is known to be at most `most`.

    Classes without any seen element may hold as many elements as cost z^2/2 of log likelihood: those of the
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


def _most(streams: Streams, decoded: list[DecodedElements | None]) -> float:
    """Return how many elements the expression can hold at most, as far as decoded streams contain it."""
    sizes = [float("inf")]
    for j, elements in enumerate(decoded):
        inside = all(mask >> j & 1 for mask, wanted in enumerate(streams.wanted) if wanted)
        if elements is not None and inside:
            sizes.append(float(len(elements.codes)))
    return min(sizes)


def _from_witnesses(streams: Streams, confidence: float) -> SetReading:
    """Return the union's cardinality times the share of its singletons that satisfy B(E).

    Deviation from the document: it uses singletons of all levels, the document those of one.
    """
    total = streams.union()
    seen = observed_cells(streams.spec, (total,))
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
