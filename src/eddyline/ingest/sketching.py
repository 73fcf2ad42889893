"""Sketches and candidate tables of one stream while its batches are read."""

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from eddyline.ingest.projection import Prepared
from eddyline.plan.layout import KeptSynopsis
from eddyline.sample.labels import KeyLabels
from eddyline.sketch import candidates
from eddyline.sketch.counters import Int64Array, KeyArray, key_array, multiply
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sketch.join_distinct import JoinDistinctSpec, check_weights
from eddyline.sketch.keys import BoolArray
from eddyline.sketch.synopsis import empty_counters
from eddyline.sql.query import Key

Followed = Mapping[Key, BoolArray]
"""For keys of a stream, which rows of a batch have a followed value; no entry where all rows have."""


class Sketches:
    """The counters and hints of some synopses of a stream."""

    def __init__(self, kept: Iterable[KeptSynopsis]) -> None:
        self.kept = tuple(kept)
        self._groups = _grouped(self.kept)
        self.counters: dict[str, Int64Array] = {each.id: empty_counters(each.spec) for each in self.kept}
        self.hints: dict[str, Int64Array] = {
            each.id: candidates.empty(each.candidates) for each in self.kept if each.candidates is not None
        }
        self.labels: dict[str, KeyLabels] = {each.id: KeyLabels() for each in self.kept if each.has_labels}

    def feed(self, prepared: Prepared, followed: Followed | None = None) -> None:
        """Add one prepared batch to every synopsis; followed: rows that sketches of unfollowed keys leave out."""
        check_row_weights(self.kept, prepared)
        for together in self._groups:
            rows = prepared
            if together[0].unfollowed:
                held = (followed or {}).get(together[0].demand.keys[0])
                if held is None or held.all():
                    continue
                rows = prepared.only(~held, [each.demand for each in together])
            if len(together) > 1:
                self._add_group(together, rows)
            else:
                self._add_one(together[0], rows)
            for kept in together:
                if kept.has_labels:
                    self.label(kept, rows.keys[kept.demand.keys[0]][0], _label_columns(kept, rows))

    def add(self, kept: KeptSynopsis, keys: KeyArray, weights: Int64Array, rows: Int64Array) -> None:
        """Add weighted keys to one synopsis; rows: the number of rows of each key, which ranks candidates."""
        if len(rows) == 0:
            return
        if isinstance(kept.spec, JoinDistinctSpec):
            kept.spec.accumulate_net(self.counters[kept.id], keys, weights)
            return
        kept.spec.accumulate(self.counters[kept.id], keys, weights)
        if kept.candidates is not None:
            candidates.observe(kept.candidates, self.hints[kept.id], keys, rows)

    def label(self, kept: KeptSynopsis, codes: Int64Array, columns: tuple[pa.Array, ...]) -> None:
        """Keep the values of those rows whose keys are candidates and have no label yet."""
        assert kept.candidates is not None
        named = candidates.keys(kept.candidates, self.hints[kept.id]).view(np.int64)
        fresh = np.isin(codes, named[self.labels[kept.id].lacks(named)])
        if fresh.any():
            chosen = pa.array(fresh)
            found = KeyLabels.of(codes[fresh], tuple(column.filter(chosen) for column in columns))
            self.labels[kept.id] = self.labels[kept.id].only(named).plus(found)

    def _add_one(self, kept: KeptSynopsis, prepared: Prepared) -> None:
        weights, counted = _weights(kept, prepared)
        keys, rows = [prepared.keys[key][0] for key in kept.demand.keys], prepared.weights
        if counted is not None:
            weights, rows = weights.compress(counted, axis=-1), rows[counted]
            keys = [key[counted] for key in keys]
        hashed = key_array(*keys) if keys else np.empty((0, len(rows)), dtype=np.uint64)
        self.add(kept, hashed, weights, rows)

    def _add_group(self, together: list[KeptSynopsis], prepared: Prepared) -> None:
        """Add a batch to sketches of one spec on one key, hashed once whatever their predicates and measures."""
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
        """Feed the candidate table the rows that count, weighted as rows: its votes are too small for measures."""
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
    """Return the synopses in groups that can share their hashing."""
    groups: dict[object, list[KeptSynopsis]] = {}
    for each in kept:
        shared = isinstance(each.spec, HashSketchSpec)
        alike = (each.spec, each.demand.keys, each.unfollowed)
        groups.setdefault(alike if shared else each.id, []).append(each)
    return list(groups.values())


def _label_columns(kept: KeptSynopsis, prepared: Prepared) -> tuple[pa.Array, ...]:
    """Return the values of the columns of a sketch's key, as codes where a code determines the value."""
    keys = [Key((part,)) for part in kept.demand.keys[0].columns]
    return tuple(
        prepared.labels[key] if key in prepared.labels else pa.array(values, mask=~valid)
        for key, (values, valid) in ((key, prepared.keys[key]) for key in keys)
    )


def _weights(kept: KeptSynopsis, prepared: Prepared) -> tuple[Int64Array, BoolArray | None]:
    """Return (weights, rows that count), the latter None where all do.

    For a measure of several words the weights have a row for each word that the synopsis takes.
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
