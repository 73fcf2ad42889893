"""Coverage: which query is meant, and whether what is kept can answer it."""

from collections.abc import Mapping

from eddyline.errors import PlanError
from eddyline.plan.demands import METHODS, Method, TermDemands, terms_of
from eddyline.plan.explain import describe
from eddyline.plan.layout import Demand, Layout, Planned, Term
from eddyline.sql.parse import parse_query
from eddyline.sql.query import Key, Query
from eddyline.sql.schema import NAME
from eddyline.types import Column


def declared(layout: Layout) -> dict[str, tuple[Column, ...]]:
    """Return the columns of the layout's streams."""
    return {stream.name: stream.columns for stream in layout.streams}


def find_planned(layout: Layout, query: str, method: str | None = None) -> Planned:
    """Return a query of the plan by name, or the binding of any SQL text that the synopses cover."""
    if method is not None and method not in METHODS:
        raise PlanError(f"method={method!r} is not one of {', '.join(METHODS)}.")
    named = next((planned for planned in layout.queries if planned.name == query), None)
    if named is not None:
        return named if method in (None, named.method) else bind(layout, named.name, named.query.text, method)
    if " " not in query.strip():
        raise PlanError(f"the plan has no query {query!r}: its queries are {', '.join(layout.query_names)}.")
    return bind(layout, "query", query, method)


def bind(layout: Layout, name: str, text: str, method: str | None) -> Planned:
    """Return a query bound to the synopses that are kept, or raise PlanError with what is missing."""
    parsed = parse_query(text, declared(layout))
    chosen: Method = method if method is not None else "skimmed"  # type: ignore[assignment]
    ids = {kept.demand: kept.id for kept in layout.kept}
    terms = terms_of(parsed, chosen)
    missing = [demand for term in terms.values() for demand in term.sketches if demand not in ids]
    if missing:
        raise PlanError(
            f"what is kept does not cover this query; missing is {describe(missing[0])} on stream "
            f"{missing[0].stream!r}: add the query to the workload and build the state anew."
        )
    return Planned(name, parsed, chosen, {term: _bound(demands, ids) for term, demands in terms.items()})


def _bound(demands: TermDemands, ids: dict[Demand, str]) -> Term:
    """Return a term whose sketches are all kept; samples are read if they are kept too."""
    sampled = all(demand in ids for demand in demands.samples)
    return Term(
        (tuple(ids[demand] for demand in demands.sketches),),
        tuple(ids[demand] for demand in demands.samples) if sampled else (),
    )


def key_of_columns(
    streams: Mapping[str, tuple[Column, ...]], stream: str, columns: tuple[str, ...], where: str | None
) -> tuple[Key, tuple[str, ...]]:
    """Return (key, predicates) as a join of the stream with itself on these columns would ask for them."""
    if not columns or not all(NAME.fullmatch(column) for column in columns):
        raise PlanError(f"name the join columns of stream {stream!r}, not {columns!r}.")
    matches = " AND ".join(f"a.{column} = b.{column}" for column in columns)
    predicate = f" WHERE {where}" if where else ""
    if stream not in streams:
        raise PlanError(f"there is no stream {stream!r}: the streams are {', '.join(streams)}.")
    joined = parse_query(f"SELECT COUNT(*) FROM {stream} a JOIN {stream} b ON {matches}", streams)
    single = parse_query(f"SELECT COUNT(*) FROM {stream}{predicate}", streams)
    assert isinstance(joined, Query)
    assert isinstance(single, Query)
    return joined.links[0].members[0].key, single.relations[0].predicates
