"""Explored columns: named once, held with a stream's elements, for SQL that nobody planned.

A stream's explored columns are planned as one query more, which groups its rows by all of them. It gives them a
dictionary of the second stage, in which their combinations are followed; beside it they stand in every other
dictionary of the stream.
"""

from collections.abc import Iterable, Sequence

from eddyline.errors import PlanError
from eddyline.plan.decide.facets import Facet, facets_of, totals_of
from eddyline.plan.decide.held_columns import held_expression
from eddyline.plan.demands import WorkloadQuery
from eddyline.plan.layout import Demand, PlannedSample, Stream
from eddyline.sql.failing import may_fail
from eddyline.sql.query import GroupColumn, GroupQuery, Key, Relation
from eddyline.types import Column

_EXPLORE = "explore "
"""How the name of such a query begins: no name of a user's query has a space."""


def explored_columns(stream: Stream, names: Sequence[str], known: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns of a stream that are explored, those known already and those named now, or raise PlanError."""
    if not names:
        raise PlanError(
            f"exploring stream {stream.name!r} names no column: write w.explore({stream.name!r}, "
            f"{stream.columns[0].name!r})."
        )
    declared = {column.name.lower(): column for column in stream.columns}
    found = list(known)
    for name in names:
        column = declared.get(name.lower()) if isinstance(name, str) else None
        if column is None:
            raise PlanError(
                f"stream {stream.name!r} has no column {name!r} to explore: its columns are "
                f"{', '.join(each.name for each in stream.columns)}."
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
    return WorkloadQuery(name, GroupQuery(name, groups, (), (Relation(stream, stream),)))


def is_exploring(asked: WorkloadQuery) -> bool:
    """Return whether a query stands for explored columns: nobody asked it, and nobody is answered."""
    return asked.name.startswith(_EXPLORE)


def explored_keys(asked: Iterable[WorkloadQuery]) -> dict[str, tuple[Key, ...]]:
    """Return for each explored stream among some queries its columns, each as a key."""
    return {
        each.query.relations[0].stream: tuple(Key((group.expression,)) for group in each.query.groups)
        for each in asked
        if is_exploring(each) and isinstance(each.query, GroupQuery)
    }


def sample_totals(asked: Iterable[WorkloadQuery]) -> set[Demand]:
    """Return the exact totals of the relations of sampled queries.

    Of explored streams also those of all rows that have a link: later queries bring predicates of their own.
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
    """Return whether the links of a facet cannot be evaluated on all rows, but only on those that it counts."""
    return bool(facet.predicates) and any(may_fail(part.text) for key in facet.keys for part in key.columns)


def explored_names(sample: PlannedSample) -> list[str]:
    """Return the names of the queries that stand for the explored columns of a sample."""
    return [shape.name for shape in sample.spec.shapes if shape.name.startswith(_EXPLORE)]


def explored_class(sample: PlannedSample, stream: str) -> int | None:
    """Return the link class of the combinations of a stream's explored columns, None where it has none."""
    begin = f"{_EXPLORE}{stream}("
    return next((shape.classes[0] for shape in sample.spec.shapes if shape.name.startswith(begin)), None)


def explores(sample: PlannedSample, stream: str) -> bool:
    """Return whether a sample holds explored columns of a stream."""
    return explored_class(sample, stream) is not None
