"""Orders in which the keys of a stream arrive. Which keys a sample follows, and how well, depends on them.

Imports NumPy only, so that scripts outside the tests can draw the same streams.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Draw = Callable[[int], np.ndarray]
"""Draws n keys, each independent of the others."""


@dataclass(frozen=True)
class Arrival:
    """The changes of a stream in the order of time.

    keys: the key of each row that is ever inserted; rows: for each change, which row it inserts or deletes;
    weights: 1 for inserts, -1 for deletes.
    """

    keys: np.ndarray
    rows: np.ndarray
    weights: np.ndarray

    @property
    def net(self) -> np.ndarray:
        """The rows that are left at the end."""
        return np.flatnonzero(np.bincount(self.rows, self.weights, len(self.keys)) > 0)


def zipf(rng, domain, exponent=1.0, shift=0) -> Draw:
    """Keys from 0 to domain - 1 whose frequencies follow a Zipf law; an exponent of 0 is uniform."""
    cumulated = np.cumsum(np.arange(1, domain + 1, dtype=np.float64) ** -exponent)

    def draw(n):
        ranks = np.searchsorted(cumulated, rng.random(n) * cumulated[-1], side="right")
        return (np.minimum(ranks, domain - 1) + shift) % domain

    return draw


def with_deletes(rng, keys, share=0.0, stays=None) -> Arrival:
    """Insert keys in their order, and delete a share of the rows, each at a random time after its insert.

    stays: for each row when it may be deleted at the earliest and at the latest, by default at once and at the end.
    """
    n = len(keys)
    born = np.arange(n, dtype=np.float64)
    gone = np.flatnonzero(rng.random(n) < share)
    first, last = (born, np.full(n, float(n))) if stays is None else stays
    dies = first[gone] + (last[gone] - first[gone]) * rng.random(len(gone)) + 0.5
    times = np.concatenate([born, np.maximum(dies, born[gone] + 0.5)])
    order = np.argsort(times, kind="stable")
    rows = np.concatenate([np.arange(n), gone])[order]
    return Arrival(keys, rows, np.where(order < n, 1, -1))


def stationary(rng, n, draw, deleted=0.0) -> Arrival:
    """Every part of the stream looks like every other."""
    return with_deletes(rng, draw(n), deleted)


def late(rng, n, draw, deleted=0.0, share=0.2, key=0) -> Arrival:
    """The last rows, a share of all, have one key."""
    keys = draw(n)
    keys[n - int(share * n) :] = key
    return with_deletes(rng, keys, deleted)


def light_to_heavy(rng, n, draw, deleted=0.0) -> Arrival:
    """Rare keys first, the most frequent key last."""
    return with_deletes(rng, _by_weight(draw(n)), deleted)


def heavy_to_light(rng, n, draw, deleted=0.0) -> Arrival:
    """The most frequent key first, rare keys last."""
    return with_deletes(rng, _by_weight(draw(n))[::-1], deleted)


def _by_weight(keys):
    _, found, counts = np.unique(keys, return_inverse=True, return_counts=True)
    return keys[np.lexsort((keys, counts[found]))]


def growing(rng, n, draw, deleted=0.0, new=0.15, recent=1.0) -> Arrival:
    """Preferential attachment: a row has a new key with probability `new`, else the key of an earlier row.

    recent: the share of earlier rows, the latest ones, among which it chooses. The smaller, the later heavy keys come.
    draw: only its domain is used: the keys are those that it draws most often first.
    """
    fresh = rng.random(n) < new
    fresh[0] = True
    back = 1 + np.floor(rng.random(n) * np.arange(n) * recent).astype(np.int64)
    source = np.where(fresh, np.arange(n), np.maximum(np.arange(n) - back, 0))
    while not np.array_equal(source, source[source]):
        source = source[source]
    number = (np.cumsum(fresh) - 1)[source]
    return with_deletes(rng, number % (int(draw(1000).max()) + 1), deleted)


def churning(rng, n, draw, deleted=0.85, waves=8) -> Arrival:
    """In each wave other keys are heavy; of the rows of a past wave a share is deleted during the next one."""
    wave = np.arange(n) * waves // n
    heavy = draw(n) % 7 + 7 * wave
    keys = np.where(rng.random(n) < 0.7, heavy, draw(n))
    end = (wave + 1.0) * n / waves
    gone = with_deletes(rng, keys, deleted, (end, end + n / waves))
    inserts = gone.weights > 0
    before_end = np.cumsum(inserts) < n  # rows of the last wave stay
    kept = inserts | before_end
    return Arrival(keys, gone.rows[kept], gone.weights[kept])


ARRIVALS = {
    "stationary": stationary,
    "late": late,
    "light to heavy": light_to_heavy,
    "heavy to light": heavy_to_light,
    "growing": growing,
    "churning": churning,
}
"""By name how keys arrive; each takes (rng, n, draw, deleted)."""
