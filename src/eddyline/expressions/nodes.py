"""Row expressions: which nodes are allowed, which columns they read, whether they can fail, and what NULLs give."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import update_wrapper
from threading import Lock
from typing import Generic, TypeVar

import sqlglot
from sqlglot import exp

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.types import Column

# A cache of results computed from SQL strings, bounded by the total length of the strings.
#
# Strings come from plans, which repeat a few short ones for every batch, and from ad hoc SQL, where a client can
# send a new query of 100,000 characters with each request. A limit on the number of entries does not bound memory:
# a parsed tree takes up to 172 bytes per character (measured: a chain of OR; an IN list takes 105).


Result = TypeVar("Result")
MOST_CHARACTERS = 1_000_000
"""For strings that are longer than their results: about 2 MB. Chosen; plans seldom have 50,000."""
MOST_PARSED = 200_000
"""For strings whose parsed trees are kept: at most 35 MB, see above."""


class TextCache(Generic[Result]):
    """A function of one string with a cache of the results used last, limited by the characters of their strings.

    A string longer than an eighth of the limit is not cached: one request would displace what all batches use.
    """

    def __init__(self, function: Callable[[str], Result], most: int) -> None:
        self._function = function
        self._most = most
        self._results: OrderedDict[str, Result] = OrderedDict()
        self._turn = Lock()
        self.characters = 0
        """The total length of the cached strings."""
        update_wrapper(self, function)

    def __call__(self, text: str) -> Result:
        """Return what the function returns for a string; errors are not cached."""
        with self._turn:
            if text in self._results:
                self._results.move_to_end(text)
                return self._results[text]
        made = self._function(text)
        if len(text) <= self._most // 8:
            self._keep(text, made)
        return made

    def _keep(self, text: str, made: Result) -> None:
        with self._turn:
            if text not in self._results:
                self.characters += len(text) + 1  # an empty string is an entry, too
            self._results[text] = made
            while self.characters > self._most:
                oldest, _ = self._results.popitem(last=False)
                self.characters -= len(oldest) + 1


def remembers_texts(most: int = MOST_CHARACTERS) -> Callable[[Callable[[str], Result]], TextCache[Result]]:
    """Return a decorator that caches a function's results for strings of up to `most` characters in total."""
    return lambda function: TextCache(function, most)


ALLOWED: frozenset[type[exp.Expr]] = frozenset(
    {
        # values
        exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.HexString, exp.Var,
        exp.Interval, exp.Cast, exp.TryCast, exp.DataType, exp.DataTypeParam, exp.Tuple, exp.National,
        # arithmetic
        exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Abs, exp.Sign, exp.Floor,
        exp.Ceil, exp.Round, exp.Sqrt, exp.Pow, exp.Exp, exp.Ln, exp.Log, exp.BitwiseAnd, exp.BitwiseOr,
        exp.BitwiseXor, exp.BitwiseNot, exp.Least, exp.Greatest,
        # logic
        exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Is,
        exp.In, exp.Between, exp.Like, exp.ILike, exp.RegexpLike, exp.Escape, exp.Case, exp.If, exp.Coalesce,
        exp.Nullif, exp.IsNan,
        # strings
        exp.Lower, exp.Upper, exp.Length, exp.Substring, exp.Trim, exp.Concat, exp.ConcatWs, exp.StartsWith,
        exp.EndsWith, exp.Contains, exp.DPipe, exp.Left, exp.Right, exp.StrPosition, exp.RegexpExtract,
        exp.RegexpReplace, exp.Reverse,
        # dates and times
        exp.Year, exp.Month, exp.Day, exp.Quarter, exp.DayOfWeek, exp.DayOfYear, exp.WeekOfYear, exp.Hour,
        exp.Minute, exp.Second, exp.Extract, exp.DateAdd, exp.DateSub, exp.DateDiff, exp.DateTrunc,
        exp.TimestampTrunc, exp.TsOrDsToDate, exp.TsOrDsAdd, exp.TsOrDsDiff, exp.LastDay,
        exp.UnixSeconds, exp.UnixMillis, exp.UnixMicros, exp.UnixDate, exp.StrToUnix,
    }
)  # fmt: skip
# Deterministic functions of the row that sqlglot has no class for.
ALLOWED_FUNCTIONS = frozenset(
    """
    ascii bit_count bit_length btrim char_length contains crc32 endswith hash ifnull initcap instr isnotnull isnull
    locate lpad ltrim make_date mod nvl nvl2 octet_length pmod positive rpad rtrim shiftleft shiftright soundex
    startswith timestamp_micros timestamp_millis timestamp_seconds translate weekday xxhash64
    """.split()  # noqa: SIM905 - a long list of words reads better as text
)


@dataclass(frozen=True)
class Source:
    """A relation of a query: its alias, the stream behind it and the stream's columns.

    hidden: why the query cannot read columns of this relation; empty where it can.
    """

    alias: str
    stream: str
    columns: tuple[Column, ...]
    hidden: str = ""

    def find(self, name: str) -> Column | None:
        """Return the column of that name, ignoring case, as Spark does."""
        return next((column for column in self.columns if column.name.lower() == name.lower()), None)


def fragment(node: exp.Expr) -> str:
    """Return a node as the user would recognize it, cut to one line."""
    text = " ".join(node.sql(dialect="spark", comments=False).split())
    return text if len(text) <= 120 else text[:117] + "..."


_NOW = (exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentDatetime, exp.Localtimestamp)
_NOW_NAMES = frozenset(("now", "curdate", "current_date", "current_timestamp", "localtimestamp"))


def check_allowed(root: exp.Expr) -> None:
    """Raise UnsupportedQuery at the first node that is not a deterministic function of a row."""
    for node in root.walk():
        if isinstance(node, _NOW) or (isinstance(node, exp.Anonymous) and node.name.lower() in _NOW_NAMES):
            raise UnsupportedQuery(
                f"{fragment(node)!r} in {fragment(root)!r} changes with the time at which it is asked: state.sql(), "
                "`eddyline ask --sql` and SQL clients read it as the time of the answer. A query that always covers "
                "the last days of event time is planned with window=."
            )
        if isinstance(node, exp.Anonymous):
            if node.name.lower() not in ALLOWED_FUNCTIONS:
                raise UnsupportedQuery(
                    f"function {node.name}() in {fragment(root)!r} is not one of the deterministic row "
                    "functions that eddyline supports: compute it in the frame and declare it as a column."
                )
        elif isinstance(node, exp.AggFunc):
            raise UnsupportedQuery(
                f"aggregate {fragment(node)!r} is inside a row expression: use one aggregate."
            )
        elif isinstance(node, exp.Placeholder | exp.Parameter):
            raise UnsupportedQuery(
                f"{fragment(node)!r} is a parameter without a value: write the value in its place."
            )
        elif type(node) not in ALLOWED:
            raise UnsupportedQuery(
                f"{fragment(node)!r} ({type(node).__name__}) is not a deterministic expression on one row that "
                "eddyline supports: compute it in the frame and declare it as a column."
            )
        if isinstance(node, exp.In) and node.args.get("query") is not None:
            raise UnsupportedQuery(f"the subquery in {fragment(node)!r} is not supported.")


def resolve(node: exp.Column, sources: tuple[Source, ...]) -> tuple[int, Column]:
    """Return (relation index, declared column) of a column reference."""
    if node.args.get("db") is not None:
        raise SqlError(f"{fragment(node)!r}: name a column as alias.column.")
    qualifier = node.table.lower()
    if qualifier and qualifier not in [source.alias.lower() for source in sources]:
        known = ", ".join(source.alias for source in sources if not source.hidden)
        raise SqlError(
            f"{fragment(node)!r} does not name a relation of this query: the relations are {known}."
        )
    named = [(i, s) for i, s in enumerate(sources) if not qualifier or s.alias.lower() == qualifier]
    scope = [(i, s) for i, s in named if not s.hidden]
    hits = [(i, column) for i, s in scope if (column := s.find(node.name)) is not None]
    hidden = next((s for _, s in named if s.hidden and (qualifier or s.find(node.name))), None)
    if not hits and hidden is not None:
        raise SqlError(f"{fragment(node)!r} is a column of {hidden.alias!r}, {hidden.hidden}.")
    if not hits:
        offered = ", ".join(f"{s.alias}.{column.name}" for _, s in scope for column in s.columns)
        raise SqlError(f"there is no column {fragment(node)!r}: the declared columns are {offered}.")
    if len(hits) > 1:
        owners = " and ".join(sources[i].alias for i, _ in hits)
        raise SqlError(f"column {fragment(node)!r} is ambiguous between {owners}: qualify it.")
    return hits[0]


def relations_of(node: exp.Expr, sources: tuple[Source, ...]) -> frozenset[int]:
    """Return the indices of the relations that an expression reads."""
    return frozenset(resolve(column, sources)[0] for column in node.find_all(exp.Column))


def bare(node: exp.Expr, sources: tuple[Source, ...]) -> exp.Expr:
    """Return the expression over one relation's bare column names, quoted and as declared."""

    def strip(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column):
            return exp.column(exp.to_identifier(resolve(part, sources)[1].name, quoted=True))
        if isinstance(part, exp.If) and isinstance(part.this, exp.Null) and not _is_compared(part):
            # Spark accepts no bare NULL here.
            part.set("this", exp.cast(part.this, "BOOLEAN", dialect="spark"))
        return part

    return unparenthesised(node).copy().transform(strip)


def _is_compared(branch: exp.If) -> bool:
    """Return whether a branch belongs to CASE x WHEN ..., which compares x with it."""
    return isinstance(branch.parent, exp.Case) and branch.parent.this is not None


def unparenthesised(node: exp.Expr) -> exp.Expr:
    """Return the expression without outer parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def conjuncts(node: exp.Expr | None) -> Iterator[exp.Expr]:
    """Yield the parts of a conjunction; what all branches of an OR have in common is such a part.

    >>> [part.sql() for part in conjuncts(exp.condition("(a = b AND c) OR (a = b AND d)"))]
    ['a = b', 'c OR d']
    """
    if node is None:
        return
    node = unparenthesised(node)
    if isinstance(node, exp.And):
        yield from conjuncts(node.left)
        yield from conjuncts(node.right)
    elif isinstance(node, exp.Or):
        yield from _common_first(node)
    else:
        yield node


def _common_first(node: exp.Or) -> Iterator[exp.Expr]:
    """Yield the conjuncts that all branches of an OR have, then the OR of what else they have."""
    branches = [list(conjuncts(branch)) for branch in _disjuncts(node)]
    common = [part for part in dict.fromkeys(branches[0]) if all(part in branch for branch in branches)]
    if not common:
        yield node
        return
    yield from common
    others = [[part for part in branch if part not in common] for branch in branches]
    if all(others):
        yield exp.or_(*(exp.and_(*(part.copy() for part in branch)) for branch in others))


def _disjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    node = unparenthesised(node)
    if isinstance(node, exp.Or):
        yield from _disjuncts(node.left)
        yield from _disjuncts(node.right)
    else:
        yield node


def text(node: exp.Expr) -> str:
    """Return an expression as a Spark SQL string, the form in which plans store it."""
    return node.sql(dialect="spark", comments=False)


# New expressions from given ones: built as trees, so that operator precedence cannot change their meaning.


def operand(node: exp.Expr) -> exp.Expr:
    """Return a node that any operator may take as an operand: in parentheses unless it is one token or a call."""
    plain = isinstance(node, exp.Column | exp.Literal | exp.Paren | exp.Null | exp.Boolean)
    return node.copy() if plain else exp.Paren(this=node.copy())


@remembers_texts()
def operand_text(text: str) -> str:
    """Return an expression's SQL string as an operand.

    >>> operand_text("`a` OR `b`"), operand_text("`a`")
    ('(`a` OR `b`)', '`a`')
    """
    return _written(operand(sqlglot.parse_one(text, dialect="spark")))


def equal(left: str, right: str) -> str:
    """Return the SQL string of an equality of two expressions."""
    sides = [operand(sqlglot.parse_one(text, dialect="spark")) for text in (left, right)]
    return _written(exp.EQ(this=sides[0], expression=sides[1]))


def is_not_null(node: exp.Expr) -> exp.Expr:
    """Return the condition that an expression is not NULL."""
    return exp.Not(this=exp.Is(this=operand(node), expression=exp.Null()))


def one_where_not_null(node: exp.Expr) -> exp.Expr:
    """Return an expression that is 1 where another is not NULL, and NULL elsewhere."""
    return exp.Case(ifs=[exp.If(this=is_not_null(node), true=exp.Literal.number(1))])


def only_where(conditions: Sequence[str], text: str) -> str:
    """Return the SQL string of an expression that is NULL unless all conditions hold.

    >>> only_where(["`x` > 1", "`y` OR `z`"], "`k`")
    'CASE WHEN `x` > 1 AND (`y` OR `z`) THEN `k` END'
    """
    parsed = [sqlglot.parse_one(each, dialect="spark") for each in conditions]
    value = sqlglot.parse_one(text, dialect="spark")
    return _written(exp.Case(ifs=[exp.If(this=exp.and_(*parsed), true=value)]))


def negative(node: exp.Expr) -> exp.Expr:
    """Return an expression with the opposite sign."""
    return exp.Neg(this=operand(node))


def product_of(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Return the product of two expressions."""
    return exp.Mul(this=operand(left), expression=operand(right))


def _written(node: exp.Expr) -> str:
    return node.sql(dialect="spark", comments=False)


# The columns that a stored expression reads.


@remembers_texts()
def columns_of(text: str) -> frozenset[str]:
    """Return the names of the columns in an expression's SQL string."""
    return frozenset(column.name for column in sqlglot.parse_one(text, dialect="spark").find_all(exp.Column))


@remembers_texts()
def names_in(text: str) -> frozenset[str]:
    """Return every name in a query, including those of its columns, in lower case."""
    return frozenset(
        name.name.lower() for name in sqlglot.parse_one(text, dialect="spark").find_all(exp.Identifier)
    )


# Row expressions that can fail: Spark raises an error on rows for which they have no value, such as a
# division by zero.
#
# Spark evaluates what a query selects only on rows that pass WHERE. So do we: such an expression is evaluated
# only on rows that count in a query that reads it.


_SAFE: frozenset[type[exp.Expr]] = frozenset(
    {
        exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.HexString, exp.National, exp.Var,
        exp.DataType, exp.DataTypeParam, exp.Tuple,
        exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Is, exp.In,
        exp.Between, exp.Like, exp.ILike, exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.IsNan,
        exp.Lower, exp.Upper, exp.Length, exp.Trim, exp.Concat, exp.ConcatWs, exp.StartsWith, exp.EndsWith,
        exp.Contains,
        exp.Year, exp.Month, exp.Day, exp.Quarter, exp.DayOfWeek, exp.DayOfYear, exp.WeekOfYear, exp.Hour,
        exp.Minute, exp.Second, exp.TsOrDsToDate, exp.LastDay, exp.TryCast,
        exp.Extract, exp.TimestampTrunc, exp.DateTrunc, exp.DateDiff,
    }
)  # fmt: skip
"""Nodes that have a value, or are NULL, on every row; all others are assumed to fail on some rows."""


def can_fail(node: exp.Expr) -> bool:
    """Return whether an expression may have no value on some rows."""
    return any(type(part) not in _SAFE and not _is_of_literal(part) for part in node.walk())


def _is_of_literal(node: exp.Expr) -> bool:
    """Return whether a node only makes a constant from a literal: a sign, or a date."""
    return isinstance(node, exp.Neg | exp.Cast) and isinstance(node.this, exp.Literal)


@remembers_texts()
def may_fail(text: str) -> bool:
    """Return whether an expression, as plans store it, may have no value on some rows.

    >>> may_fail("`a` / `b`"), may_fail("CASE WHEN `a` > 1 THEN `b` END")
    (True, False)
    """
    return can_fail(sqlglot.parse_one(text, dialect="spark"))


def safe_first(conjuncts: Iterable[str]) -> tuple[str, ...]:
    """Return the parts of a conjunction in the order in which they are evaluated: those that can fail come last.

    Each is evaluated only where all before it are TRUE, so their order in the query does not matter.
    """
    return tuple(sorted(conjuncts, key=may_fail))


def row_failure(text: str, why: str) -> str:
    """Return the message about an expression without a value on a row, and what to do; text: empty if not known."""
    named = repr(text.replace("`", "")) if text else "an expression of a query"
    return (
        f"{named} fails on a row: {why.strip().rstrip('.')}; exclude such rows in WHERE, or let it be "
        "NULL there by NULLIF(divisor, 0), TRY_DIVIDE or TRY_CAST."
    )


# What an expression returns where all columns of its relation are NULL, as in rows that an outer join adds.
#
# Everything here is conservative: if it is not known what an expression returns, it may be anything.


_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_OF_BOTH = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.DPipe)
_OF_FIRST = (
    exp.Neg, exp.Not, exp.Abs, exp.Cast, exp.Lower, exp.Upper, exp.Length, exp.Year, exp.Month, exp.Day, exp.Quarter,
    exp.Hour, exp.Minute, exp.Second, exp.TsOrDsToDate, exp.Floor, exp.Ceil, exp.Round, exp.Sqrt, exp.Substring,
    exp.Trim, exp.DateTrunc, exp.TimestampTrunc, exp.DayOfWeek, exp.DayOfYear, exp.WeekOfYear, exp.LastDay,
    exp.TsOrDsAdd, exp.Nullif,
)  # fmt: skip
_PATTERNS = (
    exp.Like,
    exp.ILike,
    exp.RegexpLike,
    exp.In,
    exp.Between,
    exp.StartsWith,
    exp.EndsWith,
    exp.Contains,
)


def is_null_of_nulls(node: exp.Expr) -> bool:
    """Return whether an expression, or a condition, is certainly NULL where all its columns are."""
    node = unparenthesised(node)
    if isinstance(node, _COMPARISONS + _OF_BOTH):
        return is_null_of_nulls(node.left) or is_null_of_nulls(node.right)
    if isinstance(node, _OF_FIRST + _PATTERNS):
        return is_null_of_nulls(node.this)
    if isinstance(node, exp.And | exp.Or):
        return is_null_of_nulls(node.left) and is_null_of_nulls(node.right)
    if isinstance(node, exp.Case | exp.If):
        return _is_null_choice(node)
    return isinstance(node, exp.Column)


def _is_null_choice(node: exp.Case | exp.If) -> bool:
    """Return the same for a CASE or IF: no branch is taken, or the branch that is taken is NULL."""
    if isinstance(node, exp.If):
        return _is_nothing(node.args.get("false")) and _is_not_taken(node)
    if node.this is not None:
        return False
    return _is_nothing(node.args.get("default")) and all(_is_not_taken(each) for each in node.args["ifs"])


def _is_nothing(default: exp.Expr | None) -> bool:
    return default is None or isinstance(default, exp.Null) or is_null_of_nulls(default)


def _is_not_taken(branch: exp.If) -> bool:
    return rejects_nulls(branch.this) or is_null_of_nulls(branch.args["true"])


def rejects_nulls(condition: exp.Expr) -> bool:
    """Return whether a condition certainly does not hold where all its columns are NULL.

    >>> [rejects_nulls(sqlglot.parse_one(text)) for text in ("x > 1 OR x IS NOT NULL", "x > 1 OR y IS NULL")]
    [True, False]
    """
    condition = unparenthesised(condition)
    if is_null_of_nulls(condition):
        return True
    if isinstance(condition, exp.And):
        return rejects_nulls(condition.left) or rejects_nulls(condition.right)
    if isinstance(condition, exp.Or):
        return rejects_nulls(condition.left) and rejects_nulls(condition.right)
    return isinstance(condition, exp.Not) and tested_for_null(condition.this) is not None


def tested_for_null(condition: exp.Expr) -> exp.Expr | None:
    """Return x of a condition x IS NULL if x is NULL where all its columns are; None for other conditions."""
    condition = unparenthesised(condition)
    if isinstance(condition, exp.Is) and isinstance(condition.expression, exp.Null):
        return unparenthesised(condition.this) if is_null_of_nulls(condition.this) else None
    return None


@remembers_texts()
def text_is_null_of_nulls(text: str) -> bool:
    """Return the same for an expression's SQL string."""
    return is_null_of_nulls(sqlglot.parse_one(text, dialect="spark"))
