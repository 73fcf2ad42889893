"""Shapes: how a query reads the dictionaries of a stream sample, planned or not."""

from collections.abc import Mapping, Sequence

from eddyline.plan.decide.facets import Facet, element_key, facets_of
from eddyline.plan.decide.held_columns import code_tells
from eddyline.plan.demands import WorkloadQuery
from eddyline.plan.layout import Elements, PlannedSample
from eddyline.sample.spec import COUNT, Node, Quantity, Shape, View
from eddyline.sql.query import AnyQuery, GroupQuery, Key, Query, SetExpression, SetLeaf, SetQuery


def shape_of(
    asked: WorkloadQuery,
    quantities: Mapping[str, tuple[Facet, ...]],
    classes: Mapping[tuple[str, Key], int],
    exact: Sequence[Elements],
    kept: Sequence[Elements],
) -> Shape | None:
    """Return how a query reads the dictionaries, None for one that does not."""
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
        asked.name, _kind(query), tuple(links[v] for v in range(len(links))), made, asked.weight, expression
    )


def covering_shape(asked: WorkloadQuery, sample: PlannedSample) -> Shape | None:
    """Return how a query that was not planned reads a sample, None where a dictionary lacks what it needs."""
    quantities = facets_of(asked.query)
    classes = classes_of(sample)
    for facet in (facet for facets in quantities.values() for facet in facets):
        if not any(_holds(elements, facet) for elements in sample.kept):
            return None
    shape = shape_of(asked, quantities, classes, sample.exact, sample.kept)
    if shape is None or not one_class_each(quantities, classes):
        return None
    return shape


def classes_of(sample: PlannedSample) -> dict[tuple[str, Key], int]:
    """Return the link class of every key of a stream that a sample follows."""
    return {
        (elements.stream, key): link
        for elements, spec in zip(sample.kept, sample.spec.kept, strict=True)
        for key, link in zip(elements.keys, spec.classes, strict=True)
        if link >= 0
    }


def _holds(elements: Elements, facet: Facet) -> bool:
    return (
        elements.stream == facet.stream
        and elements.links == set(facet.keys)
        and set(facet.groups) <= set(elements.keys)
        and all(key in elements.labelled or code_tells(key) for key in facet.groups)
        and set(facet.flags) <= set(elements.flags)
        and elements.holds_rows_of(facet.flags)
        and (facet.measure is None or facet.measure in elements.measures)
        and _knows_all(elements, facet)
    )


def _knows_all(elements: Elements, facet: Facet) -> bool:
    """Return whether a dictionary knows what a facet reads of it on every row that the facet counts."""
    parts = [part for key in facet.groups for part in key.columns]
    parts += [part for flag in facet.flags for part in flag.presence]
    measure, counted = facet.measure, facet.predicates
    return (
        knows_links(elements, facet)
        and all(elements.knows(part.text, 0, counted) for part in parts)
        and (measure is None or elements.knows(measure.expression.text, measure.power, counted))
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


def _kind(query: AnyQuery) -> str:
    if isinstance(query, SetQuery):
        return "set"
    if isinstance(query, GroupQuery):
        return "join"
    assert isinstance(query, Query)
    return "join" if query.aggregate.function in ("count", "sum") else "ratio"


def _node(facet: Facet, exact: Sequence[Elements], kept: Sequence[Elements]) -> Node:
    whole = next(i for i, each in enumerate(exact) if each.stream == facet.stream)
    part = next(
        i for i, each in enumerate(kept) if each.stream == facet.stream and each.links == set(facet.keys)
    )
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
