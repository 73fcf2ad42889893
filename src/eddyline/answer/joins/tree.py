"""The size of an acyclic join of sketched streams: skimmed, plain, and by atomic sketches."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from math import isfinite

import numpy as np

from eddyline.answer.interval import FloatArray
from eddyline.answer.joins.skimming import (
    Places,
    UInt64Array,
    in_threads,
    named,
    places,
    refit_dense_keys,
    standing_out,
    strongest,
    without_dense_keys,
)
from eddyline.answer.joins.two_way import (
    LinkTree,
    RowEstimates,
    SketchedRelation,
    contract,
    in_units,
    rounding_bound,
)
from eddyline.errors import IncompatibleSpecs, SketchError
from eddyline.sketch.agms import AgmsSpec
from eddyline.sketch.counters import Int64Array
from eddyline.sketch.hash_sketch import HashSketchSpec

# The plain reading and the skimmed one.
#
# As for two relations, each sketch row's own image of the dense tuples is replaced by their exact join:
#
# Y_p = est_p(C) + exact join of f^ - est_p(S_p f^)
#
# where the dense frequencies f^ of every relation are read from the other rows, so that Y_p stays unbiased and is
# the plain row where nothing is dense. The dense tuples of inner relations matter most: skimming the leaves alone
# does nothing.
#
# Paper: multi-join, section 3; skimming is from the skimmed-sketch document. Deviation: the combination of the two.


def hash_tree(tree: LinkTree, sides: Sequence[SketchedRelation]) -> RowEstimates:
    """Return the plain reading of a join size: the median over rows of the contracted sketches."""
    rows = _common_rows(sides)
    nothing = [np.zeros((len(rows[0]), 0)) for _ in rows]
    made = RowEstimates(
        rows=contract(tree, rows),
        row_variance=_row_variance(nothing, rows),
        center="median",
        rounding=rounding_bound(rows),
    )
    return in_units(made, sides)


def skim_relations(
    joins: Sequence[tuple[LinkTree, Sequence[SketchedRelation]]],
) -> list[list["SkimmedRelation"]]:
    """Return the skimmed relations of each join: all are skimmed in parallel, and what joins share only once.

    Candidates of a relation are (edges, n).
    """
    asked = [_relations(tree, sides) for tree, sides in joins]
    different = {each.key: each for relations in asked for each in relations}
    skimmed = dict(zip(different, _skim_all(list(different.values())), strict=True))
    return [[skimmed[each.key] for each in relations] for relations in asked]


def skimmed_tree(
    tree: LinkTree, sides: Sequence[SketchedRelation], skimmed: Sequence["SkimmedRelation"]
) -> RowEstimates:
    """Return the skimmed reading of a join size; skimmed: its relations, by `skim_relations`."""
    rows = _common_rows(sides)
    if len(rows[0]) == 1:
        return hash_tree(tree, sides)
    images = [counters - each.residual for counters, each in zip(rows, skimmed, strict=True)]
    through = joined_through(tree, [each.tuples for each in skimmed], [each.dense for each in skimmed])
    made = RowEstimates(
        rows=contract(tree, rows) + through[0].sum(axis=1) - contract(tree, images),
        row_variance=_row_variance([each.dense for each in skimmed], [each.residual for each in skimmed]),
        dense=max(each.standing_out for each in skimmed),
        rounding=rounding_bound(rows),
        dense_squares=tuple(float((sums**2).sum(axis=1).mean()) for sums in through),
    )
    return in_units(made, sides)


@dataclass(frozen=True)
class SkimmedRelation:
    """A relation's tuples (edges, n), their dense frequencies (depth, n) and residual counters (depth, width).

    Row p of the frequencies was read without row p of the sketch; row p of the residual is what row p keeps without
    these frequencies.
    """

    tuples: UInt64Array
    dense: FloatArray
    residual: FloatArray
    standing_out: int


@dataclass(frozen=True)
class _Relation:
    """A relation to be skimmed: its sketch, the rows of its counters, and the tuples to search for."""

    side: SketchedRelation
    rows: FloatArray
    tuples: UInt64Array

    @cached_property
    def key(self) -> tuple[HashSketchSpec, bytes, bytes]:
        return self.side.spec, _digest(self.side.counters), _digest(self.tuples)


def _relations(tree: LinkTree, sides: Sequence[SketchedRelation]) -> list[_Relation]:
    return [
        _Relation(side, rows, tuples)
        for side, rows, tuples in zip(sides, _common_rows(sides), _supports(tree, sides), strict=True)
    ]


def _skim_all(relations: Sequence[_Relation]) -> list[SkimmedRelation]:
    """Return relations skimmed, each once without each of its rows, all in parallel."""

    def strongest_places(each: _Relation) -> Places:
        return strongest(places(each.side.spec, each.tuples), each.rows)

    found = in_threads(strongest_places, relations, sum(each.tuples.shape[1] for each in relations))
    own = [
        _among(np.atleast_2d(at.keys), each.side.candidates.reshape(-1))
        for at, each in zip(found, relations, strict=True)
    ]
    dense = [np.zeros((len(each.rows), len(at))) for at, each in zip(found, relations, strict=True)]
    residuals = [each.rows.copy() for each in relations]

    def skim(task: tuple[int, int]) -> int:
        """Fill in one row of a relation, and return how many of its dense frequencies stand out."""
        relation, row = task
        at = found[relation]
        started = without_dense_keys(relations[relation].rows, at, row)
        names = named(started, at, own[relation], 0, row)
        refitted = refit_dense_keys(started, at, np.ones(len(at), dtype=np.bool_), names, 0, row)
        dense[relation][row], residuals[relation][row] = refitted.dense, refitted.residual[row]
        return standing_out(refitted)

    tasks = [(i, row) for i, each in enumerate(relations) if len(found[i]) for row in range(len(each.rows))]
    standing = [0] * len(relations)
    for (i, _), number in zip(tasks, in_threads(skim, tasks, sum(map(len, found))), strict=True):
        standing[i] = max(standing[i], number)
    return [
        SkimmedRelation(np.atleast_2d(at.keys), *parts)
        for at, parts in zip(found, zip(dense, residuals, standing, strict=True), strict=True)
    ]


def _digest(array: np.ndarray) -> bytes:
    return blake2b(array.tobytes(), digest_size=16).digest()


def _supports(tree: LinkTree, sides: Sequence[SketchedRelation]) -> list[UInt64Array]:
    """Return the tuples to fit in each relation: its own candidates, and for a leaf those of its neighbors."""
    supports = [
        side.candidates.reshape(len(links), -1) for side, links in zip(sides, tree.links, strict=True)
    ]
    whole: list[UInt64Array] = list(supports)
    for relation, links in enumerate(tree.links):
        if len(links) == 1:
            near = [r for r in tree.members[links[0]] if r != relation]
            keys = [supports[r][tree.links[r].index(links[0])].reshape(1, -1) for r in near]
            whole[relation] = np.concatenate([supports[relation], *keys], axis=1)
    return whole


def _among(keys: UInt64Array, candidates: UInt64Array) -> np.ndarray:
    """Return which of the tuples are among the candidates; both (edges, n), the first distinct and sorted."""
    if len(keys) > 1 or keys.shape[1] == 0:
        return np.ones(keys.shape[1], dtype=np.bool_)
    own = np.zeros(keys.shape[1], dtype=np.bool_)
    at = np.minimum(np.searchsorted(keys[0], candidates), keys.shape[1] - 1)
    own[at[keys[0][at] == candidates]] = True
    return own


def joined_through(
    tree: LinkTree, tuples: Sequence[UInt64Array], values: Sequence[FloatArray]
) -> list[FloatArray]:
    """Return how much of the join of tuples goes through each value of each link: (depth, n)."""

    def to_link(relation: int, link: int) -> tuple[UInt64Array, FloatArray]:
        weights = weighted(relation, link)
        keys, index = np.unique(tuples[relation][tree.links[relation].index(link)], return_inverse=True)
        sums = [np.bincount(index, weights=each, minlength=len(keys)) for each in weights]
        return keys, np.stack(sums)

    def weighted(relation: int, parent: int) -> FloatArray:
        """Return the frequencies times the messages of all links but the parent's."""
        weights = values[relation]
        for position, link in enumerate(tree.links[relation]):
            for other in tree.members[link] if link != parent else []:
                if other != relation:
                    weights = weights * _looked_up(tuples[relation][position], *to_link(other, link))
        return weights

    through = []
    for link, members in sorted(tree.members.items()):
        keys, sums = to_link(members[0], link)
        for other in members[1:]:
            sums = sums * _looked_up(keys, *to_link(other, link))
        through.append(sums)
    return through


def _looked_up(wanted: UInt64Array, keys: UInt64Array, sums: FloatArray) -> FloatArray:
    """Return the sums of the wanted keys, 0 for keys that do not occur."""
    if len(keys) == 0:
        return np.zeros((len(sums), len(wanted)))
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, sums[:, at], 0.0)


def _row_variance(dense: Sequence[FloatArray], residuals: Sequence[FloatArray]) -> float:
    """Return the expected variance of a row: (prod (D + R) - prod D) / width over dense and residual powers."""
    powers = [(each**2).sum(axis=1) for each in dense]
    rest = [(each**2).sum(axis=1) for each in residuals]
    with np.errstate(over="ignore", invalid="ignore"):
        whole = np.prod([d + r for d, r in zip(powers, rest, strict=True)], axis=0)
        variance = float(np.mean(whole - np.prod(powers, axis=0))) / residuals[0].shape[1]
    if not isfinite(variance):
        raise SketchError(
            "the variance of this join is beyond what 64-bit floating point holds: ask for a smaller measure, or "
            "join fewer relations."
        )
    return variance


def _common_rows(sides: Sequence[SketchedRelation]) -> list[FloatArray]:
    shapes = {(side.spec.width, side.spec.depth, side.spec.hash) for side in sides}
    if len(shapes) > 1:
        raise IncompatibleSpecs(
            f"these sketches differ in shape or hash family and cannot be joined: {[s.spec for s in sides]}."
        )
    return [side.spec.rows(side.counters).astype(np.float64) for side in sides]


# The size of a join by atomic sketches: the classic estimator, for any acyclic join.
#
# Paper: skimmed, ESTJOINSIZE; multi-join, section 3.1.


def est_join_size(relations: Sequence[tuple[AgmsSpec, Int64Array]]) -> RowEstimates:
    """Return the join size: the median over groups of the mean of atomic products X_1 X_2 ... X_r."""
    shapes = {(spec.width, spec.depth, spec.hash) for spec, _ in relations}
    met = Counter(seed for spec, _ in relations for seed in spec.seeds)
    if len(shapes) > 1 or any(times != 2 for times in met.values()):
        raise IncompatibleSpecs(
            "these AGMS sketches differ in shape, or their sign families do not meet in pairs, and cannot be joined: "
            f"{[spec for spec, _ in relations]}; build all from one plan."
        )
    rows = [spec.rows(counters).astype(np.float64) for spec, counters in relations]
    products = np.prod(rows, axis=0)
    self_joins = np.prod([(each**2).mean() for each in rows])
    variance = float(self_joins + products.mean() ** 2) / relations[0][0].width
    return RowEstimates(rows=products.mean(axis=1), row_variance=variance, center="median")
