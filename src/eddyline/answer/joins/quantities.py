"""The quantities of a join query: the synopses of its relations, read by the query's method.

Functions of several quantities, such as AVG and variances, follow by the delta method.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import atanh, inf, isclose, isfinite, nan, sqrt, tanh
from typing import NamedTuple

import msgspec
import numpy as np

from eddyline.aggregates.catalog import moment_named
from eddyline.aggregates.moments import Moment, Quotient
from eddyline.answer.interval import FloatArray, Interval
from eddyline.answer.joins.document import SubJoins, document_side, skimmed_sub_joins, sub_joins
from eddyline.answer.joins.skimming import UInt64Array, dense_in_range
from eddyline.answer.joins.tree import SkimmedRelation, est_join_size, hash_tree, skim_relations, skimmed_tree
from eddyline.answer.joins.two_way import (
    LinkTree,
    RowEstimates,
    SketchedRelation,
    hash_join,
    in_units,
    skimmed_join,
    sum_of,
)
from eddyline.errors import PlanError
from eddyline.ingest.snapshot import Snapshot
from eddyline.kernels.doubles import as_floats
from eddyline.plan.demands import links_of
from eddyline.plan.layout import SKETCHED_LOWEST, Demand, KeptSynopsis, SketchedQuantity
from eddyline.sketch import candidates
from eddyline.sketch.agms import AgmsSpec
from eddyline.sketch.counters import Int64Array
from eddyline.sketch.dyadic import DyadicSpec
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sql.query import AnyQuery

WIDEST_SCAN = 1 << 20
"""The widest range of integer keys that is scanned for dense ones where the candidate table is empty."""
_BITS = 50


def read_quantities(
    snapshot: Snapshot, query: AnyQuery, quantities: Mapping[str, SketchedQuantity], method: str
) -> dict[str, RowEstimates]:
    """Return the readings of all quantities of a query, row by row from the same hash functions.

    A quotient of two quantities correlates their rows. So all are read at one depth, and each part at one width,
    the smallest of any of their sketches: equal rows of sketches of one query hash alike.
    """
    parts = _parts_of(snapshot, query, quantities, method)
    trees = [part for each in parts.values() for part in each if part.is_skimmed_tree]
    skimmed = dict(zip(map(id, trees), skim_relations([part.joined for part in trees]), strict=True))
    return {
        name: sum_of([part.read(skimmed.get(id(part), ())) for part in each]) for name, each in parts.items()
    }


def read_sub_joins(
    snapshot: Snapshot, query: AnyQuery, quantities: Mapping[str, SketchedQuantity], method: str
) -> dict[str, list[SubJoins]]:
    """Return the four sub-joins of each part of each quantity of a two-way join; empty for atomic sketches."""
    return {
        name: [made for part in parts if (made := part.split()) is not None]
        for name, parts in _parts_of(snapshot, query, quantities, method).items()
    }


@dataclass(frozen=True)
class TreeReading:
    """What the sketches of a join show where it has no four sub-joins: of three relations and more, and atomic ones.

    copies: atomic products of which each row is the mean; None for hash sketches. second_moments: of each relation,
    the sum of its squared frequencies. dense, left: of each relation that is skimmed, the tuples that stand out, and
    its second moment without them.
    """

    rows: RowEstimates
    copies: int | None
    second_moments: tuple[float, ...]
    dense: tuple[int, ...] = ()
    left: tuple[float, ...] = ()


def read_trees(
    snapshot: Snapshot, query: AnyQuery, quantities: Mapping[str, SketchedQuantity], method: str
) -> dict[str, list[TreeReading]]:
    """Return what each part of each quantity shows, of a join that has no four sub-joins."""
    parts = _parts_of(snapshot, query, quantities, method)
    trees = [part for each in parts.values() for part in each if part.is_skimmed_tree]
    skimmed = dict(zip(map(id, trees), skim_relations([part.joined for part in trees]), strict=True))
    return {name: [part.steps(skimmed.get(id(part), ())) for part in each] for name, each in parts.items()}


def _parts_of(
    snapshot: Snapshot, query: AnyQuery, quantities: Mapping[str, SketchedQuantity], method: str
) -> "dict[str, list[_Part]]":
    """Return the parts of each quantity, at the depth and widths at which all are read."""
    kept = {
        name: [[snapshot.layout.by_id[each] for each in part] for part in quantity.sketches]
        for name, quantity in quantities.items()
    }
    depth = min(_shape(each)[1] for parts in kept.values() for part in parts for each in part)
    widths = [
        min(_shape(each)[0] for part in together for each in part)
        for together in zip(*kept.values(), strict=True)
    ]
    return {
        name: [
            _Part(snapshot, query, relations, method, (width, depth))
            for relations, width in zip(each, widths, strict=True)
        ]
        for name, each in kept.items()
    }


def sketched_sides(
    snapshot: Snapshot, quantities: Mapping[str, SketchedQuantity]
) -> dict[str, tuple[SketchedRelation, SketchedRelation]]:
    """Return the two sides of each quantity of a two-way join, all in one shape, to be read alongside a sample."""
    by_id = snapshot.layout.by_id
    kept = {name: [by_id[each] for each in quantity.sketches[0]] for name, quantity in quantities.items()}
    shapes = [_shape(each) for relations in kept.values() for each in relations]
    shape = (min(width for width, _ in shapes), min(depth for _, depth in shapes))
    made = {name: _sides(snapshot, relations, shape, skim=True) for name, relations in kept.items()}
    return {name: (sides[0], sides[1]) for name, sides in made.items()}


@dataclass(frozen=True)
class _Part:
    """A part of a quantity: the synopses of its relations, and the shape (width, depth) at which they are read."""

    snapshot: Snapshot
    query: AnyQuery
    relations: list[KeptSynopsis]
    method: str
    shape: tuple[int, int]

    @property
    def is_skimmed_tree(self) -> bool:
        """Whether relations of a tree are skimmed separately."""
        atomic = any(isinstance(each.spec, AgmsSpec) for each in self.relations)
        return len(self.relations) > 2 and self.method != "hash" and not atomic

    @cached_property
    def joined(self) -> tuple[LinkTree, list[SketchedRelation]]:
        """The links of the relations, and their sketches."""
        links = tuple(links_of(self.query, relation) for relation in range(len(self.relations)))
        return LinkTree(links), _sides(
            self.snapshot, self.relations, self.shape, skim=self.method == "skimmed"
        )

    def read(self, skimmed: Sequence[SkimmedRelation]) -> RowEstimates:
        """Return what the synopses show, row by row; skimmed: the relations of a tree."""
        atomic = [
            (k.spec, single_words(self.snapshot, k)) for k in self.relations if isinstance(k.spec, AgmsSpec)
        ]
        if len(atomic) == len(self.relations):
            made = est_join_size([_narrowed((spec, one.counters), self.shape[0]) for spec, one in atomic])
            norms = [sqrt(float((one.counters.astype(np.float64) ** 2).mean())) for _, one in atomic]
            return made.in_units([one.unit for _, one in atomic], [one.cut_off for _, one in atomic], norms)
        if any(isinstance(each.spec, DyadicSpec) for each in self.relations):
            found, words = self.sub_joins()
            return _in_units_of(found.reading, words)
        tree, sides = self.joined
        if len(sides) == 2:
            return _two_way(sides[0], sides[1], self.method)
        return hash_tree(tree, sides) if self.method == "hash" else skimmed_tree(tree, sides, skimmed)

    def split(self) -> SubJoins | None:
        """Return the four sub-joins of two relations, in the units of their measures; None for atomic sketches."""
        if any(isinstance(each.spec, AgmsSpec) for each in self.relations):
            return None
        if any(isinstance(each.spec, DyadicSpec) for each in self.relations):
            found, words = self.sub_joins()
            return found.in_units([one.unit for one in words])
        _, sides = self.joined
        return skimmed_sub_joins(sides[0], sides[1]).in_units([side.unit for side in sides])

    def steps(self, skimmed: Sequence[SkimmedRelation]) -> TreeReading:
        """Return what the synopses show; skimmed: the relations of a tree."""
        specs = [each.spec for each in self.relations]
        copies = self.shape[0] if all(isinstance(spec, AgmsSpec) for spec in specs) else None
        moments = tuple(self_join(self.snapshot, each.id) for each in self.relations)
        if not skimmed:
            return TreeReading(self.read(skimmed), copies, moments)
        units = [side.unit for side in self.joined[1]]
        left = tuple(
            float((each.residual**2).sum(axis=1).mean()) * unit**2
            for each, unit in zip(skimmed, units, strict=True)
        )
        return TreeReading(
            self.read(skimmed), copies, moments, tuple(each.standing_out for each in skimmed), left
        )

    def sub_joins(self) -> tuple[SubJoins, list["SingleWords"]]:
        """Return the four sub-joins of two relations in their counters' units, and these.

        Paper: skimmed, ESTSKIMJOINSIZE.
        """
        words = [single_words(self.snapshot, each) for each in self.relations]
        made = [
            document_side(*_dyadic_spec(each).narrowed(one.counters, *self.shape))
            for each, one in zip(self.relations, words, strict=True)
        ]
        (left, n_left), (right, n_right) = made
        return sub_joins(left, right, (n_left, n_right)), words


def _in_units_of(reading: RowEstimates, words: Sequence["SingleWords"]) -> RowEstimates:
    """Return a reading in the units of its relations' counters, allowing for what is cut off them."""
    norms = [sqrt(float((one.counters.astype(np.float64) ** 2).sum())) for one in words]
    return reading.in_units([one.unit for one in words], [one.cut_off for one in words], norms)


def _narrowed(one: tuple[AgmsSpec, Int64Array], width: int) -> tuple[AgmsSpec, Int64Array]:
    """Return atomic sketches cut to the first copies, which hash alike."""
    spec, counters = one
    return msgspec.structs.replace(spec, width=width, number_words=1), counters[: width * spec.depth]


def _two_way(left: SketchedRelation, right: SketchedRelation, method: str) -> RowEstimates:
    if method == "hash":
        return in_units(hash_join(left.spec, left.counters, right.spec, right.counters), (left, right))
    return skimmed_join(left, right)


def _sides(
    snapshot: Snapshot, relations: list[KeptSynopsis], shape: tuple[int, int], *, skim: bool
) -> list[SketchedRelation]:
    """Return all sides in a common shape (width, depth)."""
    made: dict[str, SketchedRelation] = {}
    for each in relations:
        if each.id not in made:
            made[each.id] = _side(snapshot, each, shape, skim=skim, scan=len(relations) == 2)
    return [made[each.id] for each in relations]


def _side(
    snapshot: Snapshot, kept: KeptSynopsis, shape: tuple[int, int], *, skim: bool, scan: bool
) -> SketchedRelation:
    one = single_words(snapshot, kept)
    spec, counters = shrunk(msgspec.structs.replace(_hash_spec(kept), number_words=1), one.counters, *shape)
    if not skim or kept.candidates is None:
        return SketchedRelation(spec, counters, unit=one.unit, cut_off=one.cut_off)
    if not scan:
        named, population = candidates.tuples(kept.candidates, snapshot.hints[kept.id]), 0
    else:
        named, population = candidate_keys(kept, snapshot.hints[kept.id], spec, counters)
    return SketchedRelation(spec, counters, named, population, one.unit, one.cut_off)


class SingleWords(NamedTuple):
    """Counters of a sketch in one word each, their unit, and the most that the digits cut off them may add up to."""

    counters: Int64Array
    unit: float = 1.0
    cut_off: float = 0.0


def single_words(snapshot: Snapshot, kept: KeptSynopsis) -> SingleWords:
    """Return the counters of a sketch; those of several words in a unit at which one word is precise enough."""
    counters = snapshot.counters[kept.id]
    if kept.number_words == 1:
        return SingleWords(counters)
    made, unit = as_whole_numbers(as_floats(counters.reshape(kept.number_words, -1), SKETCHED_LOWEST))
    rows = next(k.id for k in snapshot.layout.kept if k.demand == Demand(kept.stream, "total"))
    rounded = rounded_norm(unit, 1 if isinstance(kept.spec, AgmsSpec) else _shape(kept)[0])
    return SingleWords(made, unit, 2.0**SKETCHED_LOWEST * abs(snapshot.total(rows)) + rounded)


def as_whole_numbers(values: FloatArray) -> tuple[Int64Array, float]:
    """Return (numbers as integers in a unit so small that little precision is lost, the unit)."""
    largest = float(np.abs(values).max(initial=0.0))
    unit = 2.0 ** (np.ceil(np.log2(largest)) - _BITS) if largest > 0.0 else 1.0
    return np.rint(values / unit).astype(np.int64), float(unit)


def rounded_norm(unit: float, width: int) -> float:
    """Return by how much at most rounding to whole units moves a row of counters, as the norm of all its errors."""
    return unit / 2 * sqrt(width)


def candidate_keys(
    kept: KeptSynopsis, hints: Int64Array, spec: HashSketchSpec, counters: Int64Array
) -> tuple[UInt64Array, int]:
    """Return (keys that may be dense, size of the range that was scanned for them or 0)."""
    assert kept.candidates is not None
    named = candidates.keys(kept.candidates, hints)
    bounds = candidates.key_range(kept.candidates, hints)
    if len(named) or bounds is None or bounds[1] - bounds[0] >= WIDEST_SCAN:
        return named, 0
    low, high = bounds
    return dense_in_range(spec, counters, low, high), high - low + 1


def shrunk(
    spec: HashSketchSpec, counters: Int64Array, width: int, depth: int
) -> tuple[HashSketchSpec, Int64Array]:
    """Return the sketch at a smaller width and depth: folded, and its first rows."""
    if depth < spec.depth:
        spec, counters = msgspec.structs.replace(spec, depth=depth), counters[: depth * spec.width]
    while spec.width > width:
        spec, counters = spec.folded(), spec.fold(counters)
    return spec, counters


def self_join(snapshot: Snapshot, name: str) -> float:
    """Return the sum of squared frequencies: the mean over rows (or copies) of what a sketch holds, squared."""
    spec = snapshot.layout.by_id[name].spec
    assert isinstance(spec, HashSketchSpec | AgmsSpec | DyadicSpec)
    one = single_words(snapshot, snapshot.layout.by_id[name])
    if isinstance(spec, DyadicSpec):
        leaves = one.counters[: spec.depth * spec.width].astype(np.float64) * one.unit
        return float((leaves**2).sum()) / spec.depth
    squares = float(((one.counters * one.unit) ** 2).sum()) / spec.depth
    return squares / spec.width if isinstance(spec, AgmsSpec) else squares


def _shape(kept: KeptSynopsis) -> tuple[int, int]:
    """Return (width, depth) of a sketch."""
    assert isinstance(kept.spec, HashSketchSpec | AgmsSpec | DyadicSpec)
    return kept.spec.width, kept.spec.depth


def _dyadic_spec(kept: KeptSynopsis) -> DyadicSpec:
    assert isinstance(kept.spec, DyadicSpec)
    return kept.spec


def _hash_spec(kept: KeptSynopsis) -> HashSketchSpec:
    if not isinstance(kept.spec, HashSketchSpec):
        raise PlanError(
            f"synopsis {kept.id!r} is not a hash sketch: ask the query by the method it was planned with."
        )
    return kept.spec


# AVG = SUM / COUNT, and the variance.


_EPSILON = 4 * 2.0**-52


def ratio(sum_reading: RowEstimates, count_reading: RowEstimates, confidence: float) -> Interval:
    """Return the interval of the quotient of two readings that share their hash functions.

    With R the quotient, S_p - R C_p is of mean zero in every row, and its standard error over C is that
    of R. The ends are infinite where the interval of the denominator contains zero.
    """
    count = count_reading.value
    value = sum_reading.value / count if count else nan
    if abs(count) <= count_reading.half_width(confidence):
        exact = sum_reading.half_width(confidence) == 0 == count_reading.half_width(confidence)
        return Interval(nan, nan, nan) if exact else Interval(value, -inf, inf)
    half = combination([sum_reading, count_reading], [1.0, -value]).half_width(confidence) / abs(count)
    return Interval.around(value, half)


def quotient_of(moment: Quotient, readings: Mapping[str, RowEstimates], confidence: float) -> Interval:
    """Return the interval of an aggregate of the population: a combination of sums, divided by the count.

    The combination may include means, but does not change with them to first order: the sum of (x - m)^2 is squares
    - 2 m sums + m^2 counts. So its error is that of the combination of readings at the estimated means.
    """
    first, counts = next(iter(moment.sums)), readings["count"]
    if moment.degree == 1 or abs(counts.value) <= counts.half_width(confidence):
        return ratio(readings[first], counts, confidence)
    numerator = moment.numerator({name: reading.value for name, reading in readings.items()})
    parts, factors = [readings[name] for name in numerator], list(numerator.values())
    combined = combination(parts, factors)
    cancelled = _EPSILON * sum(abs(f * part.value) for part, f in zip(parts, factors, strict=True))
    combined = replace(combined, rounding=combined.rounding + cancelled)
    value, low, high = ratio(combined, counts, confidence)
    return Interval(max(value, moment.least), max(low, moment.least), high)


def combination(readings: Sequence[RowEstimates], factors: Sequence[float]) -> RowEstimates:
    """Return the sum of readings that share their hash functions, each times its factor.

    The expected row variance uses the correlations measured over the rows. Each is moved by one standard error (on
    Fisher's scale) to the side that makes the variance larger, so that a few rows which happen to agree do not
    imply an exact difference.
    """
    wide = [factor * sqrt(reading.row_variance) for reading, factor in zip(readings, factors, strict=True)]
    variance = sum(each * each for each in wide)
    for (i, one), (j, other) in combinations(enumerate(readings), 2):
        product = wide[i] * wide[j]
        variance += 2 * product * _cautious_correlation(one, other, rising=product > 0)
    return RowEstimates(
        rows=np.sum([f * r.rows for r, f in zip(readings, factors, strict=True)], axis=0),
        row_variance=max(variance, 0.0),
        center=readings[0].center,
        rounding=sum(abs(f) * r.rounding for r, f in zip(readings, factors, strict=True)),
    )


def _cautious_correlation(one: RowEstimates, other: RowEstimates, *, rising: bool) -> float:
    """Return the correlation of the rows of two readings, moved by one standard error: up if it adds to a variance."""
    depth = len(one.rows)
    if depth < 4 or isclose(one.rows.std(), 0.0) or isclose(other.rows.std(), 0.0):
        return 1.0 if rising else 0.0
    measured = float(np.clip(np.corrcoef(one.rows, other.rows)[0, 1], -0.9999, 0.9999))
    shift = 1 / sqrt(depth - 3)
    return tanh(atanh(measured) + shift) if rising else tanh(atanh(measured) - shift)


# Aggregates over a join from the readings of its sketches.


def sketched_aggregate(function: str, readings: Mapping[str, RowEstimates], confidence: float) -> Interval:
    """Return an aggregate, by name, from the readings of its quantities, in the units of the answer."""
    moment = moment_named(function)
    if moment.is_sum:
        return Interval.around(readings[function].value, readings[function].half_width(confidence))
    if not isinstance(moment, Quotient):
        raise PlanError(f"{moment.written} over a join is not supported by sketches alone.")
    found = quotient_of(moment, readings, confidence)
    return _from_population(moment, found, readings["count"].value) if moment.is_spread else found


def _from_population(moment: Moment, spread: Interval, count: float) -> Interval:
    """Return a variance or a standard deviation from the population variance of the rows."""
    scale = count / (count - 1) if moment.fewest > 1 and count > 1 else 1.0
    ends = [max(end, 0.0) * scale if isfinite(end) else end for end in spread]
    if moment.is_root:
        ends = [sqrt(end) if isfinite(end) and end > 0 else end for end in ends]
    return Interval(ends[0], max(ends[1], 0.0) if ends[1] == -inf else ends[1], ends[2])
