"""Rows into elements: what a projected batch adds to the dictionaries of a stream sample."""

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.ingest.guards import any_of
from eddyline.ingest.projection import Prepared
from eddyline.plan.layout import Elements, Flag, Measure
from eddyline.sample.dictionary import Builder, element_codes, flag_words
from eddyline.sample.labels import Labels
from eddyline.sample.roster import Roster
from eddyline.sample.spec import DictionarySpec
from eddyline.sketch.counters import multiply
from eddyline.sketch.keys import BoolArray
from eddyline.sql.query import Key


def add_rows(
    builder: Builder,
    elements: Elements,
    prepared: Prepared,
    rosters: tuple[Roster, ...] = (),
    nulls: Roster | None = None,
) -> None:
    """Add a batch to a dictionary; with rosters only the rows all of whose link values are followed.

    nulls: the roster of rows with a NULL link, which are followed by all that an element has of them.
    """
    spec, rows = builder.spec, len(prepared.weights)
    known = _Known(elements, prepared.flags)
    keys = [known.key(key, prepared) for key in elements.keys]
    kept = _followed(spec, keys, rosters) if rosters else None
    if kept is not None and not kept.any():
        return
    words = flag_words(
        spec, [~valid for _, valid in keys], [known.flag(flag, prepared) for flag in elements.flags], rows
    )
    columns = [np.where(valid, values, 0) for values, valid in keys] + list(words)
    if nulls is not None and not nulls.follows_all:
        kept = _without_thinned(spec, keys, columns, nulls, kept)
    totals = [prepared.weights]
    for measure in elements.measures:
        values, valid = known.measure(measure, prepared)
        known_values = values if valid.all() else np.where(valid, values, 0)
        totals += [*np.atleast_2d(multiply(prepared.weights, known_values))]
    if kept is not None and not kept.all():
        columns, totals = [each[kept] for each in columns], [each[kept] for each in totals]
    builder.add(np.stack(columns, axis=1), np.stack(totals, axis=1))
    for position in spec.labelled:
        values, valid = prepared.labels[elements.keys[position]], keys[position][1]
        if kept is not None:
            values, valid = values.filter(pa.array(kept)), valid[kept]
        builder.label(position, _new_labels(columns[position], values, valid, builder.labels[position]))


class _Known:
    """What a dictionary knows of a batch: expressions that can fail only on the rows that its guards name.

    A batch may have them on more rows, for others; a dictionary that held them there would depend on those.
    """

    def __init__(self, elements: Elements, truths: Mapping[tuple[str, ...], BoolArray]) -> None:
        self._rows = {
            (each.text, each.power): rows
            for each in elements.guards
            if (rows := any_of(each.predicates, truths)) is not None
        }

    def _within(self, valid: BoolArray, uses: Iterable[tuple[str, int]]) -> BoolArray:
        for use in uses:
            if use in self._rows:
                valid = valid & self._rows[use]
        return valid

    def key(self, key: Key, prepared: Prepared) -> tuple[np.ndarray, BoolArray]:
        """Return (codes, valid) of a key."""
        codes, valid = prepared.keys[key]
        return codes, self._within(valid, ((part.text, 0) for part in key.columns))

    def flag(self, flag: Flag, prepared: Prepared) -> BoolArray:
        """Return which rows carry a flag."""
        return self._within(element_flag(flag, prepared), ((part.text, 0) for part in flag.presence))

    def measure(self, measure: Measure, prepared: Prepared) -> tuple[np.ndarray, BoolArray]:
        """Return (integers, valid) of a measure."""
        values, valid = prepared.measures[measure]
        return values, self._within(valid, [(measure.expression.text, measure.power)])


def _new_labels(codes: np.ndarray, values: pa.Array, valid: BoolArray, known: Labels) -> Labels:
    """Return the labels of rows that are not known yet; NULL needs none."""
    fresh, known = np.asarray(pc.is_valid(values)) & valid, known.without_null()
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


def _without_thinned(
    spec: DictionarySpec,
    keys: list[tuple[np.ndarray, BoolArray]],
    columns: list[np.ndarray],
    nulls: Roster,
    kept: BoolArray | None,
) -> BoolArray:
    """Return which rows are followed, given those whose link values are; columns: of the elements."""
    kept = np.ones(len(columns[0]), dtype=np.bool_) if kept is None else kept
    links = [valid for link, (_, valid) in zip(spec.classes, keys, strict=True) if link >= 0]
    chosen = kept & ~np.logical_and.reduce(links)
    left = np.ones(int(chosen.sum()), dtype=np.bool_)
    nulls.drop_unfollowed(element_codes([column[chosen] for column in columns]), left)
    kept[chosen] = left
    return kept


def element_flag(flag: Flag, prepared: Prepared) -> BoolArray:
    """Return which rows of a prepared batch carry a flag."""
    parts = [prepared.flags[flag.predicates]] if flag.predicates else []
    parts += [prepared.presence[part] for part in flag.presence]
    return np.asarray(np.logical_and.reduce(parts))
