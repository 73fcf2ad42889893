"""A state as text: how full its stream samples are, whom they follow, and how sure each answer is."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from math import isfinite

from eddyline.answer.estimate import Estimate, Number, show_end
from eddyline.answer.groups.table import Groups
from eddyline.answer.input_check import check_stream
from eddyline.errors import EddylineError
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.layout import PlannedSample
from eddyline.plan.show.asking import askable
from eddyline.sample.reduction import bytes_of
from eddyline.sample.state import SampleState


def explain_state(
    snapshot: Snapshot, answers: Mapping[str, Estimate | Groups | EddylineError], ways: Mapping[str, str]
) -> str:
    """Return what a state holds, as a text that fits a terminal.

    answers: of every query, or why it has none. ways: how the rows of streams came, if known.
    """
    rows = ", ".join(f"{name} {tally.rows:,} rows" for name, tally in snapshot.tallies.items())
    lines = [f"state of plan {snapshot.layout.digest[:12]}: {rows}; {snapshot.nbytes:,} bytes"]
    lines += [f"{stream} was read {way}" for stream, way in ways.items()]
    lines += [
        f"input check: {note}" for stream in snapshot.tallies for note in check_stream(snapshot, stream)
    ]
    for planned in snapshot.layout.samples:
        lines += list(_sample(planned, [snapshot.samples[planned.id]]))
        lines += [f"  {line}" for line in askable(planned, snapshot.layout)]
    for panes in snapshot.windows.values():
        for planned in panes.group.layout.samples:
            states = [pane.samples[planned.id] for pane in panes.panes.values()]
            lines += list(_sample(planned, states)) if states else []
            lines += [f"  in its window, {line}" for line in askable(planned, panes.group.layout)]
    lines.append("queries")
    lines += [f"  {name}: {_sureness(estimate)}" for name, estimate in answers.items()]
    return "\n".join(lines)


def _sample(planned: PlannedSample, states: list[SampleState]) -> Iterator[str]:
    """Yield how full a sample is, all panes together, and the rates of its links."""
    held, first = bytes_of(states), states[0]
    budget = planned.spec.kept_budget if first.grouped else planned.spec.budget
    stage = "second stage" if first.grouped else "first stage, everything is held and exact"
    if first.grouped and first.follows_all:
        stage = "second stage, everything is still followed and exact"
    yield f"{planned.id}: {held:,} of {budget:,} bytes ({held / budget:.0%}), {stage}"
    for link, roster in enumerate(first.rosters[: len(planned.spec.seeds)]):
        if not roster.follows_all:
            names = ", ".join(dict.fromkeys(_members(planned, link)))
            yield (
                f"  {names}: {len(roster.values):,} values followed by their weight, all others at a rate of "
                f"{roster.base:.3g}"
            )
    for place, elements in enumerate(planned.kept):
        if first.grouped and not first.nulls(place).follows_all:
            links = ", ".join(str(key) for key in sorted(elements.links))
            yield f"  {elements.stream}: rows with NULL in {links} at a rate of {first.nulls(place).base:.3g}"


def _members(planned: PlannedSample, link: int) -> Iterator[str]:
    for elements, spec in zip(planned.kept, planned.spec.kept, strict=True):
        for key, own in zip(elements.keys, spec.classes, strict=True):
            if own == link:
                yield f"{elements.stream}{key}"


def _sureness(estimate: Estimate | Groups | EddylineError) -> str:
    """Return how sure an answer is, and by what it was read."""
    if isinstance(estimate, EddylineError):
        return f"not answered: {estimate}"
    if estimate.exact:
        return "exact"
    if isinstance(estimate, Groups):
        return f"{len(estimate):,} groups with intervals at {estimate.confidence:.0%}, by {estimate.method}"
    if not estimate.known:
        return "not known"
    error = estimate.relative_error
    if not isinstance(estimate.value, Number | Decimal):
        ends = f"from {show_end(estimate.low, low=True)} to {show_end(estimate.high)}"
        return f"{ends} at {estimate.confidence:.0%}, by {estimate.method}"
    within = f"within {error:.2g} of the answer" if isfinite(error) else "the answer may be 0"
    return f"{within} at {estimate.confidence:.0%}, by {estimate.method}"
