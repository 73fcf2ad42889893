"""Aggregates of the SELECT list: functions with their measures, FILTER conditions, and formulas of aggregates."""

from collections.abc import Callable, Iterator
from functools import reduce
from typing import TypeGuard

from sqlglot import exp

from eddyline.aggregates.catalog import moment_of_sql, written_names
from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.expressions.nodes import (
    Source,
    bare,
    check_allowed,
    conjuncts,
    fragment,
    negative,
    one_where_not_null,
    only_where,
    product_of,
    relations_of,
    safe_first,
    text,
    unparenthesised,
)
from eddyline.expressions.schema import sql_type
from eddyline.expressions.typing import infer, literal_number
from eddyline.sql.links import relations_read
from eddyline.sql.query import Aggregate, Expression, Factor, Formula, FormulaNode, FormulaNumber, FormulaPart
from eddyline.types import SqlType

# FILTER (WHERE ...), COUNT_IF and CASE with one branch: aggregates with their own conditions on rows.
#
# COUNT_IF(c)                  is read as COUNT(*) FILTER (WHERE c)
# SUM(CASE WHEN c THEN x END)  is read as SUM(x) FILTER (WHERE c), where c and x are of different relations
#
# If a SELECT without groups has one aggregate, its conditions move to WHERE. With several aggregates, and in
# groups, a condition makes the argument NULL in rows that do not meet it; no aggregate counts those. Over a
# join, each condition does this to the factor of its own relation, which is 1 where the aggregate reads
# nothing else of that relation.


Conditions = dict[int, tuple[str, ...]]
"""The conditions on each relation that an aggregate's rows meet, in the order in which they are evaluated."""


def filtered_count(node: exp.CountIf) -> exp.Filter:
    """Return COUNT_IF(c) as COUNT(*) FILTER (WHERE c)."""
    if isinstance(node.this, exp.Distinct):
        raise UnsupportedQuery(f"DISTINCT in {fragment(node)!r}: only COUNT takes it.")
    return exp.Filter(this=exp.Count(this=exp.Star(), big_int=True), expression=exp.Where(this=node.this))


def aggregate_of(node: exp.Expr) -> exp.Expr:
    """Return the aggregate in an expression of the SELECT list, without its alias and FILTER."""
    node = unparenthesised(node.this if isinstance(node, exp.Alias) else node)
    return unparenthesised(node.this) if isinstance(node, exp.Filter) else node


def own_conditions(node: exp.Expr) -> list[exp.Expr]:
    """Return the conditions of an aggregate's FILTER."""
    node = unparenthesised(node.this if isinstance(node, exp.Alias) else node)
    return list(conjuncts(node.expression.this)) if isinstance(node, exp.Filter) else []


def with_filter_in_where(select: exp.Select) -> exp.Select:
    """Return a SELECT of one aggregate without groups with its FILTER in WHERE, and any other unchanged."""
    only = select.expressions[0] if len(select.expressions) == 1 else None
    if only is None or select.args.get("group") or not own_conditions(only):
        return select
    select = select.copy()
    only = select.expressions[0]
    where = select.args.get("where")
    parts = [*(conjuncts(where.this) if where else ()), *own_conditions(only)]
    select.set("where", exp.Where(this=exp.and_(*(part.copy() for part in parts))))
    select.set("expressions", [aggregate_of(only)])
    return select


def without_choice(argument: exp.Expr, sources: tuple[Source, ...]) -> tuple[exp.Expr, list[exp.Expr]]:
    """Return (x, conditions) of CASE WHEN c THEN x END over several relations; other arguments unchanged."""
    found: list[exp.Expr] = []
    argument = unparenthesised(argument)
    while len(relations_of(argument, sources)) > 1:
        branch = _only_branch(argument)
        if branch is None:
            break
        found += conjuncts(branch.this)
        argument = unparenthesised(branch.args["true"])
    return argument, found


def _only_branch(node: exp.Expr) -> exp.If | None:
    """Return the only branch of a CASE or IF that is NULL otherwise; None for any other expression."""
    if isinstance(node, exp.Case):
        only = len(node.args["ifs"]) == 1 and node.this is None
        branch, other = node.args["ifs"][0] if only else None, node.args.get("default")
    else:
        branch, other = (node, node.args.get("false")) if isinstance(node, exp.If) else (None, None)
    return branch if other is None or isinstance(other, exp.Null) else None


def by_relation(conditions: list[exp.Expr], sources: tuple[Source, ...], constant: int = 0) -> Conditions:
    """Return conditions by the relation that each reads; constant: the relation for those that read none."""
    found: dict[int, set[str]] = {}
    for condition in conditions:
        if condition.find(exp.Subquery, exp.Exists) or condition.args.get("query") is not None:
            raise UnsupportedQuery(
                f"the subquery in {fragment(condition)!r} is a condition of one aggregate: subqueries are supported in "
                "WHERE, in a query of its own."
            )
        if condition.find(exp.AggFunc):
            raise SqlError(f"{fragment(condition)!r} is a condition on rows and holds an aggregate.")
        used = relations_read(condition, sources)
        if len(used) > 1:
            raise UnsupportedQuery(
                f"the condition {fragment(condition)!r} of one aggregate reads several relations: ask the aggregate "
                "alone, without GROUP BY and with FILTER (WHERE ...), and it is answered as a condition of WHERE."
            )
        found.setdefault(used[0] if used else constant, set()).add(text(bare(condition, sources)))
    return {relation: safe_first(sorted(texts)) for relation, texts in sorted(found.items())}


def conditioned(expression: Expression, conditions: tuple[str, ...]) -> Expression:
    """Return an expression that is NULL in rows that do not meet all conditions."""
    return Expression(only_where(conditions, expression.text), expression.type) if conditions else expression


PRESENT = Expression("1", SqlType("int"))
"""The factor of a relation that an aggregate reads in conditions only."""


# The function of an aggregate, and its measure split into a factor per relation.


_STRICT = (exp.Add, exp.Sub, exp.Mul, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
"""Binary operators whose result is NULL exactly where an operand is."""


def read_aggregate(node: exp.Expr, sources: tuple[Source, ...]) -> Aggregate:
    """Return the aggregate that an expression of the SELECT list asks for."""
    conditions, node = own_conditions(node), aggregate_of(node)
    moment = moment_of_sql(node.sql_names()) if isinstance(node, exp.AggFunc) else None
    if moment is None:
        raise UnsupportedQuery(
            f"{fragment(node)!r} is not an aggregate that eddyline supports: write {', '.join(written_names())}, MIN, "
            "MAX, MEDIAN, PERCENTILE, or a formula of them."
        )
    if isinstance(node.this, exp.Distinct):
        raise UnsupportedQuery(f"DISTINCT in {fragment(node)!r}: only COUNT takes it.")
    if moment.is_count and len(node.expressions) > 0:
        raise UnsupportedQuery(f"COUNT takes one argument, not {fragment(node)!r}.")
    if isinstance(node.this, exp.Star):
        if not moment.is_count:
            raise SqlError(f"{fragment(node)!r}: only COUNT takes a star.")
        return _filtered(Aggregate("count"), conditions, sources)
    arguments, more = [], list[exp.Expr]()
    for given in (node.this, node.args.get("expression"))[: moment.arguments]:
        assert given is not None  # sqlglot refuses a function that lacks an argument
        check_allowed(given)
        infer(given, sources)
        argument, chosen = without_choice(given, sources)
        arguments.append(argument)
        more += chosen
    read = (
        _count_of(arguments[0], sources)
        if moment.is_count
        else Aggregate.of(moment.name, [_factors(argument, sources) for argument in arguments])
    )
    return _filtered(read, [*conditions, *more], sources)


def _filtered(aggregate: Aggregate, conditions: list[exp.Expr], sources: tuple[Source, ...]) -> Aggregate:
    """Return an aggregate of rows that meet conditions: a relation's factor is NULL where its own do not hold."""
    arguments = [{each.relation: each.expression for each in factors} for factors in aggregate.arguments]
    of_relations = by_relation(conditions, sources, constant=min(arguments[0], default=0))
    for relation, texts in of_relations.items():
        # one argument is enough, because a row counts only where no argument is NULL
        own = next((each for each in arguments if relation in each), arguments[0])
        own[relation] = conditioned(own.get(relation, PRESENT), texts)
    return Aggregate.of(
        aggregate.function,
        [tuple(Factor(*each) for each in sorted(factors.items())) for factors in arguments],
    )


def _count_of(argument: exp.Expr, sources: tuple[Source, ...]) -> Aggregate:
    """Return COUNT(x): rows whose x is not NULL; the measure is 1 there and NULL elsewhere.

    An x over several relations is NULL exactly where one of its parts is, if all operators between the parts return
    NULL for NULL.
    """
    infer(argument, sources)
    if _is_never_null(argument):
        return Aggregate("count")
    by_relation: dict[int, list[exp.Expr]] = {}
    for part in _strict_parts(argument, sources):
        relations = relations_of(part, sources)
        if len(relations) > 1:
            raise UnsupportedQuery(
                f"COUNT({fragment(argument)}): {fragment(part)!r} reads several relations: COUNT is supported for "
                "what reads one, and of what is NULL exactly where one of such parts is."
            )
        by_relation.setdefault(min(relations, default=0), []).append(part)
    factors = []
    for relation, parts in sorted(by_relation.items()):
        flags = [bare(one_where_not_null(part), sources) for part in dict.fromkeys(parts)]
        factors.append(Factor(relation, Expression(text(reduce(product_of, flags)), SqlType("int"))))
    return Aggregate("count", tuple(factors))


def _strict_parts(node: exp.Expr, sources: tuple[Source, ...]) -> Iterator[exp.Expr]:
    """Yield the parts of an expression that is NULL exactly where one of them is, without literals."""
    node = unparenthesised(node)
    if len(relations_of(node, sources)) < 2:
        if not _is_never_null(node):
            yield node
    elif isinstance(node, exp.Neg):
        yield from _strict_parts(node.this, sources)
    elif isinstance(node, _STRICT):
        yield from _strict_parts(node.left, sources)
        yield from _strict_parts(node.right, sources)
    else:
        yield node


def _is_never_null(node: exp.Expr) -> bool:
    """Return whether an expression is made of literals only, without functions that may return NULL for them."""
    return all(isinstance(part, exp.Literal | exp.Boolean | exp.Neg | exp.Paren) for part in node.walk())


def _factors(measure: exp.Expr, sources: tuple[Source, ...]) -> tuple[Factor, ...]:
    """Return the measure as a product of factors, at most one per relation."""
    infer(measure, sources)
    by_relation: dict[int, list[exp.Expr]] = {}
    constants: list[exp.Expr] = []
    is_negative, parts = False, [unparenthesised(measure)]
    if len(relations_of(measure, sources)) > 1:
        is_negative, parts = _product(measure)
    for part in parts:
        relations = relations_of(part, sources)
        if len(relations) > 1:
            raise UnsupportedQuery(
                f"{fragment(part)!r} mixes columns of several relations other than by a product: SUM(x + y) is "
                "SUM(x) FILTER (WHERE y IS NOT NULL) + SUM(y) FILTER (WHERE x IS NOT NULL)."
            )
        (by_relation.setdefault(min(relations), []) if relations else constants).append(part)
    first = min(by_relation, default=0)
    by_relation[first] = constants + by_relation.get(first, [])
    if is_negative:
        by_relation[first][0] = _opposite(by_relation[first][0], sources)
    return tuple(_factor(relation, parts, sources) for relation, parts in sorted(by_relation.items()))


def _product(node: exp.Expr) -> tuple[bool, list[exp.Expr]]:
    """Return (whether the sign is inverted, factors) of a product."""
    node = unparenthesised(node)
    if isinstance(node, exp.Neg) and not isinstance(node.this, exp.Literal):
        turned, factors = _product(node.this)
        return not turned, factors
    if isinstance(node, exp.Mul):
        (left, factors), (right, others) = _product(node.left), _product(node.right)
        return left != right, factors + others
    return False, [node]


def _opposite(node: exp.Expr, sources: tuple[Source, ...]) -> exp.Expr:
    """Return a factor with the opposite sign; integers are widened first, because -(-128) is not a TINYINT."""
    kind = infer(node, sources)
    widened = (
        exp.cast(node.copy(), "BIGINT", dialect="spark") if kind is not None and kind.is_integer else node
    )
    return negative(widened)


def _factor(relation: int, parts: list[exp.Expr], sources: tuple[Source, ...]) -> Factor:
    measure = reduce(product_of, parts)
    kind = infer(measure, sources)
    if kind is None or not kind.is_numeric:
        found = "a type that eddyline cannot work out" if kind is None else f"type {kind}"
        raise UnsupportedQuery(
            f"the measure {fragment(measure)!r} has {found}: wrap it in CAST(... AS DECIMAL(p, s)) or another "
            "numeric type."
        )
    return Factor(relation, Expression(text(bare(measure, sources)), kind))


# Formulas of aggregates: SUM(a) / COUNT(*), 100.0 * COUNT_IF(c) / COUNT(*), SUM(a) - SUM(b).
#
# Each aggregate belongs to the query; this part reads how they are combined. A SUM or COUNT over the COUNT of
# the same rows is an average, whose estimate is more precise than its two parts: 100 * COUNT_IF(c) / COUNT(*)
# is 100 times an average.


_OPERATORS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}
_SCALAR_FUNCTIONS = (exp.Neg, exp.Cast, exp.Round, exp.Coalesce, exp.Nullif)
_AGGREGATES = (exp.AggFunc, exp.WithinGroup, exp.Filter)
_MOST_PLACES = 15


def is_formula(node: exp.Expr) -> bool:
    """Return whether an expression of the SELECT list combines aggregates, or computes something from one."""
    node = unparenthesised(node.this if isinstance(node, exp.Alias) else node)
    return isinstance(node, (*_OPERATORS, *_SCALAR_FUNCTIONS)) and node.find(exp.AggFunc) is not None


def read_formula(
    node: exp.Expr, name_of: Callable[[exp.Expr], str], is_average: Callable[[str, str], bool]
) -> Formula:
    """Return the formula of an expression.

    name_of: the name of an aggregate of the query. is_average: whether one of them divided by another is an
    average.
    """

    def read(part: exp.Expr) -> Formula:  # noqa: PLR0911 - one line per kind
        part = unparenthesised(part)
        number = literal_number(part)
        if number is not None:
            return FormulaNumber(number)
        if isinstance(part, _AGGREGATES):
            return FormulaPart(name_of(part))
        if isinstance(part, exp.Div):
            return _divided(read(part.left), read(part.right), is_average)
        if isinstance(part, exp.Binary) and type(part) in _OPERATORS:
            return FormulaNode(_OPERATORS[type(part)], read(part.left), read(part.right))  # type: ignore[arg-type]
        if isinstance(part, exp.Neg):
            return FormulaNode("-", FormulaNumber("0"), read(part.this))
        if isinstance(part, exp.Cast) and _is_double(part):
            return read(part.this)
        if isinstance(part, exp.Round | exp.Coalesce | exp.Nullif):
            return FormulaNode(type(part).__name__.lower(), read(part.this), _second(part))  # type: ignore[arg-type]
        if not part.find(exp.AggFunc):
            raise SqlError(f"{fragment(part)!r} next to aggregates is neither an aggregate nor a number.")
        raise UnsupportedQuery(
            f"{fragment(part)!r}: aggregates are combined by + - * / and ROUND, COALESCE, NULLIF and CAST to "
            "DOUBLE; select them as separate columns."
        )

    return read(node)


def _is_double(node: exp.Cast) -> bool:
    kind = sql_type(node.to)
    return kind is not None and kind.kind == "double"


def _second(node: exp.Expr) -> FormulaNumber:
    """Return the number that ROUND, COALESCE and NULLIF take."""
    given = node.args.get("decimals") if isinstance(node, exp.Round) else node.args.get("expression")
    if isinstance(node, exp.Coalesce):
        given = node.expressions[0] if len(node.expressions) == 1 else None
    number = "0" if given is None and isinstance(node, exp.Round) else literal_number(given or exp.Null())
    places = isinstance(node, exp.Round) and number is not None
    if number is None or (places and not (number.isdigit() and int(number) <= _MOST_PLACES)):
        raise UnsupportedQuery(
            f"{fragment(node)!r}: next to an aggregate COALESCE and NULLIF take one number, ROUND places from 0 to "
            f"{_MOST_PLACES}."
        )
    return FormulaNumber(number)


def _divided(left: Formula, right: Formula, is_average: Callable[[str, str], bool]) -> Formula:
    """Return a quotient; a leading number stays in front of it, so that averages are recognized."""
    if isinstance(left, FormulaNode) and left.operator == "*":
        if isinstance(left.left, FormulaNumber):
            return FormulaNode("*", left.left, _divided(left.right, right, is_average))
        if isinstance(left.right, FormulaNumber):
            return FormulaNode("*", _divided(left.left, right, is_average), left.right)
    guarded = (
        isinstance(right, FormulaNode) and right.operator == "nullif" and right.right == FormulaNumber("0")
    )
    count = right.left if guarded and isinstance(right, FormulaNode) else right
    if _is_aggregate(left) and _is_aggregate(count) and is_average(left.name, count.name):
        return FormulaPart(left.name, count.name, guarded)
    return FormulaNode("/", left, right)


def _is_aggregate(formula: Formula) -> TypeGuard[FormulaPart]:
    """Return whether a formula is one aggregate; an average counts as two."""
    return isinstance(formula, FormulaPart) and formula.over is None
