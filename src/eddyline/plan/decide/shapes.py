"""How a query, planned or ad hoc, reads the dictionaries of a stream sample."""

import re
from collections.abc import Mapping, Sequence

from eddyline.plan.decide.facets import Facet, element_key, facets_of, facets_of_rows
from eddyline.plan.demands import WorkloadQuery
from eddyline.plan.layout import Elements, PlannedSample, Tier
from eddyline.sample.spec import COUNT, Node, Quantity, Shape, View
from eddyline.sketch.keys import code_is_value
from eddyline.sql.query import (
    AnyQuery,
    Expression,
    Key,
    SetExpression,
    SetLeaf,
    SetQuery,
)
from eddyline.types import Column, DerivedColumn, SqlType

# Which joins a sample answers if one column occurs in two links, as `src` and `dst` of a table of edges.
#
# A value is sampled once, wherever it occurs. Two links that share a relation have the same value in rows of
# that relation that hold it twice; these are corrected element by element (`sample.join`). For other links,
# only the complete join shows which rows have the same value, and by group or under conditions that is not
# known.


def is_answered_whole_only(query: AnyQuery, shape: Shape) -> bool:
    """Return whether a query with groups or cross conditions is answered only while all rows are held."""
    if not query.needs_single_links or not shape.repeats_classes:
        return False
    return bool(query.details) or shape.has_distant_repeats or _groups_by_repeated(query, shape)


def _groups_by_repeated(query: AnyQuery, shape: Shape) -> bool:
    """Return whether a group column is the key of a link whose column also occurs in another link."""
    columns = {(column.relation, Key((column.expression,))) for column in query.groups}
    return any(
        shape.classes.count(shape.classes[place]) > 1
        and any((member.relation, member.key) in columns for member in link.members)
        for place, link in enumerate(query.links)
    )


# Columns as elements hold them: in which expression, and whether its code determines the value.
#
# Codes of numbers and times are their values. The code of a string is a hash, and so is that of a DECIMAL
# with digits after the point: dictionaries keep the values of such columns as labels. A DECIMAL of money has
# too many values for that; it is held times a power of ten, as a whole number, whose code is again its value.


_MOST_DIGITS, _MOST_SCALE = 18, 6
_SCALED_UP = re.compile(r"`\w+` \* (10+)")


def column_expression(column: Column) -> Expression:
    """Return a column as an expression, in the spelling of parsed queries."""
    return Expression(f"`{column.name}`", column.type)


def held_expression(column: Column) -> Expression:
    """Return an explored column as elements hold it: itself, or a DECIMAL of up to 18 digits as a whole number."""
    kind = column.type
    if isinstance(column, DerivedColumn):
        return Expression(column.text, kind)
    if kind.kind != "decimal" or not 0 < kind.scale <= _MOST_SCALE or kind.precision > _MOST_DIGITS:
        return column_expression(column)
    return Expression(
        f"`{column.name}` * {10**kind.scale}",
        SqlType("decimal", kind.precision + kind.scale + 2, kind.scale),
    )


def code_identifies(key: Key) -> bool:
    """Return whether the code of a key of one column determines its value."""
    (part,) = key.columns
    scaled = _SCALED_UP.fullmatch(part.text)
    whole = part.type.kind == "decimal" and scaled is not None and int(scaled[1]) == 10**part.type.scale
    return code_is_value(part.type) or (whole and part.type.precision <= _MOST_DIGITS + part.type.scale + 2)


# Shapes: how a query, planned or not, reads the dictionaries of a stream sample.


def shape_of(
    asked: WorkloadQuery,
    quantities: Mapping[str, tuple[Facet, ...]],
    classes: Mapping[tuple[str, Key], int],
    exact: Sequence[Elements],
    kept: Sequence[Elements],
) -> Shape | None:
    """Return how a query reads the dictionaries, None for a query that does not read them."""
    if not quantities:
        return None
    first = next(iter(quantities.values()))
    links: dict[int, int] = {}
    for facet in first:
        for key, variable in zip(facet.keys, facet.variables, strict=True):
            links[variable] = classes[facet.stream, key]
    made = {
        name: Quantity(tuple(_node(facet, exact, kept) for facet in facets))
        for name, facets in quantities.items()
    }
    query = asked.query
    expression = _postfix(query.expression) if isinstance(query, SetQuery) else ()
    return Shape(
        asked.name, query.kind, tuple(links[v] for v in range(len(links))), made, asked.weight, expression
    )


def rows_of_join(query: AnyQuery, sample: PlannedSample) -> Quantity:
    """Return the quantity that counts the joined rows of a query, whatever it sums."""
    return Quantity(tuple(_node(facet, sample.exact, sample.kept) for facet in facets_of_rows(query)))


def covering_shape(asked: WorkloadQuery, sample: PlannedSample) -> Shape | None:
    """Return how an ad hoc query reads a sample, None if a dictionary lacks what it needs."""
    quantities = facets_of(asked.query)
    classes = classes_of(sample, "apart" if asked.query.kind == "pairs" else "planned")
    for facet in (facet for facets in quantities.values() for facet in facets):
        if not any(_holds(elements, facet) for elements in sample.kept):
            return None
    shape = shape_of(asked, quantities, classes, sample.exact, sample.kept)
    if shape is None or not one_class_each(quantities, classes):
        return None
    return shape


def classes_of(sample: PlannedSample, tier: Tier = "planned") -> dict[tuple[str, Key], int]:
    """Return the link class of every key of a stream that a sample follows for the queries of a tier."""
    return {
        (elements.stream, key): link
        for elements, spec in zip(sample.kept, sample.spec.kept, strict=True)
        for key, link in zip(elements.keys, spec.classes, strict=True)
        if link >= 0 and elements.tier == tier
    }


def _holds(elements: Elements, facet: Facet) -> bool:
    return (
        _is_of(elements, facet)
        and set(facet.groups) <= set(elements.keys)
        and (facet.apart or all(key in elements.labelled or code_identifies(key) for key in facet.groups))
        and set(facet.flags) <= set(elements.flags)
        and elements.holds_rows_of(facet.flags)
        and (facet.measure is None or facet.measure in elements.measures)
        and _knows_all(elements, facet)
    )


def _is_of(elements: Elements, facet: Facet) -> bool:
    """Return whether a dictionary is the one for a facet's stream and links."""
    return (
        elements.stream == facet.stream
        and elements.links == set(facet.keys)
        and elements.tier == facet.tier
        and (not facet.apart or set(elements.groups) == set(facet.groups) - elements.links)
    )


def _knows_all(elements: Elements, facet: Facet) -> bool:
    """Return whether a dictionary knows what a facet reads from it on every row that the facet counts."""
    parts = [part for key in facet.groups for part in key.columns]
    parts += [part for flag in facet.flags for part in flag.presence]
    measure, counted = facet.measure, facet.predicates
    return (
        knows_links(elements, facet)
        and all(elements.knows(part.text, 0, counted) for part in parts)
        and (measure is None or elements.knows(measure.text, measure.power, counted))
    )


def knows_links(elements: Elements, facet: Facet) -> bool:
    """Return whether a dictionary knows the links of a facet on every row that the facet counts."""
    parts = (part for key in facet.keys for part in key.columns)
    return all(elements.knows(part.text, 0, facet.predicates) for part in parts)


def one_class_each(
    quantities: Mapping[str, tuple[Facet, ...]], classes: Mapping[tuple[str, Key], int]
) -> bool:
    """Return whether the keys that meet in each link are of one class."""
    met: dict[int, set[int]] = {}
    for facet in next(iter(quantities.values()), ()):
        for key, variable in zip(facet.keys, facet.variables, strict=True):
            met.setdefault(variable, set()).add(classes[facet.stream, key])
    return all(len(links) == 1 for links in met.values())


def _node(facet: Facet, exact: Sequence[Elements], kept: Sequence[Elements]) -> Node:
    whole = next(i for i, each in enumerate(exact) if each.stream == facet.stream)
    part = next(i for i, each in enumerate(kept) if _is_of(each, facet))
    return Node(
        _view(facet, whole, exact[whole]), _view(facet, part, kept[part]), facet.variables, facet.roles
    )


def _view(facet: Facet, index: int, elements: Elements) -> View:
    measure = facet.measure
    return View(
        index,
        tuple(elements.keys.index(key) for key in facet.keys),
        tuple(elements.flags.index(flag) for flag in facet.flags),
        COUNT if measure is None else elements.columns(measure).start,
        facet.null_is_value and facet.keys[0] == element_key(facet.keys[0]),
        tuple(elements.keys.index(key) for key in facet.groups),
        1 if measure is None else measure.words,
        0 if measure is None else measure.lowest,
    )


def _postfix(expression: SetExpression) -> tuple[int | str, ...]:
    if isinstance(expression, SetLeaf):
        return (expression.member,)
    return (*_postfix(expression.left), *_postfix(expression.right), expression.operator)
