"""The multi-join document's synthetic data: relations whose tuples crowd in rectangular regions.

Paper: multi-join, section 5.1 "Synthetic data sets". Regions lie uniformly in the attribute space. The
tuples are shared out over the regions by a Zipf law of exponent z_inter, and within each region over its
cells by one of exponent z_intra. Relation R_2 has the regions of R_1, each with a new centre: a random
point in the region shrunk by a factor p.

The text leaves open, and we chose:
- sides: in several dimensions a region is a cube stretched or squeezed by at most 2 a side, cut at the domain;
- within a region the cells nearest to the centre (by L1 distance) have the greatest counts;
- a range such as "z_intra = 0.0-0.5" is drawn from uniformly, once for each region;
- a perturbed region keeps its sides, its skew and its share of the tuples; R_3 comes from R_2 as R_2 from R_1;
- a chain of two-dimensional relations joins equal dimensions in turn: R_1 and R_2 on the first, R_2 and
  R_3 on the second, R_3 and R_4 on the first again;
- counts are the shares rounded so that they sum to the number of tuples: nothing is random but the regions.

`reranked` is ours: every relation shares its tuples out over the regions in an order of its own.

    query = chain(Space(), relations=3, seed=1)
    query.relations[k].keys, query.relations[k].counts      # (edges, n) uint64 and (n,) int64
    query.links[k]                                          # which link each row of keys belongs to
    query.exact()                                           # the join size
"""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

Ints = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True)
class Space:
    """What the generator takes, with the document's defaults."""

    attributes: int = 2
    domain: int = 1024
    regions: int = 10
    volumes: tuple[int, int] = (1000, 2000)
    z_inter: float = 1.0
    z_intra: tuple[float, float] = (0.0, 0.5)
    tuples: int = 10_000_000


SPARSE_LINE = Space(1, 1_024_000, 10_000, (1, 5), 0.2)
"""The one-dimensional set of the document's Figure 2 (self-join)."""


@dataclass(frozen=True)
class Regions:
    """Rectangles: centres and sides (regions, attributes), skew within each, share of the tuples of each."""

    centres: np.ndarray
    sides: np.ndarray
    skews: np.ndarray
    shares: np.ndarray


@dataclass(frozen=True)
class Relation:
    """Distinct tuples of join attributes: keys uint64 (attributes, n), and how often each occurs."""

    keys: np.ndarray
    counts: Ints

    def projected(self, *attributes: int) -> "Relation":
        """Return the relation over some of its attributes."""
        keys, inverse = np.unique(self.keys[list(attributes)], axis=1, return_inverse=True)
        counts = np.zeros(keys.shape[1], dtype=np.int64)
        np.add.at(counts, inverse.ravel(), self.counts)
        return Relation(keys, counts)

    @property
    def self_join(self) -> float:
        """The sum of squared frequencies."""
        return float((self.counts.astype(np.float64) ** 2).sum())


@dataclass(frozen=True)
class JoinQuery:
    """COUNT(*) of an acyclic equi-join. Row j of relation k's keys belongs to link `links[k][j]`.

    Two relations with several links in common join on all of them: one composite key.
    """

    relations: tuple[Relation, ...]
    links: tuple[tuple[int, ...], ...]

    def exact(self) -> float:
        """Return the join size, by hashing every relation into its neighbour (in floats of 53 bits)."""
        return float(self._weights(0, frozenset()).sum())

    def _weights(self, index: int, above: frozenset[int]) -> np.ndarray:
        """Return each tuple's count times the joining tuples of the relations that hang below it."""
        weights = self.relations[index].counts.astype(np.float64)
        for child, links in enumerate(self.links):
            shared = sorted(set(self.links[index]) & set(links) - above)
            if child == index or not shared:
                continue
            below: dict[tuple[int, ...], float] = {}
            for key, weight in zip(
                self._key(child, shared), self._weights(child, frozenset(shared)), strict=True
            ):
                below[key] = below.get(key, 0.0) + weight
            weights *= np.array([below.get(key, 0.0) for key in self._key(index, shared)])
        return weights

    def _key(self, index: int, links: list[int]) -> list[tuple[int, ...]]:
        rows = [self.links[index].index(link) for link in links]
        return list(zip(*self.relations[index].keys[rows].tolist(), strict=True))


def draw_regions(space: Space, rng: np.random.Generator) -> Regions:
    """Return regions that lie uniformly in the space, the first with the greatest share of the tuples."""
    shape = space.regions, space.attributes
    volumes = rng.integers(space.volumes[0], space.volumes[1], size=space.regions, endpoint=True)
    stretch = rng.uniform(-np.log(2), np.log(2), size=shape) if space.attributes > 1 else np.zeros(shape)
    stretch -= stretch.mean(axis=1, keepdims=True)
    sides = np.rint(volumes[:, None] ** (1 / space.attributes) * np.exp(stretch))
    sides = np.clip(sides, 1, space.domain).astype(np.int64)
    centres = sides / 2 + rng.uniform(size=shape) * (space.domain - sides)
    shares = np.arange(1, space.regions + 1, dtype=np.float64) ** -space.z_inter
    return Regions(centres, sides, rng.uniform(*space.z_intra, size=space.regions), shares / shares.sum())


def perturbed(regions: Regions, space: Space, perturbation: float, rng: np.random.Generator) -> Regions:
    """Return the regions moved: each centre anywhere in its region shrunk by the perturbation, 0 to stay."""
    moves = rng.uniform(-0.5, 0.5, size=regions.centres.shape) * perturbation * regions.sides
    half = regions.sides / 2
    return replace(regions, centres=np.clip(regions.centres + moves, half, space.domain - half))


def reranked(regions: Regions, rng: np.random.Generator) -> Regions:
    """Return the regions with their shares of the tuples dealt out again."""
    return replace(regions, shares=rng.permutation(regions.shares))


def populate(space: Space, regions: Regions) -> Relation:
    """Return the relation of a given number of tuples in the regions; where they overlap, counts add up."""
    cells, shares = [], []
    for centre, sides, skew, share in zip(
        regions.centres, regions.sides, regions.skews, regions.shares, strict=True
    ):
        low = np.clip(np.rint(centre - sides / 2), 0, space.domain - sides).astype(np.int64)
        inside = np.array(list(product(*(range(side) for side in sides))), dtype=np.int64).T
        distance = np.abs(inside + 0.5 - sides[:, None] / 2).sum(axis=0)
        by_rank = np.arange(1, inside.shape[1] + 1, dtype=np.float64) ** -skew
        cells.append((inside + low[:, None])[:, np.argsort(distance, kind="stable")])
        shares.append(share * by_rank / by_rank.sum())
    upto = np.rint(np.cumsum(np.concatenate(shares)) * space.tuples).astype(np.int64)
    counts = np.diff(upto, prepend=0)
    kept = counts > 0
    keys = np.concatenate(cells, axis=1)[:, kept].astype(np.uint64)
    return Relation(keys, counts[kept]).projected(*range(space.attributes))


def related(
    space: Space, relations: int, seed: int, *, perturbation: float = 1.0, same_ranks: bool = True
) -> list[Relation]:
    """Return relations over one space, each with the perturbed regions of the one before."""
    rng = np.random.default_rng([seed, relations])
    regions = draw_regions(space, rng)
    found = []
    for index in range(relations):
        regions = perturbed(regions, space, perturbation, rng) if index else regions
        found.append(populate(space, regions if same_ranks or not index else reranked(regions, rng)))
    return found


def self_join(space: Space, seed: int) -> JoinQuery:
    """Return the join of a relation with itself on all its attributes."""
    (relation,) = related(space, 1, seed)
    links = tuple(range(space.attributes))
    return JoinQuery((relation, relation), (links, links))


def binary(space: Space, seed: int, *, perturbation: float = 1.0, same_ranks: bool = True) -> JoinQuery:
    """Return the join of two relations on all their attributes: one composite key."""
    pair = related(space, 2, seed, perturbation=perturbation, same_ranks=same_ranks)
    links = tuple(range(space.attributes))
    return JoinQuery((pair[0], pair[1]), (links, links))


def chain(
    space: Space, relations: int, seed: int, *, perturbation: float = 1.0, same_ranks: bool = True
) -> JoinQuery:
    """Return a chain of relations, link i between relations i and i + 1, on dimension i mod `attributes`."""
    found = related(space, relations, seed, perturbation=perturbation, same_ranks=same_ranks)
    links = [
        tuple(link for link in (index - 1, index) if 0 <= link < relations - 1) for index in range(relations)
    ]
    projected = [
        relation.projected(*(link % space.attributes for link in own))
        for relation, own in zip(found, links, strict=True)
    ]
    return JoinQuery(tuple(projected), tuple(links))


def star(space: Space, seed: int, *, perturbation: float = 1.0, same_ranks: bool = True) -> JoinQuery:
    """Return a star: relation 0 joined on each of its attributes with one other relation."""
    found = related(space, space.attributes + 1, seed, perturbation=perturbation, same_ranks=same_ranks)
    arms = [relation.projected(link) for link, relation in enumerate(found[1:])]
    links = (tuple(range(space.attributes)), *((link,) for link in range(space.attributes)))
    return JoinQuery((found[0], *arms), links)
