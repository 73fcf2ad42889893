"""Rows into elements: what a projected batch adds to the dictionaries of a stream sample."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.ingest.projection import Prepared
from eddyline.plan.layout import Elements, Flag
from eddyline.sample.dictionary import Builder, flag_words
from eddyline.sample.labels import Labels
from eddyline.sample.roster import Roster
from eddyline.sample.spec import DictionarySpec
from eddyline.sketch.counters import multiply
from eddyline.sketch.keys import BoolArray


def add_rows(
    builder: Builder, elements: Elements, prepared: Prepared, rosters: tuple[Roster, ...] | None
) -> None:
    """Add a batch to a dictionary; with rosters only the rows all of whose link values are followed."""
    spec, rows = builder.spec, len(prepared.weights)
    keys = [prepared.keys[key] for key in elements.keys]
    kept = None if rosters is None else _followed(spec, keys, rosters)
    if kept is not None and not kept.any():
        return
    words = flag_words(
        spec, [~valid for _, valid in keys], [element_flag(f, prepared) for f in elements.flags], rows
    )
    columns = [np.where(valid, values, 0) for values, valid in keys] + list(words)
    totals = [prepared.weights]
    for measure in elements.measures:
        values, valid = prepared.measures[measure]
        totals.append(multiply(prepared.weights, np.where(valid, values, 0)))
    if kept is not None and not kept.all():
        columns, totals = [each[kept] for each in columns], [each[kept] for each in totals]
    builder.add(np.stack(columns, axis=1), np.stack(totals, axis=1))
    for position in spec.labelled:
        values = prepared.labels[elements.keys[position]]
        if kept is not None:
            values = values.filter(pa.array(kept))
        builder.label(position, _new_labels(columns[position], values, builder.labels[position]))


def _new_labels(codes: np.ndarray, values: pa.Array, known: Labels) -> Labels:
    """Return the labels of rows that are not known yet; NULL needs none."""
    fresh, known = np.asarray(pc.is_valid(values)), known.without_null()
    if len(known):
        places = np.minimum(np.searchsorted(known.codes, codes), len(known) - 1)
        fresh = fresh & (known.codes[places] != codes)
    return Labels.of(codes[fresh], values.filter(pa.array(fresh)))


def _followed(
    spec: DictionarySpec, keys: list[tuple[np.ndarray, BoolArray]], rosters: tuple[Roster, ...]
) -> BoolArray | None:
    if all(rosters[link].follows_all for link in spec.classes if link >= 0):
        return None
    kept = np.ones(len(keys[0][0]), dtype=np.bool_)
    for link, (values, valid) in zip(spec.classes, keys, strict=True):
        if link >= 0 and not rosters[link].follows_all:
            followed = kept & valid
            rosters[link].drop_unfollowed(values, followed)
            kept &= followed | ~valid
    return kept


def element_flag(flag: Flag, prepared: Prepared) -> BoolArray:
    """Return which rows of a prepared batch carry a flag."""
    parts = [prepared.flags[flag.predicates]] if flag.predicates else []
    parts += [prepared.presence[part] for part in flag.presence]
    return np.asarray(np.logical_and.reduce(parts))
