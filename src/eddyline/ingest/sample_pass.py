"""What batches of one stream add to a stream sample: exact elements first, in the second stage followed ones and
sketches.

A pass starts in the stage that the state is in. Should its own exact elements outgrow what a pass may hold, it goes
over to the second stage by itself: it builds the sketches from its elements, and follows the values that matter most
by what it saw, half of its elements, whenever it outgrows its room again. Rates only fall, so that the state can
always be brought under them.
"""  # noqa: D205

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from eddyline.ingest.elements import add_rows
from eddyline.ingest.projection import Prepared
from eddyline.ingest.sketching import Sketches, check_row_weights
from eddyline.ingest.stream_spec import SampleTask
from eddyline.plan.decide.facets import element_keys, flags_of
from eddyline.plan.layout import Elements, KeptSynopsis
from eddyline.sample.dictionary import Builder, Dictionary
from eddyline.sample.reduction import shrink_to_fit
from eddyline.sample.roster import Roster
from eddyline.sample.state import SampleState, fresh_rosters
from eddyline.sketch.hashed_keys import key_array
from eddyline.sketch.keys import NULL_KEY

_ROOM_LEFT = 0.5
"""A pass that is fuller than this part of its room, once inserts and deletes are netted, does not net them again."""


def sketch_elements(
    sketches: Iterable[KeptSynopsis], elements: Elements, dictionary: Dictionary, into: Sketches
) -> None:
    """Add the net rows of an exact dictionary to sketches: they become what they would be from the first row."""
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


class SamplePass:
    """The elements, and in the second stage the sketches, of one stream while its batches go by."""

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
        self.sketches.feed(prepared)
        self._fit()

    def _stay_or_go_over(self) -> None:
        """Go over to the second stage where the net rows outgrow the room of the pass."""
        if self.exact.nbytes > self.task.room:
            self.exact.compact()
            if self.exact.nbytes > _ROOM_LEFT * self.task.room:
                self.go_over()

    def go_over(self) -> None:
        """Go over to the second stage: build the sketches, regroup the elements."""
        if self.grouped:
            return
        planned, exact = self.task.sample, self.exact.build()
        self.sketches = Sketches(self.task.sketches)
        sketch_elements(self.task.sketches, planned.exact[self.position], exact, self.sketches)
        self.grouped = True
        self._start()
        for i, builder in self.builders.items():
            how = planned.spec.regrouped[i]
            part = exact.regrouped(planned.spec.kept[i], how.keys, how.flags, how.measures)
            builder.take(part)
        self._fit()

    def _fit(self) -> None:
        """Follow only the values that matter most to this pass until half of what is too large is left."""
        if self._bytes > self.task.room:
            for builder in self.builders.values():
                builder.compact()
        while self._bytes > self.task.room:
            state = self.state()
            self._lower(shrink_to_fit([state], state.nbytes // 2)[0].rosters)

    @property
    def _bytes(self) -> int:
        return sum(builder.nbytes for builder in self.builders.values())

    def _lower(self, rosters: tuple[Roster, ...]) -> None:
        """Bring what is held under lower rosters."""
        state = self.state()
        state = state.under(rosters)
        self.rosters = state.rosters
        self._start()
        for i, builder in self.builders.items():
            builder.take(state.dictionaries[i])

    def state(self) -> SampleState:
        """Return what was added, as a state of the whole sample in which the other streams are empty."""
        empty = SampleState.empty(self.task.sample.spec, grouped=self.grouped)
        parts = list(empty.dictionaries)
        if self.grouped:
            for i, builder in self.builders.items():
                parts[i] = builder.build()
            return replace(empty, dictionaries=tuple(parts), rosters=self.rosters)
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
            sketch_elements(self.task.sketches, planned.exact[self.position], exact, self.sketches)
        state = state.in_second_stage().under(self.rosters)
        if not state.follows_all:
            self._lower(state.rosters)
        for i, builder in self.builders.items():
            builder.take(state.dictionaries[i])
        self._fit()
