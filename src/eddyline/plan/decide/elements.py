"""What a stream sample holds of each stream: the dictionaries of planned queries and explored columns."""

import dataclasses
import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from eddyline.errors import PlanError
from eddyline.expressions.nodes import may_fail
from eddyline.plan.decide.facets import Facet, element_keys, facets_of, flags_of, guards_of, totals_of
from eddyline.plan.decide.shapes import code_identifies, held_expression, shape_of
from eddyline.plan.demands import WorkloadQuery, pair_demands
from eddyline.plan.layout import (
    Demand,
    Elements,
    Flag,
    Guard,
    KeptSynopsis,
    Measure,
    PlannedSample,
    Stream,
    Tier,
    as_first_written,
)
from eddyline.sample.spec import Regrouped, SampleSpec
from eddyline.sketch.keys import derive_seed
from eddyline.sql.query import GroupColumn, JoinDistinctQuery, Key, Query, Relation
from eddyline.types import Column

# Explored columns: named once, held with a stream's elements, for ad hoc SQL.
#
# A stream's explored columns are planned as one more query, which groups its rows by all of them. This gives
# them a dictionary of the second stage, in which their combinations are followed. In addition, every other
# dictionary of the stream holds them.


EVERY_COLUMN = "*"
"""Stands for all columns of a stream."""
_EXPLORE = "explore "
"""Prefix of the name of such a query: the name of a user's query never contains a space."""
_COPY = "explored "
"""Prefix of the name of a planned query's copy for later queries."""
LATER_WEIGHT = 0.5
"""The weight of such a copy. With less, planned queries are more precise, and exact totals show fewer late keys to ad
hoc queries (decision 19)."""
KEY_JOINS = "explore joins"
"""Prefix of the name of a hidden join along keys."""


def is_whole(names: Sequence[str]) -> bool:
    """Return whether all columns of a stream are explored: no column is named, or a star is."""
    return not names or tuple(names) == (EVERY_COLUMN,)


def explored_columns(
    stream: Stream, names: Sequence[str], known: Sequence[Column], long: Sequence[str] = ()
) -> tuple[Column, ...]:
    """Return the explored columns of a stream, those known already and those named now, or raise PlanError.

    Without names, all columns are explored except BINARY ones and those declared as long texts.
    """
    if is_whole(names):
        kept = [each for each in stream.every_column if each.type.kind != "binary" and each.name not in long]
        if not kept:
            raise PlanError(
                f"stream {stream.name!r} has no column to explore: long strings and BINARY columns are left out."
            )
        return tuple(sorted({*known, *kept}, key=lambda column: column.name))
    declared = {column.name.lower(): column for column in stream.every_column}
    found = list(known)
    for name in names:
        column = declared.get(name.lower()) if isinstance(name, str) else None
        if column is None:
            raise PlanError(
                f"stream {stream.name!r} has no column {name!r} to explore: its columns are "
                f"{', '.join(each.name for each in stream.every_column)}."
            )
        if column in found:
            raise PlanError(
                f"column {column.name!r} of stream {stream.name!r} is explored twice: name it once."
            )
        found.append(column)
    return tuple(sorted(found, key=lambda column: column.name))


def exploring(stream: str, columns: Sequence[Column]) -> WorkloadQuery:
    """Return the query that stands for the explored columns of a stream: its rows, grouped by all of them."""
    groups = tuple(GroupColumn(each.name, 0, held_expression(each)) for each in columns)
    name = f"{_EXPLORE}{stream}({', '.join(each.name for each in columns)})"
    return WorkloadQuery(name, Query(name, groups, (), (Relation(stream, stream),)))


def is_exploring(asked: WorkloadQuery) -> bool:
    """Return whether a query stands for explored columns: no user asked it, and it is not answered."""
    return asked.name.startswith(_EXPLORE)


def explored_keys(asked: Iterable[WorkloadQuery]) -> dict[str, tuple[Key, ...]]:
    """Return the columns of each explored stream among some queries, each column as a key."""
    return {
        each.query.relations[0].stream: tuple(Key((group.expression,)) for group in each.query.groups)
        for each in asked
        if is_exploring(each) and each.query.is_table
    }


def sample_totals(asked: Iterable[WorkloadQuery]) -> set[Demand]:
    """Return the exact totals of the relations of sampled queries.

    For explored streams, also the totals of all rows that have a link: later queries bring their own predicates.
    """
    queries = list(asked)
    totals = {demand for each in queries for demand in totals_of(each.query)}
    explored = explored_keys(queries)
    facets = (f for each in queries for quantity in facets_of(each.query).values() for f in quantity)
    for facet in facets:
        if facet.stream in explored and not facet.null_is_value and not _is_guarded(facet):
            links = (frozenset(facet.keys), *(frozenset([key]) for key in facet.keys))
            totals |= {Demand(facet.stream, "total", tuple(sorted(keys))) for keys in links}
    return totals


def _is_guarded(facet: Facet) -> bool:
    """Return whether the links of a facet can be evaluated only on the rows that it counts, not on all rows."""
    return bool(facet.predicates) and any(may_fail(part.text) for key in facet.keys for part in key.columns)


def explored_names(sample: PlannedSample) -> list[str]:
    """Return the names of the queries that stand for the explored columns of a sample."""
    return [shape.name for shape in sample.spec.shapes if shape.name.startswith(_EXPLORE)]


def explored_class(sample: PlannedSample, stream: str) -> int | None:
    """Return the link class of the combinations of a stream's explored columns, None if it explores no columns."""
    begin = f"{_EXPLORE}{stream}("
    return next((shape.classes[0] for shape in sample.spec.shapes if shape.name.startswith(begin)), None)


def later_tier(sample: PlannedSample) -> Tier:
    """Return the tier whose dictionaries hold explored columns."""
    return "explored" if any(each.explored for each in sample.kept) else "planned"


def explores(sample: PlannedSample, stream: str) -> bool:
    """Return whether a sample holds explored columns of a stream."""
    return explored_class(sample, stream) is not None


# All facets of a stream share its exact dictionary; facets on the same links share a dictionary of the
# second stage. Keys that some query equates are one link class, whose values all streams follow together.


def plan_sample(
    asked: Sequence[WorkloadQuery],
    sketches: Sequence[KeptSynopsis],
    seed: int,
    budget: int,
    kept_budget: int,
    taken: Collection[str] = (),
) -> PlannedSample:
    """Return the stream sample of some queries: what is kept from their streams, and how they read it.

    sketches: those kept next to the sample in the second stage, all built from the exact dictionaries. Their ids
    begin with the sample's id, because two samples may keep sketches of equal demands. taken: ids of other samples.
    """
    explored = explored_keys(asked)
    tiers = _tiers(asked, explored)
    read = [*asked, *tiers.copies]
    facets = {each.name: tiers.facets(each) for each in read}
    together = [
        tiers.with_columns(facet)
        for quantities in facets.values()
        for quantity in quantities.values()
        for facet in quantity
    ]
    classes: dict[Tier, dict[tuple[str, Key], int]] = {}
    for tier in _TIERS:
        before = sum(len(set(each.values())) for each in classes.values())
        classes[tier] = {key: before + link for key, link in _classes(facets.values(), tier).items()}
    pairs = [
        d for each in asked if isinstance(each.query, JoinDistinctQuery) for d in pair_demands(each.query)
    ]
    demands = [*(kept.demand for kept in sketches), *pairs]
    guards = guards_of(together, demands)
    exact = exact_elements(together, demands, guards, explored)
    kept = kept_elements(together, guards, explored, split=bool(tiers.copies))
    shapes = tuple(
        made
        for each in read
        if (made := shape_of(each, facets[each.name], classes[_tier(facets[each.name])], exact, kept))
        is not None
    )
    links = sum(len(set(each.values())) for each in classes.values())
    spec = SampleSpec(
        tuple(part.spec(classes["explored"] | classes["planned"]) for part in exact),
        tuple(part.spec(classes[part.tier]) for part in kept),
        tuple(_regrouped(part, exact) for part in kept),
        tuple(derive_seed(seed, "link class", link) for link in range(links)),
        shapes,
        budget,
        kept_budget,
    )
    name = _sample_id((exact, kept, spec.exact, spec.kept, spec.seeds, tuple(sketches)), taken)
    around = tuple(replace(each, id=f"{name}/{each.id}") for each in sketches)
    return PlannedSample(name, exact, kept, spec, around)


_TIERS: tuple[Tier, ...] = ("planned", "apart", "explored")


def _tier(quantities: Mapping[str, tuple[Facet, ...]]) -> Tier:
    """Return the tier of a query."""
    return next((facet.tier for quantity in quantities.values() for facet in quantity), "planned")


@dataclass(frozen=True)
class _Tiers:
    """Which queries have explored columns in their dictionaries.

    copies: planned queries over explored streams, once more, for the dictionaries of later queries. So a planned
    query has small dictionaries of its own, and what is explored does not lower its rates. Without copies there is
    only one tier, and all dictionaries of explored streams hold the explored columns.
    """

    explored: Mapping[str, Sequence[Key]]
    copies: tuple[WorkloadQuery, ...] = ()

    def facets(self, asked: WorkloadQuery) -> dict[str, tuple[Facet, ...]]:
        """Return what a query reads, and at which rates."""
        later = bool(self.copies) and (asked.name.startswith(_COPY) or is_exploring(asked))
        return {
            name: tuple(dataclasses.replace(facet, explored=later) for facet in quantity)
            for name, quantity in facets_of(asked.query).items()
        }

    def with_columns(self, facet: Facet) -> Facet:
        """Return a facet with the explored columns that its dictionaries hold, as they hold group columns."""
        if facet.tier != ("explored" if self.copies else "planned"):
            return facet
        columns = self.explored.get(facet.stream, ())
        return dataclasses.replace(facet, groups=tuple(dict.fromkeys((*facet.groups, *columns))))


def _tiers(asked: Sequence[WorkloadQuery], explored: Mapping[str, Sequence[Key]]) -> _Tiers:
    """Return the tiers of some queries: two where dictionaries of planned queries would have to hold more columns."""
    planned = [each for each in asked if not is_exploring(each) and each.query.kind != "pairs"]
    held: dict[tuple[str, frozenset[Key]], set[Key]] = {}
    for facet in _facets(planned):
        held.setdefault((facet.stream, frozenset(facet.keys)), set()).update(facet.keys, facet.groups)
    copied = [each for each in planned if any(facet.stream in explored for facet in _facets([each]))]
    if all(columns >= {*explored.get(stream, ())} for (stream, _), columns in held.items()):
        return _Tiers(explored)
    copies = (replace(each, name=_COPY + each.name, weight=LATER_WEIGHT * each.weight) for each in copied)
    return _Tiers(explored, tuple(copies))


def _facets(asked: Iterable[WorkloadQuery]) -> Iterator[Facet]:
    for each in asked:
        for quantity in facets_of(each.query).values():
            yield from quantity


def weight_of(shape: str, weights: Mapping[str, float]) -> float | None:
    """Return the weight of a query or of its copy for later queries, None if it is not among those with weights."""
    weight = weights.get(shape.removeprefix(_COPY))
    return weight if weight is None or not shape.startswith(_COPY) else LATER_WEIGHT * weight


def _sample_id(content: tuple[object, ...], taken: Collection[str]) -> str:
    """Return a name by content that is not taken: it does not change when other queries are added or removed."""
    for number in range(len(taken) + 1):
        written = msgspec.json.decode(msgspec.json.encode((*content, number) if number else content))
        encoded = msgspec.json.encode(as_first_written(written))
        name = f"sample-{hashlib.blake2b(encoded, digest_size=4).hexdigest()}"
        if name not in taken:
            return name
    raise AssertionError


def _classes(queries: Iterable[Mapping[str, tuple[Facet, ...]]], tier: Tier) -> dict[tuple[str, Key], int]:
    """Return the link class of every key of a stream: keys that a query of the tier equates are in one class."""
    groups: list[set[tuple[str, Key]]] = []
    for quantities in queries:
        met: dict[int, set[tuple[str, Key]]] = {}
        for facet in next(iter(quantities.values()), ()):
            for key, variable in zip(facet.keys, facet.variables, strict=True):
                if facet.tier == tier:
                    met.setdefault(variable, set()).add((facet.stream, key))
        for keys in met.values():
            joined = keys.union(*(group for group in groups if group & keys))
            groups = [group for group in groups if not group & keys] + [joined]
    ordered = sorted(groups, key=lambda group: msgspec.json.encode(sorted(group)))
    return {key: link for link, group in enumerate(ordered) for key in group}


Guards = Mapping[str, tuple[Guard, ...]]
"""The guards of each stream: the same for all its dictionaries, so that they hold the same for a row."""


def exact_elements(
    facets: Iterable[Facet], demands: Iterable[Demand], guards: Guards, whole: Collection[str] = ()
) -> tuple[Elements, ...]:
    """Return what the exact dictionary of each stream holds: all that any query or synopsis reads from it.

    whole: streams of which every row is held, because later queries are unknown. The demands include what facets
    apart read.
    """
    parts = [(f.stream, *_part(f)) for f in facets if not f.apart]
    parts += [
        (d.stream, set(element_keys(d)), set(flags_of(d)), {d.measure} - {None}, set()) for d in demands
    ]
    return tuple(
        _merged(stream, [part[1:] for part in parts if part[0] == stream], guards, whole)
        for stream in sorted({part[0] for part in parts})
    )


def kept_elements(
    facets: Iterable[Facet], guards: Guards, whole: Collection[str] = (), *, split: bool = False
) -> tuple[Elements, ...]:
    """Return what each dictionary of the second stage holds: facets of a stream and tier on the same keys share one.

    Facets apart share one if they also count the same. whole: streams of which every row is held; if tiers are
    split, in the dictionaries of later queries.
    """
    found: dict[tuple[str, frozenset[Key], Tier, tuple[Key, ...]], list[_Part]] = {}
    for facet in facets:
        counted = tuple(key for key in facet.groups if key not in facet.keys) if facet.apart else ()
        found.setdefault((facet.stream, frozenset(facet.keys), facet.tier, counted), []).append(_part(facet))
    return tuple(
        sorted(
            _merged(stream, parts, guards, () if split and tier == "planned" else whole, tier)
            for (stream, _, tier, _), parts in found.items()
        )
    )


_Part = tuple[set[Key], set[Flag], set[Measure | None], set[Key]]
"""Links, flags, measures and groups that a dictionary must hold."""


def _part(facet: Facet) -> _Part:
    return set(facet.keys), set(facet.flags), {facet.measure} - {None}, set(facet.groups)


def _merged(
    stream: str, parts: Sequence[_Part], guards: Guards, whole: Collection[str], tier: Tier = "planned"
) -> Elements:
    links, flags, measures, groups = (set().union(*column) for column in zip(*parts, strict=True))
    used = {part.text for key in links | groups for part in key.columns}
    used |= {part.text for flag in flags for part in flag.presence} | {m.text for m in measures}
    used |= {each.expression.text for m in measures for each in m.parts}
    apart = tier == "apart"
    labelled = (key for key in groups if not apart and not code_identifies(key))
    counted = () if stream in whole and not apart else _counted([part[1] for part in parts], sorted(flags))
    return Elements(
        stream,
        tuple(sorted(links | groups)),
        tuple(sorted(flags)),
        tuple(sorted(measures)),
        tuple(sorted(groups - links)),
        tuple(sorted(labelled)),
        counted,
        tuple(guard for guard in guards.get(stream, ()) if guard.text in used),
        apart,
        tier == "explored",
    )


def _counted(wanted: Sequence[set[Flag]], flags: Sequence[Flag]) -> tuple[tuple[int, ...], ...]:
    """Return the flag positions of each reader that needs rows with all its flags; none if one reads every row."""
    least = [one for one in wanted if not any(other < one for other in wanted)]
    places = {tuple(sorted(flags.index(flag) for flag in one)) for one in least}
    return () if () in places else tuple(sorted(places))


def _regrouped(part: Elements, exact: Sequence[Elements]) -> Regrouped:
    source = next(i for i, each in enumerate(exact) if each.stream == part.stream)
    whole = exact[source]
    return Regrouped(
        source,
        tuple(whole.keys.index(key) for key in part.keys),
        tuple(whole.flags.index(flag) for flag in part.flags),
        tuple(column for measure in part.measures for column in whole.columns(measure)),
    )
