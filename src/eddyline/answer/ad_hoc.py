"""Ad hoc queries: the dictionaries of one query, derived from those that a stream sample holds.

The columns of the held elements are decoded to a table. What the query reads is evaluated on this table as on rows
of the stream, and elements that the query cannot distinguish are added up. Later steps read the derived
dictionaries as if they had been planned.
"""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from eddyline.expressions.arrow_values import to_arrow
from eddyline.ingest.arrow_path import project_table, referenced
from eddyline.ingest.projection import Prepared, Projection, prepare
from eddyline.ingest.sample_pass import element_flag
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.decide.ad_hoc import AdHocQuery, Derived, loosened, readable_columns
from eddyline.plan.layout import Elements, Flag, Measure, PlannedQuery, Stream
from eddyline.sample.dictionary import Builder, Dictionary, flag_words
from eddyline.sample.labels import Labels
from eddyline.sample.packing import BoolArray, IntArray
from eddyline.sample.spec import COUNT, DictionarySpec
from eddyline.sample.state import Roster
from eddyline.sketch.counters import multiply
from eddyline.sketch.keys import NULL_KEY, values_of_keys
from eddyline.sql.query import Key
from eddyline.types import SqlType


def with_derived(snapshot: Snapshot, planned: PlannedQuery) -> Snapshot:
    """Return the snapshot with the dictionaries that an ad hoc query derives in place of its sample's."""
    if not isinstance(planned, AdHocQuery):
        return snapshot
    assert planned.sample is not None
    state = snapshot.samples[planned.sample]
    parts = planned.kept if state.grouped else planned.exact
    specs = planned.spec.kept if state.grouped else planned.spec.exact
    links, nulls, made = list(state.rosters[: len(state.spec.seeds)]), list[Roster](), list[Dictionary]()
    for part, spec in zip(parts, specs, strict=True):
        stream = snapshot.layout.stream(part.held.stream)
        own = state.nulls(part.source) if state.grouped else Roster(0)
        evaluated = _Evaluated(state.dictionaries[part.source], part, stream, planned, own)
        made.append(evaluated.dictionary(spec))
        nulls.append(own)
        for link, (values, rates) in evaluated.loose_nulls(spec).items():
            links[link] = links[link].with_rates(values, rates)
    records = {} if planned.shape is None else {planned.shape.name: state.record_of(planned.shape)}
    derived = replace(
        state, spec=planned.spec, dictionaries=tuple(made), rosters=(*links, *nulls), records=records
    )
    return replace(snapshot, samples={**snapshot.samples, planned.sample: derived})


class _Evaluated:
    """The elements of a held dictionary, and what a query reads of them that is not held and must be evaluated.

    nulls: the roster of the elements with a NULL link. Where they are sampled, each is a separate event. A link
    that the query does not join on then has the element's code in place of NULL. Where a link that it joins on is
    NULL, the code is an additional key, so that two such elements are not added up.
    """

    def __init__(
        self, dictionary: Dictionary, part: Derived, stream: Stream, planned: AdHocQuery, nulls: Roster
    ) -> None:
        self.source = dictionary
        self.nulls = nulls
        self.held, self.wanted = part.held, part.wanted
        projection = _unheld(part)
        known = {
            flag.predicates: dictionary.flag(place)
            for place, flag in enumerate(part.held.flags)
            if not flag.presence
        }
        places, kinds = readable_columns(part.held, stream), {c.name: c.type for c in stream.columns}
        columns = {
            name: _column(dictionary, part.held, places[name], kinds[name]) for name in referenced(projection)
        }
        table = pa.table(columns) if columns else pa.table({"none": pa.nulls(len(dictionary))})
        weights = dictionary.total(COUNT)
        batch = project_table(stream, table, weights, projection, planned.timezone, known)
        self.prepared: Prepared = prepare(batch, projection, known=known)

    def dictionary(self, spec: DictionarySpec) -> Dictionary:
        """Return the derived dictionary."""
        keys = [self._key(key) for key in self.wanted.keys]
        flags = [self._flag(flag) for flag in self.wanted.flags]
        words = flag_words(spec, [~valid for _, valid in keys], flags, len(self.source))
        totals = [self.source.total(COUNT)]
        for measure in self.wanted.measures:
            totals += self._totals(measure)
        columns = [np.where(valid, codes, 0) for codes, valid in keys]
        apart = [np.where(self._null_joined, self._codes, 0)] if self._null_joined.any() else []
        if apart:
            spec = structs.replace(spec, classes=(*spec.classes, -1))
            words = flag_words(
                spec, [*(~valid for _, valid in keys), ~self._null_joined], flags, len(self.source)
            )
        builder = Builder(spec)
        builder.add(np.stack([*columns, *apart, *words], axis=1), np.stack(totals, axis=1))
        for position in spec.labelled:
            builder.label(position, self._labels(self.wanted.keys[position], columns[position]))
        return builder.build()

    @cached_property
    def _codes(self) -> IntArray:
        """The code of each element with a NULL link, 0 for the others."""
        codes, null = np.zeros(len(self.source), dtype=np.int64), self.source.null_links()
        codes[null] = self.source.codes(null)
        return codes

    @cached_property
    def _null_joined(self) -> BoolArray:
        """Which elements are sampled individually, and are NULL in a link that the query joins on."""
        found = np.zeros(len(self.source), dtype=np.bool_)
        for position, key in enumerate(self.held.keys) if not self.nulls.follows_all else ():
            if self.source.spec.classes[position] >= 0 and key in self.wanted.keys:
                found |= self.source.is_null(position)
        return found

    def _loose(self) -> Iterator[tuple[int, Key, BoolArray]]:
        """Yield links that the query does not join on: (position, key, where its NULL stands for the element)."""
        left = ~self._null_joined
        for position, held in enumerate(self.held.keys):
            if self.source.spec.classes[position] >= 0 and loosened(held) in self.wanted.keys:
                null = self.source.is_null(position)
                yield position, loosened(held), null & left & (not self.nulls.follows_all)
                left = left & ~null

    def loose_nulls(self, spec: DictionarySpec) -> dict[int, tuple[IntArray, np.ndarray]]:
        """Return the values that stand for NULL, and their rates, for links that the query does not join on."""
        found = dict[int, tuple[IntArray, np.ndarray]]()
        for _, key, alone in self._loose():
            values = np.append(np.unique(self._codes[alone]), NULL_KEY)
            rates = np.append(np.full(len(values) - 1, self.nulls.base), 1.0)
            link = spec.classes[self.wanted.keys.index(key)]
            if link in found:
                values, rates = (
                    np.concatenate(both) for both in zip(found[link], (values, rates), strict=True)
                )
            found[link] = values, rates
        return found

    def _key(self, key: Key) -> tuple[IntArray, BoolArray]:
        if key in self.held.keys and _knows(self.held, self.wanted, key):
            position = self.held.keys.index(key)
            return self.source.key(position), ~self.source.is_null(position)
        strict = next((k for k, held in enumerate(self.held.keys) if loosened(held) == key), None)
        if strict is None:
            return self.prepared.keys[key]
        null = self.source.is_null(strict)
        values = np.where(null, NULL_KEY, self.source.key(strict))
        for position, _, alone in self._loose():
            values = np.where(alone, self._codes, values) if position == strict else values
        return values, np.ones(len(null), dtype=np.bool_)

    def _flag(self, flag: Flag) -> BoolArray:
        if _holds_flag(self.held, self.wanted, flag):
            return self.source.flag(self.held.flags.index(flag))
        return element_flag(flag, self.prepared)

    def _totals(self, measure: Measure) -> list[IntArray]:
        """Return the net sums of a measure, one for each of its words."""
        if _holds_measure(self.held, self.wanted, measure):
            return [self.source.total(column) for column in self.held.columns(measure)]
        values, valid = self.prepared.measures[measure]
        return [*np.atleast_2d(multiply(self.source.total(COUNT), np.where(valid, values, 0)))]

    def _labels(self, key: Key, codes: IntArray) -> Labels:
        if key in self.held.labelled and _knows(self.held, self.wanted, key):
            return self.source.labels[self.held.keys.index(key)]
        values = self.prepared.labels[key]
        valid = np.asarray(values.is_valid())
        return Labels.of(codes[valid], values.filter(pa.array(valid)))


def _unheld(part: Derived) -> Projection:
    """Return what must be evaluated on the elements: everything that is wanted and not held."""
    held, wanted = part.held, part.wanted
    keys = tuple(key for key in wanted.groups if not _is_there(held, wanted, key))
    flags = [flag for flag in wanted.flags if not _holds_flag(held, wanted, flag)]
    guards = {each.text: each.predicates for each in wanted.guards if each.power == 0}
    return Projection(
        keys=keys,
        predicates=tuple(dict.fromkeys(flag.predicates for flag in flags if flag.predicates)),
        measures=tuple(m for m in wanted.measures if not _holds_measure(held, wanted, m)),
        presence=tuple(dict.fromkeys(each for flag in flags for each in flag.presence)),
        labelled=tuple(key for key in keys if key in wanted.labelled),
        guards=guards,
        measured={m: wanted.guard(m.text, m.power) for m in wanted.measures},
    )


def _is_there(held: Elements, wanted: Elements, key: Key) -> bool:
    """Return whether a dictionary holds the values of a group column wherever they are wanted."""
    return key in (held.labelled if key in wanted.labelled else held.keys) and _knows(held, wanted, key)


def _knows(held: Elements, wanted: Elements, key: Key) -> bool:
    return all(held.knows_for(part.text, 0, wanted) for part in key.columns)


def _holds_flag(held: Elements, wanted: Elements, flag: Flag) -> bool:
    return flag in held.flags and all(held.knows_for(part.text, 0, wanted) for part in flag.presence)


def _holds_measure(held: Elements, wanted: Elements, measure: Measure) -> bool:
    return measure in held.measures and held.knows_for(measure.text, measure.power, wanted)


def _column(dictionary: Dictionary, held: Elements, position: int, kind: SqlType) -> pa.Array:
    """Return the values of a column for all elements; a DECIMAL may be held multiplied by a power of ten."""
    part = held.keys[position].columns[0]
    values = _decoded(dictionary, position, to_arrow(part.type))
    if part.type == kind:
        return values
    unit = pa.scalar(Decimal(1).scaleb(-kind.scale), pa.decimal128(kind.scale + 1, kind.scale))
    whole = values.cast(pa.decimal128(kind.precision + 1, 0))
    return pc.multiply(whole, unit).cast(to_arrow(kind))


def _decoded(dictionary: Dictionary, position: int, kind: pa.DataType) -> pa.Array:
    """Return the values of a key for all elements."""
    null = dictionary.is_null(position)
    if position not in dictionary.labels:
        return values_of_keys(dictionary.key(position), ~null, kind)
    places = pa.array(dictionary.elements[position].astype(np.int64), mask=null)
    return dictionary.labels[position].values.take(places).cast(kind)
