"""The time zone of a plan: recorded where an expression depends on it."""

from collections.abc import Iterator

from msgspec.structs import replace

from eddyline.errors import PlanError
from eddyline.plan.decide.exploring import explores
from eddyline.plan.layout import Demand, Layout, PlannedSample
from eddyline.sql.timezones import depends_on_zone


def with_timezone(layout: Layout, zone: str, *, given: bool = False) -> Layout:
    """Return the layout with its zone, None where no expression of it depends on one.

    given: the user named the zone, so that later queries may read times without a zone in it.
    """
    layouts = [layout, *(group.layout for group in layout.windows)]
    depends = any(
        depends_on_zone(text, layout.stream(stream).columns)
        for each in layouts
        for stream, text in _stream_texts(each)
    )
    depends = depends or any(_holds_times(sample, given=given) for each in layouts for sample in each.samples)
    return replace(layout, timezone=zone if depends else None)


def _holds_times(sample: PlannedSample, *, given: bool) -> bool:
    """Return whether a sample holds explored TIMESTAMP columns, of which later queries may ask days and hours.

    given: TIMESTAMP_NTZ, too, which later queries may compare with timestamps or cast to them.
    """
    kinds = ("timestamp", "timestamp_ntz") if given else ("timestamp",)
    return any(
        key.columns[0].type.kind in kinds
        for elements in sample.exact
        if explores(sample, elements.stream)
        for key in elements.keys
    )


def _stream_texts(layout: Layout) -> Iterator[tuple[str, str]]:
    """Yield (stream, text) of every expression that a layout reads."""
    for demand in (kept.demand for kept in layout.by_id.values()):
        yield from ((demand.stream, text) for text in _texts(demand))
    for elements in (part for sample in layout.samples for part in sample.exact):
        keys = (column.text for key in elements.keys for column in key.columns)
        flags = (text for flag in elements.flags for text in flag.predicates)
        presence = (part.text for flag in elements.flags for part in flag.presence)
        measures = (measure.expression.text for measure in elements.measures)
        yield from ((elements.stream, text) for text in (*keys, *flags, *presence, *measures))


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
