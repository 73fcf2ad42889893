"""What a stream's rows are projected to: the distinct keys, predicates and measures of all its synopses.

A projected batch has one column each: part `k<i>_<j>` of a key, predicate `f<i>`, measure `m<i>`, presence `p<i>`,
the weight `w`, for windows the event time `t` in microseconds, and `v<i>`: whether a watched column has a value. The
Arrow path computes them with
`sql.arrow_eval`. Spark computes them in the JVM, and leaves out what can be: columns that another one equals
(`ingest.columns`), weights that are all 1, values if there are no flags; the key `k<i>` may stand for its parts, and
bits of `b<i>` for predicates, presence and values. What follows is the same code for both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.errors import PipelineError
from eddyline.ingest.guards import Predicates, any_of, projected_guards
from eddyline.kernels import doubles
from eddyline.plan.layout import Elements, KeptSynopsis, Measure
from eddyline.sketch.counters import Int64Array, multiply
from eddyline.sketch.keys import BoolArray, column_key, set_key, tuple_key, unscaled, validity
from eddyline.sql.arrow_types import to_arrow
from eddyline.sql.columns import columns_of
from eddyline.sql.query import Expression, Key

WEIGHT = "w"
TIME = "t"
FLAG_BITS = 63
"""Truth values in one column of flags: the sign stays free."""


@dataclass(frozen=True)
class Projection:
    """The distinct expressions that a stream's synopses need, each computed once per row.

    labelled: keys of which the values themselves are needed, too. guards: for expressions that can fail and that are
    not needed on all rows, the predicates of which one must hold for them to be evaluated; elsewhere they are NULL.
    measured: the same for measures, whose numbers may have no fixed point. watched: columns that are read, but that no
    key or measure carries as they are.
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
        texts += [measure.expression.text for measure in self.measures]
        return texts + [part.text for part in self.presence]

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
    """Return the columns that keys and measures of a batch carry as they are, and by which of its columns."""
    found = {measure.expression.text: measure_name(i) for i, measure in enumerate(projection.measures)}
    single = {i: key.columns[0].text for i, key in enumerate(projection.keys) if len(key.columns) == 1}
    found |= {text: part_name(i, 0) for i, text in single.items()}
    bare = {text: text.strip("`") for text in found}
    return {bare[text]: name for text, name in found.items() if columns_of(text) == {bare[text]}}


def watched_name(place: int) -> str:
    """Return the column that says whether a watched column has a value."""
    return f"v{place}"


def part_name(key: int, part: int) -> str:
    """Return the column of a part of a key."""
    return f"k{key}_{part}"


def measure_name(measure: int) -> str:
    """Return the column of a measure."""
    return f"m{measure}"


@dataclass(frozen=True)
class Prepared:
    """A projected batch as arrays; of a measure of several words, a row for each word."""

    weights: Int64Array
    keys: dict[Key, tuple[Int64Array, BoolArray]]
    flags: dict[tuple[str, ...], BoolArray]
    measures: dict[Measure, tuple[Int64Array, BoolArray]]
    presence: dict[Expression, BoolArray]
    labels: dict[Key, pa.Array]


def prepare(
    batch: pa.RecordBatch | pa.Table,
    projection: Projection,
    twins: Mapping[str, str] | None = None,
    known: Mapping[tuple[str, ...], BoolArray] | None = None,
) -> Prepared:
    """Return a projected batch as arrays of keys, flags, measures and weights.

    twins: for a column that the batch may leave out, the one that it equals. known: the truth of predicates that guards
    need and the batch does not have.
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
            m: _powered(columns[measure_name(i)], m, any_of(projection.measured.get(m, ()), held))
            for i, m in enumerate(projection.measures)
        },
        presence=dict(zip(projection.presence, truths[len(flags) :], strict=True)),
        labels={key: _labels(columns, projection.keys.index(key), key) for key in projection.labelled},
    )


class _Columns:
    """The columns of a projected batch by name, those left out by what they equal."""

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
        """Return truth values, from columns of their own or from bits in their order."""
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


def _powered(
    column: pa.Array | pa.ChunkedArray, measure: Measure, rows: BoolArray | None
) -> tuple[Int64Array, BoolArray]:
    """Return (integers, valid) of a measure raised to its power; rows: on which it is needed, None for all.

    Of a measure of several words the integers have a row for each.
    """
    if rows is not None:
        column = pc.if_else(pa.array(rows), column, pa.scalar(None, column.type))
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    values = _words(array, measure) if measure.is_wide else _integers(array)
    raised = values
    for _ in range(0 if measure.is_wide else measure.power - 1):
        raised = multiply(raised, values)
    return raised, validity(array)


def _integers(array: pa.Array) -> Int64Array:
    """Return numbers as integers, decimals unscaled, 0 where they are NULL."""
    if pa.types.is_decimal(array.type):
        return unscaled(array)
    return np.asarray(array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False))


def _words(array: pa.Array, measure: Measure) -> Int64Array:
    """Return the words of FLOAT and DOUBLE, raised to the measure's power; 0 where they are NULL."""
    values = array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
    limit = doubles.LARGEST if measure.power == 1 else doubles.LARGEST_SQUARED
    if not np.all(np.abs(values) < limit):
        most, what = ("4e18", "sum") if measure.power == 1 else ("2e9", "variance")
        raise PipelineError(
            f"the measure {measure.expression.text} meets NaN, an infinity or a value beyond {most}, which has no "
            f"{what} here: exclude such rows in WHERE, sum CASE WHEN ... THEN ... END, or CAST the measure to a "
            "DECIMAL."
        )
    words = doubles.split(values)
    return words if measure.power == 1 else doubles.squared(words)
