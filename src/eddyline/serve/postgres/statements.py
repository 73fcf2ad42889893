"""Statements: SQL split into its statements, each with its kind and, if it is a query, its syntax tree."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import sqlglot
from sqlglot import exp
from sqlglot.dialects import Postgres
from sqlglot.errors import SqlglotError

from eddyline.expressions.nodes import MOST_PARSED, remembers_texts
from eddyline.serve.postgres.refusals import Refusal, not_supported, read_only
from eddyline.sql.parse import MAX_LENGTH, MAX_NODES

StatementKind = Literal[
    "query", "empty", "begin", "commit", "rollback", "savepoint", "set", "show", "reset", "discard", "deallocate",
    "copy", "declare", "fetch", "close", "explain", "nothing",
]  # fmt: skip
_KINDS: dict[str, StatementKind] = {
    "SELECT": "query", "WITH": "query", "VALUES": "query", "TABLE": "query", "(": "query", "BEGIN": "begin",
    "START": "begin", "COMMIT": "commit", "END": "commit", "ROLLBACK": "rollback", "ABORT": "rollback",
    "SAVEPOINT": "savepoint", "RELEASE": "savepoint", "SET": "set", "SHOW": "show", "RESET": "reset",
    "DISCARD": "discard", "DEALLOCATE": "deallocate", "COPY": "copy", "DECLARE": "declare", "FETCH": "fetch",
    "MOVE": "fetch", "CLOSE": "close", "EXPLAIN": "explain", "LISTEN": "nothing", "UNLISTEN": "nothing",
}  # fmt: skip
_WRITES = frozenset(
    [
        "INSERT",
        "UPDATE",
        "DELETE",
        "MERGE",
        "TRUNCATE",
        "CREATE",
        "ALTER",
        "DROP",
        "GRANT",
        "REVOKE",
        "COMMENT",
        "VACUUM",
        "ANALYZE",
        "ANALYSE",
        "CLUSTER",
        "REINDEX",
        "REFRESH",
        "LOCK",
        "DO",
        "CALL",
        "IMPORT",
        "SECURITY",
        "REASSIGN",
        "CHECKPOINT",
        "LOAD",
        "NOTIFY",
    ]
)
_UNKNOWN = frozenset(["PREPARE", "EXECUTE"])
_QUERIES = frozenset(("query", "copy", "declare", "explain"))
_MOST_PARAMETERS = 65_535
"""The most parameters of a statement: Bind counts them in two bytes."""


@dataclass(frozen=True, eq=False)
class Statement:
    """One statement: its SQL, and its words in capitals (the first few).

    Connections hold many statements, so none holds its syntax tree, which takes a hundred times as much memory.
    """

    kind: StatementKind
    text: str
    words: tuple[str, ...] = ()

    @property
    def is_query(self) -> bool:
        """Whether it is a query, or has one inside."""
        return self.kind in _QUERIES

    @property
    def query(self) -> str:
        """The SQL of the query in it."""
        return _asked(self.kind, self.text)

    def tree(self) -> exp.Expr:
        """Return the syntax tree of its query, parsed again if it is not among the trees used last."""
        return _tree(self.query)

    def parameters(self) -> int:
        """Return the highest number among its parameters, such as $1."""
        if not self.is_query:
            return 0
        numbers = [int(node.name) for node in self.tree().find_all(exp.Parameter) if node.name.isdigit()]
        if numbers and not 1 <= min(numbers) <= max(numbers) <= _MOST_PARAMETERS:
            wrong = min(numbers) or max(numbers)
            raise Refusal("42P02", f"there is no parameter ${wrong}", hint="They are $1 to $65535.")
        return max(numbers, default=0)


def statements_of(text: str) -> list[Statement]:
    """Return the statements of a SQL string; Refusal 42601 if one cannot be parsed."""
    if len(text) > MAX_LENGTH:
        sentence = f"the SQL has {len(text):,} characters; at most {MAX_LENGTH:,} are read"
        raise Refusal("54000", sentence)
    return [_statement(each) for each in _split(text)]


def one_statement(text: str) -> Statement:
    """Return the only statement of a SQL string, for a prepared statement."""
    found = statements_of(text)
    if len(found) > 1:
        raise Refusal("42601", "cannot insert multiple commands into a prepared statement")
    return found[0] if found else Statement("empty", text)


@remembers_texts()
def _split(text: str) -> tuple[str, ...]:
    """Return the parts between semicolons."""
    found: list[str] = []
    inside: list[Any] = []
    for token in _tokens(text):
        if token.token_type.name != "SEMICOLON":
            inside.append(token)
        elif inside:
            found.append(text[inside[0].start : token.start])
            inside = []
    if inside:
        found.append(text[inside[0].start :])
    return tuple(each.strip() for each in found)


@remembers_texts(20_000)  # a statement is split, classified and parsed, one right after the other
def _tokens(text: str) -> list[Any]:
    try:
        return list(sqlglot.tokenize(text, read="postgres"))
    except (SqlglotError, ValueError) as error:
        raise Refusal("42601", "the SQL cannot be read: a quotation or a comment has no end") from error


@remembers_texts()
def _statement(text: str) -> Statement:
    words = tuple(token.text.upper() for token in _tokens(text)[:4])
    first = words[0] if words else ""
    if first in _WRITES:
        raise read_only(first)
    if first in _UNKNOWN:
        raise not_supported(f"{first} is not supported", "Use the statements that your driver prepares.")
    kind = _KINDS.get(first)
    if kind is None:
        raise Refusal("42601", f"syntax error at or near {first!r}", hint="Write a SELECT.")
    made = Statement(kind, text, words)
    if made.is_query:
        made.tree()  # so that one that cannot be parsed is refused now
    return made


_COPY = re.compile(r"COPY\s*\((?P<query>.*)\)\s*TO\s+STDOUT\b(?P<options>.*)$", re.IGNORECASE | re.DOTALL)
_COPY_TABLE = re.compile(
    r"COPY\s+(?P<name>(?:\"[^\"]+\"|[\w.$]+)+)\s*(?:\((?P<columns>[^)]*)\))?\s+TO\s+STDOUT\b(?P<options>.*)$",
    re.IGNORECASE | re.DOTALL,
)
_DECLARE = re.compile(
    r"DECLARE\s+(?P<name>\"[^\"]+\"|\w+)\s+(?P<how>[\w\s]*?)CURSOR\s+"
    r"(?:(?:WITH|WITHOUT)\s+HOLD\s+)?FOR\s+(?P<query>.*)$",
    re.IGNORECASE | re.DOTALL,
)
_EXPLAIN = re.compile(
    r"EXPLAIN\s*(?:\([^)]*\)|ANALYZE\b|VERBOSE\b|\s)*(?P<query>.*)$", re.IGNORECASE | re.DOTALL
)


def _asked(kind: StatementKind, text: str) -> str:
    """Return the query inside a statement."""
    if kind == "query":
        return text
    if kind == "copy":
        return copy_parts(text)[0]
    found = (_DECLARE if kind == "declare" else _EXPLAIN).match(text)
    if found is None:
        raise Refusal("42601", f"{text.split(maxsplit=1)[0].upper()} cannot be read")
    return found["query"]


def copy_parts(text: str) -> tuple[str, str]:
    """Return the query of COPY (query) TO STDOUT or COPY table TO STDOUT, and its options."""
    found = _COPY.match(text)
    if found is not None:
        return found["query"], found["options"]
    table = _COPY_TABLE.match(text)
    if table is not None:
        return f"SELECT {table['columns'] or '*'} FROM {table['name']}", table["options"]
    if re.search(r"\bFROM\s+STDIN\b", text, re.IGNORECASE):
        raise read_only("COPY FROM")
    raise not_supported("only COPY ... TO STDOUT is supported", "In psql: \\copy (SELECT ...) TO 'file'.")


def cursor_name(text: str) -> str:
    """Return the name of a cursor that DECLARE makes."""
    found = _DECLARE.match(text)
    assert found is not None
    if re.search(r"\bSCROLL\b", found["how"], re.IGNORECASE) and not re.search(
        r"\bNO\s+SCROLL\b", found["how"], re.IGNORECASE
    ):
        raise not_supported("SCROLL cursors are not supported", "Read the rows forward.")
    return identifier(found["name"])


def identifier(text: str) -> str:
    """Return a name as PostgreSQL reads it: in lower case unless it is quoted."""
    return text[1:-1].replace('""', '"') if text.startswith('"') else text.lower()


@remembers_texts(MOST_PARSED)
def _tree(text: str) -> exp.Expr:
    """Return the syntax tree of a query that only reads."""
    try:
        found = _parsed(text)
    except RecursionError as error:
        raise Refusal("54001", "the query is too deeply nested", hint="Use fewer levels.") from error
    except (SqlglotError, ValueError) as error:
        reason = " ".join(str(error).split("\n")[0].split()).rstrip(".")
        raise Refusal("42601", f"the query cannot be read: {reason}") from error
    if not isinstance(found, exp.Query | exp.Values):
        raise not_supported(f"{text.split(maxsplit=1)[0].upper()} is not a query that is supported")
    size = 0
    for node in found.walk():
        size += 1
        if isinstance(node, exp.DML | exp.DDL) and not isinstance(node, exp.Query):
            raise read_only(type(node).__name__.upper())
        if isinstance(node, exp.Into):
            raise read_only("SELECT INTO")
        if isinstance(node, exp.Lock):
            raise read_only("SELECT FOR UPDATE")
    if size > MAX_NODES:
        raise Refusal("54001", f"the query has more than {MAX_NODES:,} parts", hint="Split it.")
    return found


_REGISTERED_ARRAYS = re.compile(r"::\s*reg(type|class|proc)\s*\[\]", re.IGNORECASE)
_KEYWORDS = frozenset(
    ("SELECT", "UPDATE", "INSERT", "DELETE", "TABLE", "FROM", "WHERE", "ORDER", "GROUP", "ALL", "USER")
)


def _parsed(text: str) -> exp.Expr:
    """Return the syntax tree of a SQL string; PostgreSQL's SQL that sqlglot cannot parse is rewritten first."""
    try:
        found = Postgres().parser().parse(_tokens(text), text)[0]
    except (SqlglotError, ValueError):
        plain = _with_quoted_names(_REGISTERED_ARRAYS.sub("::text[]", text))
        if plain == text:
            raise
        return sqlglot.parse_one(plain, read="postgres")
    return found if found is not None else exp.Placeholder()  # of no words: not a query


def _with_quoted_names(text: str) -> str:
    """Return a SQL string in which names that are keywords, as in `x AS select` and `t.select`, are quoted."""
    tokens, found, at = _tokens(text), [], 0
    for before, token in pairwise(tokens):
        if before.text.upper() in ("AS", ".") and token.text.upper() in _KEYWORDS and before.text:
            found += [text[at : token.start], f'"{token.text.lower()}"']
            at = token.end + 1
    return "".join([*found, text[at:]])


def tables_of(tree: exp.Expr) -> Iterator[exp.Table]:
    """Yield the tables that a query reads, without the names that WITH defines."""
    named = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        inside = table.find_ancestor(exp.CTE)
        is_own = (
            inside is not None and inside.alias.lower() == table.name.lower() and not _is_recursive(inside)
        )
        if (
            table.db
            or table.name.lower() not in named
            or is_own
            or not isinstance(table.this, exp.Identifier)
        ):
            yield table


def _is_recursive(cte: exp.CTE) -> bool:
    return bool(cte.parent is not None and cte.parent.args.get("recursive"))
