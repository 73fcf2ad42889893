"""Answers as tables: each aggregate with the ends of its interval, whether it is exact, and a note.

`answer_as_table` is the only place where a state answers SQL: it takes Spark's SQL, and returns a table and sentences.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import inf

import pyarrow as pa
import pyarrow.compute as pc

from eddyline.answer.estimate import Estimate, show_share
from eddyline.answer.groups.table import EXACT, SELECTED, Groups
from eddyline.api.sql import outwards
from eddyline.api.state import State
from eddyline.expressions.arrow_values import as_decimals, to_arrow
from eddyline.plan.decide.coverage import declared
from eddyline.plan.layout import Layout, PlannedQuery
from eddyline.serve.postgres.dialect.to_spark import HIDDEN, Output, OutputPart, StreamQuestion
from eddyline.serve.postgres.settings import SIMULTANEOUS, Settings
from eddyline.sql.around.part_tables import measure_types, names_of_sums
from eddyline.sql.parse import parse_query
from eddyline.sql.query import ENDS, AnyQuery
from eddyline.types import Column

LOW, HIGH = ENDS
NOTE = "note"
_ENDINGS: tuple[tuple[OutputPart, str], ...] = (("low", LOW), ("high", HIGH))
_NUMBERS = pa.float64()
"""The type of interval ends of numbers: a float can be infinite, where an end has no bound."""


@dataclass(frozen=True)
class AnswerTable:
    """An answer as a table: group columns; x, x_low and x_high for each aggregate x; then exact.

    aggregates: their names. notes: what a careful reader should know. unseen: what groups that are not in the table
    may hold, as sentences. is_exact: nothing is missing and every number is exact.
    """

    table: pa.Table
    aggregates: tuple[str, ...]
    notes: tuple[str, ...]
    is_exact: bool
    confidence: float
    method: str
    unseen: tuple[str, ...] = ()

    def with_note(self) -> pa.Table:
        """Return the table with the notes as its last column, unless a column already has that name."""
        if NOTE in self.table.column_names:
            return self.table
        note = " ".join(self.notes) or None
        return self.table.append_column(NOTE, pa.array([note] * len(self.table), pa.string()))


def answer_as_table(state: State, text: str, settings: Settings) -> AnswerTable:
    """Return the answer of Spark's SQL, or of a planned query by its name.

    A SUM of DECIMALs is a DECIMAL, in an exact state as in a sampled one.
    """
    found: Estimate | Groups = state.answer(
        text, confidence=settings.confidence, simultaneous=settings.is_on(SIMULTANEOUS)
    )
    sums = state.snapshot.memo.recall(("sums", text), lambda: _decimal_sums(state.snapshot.layout, text))
    return _of_groups(found, sums) if isinstance(found, Groups) else _of_estimate(found, sums)


def _decimal_sums(layout: Layout, text: str) -> Mapping[str, pa.DataType]:
    planned = next((each for each in planned_queries(layout) if each.name == text), None)
    return decimal_sums(planned.query if planned is not None else parse_query(text, declared(layout)))


def decimal_sums(query: AnyQuery) -> Mapping[str, pa.DataType]:
    """Return the types of the SUMs of DECIMALs of a query, by name; that of a query without groups is `value`."""
    names = [each.name for each in query.aggregates] if query.is_table else ["value"]
    sums = names_of_sums(query, names)
    kinds = {name: to_arrow(kind) for name, kind in measure_types(query, list(sums)).items()} if sums else {}
    return {name: kind for name, kind in kinds.items() if pa.types.is_decimal(kind)}


def _of_groups(groups: Groups, sums: Mapping[str, pa.DataType]) -> AnswerTable:
    table = groups.to_arrow()
    for name in groups.aggregates:
        for end in (LOW, HIGH):
            place = table.column_names.index(name + end)
            ends = _ends(table.column(place))
            if name in sums and pa.types.is_decimal(ends.type):
                numbers = ends.to_pylist()
                ends = pa.chunked_array(
                    [[None if each is None else outwards(each, lower=end == LOW) for each in numbers]],
                    _NUMBERS,
                )
            table = table.set_column(place, name + end, ends)
        if name in sums:
            value = as_decimals(table.column(name), sums[name])
            table = table.set_column(table.column_names.index(name), name, value)
    unseen = []
    if groups.group_columns and not groups.exact:
        unseen = [
            f"{name} of groups that are not shown, together: {str(rest).split(' at ')[0]}"
            for name, rest in groups.rest.items()
            if name != HIDDEN and not (rest.exact and not rest.value)
        ]
    return AnswerTable(
        table, groups.aggregates, groups.notes, groups.exact, groups.confidence, groups.method, tuple(unseen)
    )


def _ends(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return column.cast(_NUMBERS, safe=False) if is_number else column


def _of_estimate(estimate: Estimate, sums: Mapping[str, pa.DataType]) -> AnswerTable:
    name, value = "value", estimate.value
    kind = _kind_of(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_number = is_number or name in sums
    low, high = estimate.low, estimate.high
    if not estimate.known:
        low, high = (-inf, inf) if kind == pa.null() else (None, None)
    ends = _NUMBERS if is_number or kind == pa.null() else kind
    table = pa.table(
        {
            name: as_decimals(pa.array([value], kind), sums[name])
            if name in sums
            else pa.array([value], kind),
            name + LOW: pa.array([_as_end(low, ends)], ends),
            name + HIGH: pa.array([_as_end(high, ends)], ends),
            EXACT: pa.array([estimate.exact], pa.bool_()),
        }
    )
    return AnswerTable(table, (name,), estimate.notes, estimate.exact, estimate.confidence, estimate.method)


def _as_end(value: object, kind: pa.DataType) -> object:
    if value is None or not pa.types.is_floating(kind):
        return None if isinstance(value, float) and value in (inf, -inf) else value
    return float(value)  # type: ignore[arg-type]


def _kind_of(value: object) -> pa.DataType:
    if value is None:
        return pa.null()
    if isinstance(value, int) and not isinstance(value, bool):
        return pa.int64() if -(1 << 63) <= value < 1 << 63 else pa.decimal256(76, 0)
    if isinstance(value, Decimal):
        return pa.decimal256(76, max(0, -int(value.as_tuple().exponent)))
    return pa.scalar(value).type


def shaped(
    answered: AnswerTable, question: StreamQuestion, *, intervals: bool
) -> tuple[pa.Table, tuple[Output, ...]]:
    """Return the columns that a question asked for, in its order, and the role of each.

    intervals: the ends of every aggregate follow it, then `exact`, unless the question asked for them.
    """
    outputs = list(question.outputs)
    if intervals:
        asked = {(each.part, each.of) for each in outputs}
        for place in range(len(outputs) - 1, -1, -1):
            output = outputs[place]
            ends = [
                Output(output.name + ending, part, output.of)
                for part, ending in _ENDINGS
                if output.part == "value" and (part, output.of) not in asked
            ]
            outputs[place + 1 : place + 1] = ends
        outputs += [Output(EXACT, "exact")] if ("exact", "") not in asked else []
    table, arrays, fields = answered.table, [], []
    only = answered.aggregates[0] if table.column_names[:1] == ["value"] and len(question.outputs) else None
    for output in outputs:
        column = _column(table, answered, output, only)
        arrays.append(column)
        fields.append(pa.field(output.name, column.type))
    made = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    return (made if question.limit is None else made.slice(0, question.limit)), tuple(outputs)


def _column(table: pa.Table, answered: AnswerTable, output: Output, only: str | None) -> pa.ChunkedArray:
    if output.part == "exact":
        return table.column(EXACT)
    if output.part == NOTE:
        return pa.chunked_array([pa.array([" ".join(answered.notes) or None] * len(table), pa.string())])
    of = only if only is not None and output.of not in table.column_names else output.of
    ending = {"low": LOW, "high": HIGH}.get(output.part, "")
    column = table.column(f"{of}{ending}")
    return as_integers(column) if output.counted and output.part == "value" else column


def as_integers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return counts as integers: an estimate is rounded to the nearest, so that the type never changes."""
    if pa.types.is_floating(column.type):
        return pc.round(column).cast(pa.int64())
    return column.cast(pa.int64()) if pa.types.is_null(column.type) else column


def notices(answered: AnswerTable, table: pa.Table, outputs: tuple[Output, ...]) -> list[str]:
    """Return the sentences of an answer: intervals that are not among its columns, unseen groups, and notes."""
    found = []
    shown = {(each.part, each.of) for each in outputs}
    if not answered.is_exact:
        for output in outputs:
            if output.part == "value" and not {("low", output.of), ("high", output.of)} <= shown:
                found += _interval_notice(answered, output)
        found += answered.unseen
        if SELECTED in answered.table.column_names:
            undecided = pc.sum(pc.not_equal(answered.table.column(SELECTED), "in")).as_py() or 0
            if undecided:
                chosen = "HAVING or LIMIT chose among estimates"
                found.append(f"{undecided} of {len(table)} groups may not belong to the result: {chosen}")
    return [*found, *answered.notes]


def _interval_notice(answered: AnswerTable, output: Output) -> list[str]:
    table = answered.table
    of = output.of if output.of in table.column_names else answered.aggregates[0]
    return interval_sentences(output.name, table, of, answered.confidence, answered.method)


def interval_sentences(name: str, table: pa.Table, of: str, confidence: float, method: str) -> list[str]:
    """Return the uncertainty of a column: the interval of one row, or the widest of many."""
    rows = table.select([of, of + LOW, of + HIGH, EXACT]).to_pydict()
    inexact = [row for row in zip(*rows.values(), strict=True) if not row[3]]
    at = f"at {show_share(confidence)}, {method}"
    if not inexact:
        return []
    estimates = [Estimate(name, value, low, high, confidence, method) for value, low, high, _ in inexact]
    if len(table) == 1:
        return [f"{name}: {estimates[0]}"]
    widest = max(each.relative_error for each in estimates)
    within = f"within {100 * widest:.2g}% of their values" if widest < inf else "some without a bound"
    ends = f"{name}{LOW} and {name}{HIGH} are their intervals"
    return [f"{name}: {len(inexact)} of {len(table)} rows are estimates, {within} {at}; {ends}"]


def stream_schema(columns: tuple[Column, ...]) -> pa.Schema:
    """Return the columns of a stream as columns of a table."""
    return pa.schema([(column.name, to_arrow(column.type)) for column in columns])


def planned_queries(layout: Layout) -> list[PlannedQuery]:
    """Return all planned queries; those with windows come last."""
    return [*layout.queries, *(each for group in layout.windows for each in group.layout.queries)]


def view_table(answered: AnswerTable, planned: PlannedQuery, name: str) -> pa.Table:
    """Return the answer of a planned query in the form of its view.

    name: the name of the only aggregate of a query without groups.
    """
    table, query = answered.with_note(), planned.query
    if not query.is_table:
        ends = (name, name + LOW, name + HIGH)
        table = table.rename_columns([*ends, *table.column_names[3:]])
        counted = {name} if query.is_count else set()
    else:
        counted = {each.name for each in query.aggregates if each.aggregate.function == "count"}
        counted |= {each.name for each in query.details if each.function == "distinct"}
    for place, column in enumerate(table.column_names):
        if column in counted:
            table = table.set_column(place, column, as_integers(table.column(place)))
    return table


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with the types of a view, which do not change when its answers do."""
    arrays: list[pa.ChunkedArray] = []
    for of in schema:
        if of.name not in table.column_names:
            arrays.append(pa.chunked_array([pa.nulls(len(table), of.type)]))
            continue
        column = table.column(of.name)
        arrays.append(column if column.type == of.type else column.cast(of.type, safe=False))
    return pa.Table.from_arrays(arrays, schema=schema)


def numbers_of(tables: Mapping[str, pa.Table]) -> int:
    """Return the bytes of some tables."""
    return sum(table.nbytes for table in tables.values())
