"""Rewrites PostgreSQL's SQL as DuckDB's: catalog names, casts to regclass and the like, functions, operators.

An unknown table is refused, so that a query reaches what it may read and nothing else of the engine.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches

import sqlglot.dialects.duckdb  # loaded with the server, not by the first statement
import sqlglot.dialects.postgres
import sqlglot.dialects.spark  # noqa: F401
from sqlglot import exp

from eddyline.serve.postgres.catalog import relations
from eddyline.serve.postgres.catalog.functions import CATALOG_FUNCTIONS, TABLE_FUNCTIONS
from eddyline.serve.postgres.parameters import Parameter, read_parameter
from eddyline.serve.postgres.refusals import Refusal, not_supported
from eddyline.serve.postgres.settings import Settings
from eddyline.serve.postgres.statements import tables_of
from eddyline.serve.postgres.values import ARRAYS, TEXT

CHECKED = "checked"
"""The mark of a call whose arguments `duckdb_forms` has checked, though its name is refused in other places."""
_CATALOGS = ("pg_catalog", "information_schema")
_FROM_FUNCTIONS = TABLE_FUNCTIONS | {"generate_series", "unnest", "generate_subscripts", "json_each"}
_REFUSED_FUNCTIONS = re.compile(
    r"duckdb_|pragma_|read_|write_|getvariable|sniff_|glob$|parquet_|query$|query_table$|which_secret|getenv|"
    r"current_setting$|set_config$|pg_sleep|nextval|lo_|dblink|repeat$|lpad$|rpad$|range$|error$|sql_auto|"
    r"from_substrait|get_substrait|icu_|add_parquet_key|create_sort_key|in_search_path|txid_status|checkpoint|"
    r"force_checkpoint|json_execute_serialized_sql|test_|arrow_scan|seq_scan|index_scan|pandas_scan|python_map",
    re.IGNORECASE,
)
"""Functions of DuckDB that reach beyond a query (settings, files, other queries), or make strings of any size."""
_TEXTS = frozenset(
    [
        "name",
        "char",
        "text",
        "varchar",
        "bpchar",
        "cstring",
        "sql_identifier",
        "character_data",
        "yes_or_no",
        "unknown",
        "anyarray",
    ]
)
_WHOLE = frozenset(["oid", "xid", "cardinal_number", "int8", "bigint", "xid8"])
_REGISTERED = frozenset(
    [
        "regclass",
        "regtype",
        "regproc",
        "regprocedure",
        "regnamespace",
        "regrole",
        "regoper",
        "regoperator",
        "regconfig",
    ]
)
_PROCEDURES = frozenset(
    name
    for relation in relations.catalog_relations().relations.values()
    for name, kind in relation.columns
    if kind == "regproc"
)
_NILADIC: dict[type[exp.Expr], str] = {
    exp.CurrentDatabase: "current_database", exp.CurrentSchema: "current_schema", exp.CurrentUser: "current_user",
    exp.SessionUser: "session_user", exp.CurrentVersion: "version", exp.CurrentCatalog: "current_catalog",
    exp.CurrentRole: "current_role",
}  # fmt: skip
_OPERATORS: dict[str, type[exp.Expr]] = {
    "=": exp.EQ, "<>": exp.NEQ, "!=": exp.NEQ, "<": exp.LT, "<=": exp.LTE, ">": exp.GT, ">=": exp.GTE,
    "~": exp.RegexpLike, "~*": exp.RegexpILike, "~~": exp.Like, "~~*": exp.ILike, "||": exp.DPipe, "+": exp.Add,
    "-": exp.Sub, "*": exp.Mul, "/": exp.Div,
}  # fmt: skip


Prepare = Callable[[exp.Expr], exp.Expr]


def _same(tree: exp.Expr) -> exp.Expr:
    return tree


def qualified_name(table: exp.Table, users: Mapping[str, str]) -> str | None:
    """Return where a table of a query is in DuckDB, None if no such relation exists.

    users: the location of each stream and planned query, by name in lower case.
    """
    schema, name = table.db.lower(), table.name.lower()
    if schema in ("", "public") and name in users:
        return users[name]
    for each in _CATALOGS:
        if schema == each or (not schema and each == "pg_catalog"):
            relation = relations.catalog_relations().relations.get((each, name))
            if relation is not None:
                return relation.place
    return None


def is_catalog(table: exp.Table) -> bool:
    """Return whether a table belongs to the catalog, or is a function in FROM."""
    return not isinstance(table.this, exp.Identifier) or (qualified_name(table, {}) or "").startswith(
        ("cat.", "info.")
    )


def asks_catalog(tree: exp.Expr) -> bool:
    """Return whether a query without tables asks for something of the catalog, as tools do when they connect."""
    for node in tree.find_all(exp.Func, exp.Dot, exp.ObjectIdentifier):
        if not isinstance(node, exp.Func):
            return True
        name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
        if (name in CATALOG_FUNCTIONS and name != "age") or name in ("current_setting", "set_config"):
            return True
    return False


def missing(table: exp.Table, known: Iterable[str] = ()) -> Refusal:
    """Return the refusal of a relation that does not exist; known: the names of those that do."""
    name = f"{table.db}.{table.name}" if table.db else table.name
    near = get_close_matches(table.name.lower(), known, n=1)
    meant = f'Perhaps you meant "{near[0]}". ' if near else ""
    return Refusal(
        "42P01",
        f'relation "{name}" does not exist',
        hint=f"{meant}\\d in psql shows all streams and planned queries.",
    )


def for_duckdb(
    tree: exp.Expr, users: Mapping[str, str], settings: Settings, prepared: Prepare = _same
) -> str:
    """Return a query as DuckDB's SQL, or raise Refusal if something in it is unknown.

    prepared: returns a query whose columns have names, in a form whose meaning is that of PostgreSQL.
    """
    copied = tree.copy()
    for select in list(copied.find_all(exp.Select)):
        _with_names(select)
    copied = prepared(copied)
    for table in list(tables_of(copied)):
        _replace_table(table, users)
    oids = {table.alias_or_name.lower(): _relation_oid(table) for table in copied.find_all(exp.Table)}
    for node in list(copied.find_all(exp.Column)):
        if node.args.get("db"):  # schema.table.column
            node.set("db", None)
            node.set("catalog", None)
        if node.name.lower() == "tableoid":
            oid = oids.get(node.table.lower()) if node.table else next(iter(oids.values()), None)
            node.replace(
                exp.alias_(exp.Literal.number(oid or 0), "tableoid")
                if isinstance(node.parent, exp.Select)
                else exp.Literal.number(oid or 0)
            )
    written = rewritten(copied, _rewriter(settings))
    _check_functions(written)
    return written.sql(dialect="duckdb", copy=False)


def _relation_oid(table: exp.Table) -> int:
    """Return the oid of the catalog's relation that a table names, 0 for any other table."""
    schema = {"cat": "pg_catalog", "info": "information_schema"}.get(table.db, "")
    relation = relations.catalog_relations().relations.get((schema, table.name))
    return relation.oid if relation is not None else 0


def rewritten(tree: exp.Expr, rewrite: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Return a tree with rewritten nodes, children before their parents."""
    root = tree
    for node in reversed(list(tree.dfs())):
        made = rewrite(node)
        if made is not node:
            if node is root:
                root = made
            else:
                node.replace(made)
    return root


def _replace_table(table: exp.Table, users: Mapping[str, str]) -> None:
    if not isinstance(table.this, exp.Identifier):
        function = table.this.expression if isinstance(table.this, exp.Dot) else table.this
        name = (function.name if isinstance(function, exp.Anonymous) else function.sql_name()).lower()
        table.set("db", None)
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(name)))
        if name not in _FROM_FUNCTIONS and not isinstance(
            function, exp.GenerateSeries | exp.Explode | exp.Unnest
        ):  # a function that returns one value is a row of one column
            one = exp.select(exp.alias_(function.copy(), table.alias, quoted=True))
            table.replace(one.subquery(table.alias))
        return
    place = qualified_name(table, users)
    if place is None:
        raise missing(table)
    if not table.alias:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
    schema, _, name = place.rpartition(".")
    table.set("this", exp.to_identifier(name, quoted=True))
    table.set("db", exp.to_identifier(schema) if schema else None)
    table.set("catalog", None)


def _rewriter(settings: Settings) -> Callable[[exp.Expr], exp.Expr]:  # noqa: C901
    def rewrite(node: exp.Expr) -> exp.Expr:  # noqa: C901, PLR0911, PLR0912 - a case for each kind of node
        if isinstance(node, exp.Alias) and isinstance(node.args["alias"], exp.Identifier):
            alias = node.args["alias"]
            if not alias.quoted:
                node.set("alias", exp.to_identifier(alias.name.lower(), quoted=True))
            return node
        if isinstance(node, exp.Dot) and isinstance(node.this, exp.Identifier):
            return _qualified(node, settings)
        if type(node) in _NILADIC:
            return _call(_NILADIC[type(node)])
        if isinstance(node, exp.CurrentDate | exp.CurrentTimestamp):
            return _call_engine("today" if isinstance(node, exp.CurrentDate) else "now")
        if isinstance(node, exp.Anonymous) and not isinstance(node.parent, exp.Dot):
            return _function(node, settings)
        if (
            isinstance(node, exp.Func)
            and not isinstance(node, exp.Anonymous)
            and node.sql_name().lower() in CATALOG_FUNCTIONS
        ):
            return _call(node.sql_name().lower(), *node.iter_expressions())
        if isinstance(node, exp.Collate):
            inner: exp.Expr = node.this
            return inner
        if isinstance(node, exp.Operator):
            return _operator(node)
        if isinstance(node, exp.Cast):
            return _cast(node)
        if isinstance(node, exp.Like | exp.ILike) and not isinstance(node.parent, exp.Escape):
            # PostgreSQL's patterns have this escape by default, DuckDB's have no escape
            return exp.Escape(this=node.copy(), expression=exp.Literal.string("\\"))
        if isinstance(node, exp.EQ | exp.NEQ):
            return _compared(node)
        if (
            isinstance(node, exp.Column)
            and not node.table
            and node.name.lower() in ("current_role", "user")
            and not node.this.quoted
        ):
            return _call(node.name.lower())
        if isinstance(node, exp.ArraySize) and node.expression:
            return _call_engine("len", node.this)
        if isinstance(node, exp.Any):
            return _any(node)
        return node

    return rewrite


def _with_names(select: exp.Select) -> None:
    """Give the columns of a SELECT the names that PostgreSQL gives them: that of the function, or ?column?."""
    for item in list(select.expressions):
        if isinstance(item, exp.Alias | exp.Column | exp.Star) or item.is_star:
            continue
        item.replace(exp.alias_(item.copy(), column_name(item), quoted=True))


def column_name(node: exp.Expr) -> str:
    """Return the name that PostgreSQL gives to an expression without one."""
    return _named(node)[1]


def _named(node: exp.Expr) -> tuple[int, str]:  # noqa: C901, PLR0911 - a case for each kind of node
    """Return the name of an expression, and its rank: 2 for a column or function, 1 for a cast, 0 for no name."""
    if isinstance(node, exp.Paren | exp.Filter | exp.WithinGroup | exp.Window | exp.Collate | exp.Bracket):
        return _named(node.this)
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.IntDiv):
        return 2, "div"
    if isinstance(node, exp.Cast):
        found = _named(node.this)
        return found if found[0] > 1 else (1, _cast_name(node.to))
    if isinstance(node, exp.Dot):
        return _named(node.expression)
    if isinstance(node, exp.Column):
        return _named(node.this)
    if isinstance(node, exp.Identifier):
        return 2, str(node.name if node.args.get("quoted") else node.name.lower())
    if type(node) in _NILADIC:
        return 2, _NILADIC[type(node)]
    if isinstance(node, exp.Subquery | exp.Select):
        inner = node.find(exp.Select)
        one = inner.expressions[0] if inner and len(inner.expressions) == 1 else None
        return (2, str(one.alias)) if isinstance(one, exp.Alias) else _named(one) if one else (0, "?column?")
    if isinstance(node, exp.Anonymous):
        return 2, node.name.lower()
    if isinstance(node, exp.AggFunc) or (isinstance(node, exp.Func) and not isinstance(node, exp.Binary)):
        return _named_function(node)
    return 0, "?column?"


def _named_function(node: exp.Func) -> tuple[int, str]:
    """Return the name and rank of a function's result; a CASE has the name of its ELSE, if that has one."""
    if isinstance(node, exp.Trim):
        return 2, {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(node.text("position").upper(), "btrim")
    if isinstance(node, exp.Pad):
        return 2, "lpad" if node.args.get("is_left") else "rpad"
    if isinstance(node, exp.Case):
        default = node.args.get("default")
        found = _named(default) if default is not None else (0, "")
        return found if found[0] > 1 else (1, "case")
    return 2, _FUNCTION_NAMES.get(type(node).__name__, node.sql_name().lower())


def _cast_name(kind: exp.Expr) -> str:
    name, _ = _type_name(kind)
    return _TYPE_NAMES.get(name, name)


_TYPE_NAMES = {
    "int": "int4", "bigint": "int8", "smallint": "int2", "double": "float8", "float": "float4", "boolean": "bool",
    "decimal": "numeric", "char": "bpchar",
}  # fmt: skip
_FUNCTION_NAMES = {
    "ArraySize": "array_length",
    "CurrentTimestamp": "now",
    "Explode": "unnest",
    "Unnest": "unnest",
    "CurrentDate": "current_date",
    "GroupConcat": "string_agg",
    "TimestampTrunc": "date_trunc",
    "TimeToStr": "to_char",
    "Array": "array",
    "StddevSamp": "stddev_samp",
    "Stddev": "stddev",
    "Variance": "variance",
    "LogicalAnd": "bool_and",
    "LogicalOr": "bool_or",
    "Rand": "random",
    "StrPosition": "strpos",
    "StrToDate": "to_date",
    "StrToTime": "to_timestamp",
    "UnixToTime": "to_timestamp",
    "ExplodingGenerateSeries": "generate_series",
}


def _qualified(node: exp.Dot, settings: Settings) -> exp.Expr:
    """Return a function of the catalog without its schema."""
    schema, inner = node.this.name.lower(), node.expression
    if schema not in (*_CATALOGS, "public") or not isinstance(inner, exp.Func):
        if isinstance(inner, exp.Func):
            raise Refusal(
                "42883", f"function {schema}.{inner.name or inner.sql_name().lower()} does not exist"
            )
        return node
    inner = inner.copy()
    inner.parent = None
    if type(inner) in _NILADIC:
        return _call(_NILADIC[type(inner)])
    return _function(inner, settings) if isinstance(inner, exp.Anonymous) else inner


def _function(node: exp.Anonymous, settings: Settings) -> exp.Expr:  # noqa: PLR0911 - a case for each function
    name = node.name.lower()
    if name == "current_setting":
        given = node.expressions[0]
        try:
            return exp.Literal.string(settings.get(given.name))
        except Refusal:
            if len(node.expressions) > 1:
                return exp.Null()
            raise
    if name == "set_config":
        setting, value = node.expressions[0].name, node.expressions[1]
        if not isinstance(value, exp.Literal):
            raise not_supported("set_config takes a text as its value")
        settings.set(setting, value.name)
        return exp.Literal.string(value.name)
    if name in ("now", "clock_timestamp", "statement_timestamp", "transaction_timestamp"):
        return _call_engine("now")
    if name in ("json_build_object", "jsonb_build_object"):
        return _call_engine("json_object", *node.expressions)
    if name == "pg_typeof":
        return _call_engine("typeof", *node.expressions)
    if name in CATALOG_FUNCTIONS:
        return _call(name, *node.expressions)
    return node


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    """Return a call of one of our macros."""
    called = exp.Anonymous(this=name, quoted=False, expressions=[each.copy() for each in arguments])
    return exp.Dot(this=exp.to_identifier("cat"), expression=called)


def _call_engine(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=[each.copy() for each in arguments])


def _operator(node: exp.Operator) -> exp.Expr:
    symbol = str(node.args["operator"]).rpartition("pg_catalog.")[2]
    negated = {"!~": "~", "!~*": "~*", "!~~": "~~", "!~~*": "~~*"}.get(symbol)
    made = _OPERATORS.get(negated or symbol)
    if made is None:
        raise not_supported(f"the operator {symbol} is not supported")
    right = node.expression.this if isinstance(node.expression, exp.Collate) else node.expression
    found = made(this=node.this.copy(), expression=right.copy())
    return exp.Not(this=exp.Paren(this=found)) if negated else found


def _type_name(kind: exp.Expr) -> tuple[str, bool]:
    """Return the name of a type in lower case without its schema, and whether it is an array."""
    if isinstance(kind, exp.DataType):
        if kind.this is exp.DataType.Type.ARRAY and kind.expressions:
            return _type_name(kind.expressions[0])[0], True
        if kind.this is exp.DataType.Type.USERDEFINED:
            written = kind.args["kind"]
            name = written if isinstance(written, str) else written.sql("postgres")
            name = name.lower().replace('"', "").rpartition(".")[2]
            return (name[:-2], True) if name.endswith("[]") else (name, False)
        return str(getattr(kind.this, "name", kind.this)).lower(), False
    return str(kind.this).lower(), False


def _cast(node: exp.Cast) -> exp.Expr:  # noqa: C901, PLR0911 - a case for each kind of type
    name, is_array = _type_name(node.to)
    given: exp.Expr = node.this
    if isinstance(given, exp.Literal) and given.is_string and is_array:
        items = read_parameter(ARRAYS[TEXT], given.name.encode(), binary=False)
        return _cast(exp.Cast(this=items.expression(), to=node.to.copy()))
    if name in _TEXTS and name not in ("text", "varchar"):
        return exp.cast(given.copy(), "TEXT[]" if is_array else "TEXT", dialect="duckdb")
    if (
        name in ("text", "varchar")
        and isinstance(node.to, exp.DataType)
        and node.to.this is exp.DataType.Type.USERDEFINED
    ):
        return exp.cast(given.copy(), "TEXT", dialect="duckdb")
    if name in _WHOLE and name != "bigint":
        if _is_registered(given):
            return _oid_of(given)
        return exp.cast(
            given.copy(),
            ("UINTEGER" if name == "oid" else "BIGINT") + ("[]" if is_array else ""),
            dialect="duckdb",
        )
    if name in _REGISTERED and not is_array:
        return _registered(node, name)
    if name == "decimal" and not node.to.expressions and not is_array:
        # a NUMERIC without a scale keeps all digits; DuckDB's DECIMAL would round to three
        bare = given.this if isinstance(given, exp.Paren | exp.Neg) else given
        bare = bare.this if isinstance(bare, exp.Neg) else bare
        is_number = isinstance(bare, exp.Literal) and not bare.is_string
        return given.copy() if is_number else exp.cast(given.copy(), "DOUBLE", dialect="duckdb")
    if name in ("int2vector", "oidvector", "aclitem", "pg_node_tree"):
        return given
    if node.to.find(exp.DataType, exp.ObjectIdentifier) and any(
        each.this is exp.DataType.Type.USERDEFINED for each in node.to.find_all(exp.DataType)
    ):
        known = {"int4": "INTEGER", "int2": "SMALLINT", "float8": "DOUBLE", "float4": "FLOAT", "bool": "BOOLEAN",
                 "timestamptz": "TIMESTAMPTZ", "integer": "INTEGER", "boolean": "BOOLEAN"}  # fmt: skip
        if name not in known:
            raise Refusal("42704", f'type "{name}" does not exist')
        return exp.cast(given.copy(), known[name] + ("[]" if is_array else ""), dialect="duckdb")
    return node


def _is_registered(node: exp.Expr) -> bool:
    return isinstance(node, exp.Cast) and _type_name(node.to)[0] in _REGISTERED


def _oid_of(node: exp.Expr) -> exp.Expr:
    """Return the oid of what a cast to regclass or the like names."""
    assert isinstance(node, exp.Cast)
    name = _type_name(node.to)[0]
    given: exp.Expr = node.this
    if not _is_text(given):
        return given.copy()
    kind = {"regprocedure": "regproc"}.get(name, name)
    return _call(f"{kind}_oid", given)


def _is_text(node: exp.Expr) -> bool:
    """Return whether an expression that is cast to regclass is a name, not an oid."""
    if isinstance(node, exp.Literal):
        return bool(node.is_string)
    if isinstance(node, exp.Column):
        return node.name.lower().endswith("name")
    if isinstance(node, exp.Paren):
        return _is_text(node.this)
    if isinstance(node, exp.Cast):
        return _type_name(node.to)[0] in _TEXTS
    return isinstance(node, exp.DPipe | exp.Func | exp.Dot)


def _registered(node: exp.Cast, name: str) -> exp.Expr:  # noqa: PLR0911 - a case for each kind of type
    """Return a cast to regclass or the like: the oid of a name, or the name of an oid where it is shown."""
    given: exp.Expr = node.this
    parent = node.parent
    shown = isinstance(parent, exp.Cast) and _type_name(parent.to)[0] in _TEXTS
    if name in ("regproc", "regprocedure"):
        if isinstance(given, exp.Literal) and given.is_string:
            named = exp.Literal.string(given.name.rpartition(".")[2])
            return _call("one_function", named) if isinstance(parent, exp.Cast) and not shown else named
        return given.copy()
    if _is_text(given):
        found = (
            _call(f"{name}_oid", given)
            if name in ("regclass", "regtype", "regnamespace", "regrole")
            else exp.Null()
        )
        return _call(f"{name}_name", found) if shown and name in ("regclass", "regnamespace") else found
    if isinstance(parent, exp.Cast) and not shown:
        return given.copy()
    if isinstance(parent, exp.Predicate | exp.In):
        return given.copy()
    if name == "regtype":
        return _call("format_type", given, exp.Null())
    return _call(f"{name}_name", given) if name in ("regclass", "regnamespace", "regrole") else given.copy()


def _compared(node: exp.Expr) -> exp.Expr:
    """Return a comparison with a function's oid, if the catalog has its name."""
    for side, other in (("this", "expression"), ("expression", "this")):
        column, against = node.args[side], node.args[other]
        if not (isinstance(column, exp.Column) and column.name.lower() in _PROCEDURES):
            continue
        if isinstance(against, exp.Literal) and not against.is_string:
            node.set(other, exp.Literal.string("-" if against.name == "0" else against.name))
        elif isinstance(against, exp.Column) and against.name.lower() == "oid":
            node.set(side, _call("regproc_oid", column))
    return node


def _any(node: exp.Any) -> exp.Expr:
    """Return ANY of a string such as '{r,v}' as ANY of an array."""
    inner = node.this.this if isinstance(node.this, exp.Paren) else node.this
    if isinstance(inner, exp.Literal) and inner.is_string:
        items = read_parameter(ARRAYS[TEXT], inner.name.encode(), binary=False)
        return exp.Any(this=exp.Paren(this=Parameter(ARRAYS[TEXT], items.value).expression()))
    return node


def _check_functions(tree: exp.Expr) -> None:
    for node in tree.find_all(exp.Func):
        own = (
            isinstance(node.parent, exp.Dot)
            and isinstance(node.parent.this, exp.Identifier)
            and node.parent.this.name == "cat"
        )
        name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
        if not own and not node.meta.get(CHECKED) and _REFUSED_FUNCTIONS.match(str(name)):
            raise Refusal("42883", f"function {str(name).lower()} does not exist")
