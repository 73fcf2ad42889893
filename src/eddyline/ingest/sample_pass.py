"""What batches of one stream add to a stream sample: elements while all fit, then followed ones and sketches."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.ingest.projection import Prepared, SampleTask, any_of
from eddyline.ingest.sketching import Sketches, check_row_weights
from eddyline.plan.decide.facets import element_keys, flags_of
from eddyline.plan.layout import Elements, Flag, KeptSynopsis, Measure, PlannedSample
from eddyline.sample.dictionary import Builder, Dictionary, element_codes, flag_words
from eddyline.sample.labels import Labels
from eddyline.sample.reduction import shrink_to_fit
from eddyline.sample.spec import DictionarySpec
from eddyline.sample.state import Roster, SampleState, fresh_rosters
from eddyline.sketch.counters import key_array, multiply
from eddyline.sketch.keys import NULL_KEY, BoolArray
from eddyline.sql.query import Key

# Rows into elements: what a projected batch adds to the dictionaries of a stream sample.


def add_rows(
    builder: Builder,
    elements: Elements,
    prepared: Prepared,
    rosters: tuple[Roster, ...] = (),
    nulls: Roster | None = None,
) -> None:
    """Add a batch to a dictionary; with rosters, only rows whose link values are all followed.

    nulls: the roster of rows with a NULL link, which are followed by all columns of their element.
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
    """A batch as a dictionary reads it: expressions that can fail have values only where its guards hold.

    A batch may have values on more rows, for other dictionaries. Keeping those would make a dictionary depend on
    others.
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
        """Return which rows have a flag."""
        return self._within(element_flag(flag, prepared), ((part.text, 0) for part in flag.presence))

    def measure(self, measure: Measure, prepared: Prepared) -> tuple[np.ndarray, BoolArray]:
        """Return (integers, valid) of a measure."""
        values, valid = prepared.measures[measure]
        return values, self._within(valid, [(measure.text, measure.power)])


def _new_labels(codes: np.ndarray, values: pa.Array, valid: BoolArray, known: Labels) -> Labels:
    """Return the labels of rows that are not known yet; NULL needs no label."""
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
    """Return which rows are followed, given the rows whose link values are; columns: those of the elements."""
    kept = np.ones(len(columns[0]), dtype=np.bool_) if kept is None else kept
    links = [valid for link, (_, valid) in zip(spec.classes, keys, strict=True) if link >= 0]
    chosen = kept & ~np.logical_and.reduce(links)
    left = np.ones(int(chosen.sum()), dtype=np.bool_)
    nulls.drop_unfollowed(element_codes([column[chosen] for column in columns]), left)
    kept[chosen] = left
    return kept


def element_flag(flag: Flag, prepared: Prepared) -> BoolArray:
    """Return which rows of a prepared batch have a flag."""
    parts = [prepared.flags[flag.predicates]] if flag.predicates else []
    parts += [prepared.presence[part] for part in flag.presence]
    return np.asarray(np.logical_and.reduce(parts))


# A pass starts in the stage of the state. If its own exact elements exceed what a pass may hold, it switches
# to the second stage by itself: it builds the sketches from its elements. Whenever it exceeds its allowance
# again, it follows only the values that matter most in what it saw, half of its elements. Rates only fall, so
# the state can always be reduced to them.


_SHARE_LEFT = 0.5
"""A pass that fills more than this part of its allowance after netting inserts and deletes does not net again."""


def sketch_elements(
    sketches: Iterable[KeptSynopsis], elements: Elements, dictionary: Dictionary, into: Sketches
) -> None:
    """Add the net rows of a dictionary to sketches: the result is as if they had been fed from the first row."""
    for kept in sketches:
        counted = np.ones(len(dictionary), dtype=np.bool_)
        keys = []
        for key, held in zip(kept.demand.keys, element_keys(kept.demand), strict=True):
            position = elements.keys.index(held)
            values, null = dictionary.key(position), dictionary.is_null(position)
            if held != key:
                values = np.where(null, NULL_KEY, values)
            else:
                counted &= ~null
            keys.append(values)
        for flag in flags_of(kept.demand):
            counted &= dictionary.flag(elements.flags.index(flag))
        measure = kept.demand.measure
        sums = (-1,) if measure is None else elements.columns(measure)[-kept.number_words :]
        weights = np.stack([dictionary.total(column)[counted] for column in sums])
        rows = dictionary.total(-1)[counted]
        into.add(
            kept, key_array(*(key[counted] for key in keys)), weights if len(sums) > 1 else weights[0], rows
        )
        if kept.has_labels:
            into.label(kept, keys[0], _label_columns(kept, elements, dictionary))


def _label_columns(kept: KeptSynopsis, elements: Elements, dictionary: Dictionary) -> tuple[pa.Array, ...]:
    """Return the values of the columns of a sketch's key in the elements of a dictionary."""
    made = []
    for part in kept.demand.keys[0].columns:
        position = elements.keys.index(Key((part,)))
        codes, null = dictionary.key(position), dictionary.is_null(position)
        if position in dictionary.labels:
            values = dictionary.labels[position].decoded(codes)
            made.append(pc.if_else(pa.array(null), None, values) if null.any() else values)
        else:
            made.append(pa.array(codes, mask=null))
    return tuple(made)


def of_every_row(sketches: Iterable[KeptSynopsis]) -> list[KeptSynopsis]:
    """Return the sketches that hold every row."""
    return [kept for kept in sketches if not kept.unfollowed]


def sketch_dropped(
    planned: PlannedSample,
    sketches: Iterable[KeptSynopsis],
    state: SampleState,
    rosters: tuple[Roster, ...],
    into: Sketches,
) -> None:
    """Add to sketches of unfollowed keys what a state of the second stage would drop under lower rosters."""
    dropped: dict[int, Dictionary] = {}
    for kept in sketches:
        source = planned.source(kept.demand) if kept.unfollowed else None
        if source is None:
            continue
        if source not in dropped:
            dictionary = state.dictionaries[source]
            (position,) = (i for i, link in enumerate(dictionary.spec.classes) if link >= 0)
            followed = np.ones(len(dictionary), dtype=np.bool_)
            rosters[dictionary.spec.classes[position]].drop_unfollowed(dictionary.key(position), followed)
            dropped[source] = dictionary.where(~followed & ~dictionary.is_null(position))
        if len(dropped[source]):
            sketch_elements([kept], planned.kept[source], dropped[source], into)


class SamplePass:
    """The elements, and in the second stage the sketches, of one stream while its batches are read."""

    def __init__(self, task: SampleTask) -> None:
        self.task = task
        planned, position = task.sample, task.sample.position(task.stream)
        assert position is not None
        self.position = position
        self.kept = [i for i, each in enumerate(planned.kept) if each.stream == task.stream]
        self.grouped = task.grouped
        self.rosters = tuple(each.roster() for each in task.rosters) or fresh_rosters(planned.spec)
        self.sketches = Sketches(task.sketches if task.grouped else ())
        self._start()

    def _start(self) -> None:
        spec = self.task.sample.spec
        self.exact = Builder(spec.exact[self.position])
        self.builders = {i: Builder(spec.kept[i]) for i in self.kept} if self.grouped else {}

    def feed(self, prepared: Prepared) -> None:
        """Add one prepared batch."""
        planned = self.task.sample
        if not self.grouped:
            check_row_weights(self.task.sketches, prepared)
            add_rows(self.exact, planned.exact[self.position], prepared)
            self._stay_or_go_over()
            return
        for i, builder in self.builders.items():
            nulls = self.rosters[len(planned.spec.seeds) + i]
            add_rows(builder, planned.kept[i], prepared, self.rosters, nulls)
        self.sketches.feed(prepared, self._followed(prepared))
        self._fit()

    def _followed(self, prepared: Prepared) -> dict[Key, BoolArray]:
        """Return which rows of a batch are followed, for each key of the sketches of unfollowed rows."""
        planned, found = self.task.sample, dict[Key, BoolArray]()
        for kept in self.task.sketches:
            (key, *_), source = kept.demand.keys, planned.source(kept.demand) if kept.unfollowed else None
            if source is None or key in found:
                continue
            link = planned.spec.kept[source].classes[planned.kept[source].keys.index(key)]
            if not self.rosters[link].follows_all:
                values, valid = prepared.keys[key]
                found[key] = np.ones(len(values), dtype=np.bool_)
                self.rosters[link].drop_unfollowed(values, found[key])
                found[key] |= ~valid
        return found

    def _stay_or_go_over(self) -> None:
        """Switch to the second stage where the net rows exceed the allowance of the pass."""
        if self.exact.nbytes > self.task.bytes_allowed:
            self.exact.compact()
            if self.exact.nbytes > _SHARE_LEFT * self.task.bytes_allowed:
                self.go_over()

    def go_over(self) -> None:
        """Switch to the second stage: build the sketches, regroup the elements."""
        if self.grouped:
            return
        planned, exact = self.task.sample, self.exact.build()
        self.sketches = Sketches(self.task.sketches)
        sketch_elements(of_every_row(self.task.sketches), planned.exact[self.position], exact, self.sketches)
        self.grouped = True
        self._start()
        for i, builder in self.builders.items():
            how = planned.spec.regrouped[i]
            part = exact.regrouped(planned.spec.kept[i], how.keys, how.flags, how.measures)
            builder.take(part)
        self._fit()

    def _fit(self) -> None:
        """Follow only the values that matter most to this pass, until half of the elements are left."""
        if self._bytes > self.task.bytes_allowed:
            for builder in self.builders.values():
                builder.compact()
        while self._bytes > self.task.bytes_allowed:
            state = self.state()
            self.lower(shrink_to_fit([state], state.nbytes // 2)[0].rosters)

    @property
    def _bytes(self) -> int:
        return sum(builder.nbytes for builder in self.builders.values())

    def lower(self, rosters: tuple[Roster, ...]) -> None:
        """Reduce the elements to lower rosters; sketches get what is dropped."""
        state = self.state()
        sketch_dropped(self.task.sample, self.task.sketches, state, rosters, self.sketches)
        lowered = state.under(rosters)
        # elements of a pass that just went over to the second stage are not filtered yet
        state = state.filtered(state.rosters) if lowered is state else lowered
        self.rosters = state.rosters
        self._start()
        for i, builder in self.builders.items():
            builder.take(state.dictionaries[i])

    def state(self) -> SampleState:
        """Return what was added, as a state of the whole sample in which the other streams are empty.

        The tables of the builders are emptied: what they hold is narrower in the state.
        """
        empty = SampleState.empty(self.task.sample.spec, grouped=self.grouped)
        parts = list(empty.dictionaries)
        if self.grouped:
            for i, builder in self.builders.items():
                builder.compact()
                parts[i] = builder.build()
            return replace(empty, dictionaries=tuple(parts), rosters=self.rosters)
        self.exact.compact()
        parts[self.position] = self.exact.build()
        return replace(empty, dictionaries=tuple(parts))

    def take(self, state: SampleState) -> None:
        """Add what another pass over the same stream saw, as `state` returned it."""
        if state.grouped and not self.grouped:
            self.go_over()
        if not self.grouped:
            self.exact.take(state.dictionaries[self.position])
            self._stay_or_go_over()
            return
        if not state.grouped:
            planned = self.task.sample
            exact = state.dictionaries[self.position]
            sketch_elements(
                of_every_row(self.task.sketches), planned.exact[self.position], exact, self.sketches
            )
        state = state.in_second_stage()
        sketch_dropped(self.task.sample, self.task.sketches, state, self.rosters, self.sketches)
        state = state.under(self.rosters)
        if not state.follows_all:
            self.lower(state.rosters)
        for i, builder in self.builders.items():
            builder.take(state.dictionaries[i])
        self._fit()
