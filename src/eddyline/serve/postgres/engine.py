"""Chooses what answers a query: the catalog, the tables of planned queries, or the streams behind them.

A query with one SELECT over streams is answered by their aggregates. A query with more around them, such as WITH,
or that also reads views, is split by `state.sql`. A query of streams and the catalog together is refused.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import sqlglot
from sqlglot import exp

from eddyline.answer.estimate import Estimate
from eddyline.answer.groups.table import EXACT
from eddyline.api.sql import notes_of
from eddyline.api.state import State
from eddyline.errors import EddylineError, SqlError
from eddyline.expressions.arrow_values import to_arrow
from eddyline.plan.layout import Layout, PlannedQuery
from eddyline.serve.postgres import answers, values
from eddyline.serve.postgres.answers import HIGH, LOW, NOTE, AnswerTable
from eddyline.serve.postgres.catalog.database import Catalog
from eddyline.serve.postgres.catalog.relations import UserRelation, column_types
from eddyline.serve.postgres.dialect.kinds import RelationKinds, kinds_of
from eddyline.serve.postgres.dialect.to_duckdb import asks_catalog, column_name, is_catalog, missing
from eddyline.serve.postgres.dialect.to_spark import is_around, question_of, text_around
from eddyline.serve.postgres.parameters import ParameterValue
from eddyline.serve.postgres.refusals import Refusal, not_supported, refusal_of
from eddyline.serve.postgres.settings import AS_OF, INTERVALS, SIMULTANEOUS, Settings
from eddyline.serve.postgres.statements import tables_of
from eddyline.sql.as_of import moments_of, without_moments
from eddyline.sql.row_sample import asks_for_rows
from eddyline.types import Column

if TYPE_CHECKING:
    import duckdb

    from eddyline.ingest.snapshot import Snapshot

_T = TypeVar("_T")
_ENTRY = 4_096
"""Bytes of a cached result besides its table and SQL: about what settings, schema and sentences take."""
_COLUMN_BYTES = 2_000
"""Bytes that a column of a cached result takes besides its values."""
_CATALOGS = 4
"""Plans whose catalogs are kept: the store's own, and those of transactions that began before it changed."""
_VOLATILE = re.compile(
    r"now\s*\(|current_|random|set_config|timestamp\s*\(|localtime|pg_backend|uuid", re.IGNORECASE
)
"""Makes a query's result depend on more than the state and the settings, or changes a setting."""
_MOST_PAST = 4
"""Earlier states that are kept for sessions with eddyline.as_of: chosen; each takes as much memory as the newest."""
_HIDDEN = "#"
"""The prefix of columns that are computed for notices, and not shown."""


@dataclass(frozen=True)
class QueryResult:
    """The rows of a query, and sentences about them."""

    table: pa.Table
    notices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Schema:
    """What clients see of a plan: streams, planned queries as views, and the catalog around them."""

    catalog: Catalog
    streams: dict[str, tuple[Column, ...]]
    views: dict[str, PlannedQuery]
    names: dict[str, str] = field(default_factory=dict)

    def kinds(self) -> RelationKinds:
        """Return the types of the columns of all streams and views."""
        return {name: kinds_of(relation.schema) for name, relation in self.catalog.relations.items()}

    def parameter_columns(self) -> dict[str, int]:
        """Return the types of all columns by name, for parameters that are compared with them."""
        found = dict(column_types())
        for relation in self.catalog.relations.values():
            found |= {of.name.lower(): values.oid_of(of.type) for of in relation.schema}
        return found


class Engine:
    """Answers queries of all sessions from the newest state of a store.

    newest: returns that state, or raises Refusal before the first.
    """

    def __init__(self, newest: Callable[[], State]) -> None:
        self.newest = newest
        self._schemas: OrderedDict[str, Schema] = OrderedDict()
        self._past: dict[str, State] = {}
        self._past_of: Snapshot | None = None
        self._turn = threading.Lock()

    def past(self, as_of: str) -> State:
        """Return the state at an earlier moment; sessions share the last few, until there is a newer state."""
        newest = self.newest()
        if newest.past is None:
            raise not_supported(f"{AS_OF} asks one store, and this server shows several sites")
        with self._turn:
            if self._past_of is not newest.snapshot:
                self._past_of, self._past = newest.snapshot, {}
            found = self._past.get(as_of)
        if found is None:
            try:
                found = newest.past(as_of)
            except EddylineError as error:
                raise Refusal("22023", str(error)) from error
            with self._turn:
                self._past[as_of] = found
                while len(self._past) > _MOST_PAST:
                    self._past.pop(next(iter(self._past)))
        return found

    def schema(self, state: State) -> Schema:
        """Return what clients see of a state's plan."""
        layout = state.snapshot.layout
        with self._turn:
            found = self._schemas.get(layout.digest)
            if found is None:
                found = self._schemas[layout.digest] = _schema_of(state, layout)
                while len(self._schemas) > _CATALOGS:
                    self._schemas.popitem(last=False)
            return found


class Client:
    """A session's part of the engine: its settings, its names, and the state of an open transaction."""

    def __init__(
        self, engine: Engine, user: str = "eddyline", database: str = "eddyline", process: int = 0
    ) -> None:
        self.engine, self.user, self.database, self.process = engine, user, database, process
        self.settings = Settings()
        self._pinned: State | None = None
        self._in_transaction = False
        self._connection: tuple[Catalog, duckdb.DuckDBPyConnection] | None = None
        self._abandoned = 0
        self._own = threading.local()
        self._turn = threading.Lock()

    def begin(self) -> None:
        """Begin a transaction: all its queries see the state that the first one sees."""
        self._in_transaction, self._pinned = True, None
        self.settings.begin()

    def end(self, *, committed: bool) -> None:
        """End a transaction."""
        self._in_transaction, self._pinned = False, None
        self.settings.end(committed=committed)

    def close(self) -> None:
        """Release what the session holds."""
        self._pinned = None
        self._release()

    def _release(self) -> None:
        if self._connection is not None:
            self._connection[1].close()
            self._connection = None

    def statement(self, question: Callable[[], _T]) -> Callable[[], _T]:
        """Return a question to run in another thread: it stops at the engine if it was abandoned before."""
        number = self._abandoned

        def run() -> _T:
            self._own.number = number
            return question()

        return run

    def abandon(self) -> None:
        """Interrupt what runs, and leave its connection to the thread that still uses it."""
        with self._turn:
            self.interrupt()
            self._connection = None
            self._abandoned += 1

    def interrupt(self) -> None:
        """Stop what the catalog computes for this session, from another thread."""
        if self._connection is not None:
            self._connection[1].interrupt()

    def state(self) -> State:
        """Return the state that a query sees now."""
        as_of = self.settings.values[AS_OF]
        if as_of:
            return self.engine.past(as_of)
        if not self._in_transaction:
            return self.engine.newest()
        if self._pinned is None:
            self._pinned = self.engine.newest()
        return self._pinned

    def schema(self) -> Schema:
        """Return what the session sees of the plan."""
        return self.engine.schema(self.state())

    def run(
        self, tree: exp.Expr, text: str = "", given: tuple[tuple[int, ParameterValue], ...] = ()
    ) -> QueryResult:
        """Return the result of a query, which the state's memo may know: dashboards repeat their queries.

        text, given: its SQL and its parameters' types and values, which identify it there.
        """
        key = self._key(text, given)
        if key is None:
            return self._run_newly(tree)
        known = len(text) + sum(_size_of(value) for _, value in given)
        return self.state().snapshot.memo.recall(
            key, lambda: self._run_newly(tree), lambda made: known + _size_of_result(made.table)
        )

    def recalled(self, text: str, given: Hashable = ()) -> QueryResult | None:
        """Return the result of a query if it is known for the state that the session sees; this reads no disk."""
        key = None if self.settings.values[AS_OF] else self._key(text, given)
        return None if key is None else self.state().snapshot.memo.known(key)

    def _key(self, text: str, given: Hashable) -> Hashable | None:
        """Return what identifies a result besides the state, None if it must not be kept."""
        if not text or _VOLATILE.search(text):
            return None
        return ("wire", text, given, self.user, self.database, tuple(self.settings.values.values()))

    def _run_newly(self, tree: exp.Expr) -> QueryResult:
        try:
            return self._run(tree)
        except EddylineError as error:
            raise refusal_of(error) from error
        except RecursionError as error:
            raise Refusal("54001", "the query is too deeply nested", hint="Use fewer levels.") from error

    def _run(self, tree: exp.Expr) -> QueryResult:
        moments = moments_of(tree)
        if len(moments) > 1:  # `state.sql` answers each part from the state of its own moment
            return self._around(self.state(), self.schema(), tree)
        (moment,) = moments or {None}
        if moment is not None and any(is_catalog(table) for table in tables_of(tree)):
            raise not_supported("the catalog is kept of one moment only", "Leave out AS OF.")
        state = self.state() if moment is None else self.engine.past(str(moment))
        return self._at(state, self.engine.schema(state), without_moments(tree))

    def _at(self, state: State, schema: Schema, tree: exp.Expr) -> QueryResult:
        """Return the result of a query whose tables are all read from one state."""
        streams, views, catalog = set[str](), set[str](), False
        for table in tables_of(tree):
            name = table.name.lower()
            is_own = isinstance(table.this, exp.Identifier) and table.db.lower() in ("", "public")
            if is_own and name in schema.views:
                views.add(name)
            elif is_own and name in schema.streams:
                streams.add(name)
            elif is_catalog(table):
                catalog = True
            else:
                raise missing(table, [*schema.streams, *schema.views])
        if streams and _has_no_rows(tree):
            empty = {name: schema.catalog.relations[name].schema.empty_table() for name in streams}
            return QueryResult(self._evaluated(schema, tree, empty))
        if streams and catalog:
            raise not_supported(
                f"a query over streams ({', '.join(sorted(streams))}) and the catalog at once is not supported",
                "Ask them one after the other.",
            )
        if streams and views:
            return self._around(state, schema, tree)
        if streams:
            return self._over_streams(state, schema, tree)
        if views or not (catalog or asks_catalog(tree)):
            return self._over_views(state, schema, tree, sorted(views))
        return QueryResult(self._evaluated(schema, tree, {}))

    def _over_streams(self, state: State, schema: Schema, tree: exp.Expr) -> QueryResult:
        """Return the answer of one SELECT over streams, or of the SQL around several."""
        if asks_for_rows(tree):
            return self._around(state, schema, tree)
        try:
            return self._aggregated(state, schema, tree)
        except (Refusal, SqlError) as refused:
            try:
                return self._around(state, schema, tree)
            except (Refusal, SqlError):
                if is_around(tree):
                    raise
                raise refused from None  # a query with one SELECT is refused by the name of its own part

    def _around(self, state: State, schema: Schema, tree: exp.Expr) -> QueryResult:
        """Return a result of `state.sql`, with sentences about intervals of columns that are shown without them."""
        text, shown_as = text_around(tree, schema.kinds())
        found = state.sql(
            text,
            confidence=self.settings.confidence,
            simultaneous=self.settings.is_on(SIMULTANEOUS),
        )
        sentences, hidden = [], set[str]()
        for column in found.schema:
            about = {key.decode(): value.decode() for key, value in (column.metadata or {}).items()}
            carried, label = about.get("eddyline.interval"), shown_as.get(column.name, column.name)
            if carried == "not carried":
                sentences.append(f"{label}: computed from estimates, and its interval is not carried")
            elif "eddyline.low" in about and not self.settings.is_on(INTERVALS):
                ends = (about["eddyline.low"], about["eddyline.high"])
                hidden |= set(ends)
                if about.get("eddyline.exact") != "true":
                    sentences += _interval_of(found, column.name, ends, label)
        shown = [place for place, column in enumerate(found.schema) if column.name not in hidden]
        table = found.select(shown).replace_schema_metadata(None)
        table = table.rename_columns([shown_as.get(name, name) for name in table.column_names])
        return QueryResult(table, (*sentences, *notes_of(found)))

    def _aggregated(self, state: State, schema: Schema, tree: exp.Expr) -> QueryResult:
        question = question_of(tree, schema.kinds())
        answered = answers.answer_as_table(state, question.text, self.settings)
        table, outputs = answers.shaped(answered, question, intervals=self.settings.is_on(INTERVALS))
        return QueryResult(table, tuple(answers.notices(answered, table, outputs)))

    def _over_views(self, state: State, schema: Schema, tree: exp.Expr, names: list[str]) -> QueryResult:
        read = {name: self._view(state, schema, name) for name in names}
        tables = {name: table for name, (_, table) in read.items()}
        if not any(not answered.is_exact for answered, _ in read.values()):
            return QueryResult(self._with_intervals(schema, tree, tables), _notes(read.values()))
        aggregates = {of for answered, table in read.values() for of in _aggregates(table)}
        if len(names) == 1 and _is_plain(tree):
            assert isinstance(tree, exp.Select)
            return self._plain(schema, tree, tables, read[names[0]][0], aggregates)
        carried = f"computed from estimates of {', '.join(names)}: intervals are not carried into this result"
        unseen = [each for answered, _ in read.values() for each in answered.unseen]
        return QueryResult(
            self._evaluated(schema, tree, tables, checked=True), (carried, *unseen, *_notes(read.values()))
        )

    def _view(self, state: State, schema: Schema, name: str) -> tuple[AnswerTable, pa.Table]:
        """Return the answer of a planned query, and its table in the form of the view."""
        planned = schema.views[name]
        answered = answers.answer_as_table(state, planned.name, self.settings)
        table = answers.view_table(answered, planned, schema.names[name])
        return answered, answers.conform(table, schema.catalog.relations[name].schema)

    def _with_intervals(self, schema: Schema, tree: exp.Expr, tables: dict[str, pa.Table]) -> pa.Table:
        if len(tables) == 1 and self.settings.is_on(INTERVALS) and _is_plain(tree):
            assert isinstance(tree, exp.Select)
            (table,) = tables.values()
            tree = _showing_ends(tree, _aggregates(table))
        return self._evaluated(schema, tree, tables, checked=True)

    def _plain(
        self,
        schema: Schema,
        tree: exp.Select,
        tables: dict[str, pa.Table],
        answered: AnswerTable,
        aggregates: set[str],
    ) -> QueryResult:
        """Return rows of one view, with sentences about the intervals of columns that are shown without them."""
        if self.settings.is_on(INTERVALS):
            tree = _showing_ends(tree, aggregates)
        shown = {
            each.unalias().name.lower() for each in tree.expressions if isinstance(each.unalias(), exp.Column)
        }
        alone = [
            (_label(each), each.unalias().name)
            for each in tree.expressions
            if isinstance(each.unalias(), exp.Column)
            and each.unalias().name in aggregates
            and not {each.unalias().name.lower() + LOW, each.unalias().name.lower() + HIGH} <= shown
        ]
        computed = [
            _label(each)
            for each in tree.expressions
            if not isinstance(each.unalias(), exp.Column) and not each.is_star and _names(each) & aggregates
        ]
        hidden = list(dict.fromkeys(name + end for _, name in alone for end in ("", LOW, HIGH)))
        asked = tree.copy()
        if hidden:
            for name in [*hidden, EXACT]:
                asked.append(
                    "expressions", exp.alias_(exp.column(name, quoted=True), _HIDDEN + name, quoted=True)
                )
        found = self._evaluated(schema, asked, tables, checked=True)
        width = found.num_columns - (len(hidden) + 1 if hidden else 0)
        sentences = []
        if hidden:
            behind = found.select(range(width, found.num_columns))
            behind = behind.rename_columns([name.removeprefix(_HIDDEN) for name in behind.column_names])
            for label, name in alone:
                sentences += answers.interval_sentences(
                    label, behind, name, answered.confidence, answered.method
                )
        sentences += [
            f"{label}: computed from estimates, and its interval is not carried" for label in computed
        ]
        chosen = _chosen_by(tree) & aggregates
        if chosen:
            sentences.append(
                f"rows were chosen by estimates of {', '.join(sorted(chosen))}: rows near the limit may be wrong"
            )
        notes = (*sentences, *answered.unseen, *answered.notes)
        return QueryResult(found.select(range(width)), notes)

    def _evaluated(
        self, schema: Schema, tree: exp.Expr, tables: dict[str, pa.Table], *, checked: bool = False
    ) -> pa.Table:
        catalog = schema.catalog
        with self._turn:
            if getattr(self._own, "number", self._abandoned) != self._abandoned:
                raise Refusal("57014", "canceling statement due to user request")
            if self._connection is None or self._connection[0] is not catalog:
                self._release()
                self._connection = (catalog, catalog.connect(self.user, self.database, self.process))
            connection = self._connection[1]
        return catalog.run(connection, tree, self.settings, tables, checked=checked)

    def explained(self, tree: exp.Expr) -> QueryResult:
        """Return how a query is answered, one step per line."""
        found = self.run(tree)
        fresh = self.state().origin
        lines = [f"{found.table.num_rows} rows, {found.table.num_columns} columns"]
        lines += found.notices
        lines += [f"as of {fresh.freshness}"] if fresh is not None else []
        return QueryResult(pa.table({"QUERY PLAN": pa.array(lines, pa.string())}))


def _size_of_result(table: pa.Table) -> int:
    return _ENTRY + int(table.nbytes) + _COLUMN_BYTES * int(table.num_columns)


def _size_of(value: ParameterValue) -> int:
    """Return about how many bytes a parameter's value takes."""
    if isinstance(value, tuple):
        return sum(map(_size_of, value))
    return 64 + (len(value) if isinstance(value, str) else 0)


def _interval_of(found: pa.Table, name: str, ends: tuple[str, str], label: str) -> list[str]:
    """Return the interval of a value if the result is one row, else where to find the intervals."""
    if len(found) != 1:
        return [f"{label}: SET eddyline.intervals = on shows the interval of each row"]
    value, low, high = (found.column(each)[0].as_py() for each in (name, *ends))
    confidence = float((found.schema.metadata or {})[b"eddyline.confidence"])
    return [f"{label}: {Estimate(label, value, low, high, confidence, 'carried through')}"]


def _notes(read: object) -> tuple[str, ...]:
    return tuple(dict.fromkeys(note for answered, _ in read for note in answered.notes))  # type: ignore[attr-defined]


def _aggregates(table: pa.Table) -> set[str]:
    names = set(table.column_names)
    return {name for name in names if name + LOW in names and name + HIGH in names}


def _names(node: exp.Expr) -> set[str]:
    return {column.name for column in node.find_all(exp.Column)}


def _label(item: exp.Expr) -> str:
    return str(item.alias or column_name(item))


def _is_plain(tree: exp.Expr) -> bool:
    """Return whether a query reads rows of one view unchanged, with at most conditions, an order and a limit."""
    if not isinstance(tree, exp.Select) or not tree.args.get("from_"):
        return False
    others = ("joins", "group", "having", "distinct", "with_", "laterals", "qualify", "windows")
    if any(tree.args.get(name) for name in others) or not isinstance(tree.args["from_"].this, exp.Table):
        return False
    return (
        not any(tree.find(kind) for kind in (exp.AggFunc, exp.Window, exp.Subquery))
        and len(list(tree.find_all(exp.Select))) == 1
    )


def _chosen_by(tree: exp.Select) -> set[str]:
    """Return the columns by which a query selects rows."""
    where = tree.args.get("where")
    found = _names(where) if where is not None else set()
    if tree.args.get("limit") and tree.args.get("order"):
        found |= _names(tree.args["order"])
        places = [each.this for each in tree.args["order"].expressions if isinstance(each.this, exp.Literal)]
        for place in places:
            number = int(place.name) if place.name.isdigit() else 0
            if 1 <= number <= len(tree.expressions):
                found |= _names(tree.expressions[number - 1])
    return found


def _showing_ends(tree: exp.Select, aggregates: set[str]) -> exp.Select:
    """Return a query with the ends of intervals after each aggregate, and `exact` at the end."""
    shown = {
        each.unalias().name.lower() for each in tree.expressions if isinstance(each.unalias(), exp.Column)
    }
    if any(each.is_star for each in tree.expressions):
        return tree
    items: list[exp.Expr] = []
    for item in tree.expressions:
        items.append(item.copy())
        column = item.unalias()
        if isinstance(column, exp.Column) and column.name in aggregates:
            items += [
                exp.alias_(exp.column(column.name + end, quoted=True), _label(item) + end, quoted=True)
                for end in (LOW, HIGH)
                if (column.name + end).lower() not in shown
            ]
    if EXACT not in shown:
        items.append(exp.column(EXACT))
    made = tree.copy()
    made.set("expressions", items)
    return made


def _has_no_rows(tree: exp.Expr) -> bool:
    """Return whether a query only asks for the columns: LIMIT 0, or WHERE false."""
    if not isinstance(tree, exp.Select) or tree.find(exp.AggFunc) or tree.args.get("group"):
        return False
    limit, where = tree.args.get("limit"), tree.args.get("where")
    if (
        isinstance(limit, exp.Limit)
        and isinstance(limit.expression, exp.Literal)
        and limit.expression.name == "0"
    ):
        return True
    condition = where.this if where is not None else None
    if isinstance(condition, exp.Boolean):
        return not condition.this
    return (
        isinstance(condition, exp.EQ)
        and isinstance(condition.this, exp.Literal)
        and isinstance(condition.expression, exp.Literal)
        and condition.this.name != condition.expression.name
    )


def _schema_of(state: State, layout: Layout) -> Schema:
    """Return what clients see of a plan; a view that has the name of a stream is called NAME_query."""
    streams = {stream.name.lower(): stream for stream in layout.streams}
    views: dict[str, PlannedQuery] = {}
    names: dict[str, str] = {}
    relations = [
        UserRelation(
            each.name,
            "r",
            answers.stream_schema(each.every_column),
            comment="a stream: only aggregates of its rows are kept",
        )
        for each in layout.streams
    ]
    for planned in answers.planned_queries(layout):
        shown = planned.name if planned.name.lower() not in streams else f"{planned.name}_query"
        key = shown.lower()
        views[key], names[key] = planned, _only_name(planned)
        text = " ".join(planned.query.text.split())
        relations.append(
            UserRelation(
                shown,
                "v",
                _view_schema(state, planned, names[key]),
                f" {text};",
                "a planned query, with intervals",
            )
        )
    return Schema(
        Catalog(tuple(relations)), {name: s.every_column for name, s in streams.items()}, views, names
    )


def _only_name(planned: PlannedQuery) -> str:
    """Return the name of the only aggregate of a query without groups: its alias, or PostgreSQL's name for it."""
    if planned.query.is_table:
        return ""
    try:
        item = sqlglot.parse_one(planned.query.text, read="spark").expressions[0]
    except (sqlglot.errors.SqlglotError, IndexError):
        return "value"
    return str(item.alias or column_name(item))


def _view_schema(state: State, planned: PlannedQuery, name: str) -> pa.Schema:
    """Return the columns of a planned query's view, from its answer, or from its SQL if it is refused now."""
    try:
        return answers.view_table(
            answers.answer_as_table(state, planned.name, Settings()), planned, name
        ).schema.remove_metadata()
    except EddylineError:
        number, query = pa.float64(), planned.query
        sums = answers.decimal_sums(query)
        found = [(g.name, to_arrow(g.expression.type)) for g in query.groups]
        for each in [n for n in query.selected if n in query.measures] if query.is_table else [name]:
            value = sums.get(each if query.is_table else "value", number)
            found += [(each, value), (each + LOW, number), (each + HIGH, number)]
        return pa.schema([*found, (EXACT, pa.bool_()), (NOTE, pa.string())])
