"""The exact join of decoded key samples, over a tree of relations and links."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

import numpy as np

from eddyline.answer.reading import FloatArray
from eddyline.errors import SketchError
from eddyline.sketch.counters import Int64Array
from eddyline.sketch.key_sample import KeySample


class SampledRelation(NamedTuple):
    """A decoded sample, and the number of the link that each of its key arrays takes part in."""

    sample: KeySample
    links: tuple[int, ...]


@dataclass(frozen=True)
class MatchedSamples:
    """Samples cut to what all relations of a link have sampled, and to the elements that join.

    Per relation: its `links`, `codes` (n x links) of its link values, `values`. Per link: the `hashes` that the
    codes stand for, of which the low `shifts` bits are not known, and the `limits` below which they were kept.
    """

    links: list[tuple[int, ...]]
    codes: list[Int64Array]
    values: list[Int64Array]
    hashes: list[np.ndarray]
    limits: tuple[int, ...]
    shifts: tuple[int, ...]

    @property
    def rows(self) -> float:
        """The number of joined rows."""
        return float(_Flow(self, self._ones).through(0).sum())

    @property
    def joined_values(self) -> list[int]:
        """The number of values of each link that join."""
        flow = _Flow(self, self._ones)
        return [int(np.count_nonzero(flow.through(link))) for link in range(len(self.hashes))]

    @property
    def collisions(self) -> list[float]:
        """The expected number of pairs of different values of each link that were taken for one."""
        parts = zip(self.hashes, self.limits, self.shifts, strict=True)
        return [len(known) ** 2 / 2 * (1 << shift) / limit for known, limit, shift in parts]

    @property
    def _ones(self) -> list[FloatArray]:
        return [np.ones(len(values)) for values in self.values]

    def joining(self) -> "MatchedSamples":
        """Return the elements that are part of a joined row."""
        flow = _Flow(self, self._ones)
        kept = [flow.others(relation) > 0 for relation in range(len(self.links))]
        return replace(
            self,
            codes=[codes[keep] for codes, keep in zip(self.codes, kept, strict=True)],
            values=[values[keep] for values, keep in zip(self.values, kept, strict=True)],
        )


def matched(relations: Sequence[SampledRelation]) -> MatchedSamples:
    """Return the samples of a tree of relations, cut to each other."""
    links = [relation.links for relation in relations]
    members = _members(relations)
    limits = [min(relations[k].sample.limits[i] for k, i in places) for places in members]
    shifts = [max(relations[k].sample.shifts[i] for k, i in places) for places in members]
    kept = [_below(relation, limits) for relation in relations]
    codes: list[Int64Array] = [
        np.empty((len(values), len(own)), dtype=np.int64)
        for (_, values), own in zip(kept, links, strict=True)
    ]
    hashes = []
    for places, shift in zip(members, shifts, strict=True):
        columns = [kept[k][0][:, i] >> np.uint64(shift) << np.uint64(shift) for k, i in places]
        known, inverse = np.unique(np.concatenate(columns), return_inverse=True)
        hashes.append(known)
        cuts = np.cumsum([len(column) for column in columns])[:-1]
        for (k, i), part in zip(places, np.split(inverse, cuts), strict=True):
            codes[k][:, i] = part
    values = [values for _, values in kept]
    return MatchedSamples(links, codes, values, hashes, tuple(limits), tuple(shifts)).joining()


def _members(relations: Sequence[SampledRelation]) -> list[list[tuple[int, int]]]:
    """Return for each link the (relation, key array) pairs on it; raise unless seeds agree on a tree of links."""
    number = 1 + max(link for relation in relations for link in relation.links)
    members: list[list[tuple[int, int]]] = [[] for _ in range(number)]
    for k, relation in enumerate(relations):
        for i, link in enumerate(relation.links):
            members[link].append((k, i))
    seeds = [{relations[k].sample.link_seeds[i] for k, i in places} for places in members]
    if any(len(own) != 1 for own in seeds) or len(set[int]().union(*seeds)) != number:
        raise SketchError(
            "key samples can be joined if each link has a seed, its own and the same in all relations."
        )
    links = [relation.links for relation in relations]
    if len(relations) + number - 1 != sum(map(len, links)) or len(list(_walk(links))) != len(relations) - 1:
        raise SketchError("key samples can be joined if their relations and links form a tree.")
    return members


def _below(relation: SampledRelation, limits: Sequence[int]) -> tuple[np.ndarray, Int64Array]:
    """Return hashes and values of the elements below the limits of their links."""
    sample = relation.sample
    own = np.array([limits[link] for link in relation.links], dtype=np.uint64)
    kept = (sample.hashes < own).all(axis=1)
    return sample.hashes[kept], sample.values[kept]


def _walk(links: Sequence[tuple[int, ...]]) -> Iterator[tuple[int, int]]:
    """Yield each relation but the first, after the one that it hangs on, and the link between them."""
    reached, waiting = {0}, [0]
    while waiting:
        relation = waiting.pop()
        for link in links[relation]:
            for other, own in enumerate(links):
                if link in own and other not in reached:
                    reached.add(other)
                    waiting.append(other)
                    yield other, link


class _Flow:
    """Sums of products over parts of the join, by message passing along the tree.

    `values` may be floats, or Python integers in object arrays, which never overflow.
    """

    def __init__(self, join: MatchedSamples, values: Sequence[np.ndarray]) -> None:
        self._join = join
        self._values = values
        self._known: dict[tuple[int, int], np.ndarray] = {}

    def through(self, link: int) -> np.ndarray:
        """Return the sum over the joined rows through each value of a link."""
        return self._product(link, [k for k, own in enumerate(self._join.links) if link in own])

    def others(self, relation: int, but: int | None = None) -> np.ndarray:
        """Return what all other relations make of each element of a relation, by all its links but one."""
        factors = [
            self._product(
                link, [k for k, own in enumerate(self._join.links) if link in own and k != relation]
            )[codes]
            for link, codes in zip(self._join.links[relation], self._join.codes[relation].T, strict=True)
            if link != but
        ]
        return prod(factors, start=np.ones_like(self._values[relation]))

    def _product(self, link: int, relations: Sequence[int]) -> np.ndarray:
        start = np.ones(len(self._join.hashes[link]), dtype=self._values[0].dtype)
        return prod((self._message(k, link) for k in relations), start=start)

    def _message(self, relation: int, link: int) -> np.ndarray:
        """Return the sum over a relation and all behind it through each value of a link."""
        if (relation, link) not in self._known:
            sums = np.zeros(len(self._join.hashes[link]), dtype=self._values[0].dtype)
            codes = self._join.codes[relation][:, self._join.links[relation].index(link)]
            np.add.at(sums, codes, self._values[relation] * self.others(relation, but=link))
            self._known[relation, link] = sums
        return self._known[relation, link]


def sums_through(join: MatchedSamples, dtype: type, *, absolute: bool = False) -> list[np.ndarray]:
    """Return, per link, the sum over the joined rows through each of its values (or of their absolute values)."""
    values: list[np.ndarray] = [part.astype(dtype) for part in join.values]
    flow = _Flow(join, [np.abs(part) for part in values] if absolute else values)
    return [flow.through(link) for link in range(len(join.hashes))]


def joined_rows(join: MatchedSamples) -> tuple[np.ndarray, FloatArray]:
    """Return all joined rows: hashes of their link values, uint64 (n, links), and products of values."""
    table = np.zeros((len(join.values[0]), len(join.hashes)), dtype=np.int64)
    table[:, join.links[0]] = join.codes[0]
    values = join.values[0].astype(np.float64)
    for relation, link in _walk(join.links):
        codes = join.codes[relation]
        column = codes[:, join.links[relation].index(link)]
        order = np.argsort(column, kind="stable")
        begins = np.searchsorted(column[order], table[:, link])
        counts = np.searchsorted(column[order], table[:, link], side="right") - begins
        left = np.repeat(np.arange(len(table)), counts)
        within = np.arange(len(left)) - np.repeat(np.cumsum(counts) - counts, counts)
        right = order[np.repeat(begins, counts) + within]
        table, values = table[left], values[left] * join.values[relation][right]
        table[:, join.links[relation]] = codes[right]
    hashes = [known[table[:, link]] for link, known in enumerate(join.hashes)]
    return np.stack(hashes, axis=1), values
