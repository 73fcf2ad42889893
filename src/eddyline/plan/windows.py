"""Windows over event time: panes of the slide's length, and the layout of each pane."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from eddyline.errors import PlanError
from eddyline.plan.decide.elements import explored_names, is_exploring, sample_totals
from eddyline.plan.decide.facets import uses_sample
from eddyline.plan.decide.planner import make_layout
from eddyline.plan.decide.samples import LEAST_BYTES
from eddyline.plan.demands import WorkloadQuery
from eddyline.plan.layout import Demand, Layout, PlannedSample, Stream, Window, WindowGroup
from eddyline.plan.size.specs import OverBudget, PlanSettings, least_words
from eddyline.plan.statistics import PlanningInputs

# A window is a whole number of panes, each with its own synopses. The window's synopses are the sum of those
# of its panes, because they are linear; a pane that no window reaches any more is dropped. One more pane
# than the window has is kept: the newest, which is still filling.


MOST_PANES = 10_000
_UNITS = {
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_SHORT = {
    "ms": "millisecond",
    "s": "second",
    "sec": "second",
    "m": "minute",
    "min": "minute",
    "h": "hour",
    "d": "day",
}
_DURATION = re.compile(r"\s*(\d+)\s*([a-z]+)\s*", re.IGNORECASE)


def parse_duration(text: str) -> int:
    """Return the microseconds of "5 minutes", "5 min", "1 hour", "1h", "30 seconds".

    >>> parse_duration("5 minutes")
    300000000
    """
    match = _DURATION.fullmatch(str(text))
    word = match[2].lower() if match else ""
    unit = _SHORT.get(word, word.removesuffix("s"))
    if match is None or unit not in _UNITS or int(match[1]) == 0:
        raise PlanError(
            f"{text!r} is not a length of time: write for example '30 seconds', '5 minutes' or '1 hour'."
        )
    return int(match[1]) * _UNITS[unit]


def parse_window(window: str, slide: str | None) -> Window:
    """Return the window of a query; without a slide it is a tumbling window."""
    size = parse_duration(window)
    step = size if slide is None else parse_duration(slide)
    if size % step or size // step > MOST_PANES:
        raise PlanError(
            f"a window of {window} is not 1 to {MOST_PANES:,} slides of {slide}: choose a slide that divides it."
        )
    return Window(step, size // step)


def group_id(window: Window, streams: Sequence[str]) -> str:
    """Return the id of the panes that queries with one window on the same streams share."""
    content = msgspec.json.encode((window.slide, window.panes, sorted(streams)))
    return f"window-{hashlib.blake2b(content, digest_size=4).hexdigest()}"


# Layouts with windows: queries with one window on the same streams share panes; each pane has a small layout.
#
# The budget holds all panes. Exact counters, with or without a window, take what they need. Each group gets
# a share of the rest by the number of its sketches, and a pane gets that share divided by the number of
# panes that are kept.


def check_event_times(asked: WorkloadQuery, streams: Mapping[str, Stream]) -> None:
    """Raise PlanError unless every stream that a windowed query reads has an event time."""
    for name in asked.streams:
        if streams[name].event_time is None:
            raise PlanError(
                f"query {asked.name!r} has a window, and stream {name!r} has no event time: add event_time = "
                f'"COLUMN" to [streams.{name}] of the pipeline file (event_time= of w.stream).'
            )


def layout_with_windows(
    streams: Mapping[str, Stream],
    asked: Sequence[WorkloadQuery],
    windows: Mapping[str, Window],
    settings: PlanSettings,
    samples: Sequence[Demand],
    keep: Layout | None,
    known: PlanningInputs = PlanningInputs(),  # noqa: B008 - a frozen value
) -> Layout:
    """Return the layout of a workload, including the panes of its windowed queries (by name in `windows`)."""
    plain = [each for each in asked if each.name not in windows]
    grouped: dict[tuple[Window, tuple[str, ...]], list[WorkloadQuery]] = {}
    for each in asked:
        if each.name in windows:
            grouped.setdefault((windows[each.name], each.streams), []).append(each)
    for (_, names), members in grouped.items():
        members += [each for each in plain if is_exploring(each) and set(each.streams) <= set(names)]
    sketches = {key: _parts(members) for key, members in grouped.items()}

    def made(key: tuple[Window, tuple[str, ...]], budget: int) -> WindowGroup:
        return _group(key[0], [streams[n] for n in key[1]], grouped[key], budget, settings, keep, known)

    groups = {key: made(key, 0) for key, number in sketches.items() if number == 0}
    totals = {Demand(name, "total") for name in streams} | _totals(plain)
    left = settings.budget - _least(totals, settings) - sum(group.nbytes for group in groups.values())
    parts = _parts(plain) + len(samples) + sum(sketches.values())
    groups |= {
        key: made(key, max(left, 0) * number // parts) for key, number in sketches.items() if number > 0
    }
    rest = replace(settings, budget=max(settings.budget - sum(group.nbytes for group in groups.values()), 0))
    layout = make_layout(list(streams.values()), plain, rest, samples, keep, known)
    return replace(layout, windows=tuple(groups[key] for key in sorted(groups)))


def _all_demands(asked: Iterable[WorkloadQuery]) -> set[Demand]:
    return {demand for each in asked for demand in each.demands}


def _totals(asked: Sequence[WorkloadQuery]) -> set[Demand]:
    """Return the exact counters of some queries, which are also kept next to stream samples."""
    counted = {demand for demand in _all_demands(asked) if demand.kind == "total"}
    return counted | sample_totals(asked)


def _parts(asked: Iterable[WorkloadQuery]) -> int:
    """Return the number of budget parts of some queries: one per sketch, or per relation with samples alone."""
    queries = list(asked)
    held = sum(len(each.query.relations) for each in queries if each.query.needs_sample)
    return held + sum(demand.kind != "total" for demand in _all_demands(queries))


def _group(
    window: Window,
    streams: list[Stream],
    asked: list[WorkloadQuery],
    budget: int,
    settings: PlanSettings,
    keep: Layout | None,
    known: PlanningInputs,
) -> WindowGroup:
    """Return a group of windowed queries within a budget, or the kept group if it has the same queries."""
    name = group_id(window, [stream.name for stream in streams])
    old = next((group for group in keep.windows if group.id == name), None) if keep is not None else None
    if old is not None and _asks_the_same(old.layout, asked):
        return old
    demands = _all_demands(asked) | {Demand(stream.name, "total") for stream in streams}
    least = _least_bytes(asked, demands, settings)
    each = max((budget - 8) // (window.panes + 1) - 8, least if _parts(asked) == 0 else 0)
    if each < least:
        panes = window.panes + 1
        raise OverBudget(
            f"the window of {', '.join(sorted(a.name for a in asked))} keeps {panes} panes of at least {least:,} bytes "
            f"each, {panes * least:,} together, and its share of the budget is {budget:,}: raise the budget, or "
            "choose a longer slide."
        )
    layout = make_layout(streams, asked, replace(settings, budget=each), known=known)
    return WindowGroup(name, window, replace(layout, samples=_of_all_panes(layout, window.panes + 1)))


def _asks_the_same(layout: Layout, asked: Sequence[WorkloadQuery]) -> bool:
    """Return whether panes of a layout hold what some queries, and explored columns, need."""
    wanted = {(each.name, each.query.text, each.method) for each in asked if not is_exploring(each)}
    explored = {each.name for each in asked if is_exploring(each)}
    return wanted == {(p.name, p.query.text, p.method) for p in layout.queries} and explored == {
        name for sample in layout.samples for name in explored_names(sample)
    }


def _least_bytes(asked: Sequence[WorkloadQuery], demands: set[Demand], settings: PlanSettings) -> int:
    """Return the least bytes that a pane takes."""
    if not settings.samples:
        return _least(demands, settings)
    totals = {demand for demand in demands if demand.kind == "total"} | _totals(asked)
    return _least(totals, settings) + (LEAST_BYTES if any(uses_sample(each.query) for each in asked) else 0)


def _least(demands: Iterable[Demand], settings: PlanSettings) -> int:
    """Return the least bytes that some synopses take."""
    return 8 * sum(least_words(demand, settings) for demand in demands)


def _of_all_panes(layout: Layout, panes: int) -> tuple[PlannedSample, ...]:
    """Return the samples of a pane with the budgets of all panes, which they share."""
    return tuple(
        replace(
            sample,
            spec=replace(
                sample.spec, budget=panes * sample.spec.budget, kept_budget=panes * sample.spec.kept_budget
            ),
        )
        for sample in layout.samples
    )
