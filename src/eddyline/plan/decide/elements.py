"""What a stream sample holds of each stream, and how queries read it: the plan of dictionaries.

A facet is what one relation of a query needs to know of its stream's rows: the keys of its links, which rows count
and what is summed. All facets of a stream share its exact dictionary; facets on the same links share a dictionary
of the second stage. Keys that some query equates are one link class, whose values all streams follow together.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as dataclass_replace

import msgspec
from msgspec.structs import replace

from eddyline.plan.demands import WorkloadQuery, pair_demands
from eddyline.plan.layout import Demand, Elements, Flag, KeptSynopsis, Measure, PlannedSample
from eddyline.sample.spec import COUNT, Node, Quantity, Regrouped, SampleSpec, Shape, View
from eddyline.sketch.hash_families import derive_seed
from eddyline.sketch.keys import code_is_value
from eddyline.sql.query import (
    Aggregate,
    AnyQuery,
    Expression,
    Function,
    GroupQuery,
    JoinDistinctQuery,
    Key,
    Query,
    SetExpression,
    SetLeaf,
    SetQuery,
)
from eddyline.types import SqlType

_EVERYTHING = Expression("TRUE", SqlType("boolean"))
"""What a query without GROUP BY groups by: all rows are one group."""


@dataclass(frozen=True)
class Facet:
    """What one relation of a query reads of a stream; variables: the link that each key belongs to.

    null_is_value: of a set expression or of groups whose key is one column, NULL counts as a value of it. groups: the
    keys that its rows are grouped by.
    """

    stream: str
    keys: tuple[Key, ...]
    variables: tuple[int, ...]
    flags: tuple[Flag, ...] = ()
    measure: Measure | None = None
    null_is_value: bool = False
    groups: tuple[Key, ...] = ()

    def demand(self) -> Demand:
        """Return the exact total of what the facet sums, over the rows that could join."""
        return Demand(
            self.stream,
            "total",
            () if self.null_is_value else tuple(sorted(set(self.keys))),
            tuple(sorted(p for flag in self.flags for p in flag.predicates)),
            self.measure,
            tuple(sorted(e for flag in self.flags for e in flag.presence)),
        )


def facets_of(query: AnyQuery) -> dict[str, tuple[Facet, ...]]:
    """Return for each quantity of a query what its relations read; nothing for an aggregate of one stream."""
    if isinstance(query, SetQuery):
        members = (
            Facet(
                member.stream,
                (element_key(member.key),),
                (0,),
                _flags(member.predicates),
                null_is_value=member.key.null_is_value,
            )
            for member in query.members
        )
        return {"set": tuple(members)}
    if isinstance(query, GroupQuery):
        return _group_facets(query)
    if isinstance(query, JoinDistinctQuery) or not query.links:
        return {}
    return {
        name: _quantity_facets(query, query.aggregate, power)
        for name, power in powers_of(query.aggregate.function).items()
    }


ROWS = "rows"
"""The quantity of a grouped query that counts the joined rows, whatever it selects."""


def quantity_of_group(aggregate: int, name: str) -> str:
    """Return what a quantity of a grouped query's aggregate is called."""
    return f"{aggregate}.{name}"


def _group_facets(query: GroupQuery) -> dict[str, tuple[Facet, ...]]:
    """Return what the relations of a grouped query read: for each quantity of each aggregate, and for its rows."""
    made = {
        quantity_of_group(i, name): _quantity_facets(query, each.aggregate, power)
        for i, each in enumerate(query.aggregates)
        for name, power in powers_of(each.aggregate.function).items()
    }
    return made | {ROWS: _quantity_facets(query, Aggregate("count"), 0)}


def _of_groups(query: Query | GroupQuery, facet: Facet, relation: int) -> Facet:
    """Return a facet with its relation's group columns; groups of one stream are followed themselves."""
    if isinstance(query, Query):
        return facet
    own = tuple(Key((group.expression,)) for group in query.groups if group.relation == relation)
    if query.links:
        return dataclass_replace(facet, groups=own)
    columns = tuple(group.expression for group in query.groups) or (_EVERYTHING,)
    key = Key(columns) if len(columns) == 1 else Key(columns, null_is_value=True)
    return dataclass_replace(facet, keys=(key,), variables=(0,), null_is_value=True, groups=own)


def element_key(key: Key) -> Key:
    """Return the key of a set expression as elements hold it: a single column as joins have it, NULL apart.

    So a column is held once, whatever queries do with it.
    """
    return Key(key.columns) if len(key.columns) == 1 else key


def uses_sample(query: AnyQuery) -> bool:
    """Return whether a stream sample answers a query: any but an aggregate of one stream."""
    return not isinstance(query, Query) or bool(query.links)


def totals_of(query: AnyQuery) -> set[Demand]:
    """Return the exact totals of the relations of an aggregate over a join."""
    quantities = facets_of(query) if isinstance(query, Query | GroupQuery) else {}
    return {facet.demand() for facets in quantities.values() for facet in facets}


def powers_of(function: Function) -> dict[str, int]:
    """Return the quantities of an aggregate over a join, and to which power each takes the measure.

    Power 0 counts the rows whose measure is not NULL.
    """
    if function == "count":
        return {"count": 0}
    return {"sum": 1, "count": 0} if function in ("sum", "avg") else {"squares": 2, "sum": 1, "count": 0}


def _quantity_facets(query: Query | GroupQuery, aggregate: Aggregate, power: int) -> tuple[Facet, ...]:
    factors = {factor.relation: factor.expression for factor in aggregate.factors}
    facets = []
    for index, relation in enumerate(query.relations):
        met = [
            (member.key, link)
            for link, each in enumerate(query.links)
            for member in each.members
            if member.relation == index
        ]
        factor = factors.get(index)
        presence = (factor,) if factor is not None and power == 0 else ()
        facet = Facet(
            relation.stream,
            tuple(key for key, _ in met),
            tuple(link for _, link in met),
            _flags(relation.predicates, presence),
            Measure(factor, power) if factor is not None and power else None,
        )
        facets.append(_of_groups(query, facet, index))
    return tuple(facets)


def _flags(predicates: tuple[str, ...], presence: tuple[Expression, ...] = ()) -> tuple[Flag, ...]:
    flags = [Flag(predicates=predicates)] if predicates else []
    return (*flags, *(Flag(presence=(part,)) for part in presence))


def plan_sample(
    asked: Sequence[WorkloadQuery],
    sketches: Sequence[KeptSynopsis],
    seed: int,
    budget: int,
    kept_budget: int,
    taken: Collection[str] = (),
) -> PlannedSample:
    """Return the stream sample of some queries: what is kept of their streams, and how they read it.

    sketches: what stands beside it in the second stage, all of which is built from the exact dictionaries. Their ids
    begin with the sample's, because two samples may keep sketches of equal demands. taken: ids of other samples.
    """
    facets = {each.name: facets_of(each.query) for each in asked}
    everything = [
        facet for quantities in facets.values() for quantity in quantities.values() for facet in quantity
    ]
    classes = _classes(facets.values())
    pairs = [
        d for each in asked if isinstance(each.query, JoinDistinctQuery) for d in pair_demands(each.query)
    ]
    exact = _exact_elements(everything, [*(kept.demand for kept in sketches), *pairs])
    kept = _kept_elements(everything)
    shapes = tuple(
        made
        for each in asked
        if (made := shape_of(each, facets[each.name], classes, exact, kept)) is not None
    )
    spec = SampleSpec(
        tuple(part.spec(classes) for part in exact),
        tuple(part.spec(classes) for part in kept),
        tuple(_regrouped(part, exact) for part in kept),
        tuple(derive_seed(seed, "link class", link) for link in range(len(set(classes.values())))),
        shapes,
        budget,
        kept_budget,
    )
    name = _sample_id((exact, kept, spec.exact, spec.kept, spec.seeds, tuple(sketches)), taken)
    beside = tuple(replace(each, id=f"{name}/{each.id}") for each in sketches)
    return PlannedSample(name, exact, kept, spec, beside)


def _sample_id(content: tuple[object, ...], taken: Collection[str]) -> str:
    """Return a name by content, which survives other queries coming and going, and is not taken."""
    for number in range(len(taken) + 1):
        encoded = msgspec.json.encode((*content, number) if number else content)
        name = f"sample-{hashlib.blake2b(encoded, digest_size=4).hexdigest()}"
        if name not in taken:
            return name
    raise AssertionError


def flags_of(demand: Demand) -> tuple[Flag, ...]:
    """Return the flags that an element needs for a synopsis to know whether its rows count."""
    return _flags(demand.predicates, demand.presence)


def element_keys(demand: Demand) -> tuple[Key, ...]:
    """Return the keys of a synopsis as elements hold them."""
    return tuple(map(element_key, demand.keys)) if demand.kind == "distinct" else demand.keys


def _classes(queries: Iterable[Mapping[str, tuple[Facet, ...]]]) -> dict[tuple[str, Key], int]:
    """Return the link class of every key of a stream: keys that a query equates are in one."""
    groups: list[set[tuple[str, Key]]] = []
    for quantities in queries:
        met: dict[int, set[tuple[str, Key]]] = {}
        for facet in next(iter(quantities.values()), ()):
            for key, variable in zip(facet.keys, facet.variables, strict=True):
                met.setdefault(variable, set()).add((facet.stream, key))
        for keys in met.values():
            joined = keys.union(*(group for group in groups if group & keys))
            groups = [group for group in groups if not group & keys] + [joined]
    ordered = sorted(groups, key=lambda group: msgspec.json.encode(sorted(group)))
    return {key: link for link, group in enumerate(ordered) for key in group}


def _exact_elements(facets: Iterable[Facet], demands: Iterable[Demand]) -> tuple[Elements, ...]:
    """Return what the exact dictionary of each stream holds: all that any query or synopsis reads of it."""
    parts = [(f.stream, *_part(f)) for f in facets]
    parts += [
        (d.stream, set(element_keys(d)), set(flags_of(d)), {d.measure} - {None}, set()) for d in demands
    ]
    return tuple(
        _merged(stream, [part[1:] for part in parts if part[0] == stream])
        for stream in sorted({part[0] for part in parts})
    )


def _kept_elements(facets: Iterable[Facet]) -> tuple[Elements, ...]:
    """Return what each dictionary of the second stage holds: facets of a stream on the same keys share one."""
    found: dict[tuple[str, frozenset[Key]], list[_Part]] = {}
    for facet in facets:
        found.setdefault((facet.stream, frozenset(facet.keys)), []).append(_part(facet))
    return tuple(sorted(_merged(stream, parts) for (stream, _), parts in found.items()))


_Part = tuple[set[Key], set[Flag], set[Measure | None], set[Key]]
"""Links, flags, measures and groups that a dictionary must hold."""


def _part(facet: Facet) -> _Part:
    return set(facet.keys), set(facet.flags), {facet.measure} - {None}, set(facet.groups)


def _merged(stream: str, parts: Sequence[_Part]) -> Elements:
    links, flags, measures, groups = (set().union(*column) for column in zip(*parts, strict=True))
    labelled = (key for key in groups if not code_is_value(key.columns[0].type))
    return Elements(
        stream,
        tuple(sorted(links | groups)),
        tuple(sorted(flags)),
        tuple(sorted(measures)),
        tuple(sorted(groups - links)),
        tuple(sorted(labelled)),
    )


def _regrouped(part: Elements, exact: Sequence[Elements]) -> Regrouped:
    source = next(i for i, each in enumerate(exact) if each.stream == part.stream)
    whole = exact[source]
    return Regrouped(
        source,
        tuple(whole.keys.index(key) for key in part.keys),
        tuple(whole.flags.index(flag) for flag in part.flags),
        tuple(whole.measures.index(measure) for measure in part.measures),
    )


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
    classes: dict[tuple[str, Key], int] = {}
    for elements, spec in zip(sample.kept, sample.spec.kept, strict=True):
        classes |= {
            (elements.stream, key): link for key, link in zip(elements.keys, spec.classes, strict=True)
        }
    for facet in (facet for facets in quantities.values() for facet in facets):
        if not any(_holds(elements, facet) for elements in sample.kept):
            return None
    shape = shape_of(asked, quantities, classes, sample.exact, sample.kept)
    if shape is None or not _one_class_each(quantities, classes):
        return None
    return shape


def _holds(elements: Elements, facet: Facet) -> bool:
    return (
        elements.stream == facet.stream
        and elements.links == set(facet.keys)
        and set(facet.groups) <= set(elements.keys)
        and all(key in elements.labelled or code_is_value(key.columns[0].type) for key in facet.groups)
        and set(facet.flags) <= set(elements.flags)
        and (facet.measure is None or facet.measure in elements.measures)
    )


def _one_class_each(
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
    return Node(_view(facet, whole, exact[whole]), _view(facet, part, kept[part]), facet.variables)


def _view(facet: Facet, index: int, elements: Elements) -> View:
    return View(
        index,
        tuple(elements.keys.index(key) for key in facet.keys),
        tuple(elements.flags.index(flag) for flag in facet.flags),
        COUNT if facet.measure is None else elements.measures.index(facet.measure),
        facet.null_is_value and facet.keys[0] == element_key(facet.keys[0]),
        tuple(elements.keys.index(key) for key in facet.groups),
    )


def _postfix(expression: SetExpression) -> tuple[int | str, ...]:
    if isinstance(expression, SetLeaf):
        return (expression.member,)
    return (*_postfix(expression.left), *_postfix(expression.right), expression.operator)
