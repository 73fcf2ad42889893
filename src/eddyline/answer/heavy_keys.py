"""Heavy keys that a sample does not follow, found in the sketches of the rest.

The candidate tables name keys, and the sketches give their frequencies. First the keys that stand out are
subtracted by medians, which large neighbors in a bucket cannot distort. Then all of these are fitted again,
together, by least squares: fitting one key at a time would give a light candidate the mass of a heavy key in its
bucket. A key is heavy if one of the fitted frequencies lies clearly above its standard error.

Paper: skimmed, SKIMDENSE. Deviation: keys that are followed are never in these sketches, so the paper's dense
frequencies are exact for followed keys, and estimated only for keys that came late.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from eddyline.answer.interval import FloatArray, half_width_of_key, of_each
from eddyline.answer.joins.quantities import single_words
from eddyline.answer.joins.skimming import Places, UInt64Array, places, without_dense_keys
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.layout import KeptSynopsis
from eddyline.sample.packing import BoolArray, IntArray
from eddyline.sketch import candidates
from eddyline.sketch.hash_sketch import HashSketchSpec

STANDARD_ERRORS = 4.5
"""From this many standard errors on a key is heavy: by chance one in 150,000 light candidates is."""
_BEYOND_CHANCE = 2 * STANDARD_ERRORS
"""From this many on a key would have stood out whatever its noise was."""
_MOST_FITTED = 0.5
"""A sketch fits at most this share of its counters as keys: with more, least squares would explain the noise."""
_STEPS = 60
_PRECISION = 1e-9


@dataclass(frozen=True)
class KeyFrequencies:
    """The frequencies of heavy keys in one sketch, with standard errors.

    chosen_from: the number of candidates among which they stood out.
    """

    values: FloatArray
    errors: FloatArray
    chosen_from: int = 1

    def only(self, chosen: BoolArray | IntArray) -> "KeyFrequencies":
        """Return some of the keys."""
        return KeyFrequencies(self.values[chosen], self.errors[chosen], self.chosen_from)

    @property
    def stand_out(self) -> BoolArray:
        """Which frequencies are clearly not 0."""
        return np.asarray(np.abs(self.values) >= STANDARD_ERRORS * self.errors)

    @property
    def _doubtful(self) -> BoolArray:
        """Which frequencies hardly stand out: as the largest of many they may be large by their noise alone."""
        return np.asarray(np.abs(self.values) < _BEYOND_CHANCE * self.errors)

    def ends(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        """Return the lower and the upper ends of intervals.

        The end towards 0 of a doubtful key allows for all candidates.
        """
        half = half_width_of_key(self.errors, confidence)
        all_candidates = half_width_of_key(self.errors, of_each(confidence, self.chosen_from))
        wide = np.where(self._doubtful, all_candidates, half)
        positive = self.values > 0.0
        return self.values - np.where(positive, wide, half), self.values + np.where(positive, half, wide)

    def sum(self, confidence: float) -> tuple[float, float, float]:
        """Return the sum of all keys with its ends; errors of doubtful keys have one sign and do not cancel."""
        lows, highs = self.ends(confidence)
        value = float(self.values.sum())
        half = sqrt(float((half_width_of_key(self.errors, confidence) ** 2).sum()))
        less = float((self.values - lows)[self._doubtful & (self.values > 0.0)].sum())
        more = float((highs - self.values)[self._doubtful & (self.values <= 0.0)].sum())
        return value, value - half - less, value + half + more


@dataclass(frozen=True)
class HeavyKeys:
    """Keys that are not followed and stand out in some sketch, ascending; frequencies: by the sketch's id."""

    keys: IntArray
    frequencies: Mapping[str, KeyFrequencies]

    def __len__(self) -> int:
        return len(self.keys)


def heavy_keys(snapshot: Snapshot, sketches: Sequence[str]) -> HeavyKeys:
    """Return the heavy keys of some sketches of unfollowed keys, all on one key or on keys of one link class."""
    ids = tuple(dict.fromkeys(sketches))
    return snapshot.memo.recall(("heavy keys", *ids), lambda: _find(snapshot, ids))


def _find(snapshot: Snapshot, ids: Sequence[str]) -> HeavyKeys:
    kept = [snapshot.layout.by_id[name] for name in ids]
    named = np.unique(np.concatenate([_named(snapshot, each) for each in kept]))
    sides = [_Side.of(snapshot, each, named) for each in kept]
    dense = np.logical_or.reduce([side.stands_out for side in sides])
    most = int(_MOST_FITTED * min(side.rows.size for side in sides))
    if np.count_nonzero(dense) > most:
        score = np.max([side.score for side in sides], axis=0)
        dense &= score >= np.partition(score, -most)[-most]
    index = np.flatnonzero(dense)
    fitted = [side.fitted(index) for side in sides]
    heavy = np.logical_or.reduce([each.stand_out for each in fitted])
    keys = named[index].view(np.int64)
    order = np.flatnonzero(heavy)[np.argsort(keys[heavy])]
    return HeavyKeys(keys[order], {name: each.only(order) for name, each in zip(ids, fitted, strict=True)})


def _named(snapshot: Snapshot, kept: KeptSynopsis) -> UInt64Array:
    assert kept.candidates is not None
    return candidates.keys(kept.candidates, snapshot.hints[kept.id])


@dataclass(frozen=True)
class _Side:
    """One sketch: its counters (depth, width) as floats, where candidates hash to, and what was subtracted."""

    rows: FloatArray
    at: Places
    taken: FloatArray
    noise: float

    @classmethod
    def of(cls, snapshot: Snapshot, kept: KeptSynopsis, named: UInt64Array) -> "_Side":
        spec, one = kept.spec, single_words(snapshot, kept)
        assert isinstance(spec, HashSketchSpec)
        rows = one.counters.astype(np.float64).reshape(spec.depth, spec.width) * one.unit
        at = places(spec, named)
        skimmed = without_dense_keys(rows, at)
        return cls(rows, at, skimmed.dense, sqrt(float((skimmed.residual**2).mean())))

    @property
    def stands_out(self) -> BoolArray:
        """Which candidates were subtracted."""
        return np.asarray(self.taken != 0.0)

    @property
    def score(self) -> FloatArray:
        """How far each candidate stands out, in noise levels."""
        return np.abs(self.taken) / (self.noise or 1.0)

    def fitted(self, index: IntArray) -> KeyFrequencies:
        """Return the least-squares frequencies of some candidates together, with their standard errors.

        The noise of all counters gives the error of a key that shares them with light keys. A key that collides
        with a heavy key outside the candidates is off in one row: its rows differ more, and give its own error.
        """
        at, (depth, cells) = self.at.subset(index), (len(self.rows), self.rows.size)
        values = _least_squares(self.rows, at, self.taken[index])
        left = self.rows - _image(values, at, self.rows.shape)
        variance = float((left**2).sum()) / max(cells - len(index), 1)
        together = sqrt(variance / depth / max(1.0 - len(index) / cells, _MOST_FITTED))
        own = (left[np.arange(depth), at.buckets] * at.signs).std(axis=1, ddof=1) / sqrt(depth)
        return KeyFrequencies(values, np.maximum(own, together), len(self.at))


def _image(values: FloatArray, at: Places, shape: tuple[int, ...]) -> FloatArray:
    """Return the counters that result from some frequencies."""
    depth, width = shape
    made = np.empty(shape)
    for row in range(depth):
        made[row] = np.bincount(at.buckets[:, row], weights=at.signs[:, row] * values, minlength=width)
    return made


def _read(rows: FloatArray, at: Places) -> FloatArray:
    """Return the sum over rows of each key's counter, with its sign."""
    row = np.arange(len(rows))
    return np.asarray((rows[row, at.buckets] * at.signs).sum(axis=1))


def _least_squares(rows: FloatArray, at: Places, start: FloatArray) -> FloatArray:
    """Return the frequencies whose image is nearest to the counters: conjugate gradients from a first guess."""
    values = start.copy()
    if len(values) == 0:
        return values
    gradient = _read(rows - _image(values, at, rows.shape), at)
    direction, power = gradient.copy(), float(gradient @ gradient)
    enough = _PRECISION**2 * float(_read(rows, at) @ _read(rows, at))
    for _ in range(_STEPS):
        if power <= enough:
            break
        image = _image(direction, at, rows.shape)
        step = power / float((image**2).sum())
        values += step * direction
        gradient -= step * _read(image, at)
        before, power = power, float(gradient @ gradient)
        direction = gradient + power / before * direction
    return values
