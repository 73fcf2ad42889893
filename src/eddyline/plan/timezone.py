"""The time zone of a plan: recorded where an expression depends on it."""

from collections.abc import Iterator

from msgspec.structs import replace

from eddyline.errors import PlanError
from eddyline.plan.layout import Demand, Layout
from eddyline.sql.timezones import depends_on_zone


def with_timezone(layout: Layout, zone: str) -> Layout:
    """Return the layout with its zone, None where no expression of it depends on one."""
    demands = [kept.demand for kept in layout.kept]
    demands += [kept.demand for group in layout.windows for kept in group.layout.kept]
    depends = any(
        depends_on_zone(text, layout.stream(demand.stream).columns)
        for demand in demands
        for text in _texts(demand)
    )
    return replace(layout, timezone=zone if depends else None)


def check_same_zone(keep: Layout | None, zone: str) -> None:
    """Raise PlanError where a plan would read times in another zone than the plan that it keeps."""
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
        yield demand.measure.expression.text
