"""Sums of several relations' columns, split: SUM(a.x - b.y) is a difference of two sums.

SUM(a.x - b.y)    SUM(a.x) FILTER (WHERE b.y IS NOT NULL) - SUM(b.y) FILTER (WHERE a.x IS NOT NULL)
AVG(a.x - b.y)    the same, divided by COUNT(a.x - b.y)

A sum of products is multiplied out. Each product has one factor for each relation, like a measure.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from eddyline.errors import UnsupportedQuery
from eddyline.expressions.nodes import conjuncts, fragment, is_not_null, operand, product_of, unparenthesised
from eddyline.types import Column

_MOST_TERMS = 8
"""Most terms of one measure: chosen; each interval has a share of the confidence, and grows with their number."""


def with_linear_measures_apart(select: exp.Select, streams: Mapping[str, tuple[Column, ...]]) -> exp.Select:
    """Return a SELECT in which no SUM or AVG adds columns of several relations."""
    owners = _Owners(select, streams)
    found = [
        node
        for clause in ("expressions", "having", "order")
        for node in _aggregates(select, clause)
        if owners.is_mixed(node.this)
    ]
    if not found:
        return select
    made = select.copy()
    owners = _Owners(made, streams)
    for item in list(made.expressions):
        if not isinstance(item, exp.Alias) and any(
            owners.is_mixed(each.this) for each in item.find_all(exp.Sum, exp.Avg)
        ):
            item.replace(exp.alias_(item.copy(), fragment(item), quoted=True))  # it keeps its name
    for clause in ("expressions", "having", "order"):
        for node in list(_aggregates(made, clause)):
            if owners.is_mixed(node.this):
                _take_apart(node, owners)
    return made


def _aggregates(select: exp.Select, clause: str) -> Iterator[exp.Expr]:
    value = select.args.get(clause)
    for item in value if isinstance(value, list) else [value] if value is not None else []:
        yield from (
            node for node in item.find_all(exp.Sum, exp.Avg) if not isinstance(node.this, exp.Distinct)
        )


@dataclass(frozen=True)
class _Term:
    """A product with its sign; factors: parts that read one relation or none."""

    negative: bool
    factors: tuple[exp.Expr, ...]


class _Owners:
    """The relation of each column of a SELECT."""

    def __init__(self, select: exp.Select, streams: Mapping[str, tuple[Column, ...]]) -> None:
        columns = {name.lower(): {c.name.lower() for c in each} for name, each in streams.items()}
        tables = [table for table in select.find_all(exp.Table) if table.find_ancestor(exp.Select) is select]
        self.columns = {
            table.alias_or_name.lower(): columns.get(table.name.lower(), set()) for table in tables
        }

    def relations(self, node: exp.Expr) -> set[str]:
        """Return the aliases of the relations that an expression reads, as far as they are known."""
        found = set()
        for column in node.find_all(exp.Column):
            if column.table:
                found.add(column.table.lower())
            else:
                found |= {alias for alias, names in self.columns.items() if column.name.lower() in names}
        return found

    def is_mixed(self, node: exp.Expr | None) -> bool:
        """Return whether a measure adds or subtracts columns of several relations."""
        if node is None or len(self.relations(node)) < 2:
            return False
        node = unparenthesised(node)
        if isinstance(node, exp.Add | exp.Sub):
            return True
        if isinstance(node, exp.Neg):
            return self.is_mixed(node.this)
        return isinstance(node, exp.Mul) and (self.is_mixed(node.left) or self.is_mixed(node.right))

    def terms(self, node: exp.Expr) -> list[_Term]:
        """Return the products that a measure adds."""
        node = unparenthesised(node)
        if len(self.relations(node)) < 2:
            return [_Term(negative=False, factors=(node,))]
        if isinstance(node, exp.Neg):
            return [_Term(not each.negative, each.factors) for each in self.terms(node.this)]
        if isinstance(node, exp.Add | exp.Sub):
            turned = isinstance(node, exp.Sub)
            right = [_Term(each.negative != turned, each.factors) for each in self.terms(node.right)]
            return self.terms(node.left) + right
        if isinstance(node, exp.Mul):
            return [
                _Term(one.negative != two.negative, one.factors + two.factors)
                for one in self.terms(node.left)
                for two in self.terms(node.right)
            ]
        return [_Term(negative=False, factors=(node,))]


def _take_apart(node: exp.Expr, owners: _Owners) -> None:
    """Replace a SUM or an AVG, with its FILTER, by a formula of sums of products."""
    around = node.parent if isinstance(node.parent, exp.Filter) else None
    given = list(conjuncts(around.expression.this)) if around is not None else []
    terms = owners.terms(node.this)
    if len(terms) > _MOST_TERMS:
        raise UnsupportedQuery(
            f"{fragment(node)!r} adds more than {_MOST_TERMS} products: write it as several sums."
        )
    whole: exp.Expr | None = None
    for place, term in enumerate(terms):
        others = [factor for k, each in enumerate(terms) if k != place for factor in each.factors]
        part = _filtered(exp.Sum(this=_product(term.factors)), [*given, *_present(others, term)])
        if whole is None:
            whole = exp.Neg(this=part) if term.negative else part
        else:
            whole = (exp.Sub if term.negative else exp.Add)(this=whole, expression=part)
    assert whole is not None
    if isinstance(node, exp.Avg):
        count = _filtered(exp.Count(this=node.this.copy(), big_int=True), given)
        divisor = exp.Nullif(this=count, expression=exp.Literal.number(0))
        whole = exp.Div(this=exp.Paren(this=whole), expression=divisor, typed=False, safe=False)
    (around or node).replace(exp.Paren(this=whole))


def _product(factors: tuple[exp.Expr, ...]) -> exp.Expr:
    made = factors[0].copy()
    for factor in factors[1:]:
        made = product_of(made, factor)
    return made


def _present(others: list[exp.Expr], own: _Term) -> list[exp.Expr]:
    """Return the conditions that no factor of other terms is NULL."""
    found: list[exp.Expr] = []
    for factor in others:
        if factor.find(exp.Column) and factor not in own.factors and factor not in found:
            found.append(factor)
    return [is_not_null(factor) for factor in found]


def _filtered(aggregate: exp.Expr, conditions: list[exp.Expr]) -> exp.Expr:
    if not conditions:
        return aggregate
    both = exp.and_(*(operand(each) for each in conditions))
    return exp.Filter(this=aggregate, expression=exp.Where(this=both))
