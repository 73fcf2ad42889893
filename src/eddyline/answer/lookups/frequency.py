"""Point frequencies and heavy hitters of one sketched stream, with intervals.

The estimate of a key is what is left at its place when all other dense values have been taken off.
Paper: skimmed, SKIMDENSE lines 4-5, the median over rows. Deviation: read off the residual.
"""

from dataclasses import dataclass

import numpy as np

from eddyline.answer.interval import FloatArray, half_width_of_frequency, of_each
from eddyline.answer.joins.skimming import UInt64Array, places, point_estimates, skim_dense
from eddyline.kernels.skimming import noise_level
from eddyline.sketch.counters import Int64Array
from eddyline.sketch.hash_sketch import HashSketchSpec


@dataclass(frozen=True)
class Frequencies:
    """Keys with their estimated frequencies and the half-widths of their intervals."""

    keys: UInt64Array
    values: FloatArray
    half_widths: FloatArray


def frequencies(
    spec: HashSketchSpec,
    counters: Int64Array,
    keys: UInt64Array,
    candidates: UInt64Array | None = None,
    confidence: float = 0.95,
) -> Frequencies:
    """Return the frequencies of the keys, in their order; candidates are keys that may be dense."""
    known = keys if candidates is None else np.concatenate([keys, candidates])
    at = places(spec, known)
    skimmed = skim_dense(spec.rows(counters).astype(np.float64), at)
    estimates = skimmed.dense + point_estimates(skimmed.residual, at)
    half = half_width_of_frequency(noise_level(skimmed.residual, -1), confidence)
    values = estimates[np.searchsorted(at.keys, keys)]
    return Frequencies(keys, values, np.full(len(keys), half))


def frequent(
    spec: HashSketchSpec,
    counters: Int64Array,
    candidates: UInt64Array,
    *,
    threshold: float | None = None,
    top: int | None = None,
    confidence: float = 0.95,
    compared: int = 1,
) -> Frequencies:
    """Return the most frequent candidates in descending order: those from a threshold on, or the top few.

    Without either, those whose interval lies above zero. compared: out of how many keys these were found. The largest
    of many estimates is large by its noise, so that the intervals are wide enough to hold for all keys together.
    """
    among = of_each(confidence, max(compared, len(candidates)))
    found = frequencies(spec, counters, np.unique(candidates), None, among)
    if threshold is not None:
        kept = np.nonzero(found.values >= threshold)[0]
    elif top is not None:
        kept = np.arange(len(found.keys))
    else:
        kept = np.nonzero(found.values > found.half_widths)[0]
    order = kept[np.argsort(-found.values[kept], kind="stable")][:top]
    return Frequencies(found.keys[order], found.values[order], found.half_widths[order])
