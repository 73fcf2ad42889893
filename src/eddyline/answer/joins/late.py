"""Joins on one link with keys that became heavy late: sketches of the rows of unfollowed keys show them.

A late key has an estimate of its rows in each relation, from the relation's sketch. What it adds to the join is added
to the answer of the sample, whose exact totals are lowered by the rows of late keys. The sample must then not count
these keys a second time: a followed key counts 1/pi because it stands for keys that are not followed. If the sketches
would have shown it as well, it stands only for itself. So the test that finds late keys is applied to followed keys,
too: to their exact rows plus what the sketch shows at the key, which is its noise. Those that pass count once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite, sqrt

import numpy as np

from eddyline.aggregates.catalog import moment_named
from eddyline.answer.heavy_keys import STANDARD_ERRORS, KeyFrequencies, heavy_keys
from eddyline.answer.interval import FloatArray, half_width_of_key
from eddyline.answer.joins.quantities import single_words
from eddyline.answer.joins.sampled import Totals, estimate_of_quantities, read_sample_join
from eddyline.answer.joins.sampled_ratios import SampleEstimate, row_differences
from eddyline.answer.joins.skimming import Places, places
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.decide.rest_sketches import sketch_of_relation
from eddyline.plan.layout import PlannedQuery
from eddyline.sample.join import DECIDING, Join, Relation, Turn
from eddyline.sample.messages import added
from eddyline.sample.packing import BoolArray, IntArray
from eddyline.sample.spec import COUNT
from eddyline.sketch.hash_sketch import HashSketchSpec

_AT_ONCE = 64
"""Late keys whose possible partners are compared at a time."""
_SKEWED = 1.25
"""The factor of the error of light partners: the largest 2.5% of Poisson numbers of mean 1 are 2.5 deviations away."""
_TINY = 1e-300


def read_late_join(
    snapshot: Snapshot, planned: PlannedQuery, join: Join, function: str, totals: Totals, confidence: float
) -> tuple[SampleEstimate, Totals, int]:
    """Return (the answer of a join with its late keys, the exact totals without them, their number)."""
    known = all(name in totals for name in join.shape.quantities)
    if not planned.rest_sketches or join.follows_all or not known:
        return read_sample_join(join, function, totals, confidence), totals, 0
    late = LateKeys.of(snapshot, planned.rest_sketches, join)
    left = late.left_of(totals)
    base = read_sample_join(late.join, function, left, confidence)
    if len(late) == 0:
        return base, left, 0
    if moment_named(function).is_sum:
        return _with_sum(base, late.added(function), confidence), left, len(late)
    return _with_average(base, late, left, confidence), left, len(late)


@dataclass(frozen=True)
class Added:
    """What each late key adds to a quantity, and the variance of that."""

    values: FloatArray
    variances: FloatArray


@dataclass(frozen=True)
class LateKeys:
    """The late keys of a join on one link, and the join in which followed keys like them count once.

    frequencies: of the late keys, and rests: the sketches without them, for each quantity one for each relation.
    """

    keys: IntArray
    join: Join
    frequencies: Mapping[str, Sequence[KeyFrequencies]]

    def __len__(self) -> int:
        return len(self.keys)

    @classmethod
    def of(cls, snapshot: Snapshot, sketches: Mapping[str, str], join: Join) -> "LateKeys":
        """Return the late keys that any of the sketches of a query shows; sketches: by `sketch_of_relation`."""
        found = heavy_keys(snapshot, list(sketches.values()))
        rests = {
            each: _Rest.of(snapshot, each, found.keys, found.frequencies[each].values)
            for each in dict.fromkeys(sketches.values())
        }
        link, size = join.shape.classes[0], len(join.values[0])
        sampled = np.flatnonzero(join.probabilities[0][:size] < 1.0)
        values, alike = join.values[0][sampled], np.zeros(len(sampled), dtype=np.bool_)
        noise = {each: rest.read(values) for each, rest in rests.items()} if len(sampled) else {}
        names = {
            name: [sketches[sketch_of_relation(name, k)] for k in range(len(quantity.nodes))]
            for name, quantity in join.shape.quantities.items()
        }
        for name, quantity in join.shape.quantities.items():
            for relation, each in zip(join.whole_relations(quantity), names[name], strict=True):
                if noise:
                    held = _held(join, relation)[sampled] + noise[each].values
                    alike |= (np.abs(held) >= STANDARD_ERRORS * noise[each].errors) & (held != 0.0)
        if alike.any():
            rosters = list(join.state.rosters)
            rosters[link] = rosters[link].with_rates(values[alike], np.ones(int(alike.sum())))
            join = Join(replace(join.state, rosters=tuple(rosters)), join.shape, join.filled)
        read = {name: [found.frequencies[each] for each in own] for name, own in names.items()}
        return cls(found.keys, join, read)

    def left_of(self, totals: Totals) -> dict[str, list[float | None]]:
        """Return the exact totals of each quantity's relations without the rows of late keys."""
        left = {name: list(known) for name, known in totals.items()}
        for name in self.frequencies:
            for relation, own in enumerate(self.rows(name)):
                exact = left[name][relation]
                if exact is not None:
                    left[name][relation] = exact - float(own.sum())
        return left

    def rows(self, quantity: str) -> list[FloatArray]:
        """Return what late keys are expected to hold in each relation."""
        return [each.own for each in self._sent(quantity)]

    def added(self, quantity: str) -> Added:
        """Return what late keys add to a quantity: the product of what the relations send.

        A key meets the same keys in the buckets of all sketches, which hash alike. If these are heavy in several
        relations, its errors there have one sign. So the relative errors are added.
        """
        mean, most = np.ones(len(self)), np.ones(len(self))
        for sent in self._sent(quantity):
            error = np.sqrt(np.maximum(sent.square - sent.mean**2, 0.0))
            mean, most = mean * sent.mean, most * (np.abs(sent.mean) + error)
        return Added(mean, (most - np.abs(mean)) ** 2)

    def _sent(self, quantity: str) -> list["_Sent"]:
        relations = self.join.whole_relations(self.join.shape.quantities[quantity])
        held = [_held(self.join, relation) for relation in relations]
        weights = 1.0 / self.join.probabilities[0][: len(self.join.values[0])] - 1.0
        found = []
        for k, relation in enumerate(relations):
            partners = np.logical_or.reduce([each != 0.0 for j, each in enumerate(held) if j != k])
            like = partners & (weights > 0.0)
            found.append(
                _Sent.of(relation.turn(0), self.frequencies[quantity][k], held[k][like], weights[like])
            )
        return found


def _held(join: Join, relation: Relation) -> FloatArray:
    """Return what a relation holds at each value of the only link."""
    held = added(relation.weights, relation.places[0], join.sizes[0])
    return np.asarray(held[: len(join.values[0])], dtype=np.float64)


@dataclass(frozen=True)
class _Sent:
    """What a relation sends to the link for each late key: its mean, its mean square, and the rows themselves.

    A key that stands out in the relation's sketch has the sketch's frequency. Another one is light there. It has the
    rows of a key that is not followed, as likely as the followed keys show and as the sketch's reading allows.
    """

    mean: FloatArray
    square: FloatArray
    own: FloatArray

    @classmethod
    def of(cls, turn: Turn, read: KeyFrequencies, held: FloatArray, weights: FloatArray) -> "_Sent":
        """Return what is sent; held: what followed keys hold there, weights: how many keys each stands for."""
        sizes, places = np.unique(held, return_inverse=True)
        shares = np.bincount(places, weights=weights, minlength=len(sizes))
        own, mean = read.values.copy(), _turned(read.values, turn)
        square = mean**2 + (0.0 if turn in DECIDING else read.errors**2)
        light = np.flatnonzero(~read.stand_out)
        if len(sizes) == 0:  # no followed key is like a late one: there is only the reading
            own[light] = np.maximum(read.values[light], 0.0)
            mean[light] = _turned(own[light], turn)
            square[light] = mean[light] ** 2 + (1.0 if turn in DECIDING else read.errors[light] ** 2)
            return cls(mean, square, own)
        sent = _turned(sizes, turn)
        for start in range(0, len(light), _AT_ONCE):
            at = light[start : start + _AT_ONCE]
            far = (read.values[at, None] - sizes) / np.maximum(read.errors[at, None], _TINY)
            chance = shares * np.exp(0.5 * (far**2).min(axis=1, keepdims=True) - 0.5 * far**2)
            chance /= chance.sum(axis=1, keepdims=True)
            mean[at], own[at] = chance @ sent, chance @ sizes
            square[at] = mean[at] ** 2 + _SKEWED**2 * np.maximum(chance @ sent**2 - mean[at] ** 2, 0.0)
        return cls(mean, square, own)


def _turned(sizes: FloatArray, turn: Turn) -> FloatArray:
    """Return what a relation sends where it holds some sizes and another relation has rows."""
    if turn is Turn.PLAIN:
        return sizes.copy()
    if turn in (Turn.OUTER, Turn.FULL):
        return np.where(sizes > 0.0, sizes, 1.0)
    return np.asarray((sizes > 0.0) == (turn is Turn.SEMI), dtype=np.float64)


@dataclass(frozen=True)
class _Rest:
    """A sketch of unfollowed rows without its heavy keys: nothing but noise for keys that are followed."""

    spec: HashSketchSpec
    rows: FloatArray
    fitted: int

    @classmethod
    def of(cls, snapshot: Snapshot, name: str, keys: IntArray, values: FloatArray) -> "_Rest":
        kept = snapshot.layout.by_id[name]
        assert isinstance(kept.spec, HashSketchSpec)
        spec, one = kept.spec, single_words(snapshot, kept)
        rows = one.counters.astype(np.float64).reshape(spec.depth, spec.width) * one.unit
        at, order = _places(spec, keys)
        for row in range(spec.depth):
            taken = at.signs[:, row] * values[order]
            rows[row] -= np.bincount(at.buckets[:, row], weights=taken, minlength=spec.width)
        return cls(spec, rows, len(keys))

    @cached_property
    def noise(self) -> float:
        """The standard error of a key, by the noise of all counters."""
        cells, depth = self.rows.size, len(self.rows)
        return sqrt(float((self.rows**2).sum()) / max(cells - self.fitted, 1) / depth)

    def read(self, keys: IntArray) -> KeyFrequencies:
        """Return what the sketch shows at some keys, with errors as those of fitted keys."""
        at, order = _places(self.spec, keys)
        each = self.rows[np.arange(len(self.rows)), at.buckets] * at.signs
        values, errors = np.empty(len(keys)), np.empty(len(keys))
        values[order] = each.mean(axis=1)
        errors[order] = np.maximum(each.std(axis=1, ddof=1) / sqrt(len(self.rows)), self.noise)
        return KeyFrequencies(values, errors, max(len(keys), 1))


def _places(spec: HashSketchSpec, keys: IntArray) -> tuple[Places, IntArray]:
    """Return (the places of distinct keys, the index of the key at each place)."""
    unsigned = np.ascontiguousarray(keys, dtype=np.int64).view(np.uint64)
    return places(spec, unsigned), np.argsort(unsigned)


# The answer with what late keys add.


def _with_sum(base: SampleEstimate, late: Added, confidence: float) -> SampleEstimate:
    """Return COUNT or SUM with late keys."""
    more, half = float(late.values.sum()), _half(float(late.variances.sum()), confidence)
    value = base.value + more
    low = value - sqrt((base.value - base.low) ** 2 + half**2)
    return replace(base, value=value, low=low, high=value + sqrt((base.high - base.value) ** 2 + half**2))


def _half(variance: float, confidence: float) -> float:
    return float(half_width_of_key(np.array([sqrt(variance)]), confidence)[0])


def _with_average(base: SampleEstimate, late: LateKeys, left: Totals, confidence: float) -> SampleEstimate:
    """Return AVG with late keys: the average of the sample's rows and of theirs, weighted by their numbers."""
    counted = late.added("count")
    rows, own = (
        estimate_of_quantities(base.quantities, "count", left, confidence),
        float(counted.values.sum()),
    )
    if not isfinite(base.value) or rows.value <= 0.0 or own <= 0.0:
        return base
    means, variances = _averages(base, late)
    mean = float(np.average(means, weights=counted.values)) if own else base.value
    spread = float((counted.values**2 * variances + counted.variances * (means - mean) ** 2).sum()) / own**2
    share = own / (own + rows.value)
    relative = float(counted.variances.sum()) / own**2
    uncertain = share * (1.0 - share) * (mean - base.value)
    half = _half(share**2 * spread + uncertain**2 * relative, confidence)
    rest = uncertain * max(rows.high - rows.value, rows.value - rows.low) / rows.value
    value = base.value + share * (mean - base.value)
    ends = (
        sqrt(((1.0 - share) * side) ** 2 + half**2 + rest**2)
        for side in (base.value - base.low, base.high - base.value)
    )
    return replace(base, value=value, low=value - next(ends), high=value + next(ends), mean=value)


def _averages(base: SampleEstimate, late: LateKeys) -> tuple[FloatArray, FloatArray]:
    """Return (the average of each late key, its variance); that of the sample where its rows do not stand out."""
    quantity = late.join.shape.quantities["sum"]
    means = np.full(len(late), base.value)
    variances = np.full(len(late), row_differences(base.quantities, base.factors or {}))
    measured = [k for k, node in enumerate(quantity.nodes) if node.exact.measure != COUNT]
    if len(measured) == 1:
        total, count = (late.frequencies[name][measured[0]] for name in ("sum", "count"))
        known: BoolArray = count.stand_out & (count.values > 0.0)
        means[known] = (total.values / np.where(known, count.values, 1.0))[known]
        errors = total.errors**2 + (means * count.errors) ** 2
        variances[known] = (errors / np.where(known, count.values, 1.0) ** 2)[known]
    return means, variances
