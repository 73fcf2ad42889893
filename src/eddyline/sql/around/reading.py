"""Splits a query into the parts that eddyline answers and the query that an engine runs over their tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify

from eddyline.errors import SqlError
from eddyline.expressions.nodes import fragment
from eddyline.expressions.schema import sql_type
from eddyline.sql.around.engine_text import engine_text
from eddyline.sql.around.intervals import HIGH, LOW, Decisions, add_ends, follow
from eddyline.sql.around.now import reads_now
from eddyline.sql.around.part_tables import (
    BIGINT,
    DOUBLE,
    PartColumn,
    QueryPart,
    measure_types,
    names_of_sums,
)
from eddyline.sql.around.parts import Resolve, Taken
from eddyline.sql.around.rows import Scene, output_names, parse_statement, resolved
from eddyline.sql.parse import parse_query, parser_reason
from eddyline.sql.query import ENDS
from eddyline.types import SqlType


@dataclass(frozen=True)
class ResultColumn:
    """A column of the result.

    parts: the names of the parts that it depends on. estimate: it depends on aggregates, not on group columns
    alone. ends: the names of the engine's columns with its interval; None where it has no interval. is_end: it is
    an end.
    """

    name: str
    source: str
    type: SqlType | None
    parts: frozenset[str]
    estimate: bool
    ends: tuple[str, str] | None
    is_end: bool = False


@dataclass(frozen=True)
class Around:
    """A query, split into parts and a rest.

    engine_sql: what is computed from the parts' tables, in DuckDB's dialect; None where the only part is the
    result. decisions: the parts whose estimates choose, order or group rows, by the clause that uses them.
    conditions: subqueries whose values are not exact and became constants. is_divided: it divides outside of the
    parts. lasting: the result of reading is the same at another time, and for another state of the plan.
    """

    parts: tuple[QueryPart, ...]
    engine_sql: str | None
    columns: tuple[ResultColumn, ...]
    decisions: dict[str, frozenset[str]]
    conditions: tuple[str, ...] = ()
    is_divided: bool = False
    reads_now: bool = False
    lasting: bool = True


def read_around(text: str, scene: Scene, resolve: Resolve) -> Around:
    """Return how a query is answered, or raise SqlError or UnsupportedQuery with the part at fault.

    resolve: answers a subquery whose values become constants of a part.
    """
    try:
        return _read(text, scene, resolve)
    except RecursionError as error:
        raise SqlError("the query is too deeply nested: use fewer levels.") from error


def _read(text: str, scene: Scene, resolve: Resolve) -> Around:
    statement = parse_statement(text)
    whole = _as_one_part(text, statement, scene)
    if whole is not None:
        return whole
    names, now = output_names(statement), reads_now(statement)
    taken = Taken(scene, resolve)
    query = taken.query(resolved(statement, text, scene), {})
    if not taken.parts:
        return _without_parts(query, names, taken)
    try:
        made = qualify(query, schema=_schema(taken.parts), dialect="spark", expand_stars=True)
    except SqlglotError as error:
        raise SqlError(f"{parser_reason(error)}.") from error
    return _followed(made, names, taken, reads_now=now)


def _as_one_part(text: str, statement: exp.Expr, scene: Scene) -> Around | None:
    """Return a query that is one supported part as it is; None for any other query.

    HAVING is left to the engine, which decides by the estimates; our own answer also contains undecided groups.
    """
    if not isinstance(statement, exp.Select) or statement.args.get("having") or reads_now(statement):
        return None
    try:
        parsed = parse_query(text, scene.streams)
    except SqlError:
        return None
    if parsed.is_table:
        measures = [name for name in parsed.selected if name in parsed.measures]
        kinds = measure_types(parsed, measures)
        kinds |= {group.name: group.expression.type for group in parsed.groups}
        order = parsed.selected
    else:
        only = statement.expressions[0]
        name = only.alias or fragment(only)
        measures, order = [name], (name,)
        kinds = measure_types(parsed, measures)
    sums = names_of_sums(parsed, measures)
    columns = tuple(PartColumn(name, kinds[name], name in measures, name in sums) for name in order)
    part = QueryPart("part_1", text, columns, bool(parsed.groups))
    of = frozenset([part.name])
    return Around(
        (part,),
        None,
        tuple(
            ResultColumn(
                each.name,
                each.name,
                each.type,
                of,
                each.estimate,
                (f"{each.name}{ENDS[0]}", f"{each.name}{ENDS[1]}") if each.estimate else None,
            )
            for each in columns
        ),
        {},
    )


def _schema(parts: Sequence[QueryPart]) -> dict[str, object]:
    made: dict[str, dict[str, str]] = {}
    for part in parts:
        columns = made.setdefault(part.name, {})
        for column in part.columns:
            columns[column.name] = str(column.type)
            if column.estimate:
                kind = DOUBLE if column.sum or column.type in (BIGINT, DOUBLE) else column.type
                columns |= {f"{column.name}{end}": str(kind) for end in ENDS}
    return dict(made)


def _followed(query: exp.Expr, names: list[str] | None, taken: Taken, *, reads_now: bool) -> Around:
    decisions = Decisions()
    found = follow(query, taken.parts, decisions)
    inner = [name for name, _ in found]
    add_ends(query, inner, [origin for _, origin in found])
    typed: Any = annotate_types(query, schema=_schema(taken.parts), dialect="spark")
    selects = typed.selects
    columns = tuple(
        ResultColumn(
            names[place] if names is not None else name,
            name,
            _type_of(selects[place]),
            origin.parts,
            origin.estimate,
            (f"{name}{LOW}", f"{name}{HIGH}") if origin.ends is not None else None,
            origin.is_end,
        )
        for place, (name, origin) in enumerate(found)
    )
    _check_names([column.name for column in columns])
    return Around(
        tuple(taken.parts),
        engine_text(typed),
        columns,
        decisions.by,
        tuple(taken.conditions),
        typed.find(exp.Div, exp.IntDiv, exp.Mod) is not None,
        reads_now,
        not reads_now and not taken.resolved,
    )


def _without_parts(query: exp.Expr, names: list[str] | None, taken: Taken) -> Around:
    """Return a query that reads no stream, such as SELECT 1."""
    made = qualify(query, dialect="spark")
    return _followed(made, names, taken, reads_now=False)


def _check_names(names: list[str]) -> None:
    lower = [name.lower() for name in names]
    twice = next((name for name in names if lower.count(name.lower()) > 1), None)
    if twice is not None:
        raise SqlError(f"two columns of the result have the name {twice!r}: give one of them another alias.")


def _type_of(node: exp.Expr) -> SqlType | None:
    kind = node.type
    return sql_type(kind) if isinstance(kind, exp.DataType) else None
