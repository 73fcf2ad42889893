"""Row expressions: which nodes we let through, which relation they read, and how they are written down."""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.types import Column

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
    """.split()  # noqa: SIM905 - a list of so many words reads better as text
)


@dataclass(frozen=True)
class Source:
    """A relation of a query: its alias, the stream behind it and the stream's columns.

    hidden: why the query's columns cannot be of this relation; empty where they can.
    """

    alias: str
    stream: str
    columns: tuple[Column, ...]
    hidden: str = ""

    def find(self, name: str) -> Column | None:
        """Return the column of that name, in any case, as Spark does."""
        return next((column for column in self.columns if column.name.lower() == name.lower()), None)


def fragment(node: exp.Expr) -> str:
    """Return a node as the user would recognise it, cut to one line."""
    text = " ".join(node.sql(dialect="spark", comments=False).split())
    return text if len(text) <= 120 else text[:117] + "..."


def check_allowed(root: exp.Expr) -> None:
    """Raise UnsupportedQuery at the first node that is not a deterministic function of a row."""
    for node in root.walk():
        if isinstance(node, exp.Anonymous):
            if node.name.lower() not in ALLOWED_FUNCTIONS:
                raise UnsupportedQuery(
                    f"function {node.name}() in {fragment(root)!r} is not on the list of deterministic row "
                    "functions that eddyline lets through: compute it in the frame and declare it as a column."
                )
        elif isinstance(node, exp.AggFunc):
            raise UnsupportedQuery(
                f"aggregate {fragment(node)!r} stands inside a row expression: use one aggregate."
            )
        elif isinstance(node, exp.Placeholder | exp.Parameter):
            raise UnsupportedQuery(
                f"{fragment(node)!r} is a parameter without a value: write the value in its place."
            )
        elif type(node) not in ALLOWED:
            raise UnsupportedQuery(
                f"{fragment(node)!r} ({type(node).__name__}) is not a deterministic expression on one row that "
                "eddyline lets through: compute it in the frame and declare it as a column."
            )
        if isinstance(node, exp.In) and node.args.get("query") is not None:
            raise UnsupportedQuery(
                f"the subquery in {fragment(node)!r} is outside the class that eddyline answers."
            )


def resolve(node: exp.Column, sources: tuple[Source, ...]) -> tuple[int, Column]:
    """Return (relation index, declared column) of a column reference."""
    if node.args.get("db") is not None:
        raise SqlError(f"{fragment(node)!r}: name a column as alias.column.")
    qualifier = node.table.lower()
    if qualifier and qualifier not in [source.alias.lower() for source in sources]:
        known = ", ".join(source.alias for source in sources if not source.hidden)
        raise SqlError(f"{fragment(node)!r} names no relation of this query: the relations are {known}.")
    scope = [
        (i, s) for i, s in enumerate(sources) if (s.alias.lower() == qualifier if qualifier else not s.hidden)
    ]
    if qualifier and scope[0][1].hidden:
        raise SqlError(f"{fragment(node)!r} is a column of {scope[0][1].alias!r}, {scope[0][1].hidden}.")
    hits = [(i, column) for i, s in scope if (column := s.find(node.name)) is not None]
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
    """Return the expression over one relation's bare column names, as declared and quoted."""

    def strip(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column):
            return exp.column(exp.to_identifier(resolve(part, sources)[1].name, quoted=True))
        if isinstance(part, exp.If) and isinstance(part.this, exp.Null) and not _is_compared(part):
            part.set("this", exp.cast(part.this, "BOOLEAN", dialect="spark"))  # Spark takes no bare NULL here
        return part

    return unparenthesised(node).copy().transform(strip)


def _is_compared(branch: exp.If) -> bool:
    """Return whether a branch belongs to CASE x WHEN ..., which compares x with it."""
    return isinstance(branch.parent, exp.Case) and branch.parent.this is not None


def unparenthesised(node: exp.Expr) -> exp.Expr:
    """Return the expression without parentheses around the whole of it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def conjuncts(node: exp.Expr | None) -> Iterator[exp.Expr]:
    """Yield the parts of a conjunction."""
    if node is None:
        return
    node = unparenthesised(node)
    if isinstance(node, exp.And):
        yield from conjuncts(node.left)
        yield from conjuncts(node.right)
    else:
        yield node


def text(node: exp.Expr) -> str:
    """Return an expression as Spark SQL text, the form in which plans carry it."""
    return node.sql(dialect="spark", comments=False)
