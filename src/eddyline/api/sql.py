"""`state.sql`: any SQL around our aggregates, as an Arrow table.

The parts of a query that are aggregates over streams are answered as by `state.answer`; DuckDB computes the rest on
the tables of their answers. The schema's metadata has what a reader should know:

of the table      eddyline.notes (a JSON list), eddyline.confidence, eddyline.exact, eddyline.freshness (JSON)
of a column       eddyline.exact; eddyline.role: value, label (made of group columns alone), low, high or end;
                  of a value also eddyline.interval: "carried", with eddyline.low and eddyline.high, the names of the
                  columns with its ends, or "not carried", or "exact"
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.answer.engine import run_engine
from eddyline.answer.estimate import Estimate
from eddyline.answer.freshness import plain
from eddyline.answer.groups.rows import WeightedRows, held_columns, weighted_rows
from eddyline.answer.groups.table import Groups
from eddyline.errors import EddylineError, PlanError, UnsupportedQuery
from eddyline.expressions.arrow_values import as_decimals, python_rows, to_arrow
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.decide.coverage import declared
from eddyline.plan.layout import Layout
from eddyline.plan.size.specs import HIGHEST_CONFIDENCE
from eddyline.sql.around.now import with_times
from eddyline.sql.around.part_tables import BIGINT, PartColumn, QueryPart
from eddyline.sql.around.parts import Values
from eddyline.sql.around.reading import Around, ResultColumn, read_around
from eddyline.sql.around.rows import Scene, parse_statement, reads_streams_alone
from eddyline.sql.as_of import marked_query
from eddyline.sql.clauses import rows_are_not_kept
from eddyline.sql.query import ENDS
from eddyline.sql.row_sample import WEIGHT_COLUMN, RowSample, asks_for_rows, read_row_sample

Answerer = Callable[[str], Any]
"""Answers a query that we support directly: an Estimate or Groups."""
_LABEL, _VALUE, _END = "label", "value", "end"
_MOST_DEPTH = 5
"""The depth of nested subqueries whose values become constants: chosen; people write one or two."""
_MAY_ASK_FOR_ROWS = re.compile(r"\b(limit|tablesample)\b", re.IGNORECASE)
_WHOLE_FLOATS = 2**53
"""Up to here a float can hold every integer."""


@dataclass(frozen=True)
class SqlQuestion:
    """A SQL string for a snapshot; answer: answers one of its parts at the requested confidence.

    earlier: plans of earlier moments, by the suffix that marks the names of their streams and queries.
    """

    snapshot: Snapshot
    answer: Answerer
    confidence: float
    now: datetime
    depth: int = 0
    earlier: Mapping[str, Layout] = field(default_factory=dict)

    def shared_confidence(self, text: str) -> float:
        """Return the confidence of each estimate at which those of all parts together have that of the question."""
        number = sum(column.estimate for part in self._read(text).parts for column in part.columns)
        return min(1 - (1 - self.confidence) / max(number, 1), HIGHEST_CONFIDENCE)

    def table(self, text: str, *, intervals: bool) -> pa.Table:
        """Return the result of a SQL string. intervals: with the ends of its columns next to each."""
        if not isinstance(text, str):
            raise PlanError(f"sql() takes a SQL string, not {text!r}.")
        rows = self._rows(text) if may_ask_for_rows(text) else None
        if rows is not None:
            return rows
        around = self._read(text)
        answers = {part.name: self._answered(part, alone=len(around.parts) == 1) for part in around.parts}
        tables = {part.name: _part_table(part, answers[part.name]) for part in around.parts}
        exact = {name: answers[name].exact for name in answers}
        if around.engine_sql is None:
            result = tables[around.parts[0].name]
        else:
            result = run_engine(around.engine_sql, tables, self.snapshot.layout.timezone)
        certain = not around.conditions
        notes = _notes(around, answers, exact, result, self.now)
        about = {
            "eddyline.confidence": repr(self.confidence),
            "eddyline.exact": _flag(certain and all(exact.values())),
            "eddyline.notes": json.dumps(notes, ensure_ascii=False),
        }
        freshness = next((each.freshness for each in answers.values() if each.freshness), None)
        if freshness is not None:
            about["eddyline.freshness"] = json.dumps(freshness.to_dict(), default=str)
        return _shown(around, result, exact, about, certain=certain, intervals=intervals)

    def _rows(self, text: str) -> pa.Table | None:
        """Return rows of a stream sample with their weights, None if a query does not ask for them."""
        statement, scene = parse_statement(text), scene_of(self.snapshot.layout, self.now)
        if not asks_for_rows(statement) or not reads_streams_alone(statement, scene, set()):
            return None
        if self.depth:
            raise UnsupportedQuery(rows_are_not_kept(text))
        held = {stream: most for stream, (most, *_) in held_columns(self.snapshot.layout).items()}
        asked = read_row_sample(
            text, with_times(statement, scene.streams, scene.now, scene.timezone), scene.streams, held
        )
        return _of_rows(weighted_rows(self.snapshot, asked), asked, self.confidence)

    def _read(self, text: str) -> Around:
        """Return how a SQL string is split, parsed once if it does not depend on the time or on values."""
        if self.earlier:
            return self._taken_apart(text)
        known = self.snapshot.memo.recall(("sql", text), lambda: self._taken_apart(text))
        return known if known.lasting else self._taken_apart(text)

    def _taken_apart(self, text: str) -> Around:
        scene = replace(scene_of(self.snapshot.layout, self.now), together=bool(self.earlier))
        for mark, layout in self.earlier.items():
            streams = {f"{name}{mark}": columns for name, columns in declared(layout).items()}
            views = {f"{each.name}{mark}": marked_query(each.query.text, mark) for each in layout.queries}
            scene = replace(scene, streams={**scene.streams, **streams}, views={**scene.views, **views})
        return read_around(text, scene, self._values)

    def _answered(self, part: QueryPart, *, alone: bool) -> Estimate | Groups:
        try:
            found: Estimate | Groups = self.answer(part.text)
        except EddylineError as error:
            if alone and part.text.count("part_") == 0 and self.depth == 0:
                raise
            raise type(error)(f"in the part {part.text!r}: {error}") from error
        return found

    def _values(self, text: str) -> Values:
        """Return the values of a subquery of one column as literals."""
        if self.depth >= _MOST_DEPTH:
            raise UnsupportedQuery(f"more than {_MOST_DEPTH} levels of subqueries: use fewer.")
        table = replace(self, depth=self.depth + 1).table(text, intervals=False)
        exact = (table.schema.metadata or {}).get(b"eddyline.exact") == b"true"
        return Values(
            tuple(_literal(each.as_py(), table.schema.field(0).type) for each in table.column(0)), exact
        )


def _of_rows(found: WeightedRows, asked: RowSample, confidence: float) -> pa.Table:
    """Return rows with what is known about them."""
    notes = []
    if not found.held and not found.exact:
        notes.append("no row in the sample matches the query, and the sample does not hold all rows.")
    elif not found.exact:
        notes.append(
            f"{len(found.table):,} of {found.held:,} different rows that are held, which represent about "
            f"{found.represented:,.0f} rows: `{WEIGHT_COLUMN}` says how many each represents."
        )
    if asked.left_out:
        notes.append(f"not held, and left out of the columns: {', '.join(asked.left_out)}.")
    fields = []
    for column in found.table.schema:
        is_weight = column.name == WEIGHT_COLUMN
        about = {"eddyline.exact": _flag(found.exact), "eddyline.role": _VALUE if is_weight else _LABEL}
        if is_weight:
            about["eddyline.interval"] = "exact" if found.exact else "not carried"
        fields.append(pa.field(column.name, column.type, metadata=about))
    about = {
        "eddyline.confidence": repr(confidence),
        "eddyline.exact": _flag(found.exact),
        "eddyline.notes": json.dumps(notes, ensure_ascii=False),
    }
    return found.table.cast(pa.schema(fields, metadata=about))


def scene_of(layout: Layout, now: datetime | None = None) -> Scene:
    """Return what a SQL string may read of a plan: its streams, and its queries without a window as views."""
    views = {planned.name: planned.query.text for planned in layout.queries}
    return Scene(declared(layout), views, now or datetime.now(UTC), layout.timezone)


def notes_of(table: pa.Table) -> list[str]:
    """Return the notes of a result of `state.sql`."""
    found: list[str] = json.loads((table.schema.metadata or {}).get(b"eddyline.notes", b"[]"))
    return found


def result_to_dict(text: str, table: pa.Table, limit: int | None = None) -> dict[str, object]:
    """Return a result of `state.sql` as plain values, ready for JSON: columns, rows, and their metadata."""
    about = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    columns = []
    for column in table.schema:
        known = {key.decode(): value.decode() for key, value in (column.metadata or {}).items()}
        exact = known.get("eddyline.exact")
        columns.append(
            {
                "name": column.name,
                "type": str(column.type),
                "role": known.get("eddyline.role", _VALUE),
                "exact": None if exact is None else exact == "true",
                "interval": known.get("eddyline.interval"),
                "low": known.get("eddyline.low"),
                "high": known.get("eddyline.high"),
            }
        )
    rows = [[plain(each) for each in row.values()] for row in python_rows(table.slice(0, limit))]
    fresh = about.get("eddyline.freshness")
    return {
        "query": text,
        "columns": columns,
        "rows": rows,
        "number_of_rows": table.num_rows,
        "exact": about.get("eddyline.exact") == "true",
        "confidence": float(about["eddyline.confidence"]),
        "notes": notes_of(table),
        "freshness": json.loads(fresh) if fresh else None,
    }


def may_ask_for_rows(text: str) -> bool:
    """Return whether SQL may ask for rows of a sample."""
    return _MAY_ASK_FOR_ROWS.search(text) is not None


def is_nested(text: str) -> bool:
    """Return whether SQL has several SELECTs or a window function, which no query that we support directly has."""
    return len(re.findall(r"\bselect\b", text, re.IGNORECASE)) > 1 or bool(
        re.search(r"\bover\b", text, re.IGNORECASE)
    )


def _literal(value: object, kind: pa.DataType) -> str:  # noqa: PLR0911 - one line per kind
    """Return a value as a literal of Spark's SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, datetime):
        zone = "TIMESTAMP" if kind.tz is not None else "TIMESTAMP_NTZ"
        return f"{zone} '{value.replace(tzinfo=None).isoformat(' ')}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UnsupportedQuery(
                f"the value of a subquery is {value}, and rows cannot be compared with it."
            )
        return f"CAST('{value!r}' AS DOUBLE)" if "e" in repr(value) else f"{value!r}D"
    if isinstance(value, int | Decimal):
        return str(value)
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"


def _part_table(part: QueryPart, answer: Estimate | Groups) -> pa.Table:
    """Return the answer of a part as the table that the rest of the SQL reads, with the types of the part."""
    table: Any = answer.table if isinstance(answer, Groups) else None
    columns: dict[str, pa.Array] = {}
    for column in part.columns:
        if not column.estimate:
            columns[column.name] = _combined(table[column.name]).cast(to_arrow(column.type))
            continue
        if isinstance(answer, Estimate):
            given = [pa.array([each]) for each in (answer.value, answer.low, answer.high)]
        else:
            given = [_combined(table[f"{column.name}{end}"]) for end in ("", *ENDS)]
        value, low, high = given
        columns[column.name] = _as_type(value, column)
        for end, side in zip(ENDS, (low, high), strict=True):
            columns[f"{column.name}{end}"] = _end(side, column, lower=end == ENDS[0])
    return pa.table(columns)


def _combined(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _as_type(values: pa.Array, column: PartColumn) -> pa.Array:
    kind = to_arrow(column.type)
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), kind)
    if column.sum and pa.types.is_decimal(kind):
        return as_decimals(values, kind)
    if pa.types.is_integer(kind) and pa.types.is_floating(values.type):
        values = pc.round(values)
    try:
        return values.cast(kind)
    except pa.ArrowInvalid as error:
        raise UnsupportedQuery(
            f"a value of {column.name!r} is beyond the range of {column.type}: {error}."
        ) from error


def _end(values: pa.Array, column: PartColumn, *, lower: bool) -> pa.Array:
    """Return the ends of numbers as floats, rounded outwards; those of other types unchanged."""
    if not column.sum and (not column.type.is_numeric or column.type.kind == "decimal"):
        kind = to_arrow(column.type)
        return pa.nulls(len(values), kind) if pa.types.is_null(values.type) else values.cast(kind)
    numbers = [None if each is None else outwards(each, lower=lower) for each in values.to_pylist()]
    return pa.array(numbers, pa.float64())


def outwards(number: float | Decimal, *, lower: bool) -> float:
    """Return an end of an interval as a float, rounded outwards where a float does not hold its digits."""
    made = float(number)
    if isinstance(number, Decimal) and Decimal(repr(made)) != number:
        beyond = Decimal(made) > number if lower else Decimal(made) < number
        return float(np.nextafter(made, -np.inf if lower else np.inf)) if beyond else made
    if isinstance(number, int) and abs(number) > _WHOLE_FLOATS and int(made) != number:
        beyond = int(made) > number if lower else int(made) < number
        return float(np.nextafter(made, -np.inf if lower else np.inf)) if beyond else made
    return made


def _notes(
    around: Around,
    answers: Mapping[str, Estimate | Groups],
    exact: Mapping[str, bool],
    result: pa.Table,
    now: datetime,
) -> list[str]:
    """Return what a careful reader should know about a result."""
    notes = list(dict.fromkeys(note for each in answers.values() for note in each.notes))
    if around.reads_now:
        notes.append(
            f"now() and current_date are the time of this answer, {now.isoformat(timespec='seconds')}."
        )
    notes += [
        f"the values of the subquery {written!r} are estimates, and they decide which rows count: no number here is "
        "exact."
        for written in around.conditions
    ]
    inexact = {name for name, is_exact in exact.items() if not is_exact}
    if any(_lacks_groups(each) for each in answers.values()):
        notes.append(
            "groups that are not seen are missing in the result; `rest` of state.answer() bounds what they hold."
        )
    if (around.engine_sql is None and not around.conditions) or not (inexact or around.conditions):
        return notes + _division_notes(around, result)
    decided = [
        what
        for what, parts in around.decisions.items()
        if parts & inexact and what not in ("aggregate", "GROUP BY")
    ]
    if decided:
        notes.append(f"{', '.join(decided)} decided by estimates: rows near the decision may be wrong.")
    collected = around.decisions.get("aggregate", frozenset()) & inexact
    if any(part.grouped for part in around.parts if part.name in collected):
        notes.append(
            "aggregates of grouped results are computed from the groups that are seen: those that are not seen are "
            "missing in them."
        )
    bare = [
        column.name
        for column in around.columns
        if column.estimate
        and (around.conditions or (column.ends is None and not column.is_end and column.parts & inexact))
    ]
    if bare:
        notes.append(
            f"interval not carried: {', '.join(bare)}. It is computed from estimates in a way that does not give it an "
            "interval."
        )
    return notes + _division_notes(around, result)


def _lacks_groups(answer: Estimate | Groups) -> bool:
    """Return whether groups may exist that an answer does not show."""
    return isinstance(answer, Groups) and bool(answer.group_columns) and not answer.exact


def _division_notes(around: Around, result: pa.Table) -> list[str]:
    if not around.is_divided or not any(result.column(each.source).null_count for each in around.columns):
        return []
    return ["a divisor of 0 makes a value NULL here, where Spark raises an error."]


def _shown(
    around: Around,
    result: pa.Table,
    exact: Mapping[str, bool],
    about: Mapping[str, str],
    *,
    certain: bool,
    intervals: bool,
) -> pa.Table:
    """Return the columns of the result in their order and types, with what is known about each."""
    fields, arrays = [], []
    taken = {column.name.lower() for column in around.columns}
    for column in around.columns:
        is_exact = certain and all(exact[part] for part in column.parts)
        ends = [f"{column.name}{end}" for end in ENDS]
        shown = intervals and column.ends is not None and not taken & {each.lower() for each in ends}
        known = column if certain or is_exact else replace(column, ends=None)
        values = _typed(result.column(column.source), column)
        fields.append(
            pa.field(column.name, values.type, metadata=_about(known, ends, exact=is_exact, shown=shown))
        )
        arrays.append(values)
        for role, name, source in zip(("low", "high"), ends, column.ends or (), strict=True) if shown else ():
            values = (
                result.column(source)
                if certain
                else pa.chunked_array([pa.nulls(result.num_rows, pa.float64())])
            )
            fields.append(
                pa.field(name, values.type, metadata={"eddyline.role": role, "eddyline.of": column.name})
            )
            arrays.append(values)
    return pa.table(arrays, schema=pa.schema(fields, metadata=dict(about)))


def _about(column: ResultColumn, ends: Sequence[str], *, exact: bool, shown: bool) -> dict[str, str]:
    role = _END if column.is_end else _VALUE if column.estimate else _LABEL
    made = {"eddyline.exact": _flag(exact), "eddyline.role": role}
    if role != _VALUE:
        return made
    carried = "carried" if column.ends is not None else "not carried"
    made["eddyline.interval"] = "exact" if exact and column.ends is None else carried
    if shown:
        made |= {"eddyline.low": ends[0], "eddyline.high": ends[1]}
    return made


def _typed(values: pa.ChunkedArray, column: ResultColumn) -> pa.ChunkedArray:
    """Return a column with its type in Spark, if that is known and holds its values."""
    kind = values.type
    if column.type is None or column.type.kind in ("void", "timestamp", "timestamp_ntz"):
        return values.cast(pa.int64()) if pa.types.is_decimal(kind) and kind.scale == 0 else values
    wanted = to_arrow(column.type if column.type.kind != "float" else BIGINT)
    if column.type.kind == "float" or kind == wanted or _loses_digits(kind, wanted):
        return values
    try:
        return values.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return values


def _loses_digits(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether a cast to a DECIMAL would round: quotients are DOUBLEs here, whatever their inferred type."""
    if not pa.types.is_decimal(wanted):
        return False
    return bool(pa.types.is_floating(kind) or (pa.types.is_decimal(kind) and kind.scale > wanted.scale))


def _flag(value: bool) -> str:
    return "true" if value else "false"
