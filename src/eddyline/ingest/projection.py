"""What a stream's rows are projected to: keys, predicates and measures of all synopses, each once."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.errors import CorruptState, PipelineError
from eddyline.expressions.arrow_values import to_arrow
from eddyline.expressions.nodes import columns_of, may_fail
from eddyline.kernels import doubles
from eddyline.plan.layout import Demand, Elements, KeptSynopsis, Layout, Measure, PlannedSample, Window
from eddyline.sample.state import Roster, SampleState
from eddyline.sketch.counters import Int64Array, multiply
from eddyline.sketch.keys import BoolArray, column_key, set_key, tuple_key, unscaled, validity
from eddyline.sql.query import Expression, Key
from eddyline.types import SqlType

# Guards of a pass: on which rows expressions that can fail are evaluated, for everything kept of a stream.


Predicates = tuple[tuple[str, ...], ...]
"""Conjunctions of predicates; at least one of them must hold."""
_ALWAYS: Predicates = ((),)


def projected_guards(
    kept: Sequence[KeptSynopsis], elements: Sequence[Elements]
) -> tuple[dict[str, Predicates], dict[Measure, Predicates]]:
    """Return (the guards of expressions, the guards of measures) that serve everything kept of a stream."""
    texts: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    measures: dict[Measure, set[tuple[str, ...]]] = defaultdict(set)
    for each in kept:
        demand = each.demand
        own = [demand.measure] if demand.measure is not None else []
        for text in _texts(demand.keys, demand.presence, own):
            texts[text].add(demand.predicates)
        for measure in own:
            measures[measure].add(demand.predicates)
    for part in elements:
        for text in _texts(part.keys, [p for flag in part.flags for p in flag.presence], part.measures):
            texts[text].update(part.guard(text) or _ALWAYS)
        for measure in part.measures:
            measures[measure].update(part.guard(measure.text, measure.power) or _ALWAYS)
    return (
        {text: tuple(sorted(each)) for text, each in texts.items() if () not in each and may_fail(text)},
        {measure: tuple(sorted(each)) for measure, each in measures.items() if () not in each},
    )


def _texts(keys: Sequence[Key], presence: Sequence[Expression], measures: Sequence[Measure]) -> Iterator[str]:
    yield from (part.text for key in keys for part in key.columns)
    yield from (part.text for part in presence)
    yield from (part.expression.text for measure in measures for part in measure.parts)


def any_of(
    predicates: Collection[tuple[str, ...]], truths: Mapping[tuple[str, ...], BoolArray]
) -> BoolArray | None:
    """Return the rows where at least one conjunction holds, None for all rows or where none are given."""
    if not predicates:
        return None
    rows = np.logical_or.reduce([truths[each] for each in predicates])
    return None if rows.all() else np.asarray(rows)


# A projected batch has one column each: part `k<i>_<j>` of a key, predicate `f<i>`, measure `m<i>`
# (`m<i>_<j>`: further parts of a product), presence `p<i>`, the weight `w`, for windows the event time `t` in
# microseconds, and `v<i>`: whether a watched column has a value. The Arrow path computes them with
# `expressions.arrow_eval`. Spark computes them in the JVM, and leaves out what it can: columns that equal another one
# (see `LeanColumns`), weights that are all 1, values if there are no flags. The key `k<i>` may replace its
# parts, and bits of `b<i>` replace predicates, presence and values. The code below is the same for both.


WEIGHT = "w"
TIME = "t"
FLAG_BITS = 63
"""Truth values in one column of flags: the sign bit is not used."""


@dataclass(frozen=True)
class Projection:
    """The distinct expressions that a stream's synopses need, each computed once per row.

    labelled: keys whose values are needed, too. guards: for expressions that can fail and that are not needed on
    all rows, the predicates, at least one of which must hold for them to be evaluated; elsewhere they are NULL.
    measured: the same for measures, whose numbers may have no fixed point. watched: columns that are read, but not
    carried unchanged by a key or measure.
    """

    keys: tuple[Key, ...]
    predicates: tuple[tuple[str, ...], ...]
    measures: tuple[Measure, ...]
    presence: tuple[Expression, ...]
    event_time: str | None = None
    labelled: tuple[Key, ...] = ()
    guards: Mapping[str, Predicates] = field(default_factory=dict)
    measured: Mapping[Measure, Predicates] = field(default_factory=dict)
    watched: tuple[str, ...] = ()

    @property
    def texts(self) -> list[str]:
        """All expressions."""
        texts = [part.text for key in self.keys for part in key.columns]
        texts += [conjunct for predicate in self.predicates for conjunct in predicate]
        texts += [part.text for part in self.numbers.values()]
        return texts + [part.text for part in self.presence]

    @property
    def numbers(self) -> dict[str, Expression]:
        """The expressions that measures are made of, by their columns of a batch."""
        return {
            measure_name(i, j): part.expression
            for i, measure in enumerate(self.measures)
            for j, part in enumerate(measure.parts)
        }

    @property
    def columns(self) -> set[str]:
        """The columns that the expressions read."""
        return {name for text in self.texts for name in columns_of(text)}


def project(
    kept: Sequence[KeptSynopsis], elements: Sequence[Elements] = (), event_time: str | None = None
) -> Projection:
    """Return the projection that serves all synopses and dictionaries of a stream, and its rows' event time."""
    flags = [flag for each in elements for flag in each.flags]
    keys = [key for each in kept for key in each.demand.keys] + [k for each in elements for k in each.keys]
    predicates = [each.demand.predicates for each in kept] + [flag.predicates for flag in flags]
    measures = [each.demand.measure for each in kept] + [m for each in elements for m in each.measures]
    presence = [part for each in kept for part in each.demand.presence]
    presence += [part for flag in flags for part in flag.presence]
    guards, measured = projected_guards(kept, elements)
    projection = Projection(
        keys=tuple(dict.fromkeys(keys)),
        predicates=tuple(dict.fromkeys(each for each in predicates if each)),
        measures=tuple(dict.fromkeys(each for each in measures if each is not None)),
        presence=tuple(dict.fromkeys(presence)),
        event_time=event_time,
        labelled=tuple(dict.fromkeys(key for each in elements for key in each.labelled)),
        guards=guards,
        measured=measured,
    )
    return replace(projection, watched=tuple(sorted(projection.columns - carriers(projection).keys())))


def carriers(projection: Projection) -> dict[str, str]:
    """Return the columns that keys and measures carry unchanged, with the batch's column for each."""
    found = {part.text: name for name, part in projection.numbers.items()}
    single = {i: key.columns[0].text for i, key in enumerate(projection.keys) if len(key.columns) == 1}
    found |= {text: part_name(i, 0) for i, text in single.items()}
    bare = {text: text.strip("`") for text in found}
    return {bare[text]: name for text, name in found.items() if columns_of(text) == {bare[text]}}


def watched_name(place: int) -> str:
    """Return the name of the column that shows whether a watched column has a value."""
    return f"v{place}"


def part_name(key: int, part: int) -> str:
    """Return the name of the column of a part of a key."""
    return f"k{key}_{part}"


def measure_name(measure: int, part: int = 0) -> str:
    """Return the name of the column of a measure, or of a further part of a product."""
    return f"m{measure}_{part}" if part else f"m{measure}"


@dataclass(frozen=True)
class Prepared:
    """A projected batch as arrays; a measure of several words has a row for each word."""

    weights: Int64Array
    keys: dict[Key, tuple[Int64Array, BoolArray]]
    flags: dict[tuple[str, ...], BoolArray]
    measures: dict[Measure, tuple[Int64Array, BoolArray]]
    presence: dict[Expression, BoolArray]
    labels: dict[Key, pa.Array]

    def only(self, rows: BoolArray, demands: Sequence[Demand]) -> "Prepared":
        """Return the part of the batch that some synopses read, for some rows."""
        keys = dict.fromkeys(key for each in demands for key in each.keys)
        keys |= dict.fromkeys(Key((part,)) for key in list(keys) for part in key.columns)
        measures = {each.measure for each in demands if each.measure is not None}
        chosen = pa.array(rows)
        return Prepared(
            self.weights[rows],
            {key: (self.keys[key][0][rows], self.keys[key][1][rows]) for key in keys if key in self.keys},
            {each.predicates: self.flags[each.predicates][rows] for each in demands if each.predicates},
            {
                each: (self.measures[each][0].compress(rows, axis=-1), self.measures[each][1][rows])
                for each in measures
            },
            {part: self.presence[part][rows] for each in demands for part in each.presence},
            {key: self.labels[key].filter(chosen) for key in keys if key in self.labels},
        )


def prepare(
    batch: pa.RecordBatch | pa.Table,
    projection: Projection,
    twins: Mapping[str, str] | None = None,
    known: Mapping[tuple[str, ...], BoolArray] | None = None,
) -> Prepared:
    """Return a projected batch as arrays of keys, flags, measures and weights.

    twins: for a column that the batch may leave out, the column that it equals. known: the truth of predicates that
    guards need and the batch does not have.
    """
    columns = _Columns(batch, twins or {})
    flags = [f"f{i}" for i in range(len(projection.predicates))]
    presence = [f"p{i}" for i in range(len(projection.presence))]
    truths = columns.truths([*flags, *presence])
    held = {**(known or {}), **dict(zip(projection.predicates, truths, strict=False))}
    return Prepared(
        weights=columns.weights(),
        keys={key: _key(columns, i, key) for i, key in enumerate(projection.keys)},
        flags=dict(zip(projection.predicates, truths, strict=False)),
        measures={
            m: _measured(columns, i, m, any_of(projection.measured.get(m, ()), held))
            for i, m in enumerate(projection.measures)
        },
        presence=dict(zip(projection.presence, truths[len(flags) :], strict=True)),
        labels={key: _labels(columns, projection.keys.index(key), key) for key in projection.labelled},
    )


class _Columns:
    """The columns of a projected batch by name; those left out are read from the columns that they equal."""

    def __init__(self, batch: pa.RecordBatch | pa.Table, twins: Mapping[str, str]) -> None:
        self.batch = batch
        self.names = set(batch.schema.names)
        self.twins = twins

    def __getitem__(self, name: str) -> pa.Array | pa.ChunkedArray:
        return self.batch.column(name if name in self.names else self.twins[name])

    def weights(self) -> Int64Array:
        """Return the weights: 1 where there are none."""
        if WEIGHT in self.names:
            return np.asarray(self.batch.column(WEIGHT))
        return np.ones(self.batch.num_rows, dtype=np.int64)

    def truths(self, names: list[str]) -> list[BoolArray]:
        """Return truth values, from their own columns or from bits in the same order."""
        if "b0" not in self.names:
            return [_flag(self.batch.column(name)) for name in names]
        words = [self.batch.column(f"b{i}").to_numpy() for i in range(-(-len(names) // FLAG_BITS))]
        return [words[i // FLAG_BITS] >> (i % FLAG_BITS) & 1 == 1 for i in range(len(names))]


def _labels(columns: _Columns, index: int, key: Key) -> pa.Array:
    """Return the values of a labelled key, which has one column."""
    column = columns[part_name(index, 0)]
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array.cast(to_arrow(key.columns[0].type))


def _key(columns: _Columns, index: int, key: Key) -> tuple[Int64Array, BoolArray]:
    if f"k{index}" in columns.names:
        return column_key(columns[f"k{index}"])
    parts = [columns[part_name(index, part)] for part in range(len(key.columns))]
    return set_key(parts) if key.null_is_value else tuple_key(parts)


def _flag(column: pa.Array | pa.ChunkedArray) -> BoolArray:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.asarray(array.fill_null(False))


def _measured(
    columns: _Columns, place: int, measure: Measure, rows: BoolArray | None
) -> tuple[Int64Array, BoolArray]:
    """Return (integers, valid) of a measure, the product of its parts; rows: where it is needed, None for all.

    For a measure of several words the integers have a row for each word. A product is valid where all of its parts
    are; its value elsewhere is not read.
    """
    arrays = [_needed(columns[measure_name(place, j)], rows) for j in range(len(measure.parts))]
    valid = np.logical_and.reduce([validity(array) for array in arrays])
    repeated = [
        (array, part) for array, part in zip(arrays, measure.parts, strict=True) for _ in range(part.power)
    ]
    if not measure.is_wide:
        return reduce(multiply, [_integers(array) for array, _ in repeated]), valid
    words = [_words(array, part, measure) for array, part in repeated]
    return reduce(doubles.product, words), valid


def _needed(column: pa.Array | pa.ChunkedArray, rows: BoolArray | None) -> pa.Array:
    """Return a column as one array, NULL on rows on which it is not needed."""
    if rows is not None:
        column = pc.if_else(pa.array(rows), column, pa.scalar(None, column.type))
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _integers(array: pa.Array) -> Int64Array:
    """Return numbers as integers, decimals unscaled, 0 where they are NULL."""
    if pa.types.is_decimal(array.type):
        return unscaled(array)
    return np.asarray(array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False))


def _words(array: pa.Array, part: Measure, measure: Measure) -> Int64Array:
    """Return the words of a number that is a part of a measure of several words; 0 where it is NULL."""
    if not part.expression.type.is_float:
        return doubles.split_integers(_integers(array))
    values = array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
    alone = measure.power == 1 and not measure.times
    limit = doubles.LARGEST if alone else doubles.LARGEST_SQUARED
    if not np.all(np.abs(values) < limit):
        most, what = ("4e18", "sum") if alone else ("2e9", "variance")
        raise PipelineError(
            f"the measure {part.expression.text} meets NaN, an infinity or a value beyond {most}, which has no "
            f"{what} here: exclude such rows in WHERE, sum CASE WHEN ... THEN ... END, or CAST the measure to a "
            "DECIMAL."
        )
    return doubles.split(values)


# Which columns of a projected batch carry what: no value is sent twice, because every column costs.
#
# A row that leaves the JVM pays for each of its columns, wide or narrow. So equal values share a column, a
# key of several columns is made from its parts where those are sent anyway, and all truth values of a row are
# bits of one integer.


_WHOLE = "64-bit integer"


def is_made_in_jvm(kind: SqlType) -> bool:
    """Return whether the JVM makes the 64-bit key of a value of this type; for other types it sends the value."""
    return kind.kind in ("boolean", "date", "timestamp", "string", "binary") or is_whole_number(kind)


def is_whole_number(kind: SqlType) -> bool:
    """Return whether a type's values are 64-bit integers, the same as a key and as a measure."""
    return kind.is_integer or (kind.kind == "decimal" and kind.scale == 0 and kind.precision <= 18)


@dataclass(frozen=True)
class LeanColumns:
    """The fewest columns for a projection.

    twins: for each key part and measure, the column that carries it. hashed: keys (by index) that are sent as one
    64-bit key instead of as parts.
    """

    twins: dict[str, str]
    hashed: frozenset[int]

    @property
    def names(self) -> list[str]:
        """The columns of key parts and measures that are sent, each once."""
        return list(dict.fromkeys(self.twins.values()))


def lean_columns(projection: Projection) -> LeanColumns:
    """Return the columns that carry a projection's keys and measures."""
    hashed = _hashed(projection)
    twins: dict[str, str] = {}
    first: dict[tuple[str, str], str] = {}
    for name, content in _contents(projection, hashed):
        twins[name] = first.setdefault(content, name)
    return LeanColumns(twins, hashed)


def _contents(projection: Projection, hashed: frozenset[int]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the name and the content of each column: of keys that are sent in parts, and of measures."""
    for i, key in enumerate(projection.keys):
        if i not in hashed:
            content = _as_value if key in projection.labelled else _as_key
            yield from ((part_name(i, j), content(part)) for j, part in enumerate(key.columns))
    yield from ((name, _as_number(part)) for name, part in projection.numbers.items())


def _as_key(part: Expression) -> tuple[str, str]:
    return part.text, _WHOLE if is_whole_number(part.type) else f"key of {part.type}"


def _as_value(part: Expression) -> tuple[str, str]:
    return part.text, f"value of {part.type}"


def _as_number(part: Expression) -> tuple[str, str]:
    return part.text, _WHOLE if is_whole_number(part.type) else f"number of {part.type}"


def _hashed(projection: Projection) -> frozenset[int]:
    """Return the keys of several columns that take fewer projected columns as one hash than column by column."""
    open_keys = {i: key for i, key in enumerate(projection.keys) if _can_be_hashed(key)}
    travelling = {content for _, content in _contents(projection, frozenset(open_keys))}
    found = True
    while found:
        found = False
        for i, key in list(open_keys.items()):
            more = {_as_key(part) for part in key.columns} - travelling
            if len(more) <= 1:
                travelling |= more
                del open_keys[i]
                found = True
    return frozenset(open_keys)


def _can_be_hashed(key: Key) -> bool:
    return len(key.columns) > 1 and all(is_made_in_jvm(part.type) for part in key.columns)


# What a pass over one stream fills: a plain value that is sent to tasks.


_LEAST_ROOM = 16 << 20
_BUDGETS = 2
"""A pass nets its own rows. It lowers rates by itself only if they exceed this many budgets and 16 MB.

The bytes are those of narrow columns, as the budget counts them: 16 MB hold about as much as 64 MB of 64-bit words.
While a pass merges its elements with new rows it takes twice as much.
"""


class RosterSpec(msgspec.Struct, frozen=True):
    """A roster as it is sent to tasks."""

    seed: int
    base: float
    values: bytes
    ranks: bytes

    @classmethod
    def of(cls, roster: Roster) -> "RosterSpec":
        """Return a roster as bytes."""
        values = roster.values.astype("<i8", copy=False).tobytes()
        return cls(roster.seed, roster.base, values, roster.ranks.tobytes())

    def roster(self) -> Roster:
        """Return the roster."""
        if len(self.values) != 8 * len(self.ranks):
            raise CorruptState(
                f"a roster holds {len(self.values) / 8} values and {len(self.ranks)} probabilities."
            )
        values = np.frombuffer(self.values, dtype="<i8").astype(np.int64)
        if not 0.0 <= self.base <= 1.0 or np.any(values[1:] <= values[:-1]):
            raise CorruptState("the probabilities of a roster are not in order.")
        return Roster(self.seed, self.base, values, np.frombuffer(self.ranks, dtype=np.uint8).copy())


class SampleTask(msgspec.Struct, frozen=True):
    """What a pass over one stream adds to a sample; grouped: the state is in its second stage."""

    sample: PlannedSample
    stream: str
    grouped: bool = False
    rosters: tuple[RosterSpec, ...] = ()

    @property
    def sketches(self) -> tuple[KeptSynopsis, ...]:
        """The sketches of the stream that complement the sample in its second stage."""
        return tuple(kept for kept in self.sample.sketches if kept.stream == self.stream)

    @property
    def bytes_allowed(self) -> int:
        """The bytes of elements that a pass may hold in memory."""
        return max(_BUDGETS * self.sample.spec.budget, _LEAST_ROOM)

    @classmethod
    def of(cls, sample: PlannedSample, stream: str, state: SampleState | None) -> "SampleTask":
        """Return the task with the stage and rosters of a state, or with the first stage without a state."""
        if state is None or not state.grouped:
            return cls(sample, stream)
        return cls(sample, stream, True, tuple(RosterSpec.of(roster) for roster in state.rosters))


class PaneSpec(msgspec.Struct, frozen=True):
    """What one stream adds to the panes of a window group."""

    group: str
    window: Window
    kept: tuple[KeptSynopsis, ...]
    samples: tuple[SampleTask, ...] = ()


class StreamSpec(msgspec.Struct, frozen=True):
    """Everything that a pass over one stream fills; rows with an event time before `floor` are late."""

    kept: tuple[KeptSynopsis, ...]
    panes: tuple[PaneSpec, ...] = ()
    floor: int | None = None
    samples: tuple[SampleTask, ...] = ()

    @property
    def nbytes(self) -> int:
        """The approximate bytes that a pass fills, including one pane of each window."""
        parts = [*self.kept, *(kept for pane in self.panes for kept in pane.kept)]
        tasks = [*self.samples, *(task for pane in self.panes for task in pane.samples)]
        return sum(kept.nbytes for kept in parts) + sum(task.sample.spec.budget for task in tasks)


States = Mapping[str, SampleState]
"""The states of stream samples, by id."""


def stream_spec(
    layout: Layout,
    stream: str,
    floor: int | None = None,
    states: States | None = None,
    pane_states: Mapping[str, States] | None = None,
) -> StreamSpec:
    """Return what a pass over a stream fills, given the stages of the samples of the state and of its panes."""
    panes = tuple(
        PaneSpec(
            group.id,
            group.window,
            group.layout.kept_for(stream),
            _tasks(group.layout, stream, (pane_states or {}).get(group.id, {})),
        )
        for group in layout.windows
        if any(each.name == stream for each in group.layout.streams)
    )
    return StreamSpec(layout.kept_for(stream), panes, floor, _tasks(layout, stream, states or {}))


def _tasks(layout: Layout, stream: str, states: States) -> tuple[SampleTask, ...]:
    return tuple(
        SampleTask.of(sample, stream, states.get(sample.id))
        for sample in layout.samples
        if sample.position(stream) is not None
    )
