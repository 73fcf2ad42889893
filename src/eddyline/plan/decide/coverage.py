"""Which planned query is asked, whether kept state can answer it, and the time zone of a plan."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from eddyline.aggregates.catalog import written_names
from eddyline.errors import PlanError, SqlError
from eddyline.expressions.schema import COLUMN_NAME
from eddyline.expressions.times import depends_on_zone
from eddyline.plan.decide.ad_hoc import bind_ad_hoc
from eddyline.plan.decide.elements import explores
from eddyline.plan.decide.facets import facets_of, uses_sample
from eddyline.plan.decide.rest_sketches import rest_ids
from eddyline.plan.decide.shapes import covering_shape
from eddyline.plan.demands import METHODS, Method, WorkloadQuery, links_of, methods_of, quantities_of
from eddyline.plan.layout import (
    Decision,
    Demand,
    KeptSynopsis,
    Layout,
    PlannedQuery,
    PlannedSample,
    SketchedQuantity,
)
from eddyline.plan.sharing.coalesce import without_slots
from eddyline.plan.show.explain import describe
from eddyline.plan.statistics import query_name
from eddyline.sql.parse import parse_by_values, parse_query
from eddyline.sql.query import (
    AnyQuery,
    Key,
    Query,
)
from eddyline.types import Column

# Coverage: which query is asked, and whether kept state can answer it.


UNNAMED = "query"
"""The name of a query that was not planned, in messages."""
SAMPLES_ALONE = (
    "groups, several aggregates, formulas of them, quantiles, MIN, MAX, outer, semi and anti joins, cycles of joins "
    f"and conditions between relations, and {', '.join(written_names(sketched=False))} over joins are answered by "
    "stream samples alone: leave out samples=False, and methods other than skimmed."
)


def declared(layout: Layout) -> dict[str, tuple[Column, ...]]:
    """Return the columns of the layout's streams."""
    return {stream.name: stream.every_column for stream in layout.streams}


def find_planned(
    layout: Layout, query: str, method: str | None = None, timezone: str | None = None
) -> PlannedQuery:
    """Return a query of the plan by name, or the binding of any SQL query that the kept state covers.

    timezone: the plan's zone, if the layout is that of a window's panes.
    """
    if method is not None and method not in METHODS:
        raise PlanError(f"method={method!r} is not one of {', '.join(METHODS)}.")
    named = next((planned for planned in layout.queries if planned.name == query), None)
    if named is not None:
        if method in (None, named.method):
            return bind(layout, named.name, named.query.text, None, timezone) if named.ad_hoc else named
        return bind(layout, named.name, named.query.text, method, timezone)
    same = " ".join(query.split())
    asked = next(
        (each for each in layout.queries if query_name(each.query) == same and not each.ad_hoc), None
    )
    if asked is not None and method in (None, asked.method):
        return asked
    if " " not in query.strip():
        raise PlanError(f"the plan has no query {query!r}: its queries are {', '.join(layout.query_names)}.")
    return bind(layout, UNNAMED, query, method, timezone)


def bind(
    layout: Layout, name: str, text: str, method: str | None, timezone: str | None = None
) -> PlannedQuery:
    """Return a query bound to kept state, or raise PlanError with what is missing."""
    parsed = parse_query(text, declared(layout))
    if method is not None and method not in methods_of(parsed):
        raise PlanError(
            f"method={method!r} has no effect on this query: "
            + (SAMPLES_ALONE if parsed.needs_sample else f"its methods are {', '.join(methods_of(parsed))}.")
        )
    if parsed.needs_sample and not layout.samples:
        raise PlanError(
            "this state keeps no stream sample, which such a query reads: add the query to the workload, without "
            "samples=False, and rebuild the state."
        )
    sampled = bool(layout.samples) and method is None
    if sampled and uses_sample(parsed):
        found = _bind_sampled(layout, name, parsed)
        return found if found is not None else _bind_ad_hoc(layout, name, parsed, timezone)
    chosen: Method = method if method is not None else "skimmed"
    ids = {kept.demand: kept.id for kept in layout.by_id.values()}
    slots = _covering_slots(parsed, chosen, layout.by_id.values()) if parsed.is_scalar else ()
    asked = WorkloadQuery(name, parsed, chosen)
    quantities = quantities_of(parsed, chosen, Decision(slots)) if slots is not None else asked.quantities
    missing = [
        demand for quantity in quantities.values() for demand in quantity.parts[0] if demand not in ids
    ]
    if missing and sampled:
        return _bind_ad_hoc(layout, name, parsed, timezone)
    if missing:
        raise PlanError(_missing(layout, missing[0]))
    bound = {
        quantity: SketchedQuantity((tuple(ids[demand] for demand in demands.parts[0]),))
        for quantity, demands in quantities.items()
    }
    return PlannedQuery(name, parsed, chosen, bound)


def _bind_ad_hoc(layout: Layout, name: str, query: AnyQuery, timezone: str | None) -> PlannedQuery:
    """Return a query bound to explored columns; a distinct count of values that nothing follows reads held rows."""
    zone = timezone or layout.timezone
    try:
        return bind_ad_hoc(layout, name, query, zone)
    except PlanError as gap:
        with contextlib.suppress(SqlError, PlanError):
            by_values = parse_by_values(query.text, declared(layout))
            if by_values is not None and not isinstance(query, Query):
                return bind_ad_hoc(layout, name, by_values, zone)
        raise gap from None


def filled_queries(layout: Layout, asked: Iterable[WorkloadQuery]) -> list[tuple[PlannedQuery, set[str]]]:
    """Return those queries for which nothing new is kept, because a sample of a running plan answers them.

    The sample answers them over all rows that it has seen; new state would count only from now on. Each query comes
    with the ids of the synopses that it reads.
    """
    before = {(each.name, each.query.text, each.method): each for each in layout.queries}
    found = []
    for each in asked:
        planned = before.get((each.name, each.query.text, each.method))
        if each.method != "skimmed" or not layout.samples or (planned is not None and not planned.ad_hoc):
            continue
        with contextlib.suppress(SqlError, PlanError):
            bound = bind(layout, each.name, each.query.text, None)
            if bound.sample is not None:
                made = PlannedQuery(each.name, each.query, each.method, {}, bound.sample, ad_hoc=True)
                found.append((made, set(bound.ids)))
    return found


def _bind_sampled(layout: Layout, name: str, query: AnyQuery) -> PlannedQuery | None:
    """Return a query bound to the first stream sample whose dictionaries hold all that it reads, else None."""
    asked = WorkloadQuery(name, query)
    for sample in layout.samples:
        bound = _bound(layout, asked, sample)
        details = tuple(_bound(layout, each, sample) for each in asked.details)
        if bound is not None and None not in details:
            return replace(bound, details=details)
    return None


def _bound(layout: Layout, asked: WorkloadQuery, sample: PlannedSample) -> PlannedQuery | None:
    """Return a query bound to a stream sample, None if the dictionaries lack something."""
    query = asked.query
    shape = covering_shape(asked, sample)
    quantities = _beside(query, sample)
    if shape is None and not (query.kind == "pairs" and quantities):
        return None
    totals = {quantity: tuple(f.demand().id for f in fs) for quantity, fs in facets_of(query).items()}
    since_first = layout.by_id.keys() - set(layout.added)
    if query.kind == "set" or not all(each in since_first for ids in totals.values() for each in ids):
        totals = {}
    if not totals and reads_emptiness(query):
        return None
    rest = rest_ids(query, sample) if totals and not quantities else {}
    return PlannedQuery(
        asked.name, query, "skimmed", quantities, sample.id, totals, shape, rest_sketches=rest
    )


def reads_emptiness(query: AnyQuery) -> bool:
    """Return whether a query asks if a relation has any rows, as NOT IN does: its exact total has to be kept."""
    return any(member.role == "not in" for link in query.links for member in link.members)


def _beside(query: AnyQuery, sample: PlannedSample) -> dict[str, SketchedQuantity]:
    """Return the sketches next to a sample that the query also reads, an empty result if some are missing."""
    ids = {kept.demand: kept.id for kept in sample.sketches}
    slots: tuple[int, ...] | None = ()
    if query.needs_sample:
        return {}
    if query.is_scalar:
        slots = _covering_slots(query, "skimmed", sample.sketches)
    if slots is None:
        return {}
    quantities = quantities_of(query, "skimmed", Decision(slots))
    if not all(demand in ids for quantity in quantities.values() for demand in quantity.parts[0]):
        return {}
    return {
        name: SketchedQuantity((tuple(ids[d] for d in quantity.parts[0]),))
        for name, quantity in quantities.items()
    }


def _missing(layout: Layout, demand: Demand) -> str:
    """Return what a query needs that is not kept, or why the kept synopses cannot be read together."""
    kept = {without_slots(each.demand) for each in layout.kept}
    if without_slots(demand) in kept:
        return (
            f"what is kept does not cover this query: {describe(demand)} on stream {demand.stream!r} is kept, but "
            "its sketches use other hash slots than the rest of the query: add the query to the workload and "
            "rebuild the state."
        )
    return (
        f"what is kept does not cover this query; missing is {describe(demand)} on stream "
        f"{demand.stream!r}: add the query to the workload and rebuild the state."
    )


def _covering_slots(query: AnyQuery, method: Method, kept: Iterable[KeptSynopsis]) -> tuple[int, ...] | None:
    """Return a slot for each link under which every sketch of the query is kept, None if no such choice exists.

    Links of one query need different slots. The search goes relation by relation.
    """
    offered: dict[Demand, list[tuple[int, ...]]] = {}
    for each in kept:
        slots = tuple(place.slot for place in each.demand.places)
        offered.setdefault(without_slots(each.demand), []).append(slots)
    relations = [
        (links_of(query, index), offered.get(without_slots(demand), []))
        for quantity in WorkloadQuery("", query, method).quantities.values()
        for index, demand in enumerate(quantity.whole)
    ]
    found = _assigned(relations, {})
    return None if found is None else tuple(found[link] for link in range(len(query.links)))


def _assigned(
    relations: list[tuple[tuple[int, ...], list[tuple[int, ...]]]], chosen: dict[int, int]
) -> dict[int, int] | None:
    """Return slots of all links that agree with the chosen ones and with one offer for each relation."""
    if not relations:
        return chosen
    links, offers = relations[0]
    for offer in offers:
        extended = {**chosen, **dict(zip(links, offer, strict=True))}
        agrees = all(extended[link] == slot for link, slot in chosen.items())
        if agrees and len(set(extended.values())) == len(extended):
            found = _assigned(relations[1:], extended)
            if found is not None:
                return found
    return None


def key_of_columns(
    streams: Mapping[str, tuple[Column, ...]], stream: str, columns: tuple[str, ...], where: str | None
) -> tuple[Key, tuple[str, ...]]:
    """Return (key, predicates) as a join of the stream with itself on these columns would request them."""
    if not columns or not all(COLUMN_NAME.fullmatch(column) for column in columns):
        raise PlanError(f"name the join columns of stream {stream!r}, not {columns!r}.")
    matches = " AND ".join(f"a.`{column}` = b.`{column}`" for column in columns)
    predicate = f" WHERE {where}" if where else ""
    if stream not in streams:
        raise PlanError(f"there is no stream {stream!r}: the streams are {', '.join(streams)}.")
    joined = parse_query(f"SELECT COUNT(*) FROM `{stream}` a JOIN `{stream}` b ON {matches}", streams)
    single = parse_query(f"SELECT COUNT(*) FROM `{stream}`{predicate}", streams)
    return joined.links[0].members[0].key, single.relations[0].predicates


# The time zone of a plan: recorded if an expression depends on it.


def with_timezone(layout: Layout, zone: str) -> Layout:
    """Return the layout with its zone, None if no expression of it and no later query can depend on a zone."""
    layouts = [layout, *(group.layout for group in layout.windows)]
    depends = any(
        depends_on_zone(text, layout.stream(stream).columns)
        for each in layouts
        for stream, text in _stream_texts(each)
    )
    depends = depends or any(_holds_times(sample) for each in layouts for sample in each.samples)
    return replace(layout, timezone=zone if depends else None)


def _holds_times(sample: PlannedSample) -> bool:
    """Return whether a sample holds explored times, of which later queries may read days and compare them with now."""
    return any(
        key.columns[0].type.kind in ("timestamp", "timestamp_ntz")
        for elements in sample.exact
        if explores(sample, elements.stream)
        for key in elements.keys
    )


def _stream_texts(layout: Layout) -> Iterator[tuple[str, str]]:
    """Yield (stream, SQL) of every expression that a layout reads."""
    for demand in (kept.demand for kept in layout.by_id.values()):
        yield from ((demand.stream, text) for text in _texts(demand))
    for elements in (part for sample in layout.samples for part in sample.exact):
        keys = (column.text for key in elements.keys for column in key.columns)
        flags = (text for flag in elements.flags for text in flag.predicates)
        presence = (part.text for flag in elements.flags for part in flag.presence)
        measures = (part.expression.text for measure in elements.measures for part in measure.parts)
        yield from ((elements.stream, text) for text in (*keys, *flags, *presence, *measures))


def check_same_zone(keep: Layout | None, zone: str) -> None:
    """Raise PlanError if a plan would read times in a different zone than the plan that it keeps."""
    if keep is not None and keep.timezone not in (None, zone):
        raise PlanError(
            f"the plan that is kept reads times in {keep.timezone} and this workload in {zone}: give the workload "
            f"timezone={keep.timezone!r}."
        )


def _texts(demand: Demand) -> Iterator[str]:
    yield from demand.predicates
    yield from (column.text for key in demand.keys for column in key.columns)
    yield from (part.text for part in demand.presence)
    if demand.measure is not None:
        yield from (part.expression.text for part in demand.measure.parts)
