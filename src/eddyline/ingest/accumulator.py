"""The pass: projected batches of one stream into the counters of all its synopses."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eddyline.ingest.projection import Prepared, Projection, prepare, project
from eddyline.plan.layout import Kept
from eddyline.sketch import candidates
from eddyline.sketch.counters import Int64Array, multiply
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sketch.hashed_keys import key_array
from eddyline.sketch.keys import BoolArray
from eddyline.sketch.synopsis import empty_counters


class Accumulator:
    """Counters, hints and row counts of one stream while its batches go by."""

    def __init__(self, kept: Sequence[Kept], projection: Projection | None = None) -> None:
        self.kept = tuple(kept)
        self._groups = _grouped(kept)
        self.projection = project(kept) if projection is None else projection
        self.counters: dict[str, Int64Array] = {each.id: empty_counters(each.spec) for each in kept}
        self.hints: dict[str, Int64Array] = {
            each.id: candidates.empty(each.candidates) for each in kept if each.candidates is not None
        }
        self.rows = 0
        self.deletes = 0

    def feed(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Add one projected batch to every synopsis."""
        if batch.num_rows == 0:
            return
        prepared = prepare(batch, self.projection)
        for together in self._groups:
            if len(together) > 1:
                self._add_group(together, prepared)
            else:
                self._add(together[0], prepared)
        self.rows += batch.num_rows
        self.deletes += int(np.count_nonzero(prepared.weights < 0))

    def _add(self, kept: Kept, prepared: Prepared) -> None:
        weights, counted = _weights(kept, prepared)
        keys = [prepared.keys[key][0] for key in kept.demand.keys]
        if counted is not None:
            weights = weights[counted]
            keys = [key[counted] for key in keys]
        if len(weights) == 0:
            return
        hashed = key_array(*keys) if keys else np.empty((0, len(weights)), dtype=np.uint64)
        kept.spec.accumulate(self.counters[kept.id], hashed, weights)
        self._observe(kept, prepared, counted)

    def _add_group(self, together: list[Kept], prepared: Prepared) -> None:
        """Add a batch to sketches of one spec on one key: hashed once, whatever their predicates and measures."""
        spec = together[0].spec
        assert isinstance(spec, HashSketchSpec)
        hashed = key_array(*(prepared.keys[key][0] for key in together[0].demand.keys))
        places = spec.places(hashed)
        for kept in together:
            weights, counted = _weights(kept, prepared)
            if counted is not None:
                weights = np.where(counted, weights, 0)
            spec.accumulate_at(self.counters[kept.id], places, weights)
            self._observe(kept, prepared, counted)

    def _observe(self, kept: Kept, prepared: Prepared, counted: BoolArray | None) -> None:
        """Show the candidate table the rows that count, weighed as rows: its votes are too small for measures."""
        if kept.candidates is None:
            return
        keys, weights = [prepared.keys[key][0] for key in kept.demand.keys], prepared.weights
        if counted is not None:
            keys, weights = [key[counted] for key in keys], weights[counted]
        candidates.observe(kept.candidates, self.hints[kept.id], key_array(*keys), weights)


def _grouped(kept: Sequence[Kept]) -> list[list[Kept]]:
    """Return the synopses that can share their hashing, together."""
    groups: dict[object, list[Kept]] = {}
    for each in kept:
        shared = isinstance(each.spec, HashSketchSpec)
        groups.setdefault((each.spec, each.demand.keys) if shared else each.id, []).append(each)
    return list(groups.values())


def _weights(kept: Kept, prepared: Prepared) -> tuple[Int64Array, BoolArray | None]:
    """Return (weights, rows that count), the latter None where all do."""
    masks = [prepared.keys[key][1] for key in kept.demand.keys]
    masks += [prepared.presence[part] for part in kept.demand.presence]
    if kept.demand.predicates:
        masks.append(prepared.flags[kept.demand.predicates])
    weights = prepared.weights
    if kept.demand.measure is not None:
        values, valid = prepared.measures[kept.demand.measure]
        masks.append(valid)
        weights = multiply(weights, values)
    partial = [mask for mask in masks if not mask.all()]
    counted = np.logical_and.reduce(partial) if partial else None
    return weights, counted
