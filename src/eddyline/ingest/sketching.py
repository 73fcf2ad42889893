"""Sketches and candidate tables of one stream while its batches go by."""

from collections.abc import Iterable

import numpy as np

from eddyline.ingest.projection import Prepared
from eddyline.plan.layout import KeptSynopsis
from eddyline.sketch import candidates
from eddyline.sketch.counters import Int64Array, multiply
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sketch.hashed_keys import KeyArray, key_array
from eddyline.sketch.join_distinct import JoinDistinctSpec, check_weights
from eddyline.sketch.keys import BoolArray
from eddyline.sketch.synopsis import empty_counters


class Sketches:
    """The counters and hints of some synopses of a stream."""

    def __init__(self, kept: Iterable[KeptSynopsis]) -> None:
        self.kept = tuple(kept)
        self._groups = _grouped(self.kept)
        self.counters: dict[str, Int64Array] = {each.id: empty_counters(each.spec) for each in self.kept}
        self.hints: dict[str, Int64Array] = {
            each.id: candidates.empty(each.candidates) for each in self.kept if each.candidates is not None
        }

    def feed(self, prepared: Prepared) -> None:
        """Add one prepared batch to every synopsis."""
        check_row_weights(self.kept, prepared)
        for together in self._groups:
            if len(together) > 1:
                self._add_group(together, prepared)
            else:
                self._add_one(together[0], prepared)

    def add(self, kept: KeptSynopsis, keys: KeyArray, weights: Int64Array, rows: Int64Array) -> None:
        """Add weighted keys to one synopsis; rows: how many rows each stands for, which candidates go by."""
        if len(rows) == 0:
            return
        if isinstance(kept.spec, JoinDistinctSpec):
            kept.spec.accumulate_net(self.counters[kept.id], keys, weights)
            return
        kept.spec.accumulate(self.counters[kept.id], keys, weights)
        if kept.candidates is not None:
            candidates.observe(kept.candidates, self.hints[kept.id], keys, rows)

    def _add_one(self, kept: KeptSynopsis, prepared: Prepared) -> None:
        weights, counted = _weights(kept, prepared)
        keys, rows = [prepared.keys[key][0] for key in kept.demand.keys], prepared.weights
        if counted is not None:
            weights, rows = weights.compress(counted, axis=-1), rows[counted]
            keys = [key[counted] for key in keys]
        hashed = key_array(*keys) if keys else np.empty((0, len(rows)), dtype=np.uint64)
        self.add(kept, hashed, weights, rows)

    def _add_group(self, together: list[KeptSynopsis], prepared: Prepared) -> None:
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

    def _observe(self, kept: KeptSynopsis, prepared: Prepared, counted: BoolArray | None) -> None:
        """Show the candidate table the rows that count, weighed as rows: its votes are too small for measures."""
        if kept.candidates is None:
            return
        keys, weights = [prepared.keys[key][0] for key in kept.demand.keys], prepared.weights
        if counted is not None:
            keys, weights = [key[counted] for key in keys], weights[counted]
        candidates.observe(kept.candidates, self.hints[kept.id], key_array(*keys), weights)


def check_row_weights(kept: Iterable[KeptSynopsis], prepared: Prepared) -> None:
    """Raise SketchError where a row's weight is too large for a synopsis that is, or will be, fed with it."""
    if any(isinstance(each.spec, JoinDistinctSpec) for each in kept):
        check_weights(prepared.weights)


def _grouped(kept: Iterable[KeptSynopsis]) -> list[list[KeptSynopsis]]:
    """Return the synopses that can share their hashing, together."""
    groups: dict[object, list[KeptSynopsis]] = {}
    for each in kept:
        shared = isinstance(each.spec, HashSketchSpec)
        groups.setdefault((each.spec, each.demand.keys) if shared else each.id, []).append(each)
    return list(groups.values())


def _weights(kept: KeptSynopsis, prepared: Prepared) -> tuple[Int64Array, BoolArray | None]:
    """Return (weights, rows that count), the latter None where all do.

    Of a measure of several words the weights have a row for each that the synopsis takes.
    """
    masks = [prepared.keys[key][1] for key in kept.demand.keys]
    masks += [prepared.presence[part] for part in kept.demand.presence]
    if kept.demand.predicates:
        masks.append(prepared.flags[kept.demand.predicates])
    measured = prepared.measures[kept.demand.measure] if kept.demand.measure is not None else None
    if measured is not None:
        masks.append(measured[1])
    partial = [mask for mask in masks if not mask.all()]
    counted = np.logical_and.reduce(partial) if partial else None
    if measured is None:
        return prepared.weights, counted
    values = measured[0] if measured[0].ndim == 1 else measured[0][-kept.number_words :]
    values = values if counted is None else np.where(counted, values, 0)
    return multiply(prepared.weights, values), counted
