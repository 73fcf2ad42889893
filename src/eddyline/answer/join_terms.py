"""One term of a join query: the synopses of its relations, read by the query's method."""

import msgspec

from eddyline.answer import skimmed_paper
from eddyline.answer.join import Side, hash_join, skimmed_join
from eddyline.answer.reading import Reading
from eddyline.answer.skimming import UInt64Array, dense_in_range
from eddyline.errors import PlanError
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.layout import Kept
from eddyline.sketch import candidates
from eddyline.sketch.agms import AgmsSpec
from eddyline.sketch.counters import Int64Array
from eddyline.sketch.hash_sketch import HashSketchSpec

WIDEST_SCAN = 1 << 20
"""The widest range of integer keys that is scanned for dense ones where the table names none."""


def read_term(snapshot: Snapshot, ids: tuple[str, ...], method: str) -> Reading:
    """Return the reading of a two-way join from the synopses of its relations."""
    left, right = (snapshot.layout.by_id[identifier] for identifier in ids)
    if isinstance(left.spec, AgmsSpec) and isinstance(right.spec, AgmsSpec):
        return skimmed_paper.est_join_size(
            left.spec, snapshot.counters[left.id], right.spec, snapshot.counters[right.id]
        )
    sides = _sides(snapshot, left, right, skim=method in ("skimmed", "skimmed-paper"))
    if method == "hash":
        return hash_join(sides[0].spec, sides[0].counters, sides[1].spec, sides[1].counters)
    if method == "skimmed-paper":
        return skimmed_paper.est_skim_join_size(*sides)
    return skimmed_join(*sides)


def _sides(snapshot: Snapshot, left: Kept, right: Kept, *, skim: bool) -> tuple[Side, Side]:
    """Return both sides in their common shape: the smaller width, the first rows that both have."""
    width = min(_hash_spec(left).width, _hash_spec(right).width)
    depth = min(_hash_spec(left).depth, _hash_spec(right).depth)
    one = _side(snapshot, left, width, depth, skim=skim)
    return one, one if left.id == right.id else _side(snapshot, right, width, depth, skim=skim)


def _side(snapshot: Snapshot, kept: Kept, width: int, depth: int, *, skim: bool) -> Side:
    spec, counters = reduced(_hash_spec(kept), snapshot.counters[kept.id], width, depth)
    if not skim or kept.candidates is None:
        return Side(spec, counters)
    keys, population = candidate_keys(kept, snapshot.hints[kept.id], spec, counters)
    return Side(spec, counters, keys, population)


def candidate_keys(
    kept: Kept, hints: Int64Array, spec: HashSketchSpec, counters: Int64Array
) -> tuple[UInt64Array, int]:
    """Return (keys that may be dense, size of the range that was scanned for them or 0)."""
    assert kept.candidates is not None
    named = candidates.keys(kept.candidates, hints)
    bounds = candidates.key_range(kept.candidates, hints)
    if len(named) or bounds is None or bounds[1] - bounds[0] >= WIDEST_SCAN:
        return named, 0
    low, high = bounds
    return dense_in_range(spec, counters, low, high), high - low + 1


def reduced(
    spec: HashSketchSpec, counters: Int64Array, width: int, depth: int
) -> tuple[HashSketchSpec, Int64Array]:
    """Return the sketch at a smaller width and depth: folded, and its first rows."""
    if depth < spec.depth:
        spec, counters = msgspec.structs.replace(spec, depth=depth), counters[: depth * spec.width]
    while spec.width > width:
        spec, counters = spec.folded(), spec.fold(counters)
    return spec, counters


def _hash_spec(kept: Kept) -> HashSketchSpec:
    if not isinstance(kept.spec, HashSketchSpec):
        raise PlanError(
            f"synopsis {kept.id!r} is no hash sketch: ask the query by the method it was planned with."
        )
    return kept.spec
