"""A state and a plan as HTML, which a notebook shows instead of their one line of text."""

from collections.abc import Iterator, Mapping, Sequence

from eddyline.answer.drawing import (
    Markup,
    Span,
    block,
    bold,
    code,
    collapsible,
    draw_interval,
    draw_shares,
    draw_swatch,
    escaped,
    is_plain_number,
    listed,
    muted,
    preformatted,
    relative_axis,
    table,
)
from eddyline.answer.estimate import Estimate
from eddyline.answer.freshness import Freshness
from eddyline.answer.groups.table import Groups
from eddyline.errors import EddylineError
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.layout import Layout, PlannedQuery
from eddyline.plan.show.explain import Share, memory_of, sureness_of

AnswersByName = Mapping[str, Estimate | Groups | EddylineError]
_SHARES, _SMALL = 8, 0.01
"""The most shares of memory that are listed one by one, and the smallest part of the whole that is listed."""


def state_html(snapshot: Snapshot, answers: AnswersByName, freshness: Freshness | None) -> Markup:
    """Return a state as HTML: a line for each query, its interval drawn relative to its value, all on one axis."""
    rows = ", ".join(f"{name} {tally.rows:,} rows" for name, tally in snapshot.tallies.items())
    spans = {name: span_of(answer) for name, answer in answers.items()}
    axis = relative_axis(span for span in spans.values() if span is not None)
    lines = [_answer_line(name, answer, spans[name], axis) for name, answer in answers.items()]
    around = f"\N{PLUS-MINUS SIGN}{100 * axis[1]:g}% of the value"
    head = ("query", "value", "interval", around, "how")
    return block(
        Markup(f"{bold('State')} {muted(f'{rows}; {snapshot.nbytes:,} bytes')}"),
        table(head, lines, numbers=(1,)),
        _notes(answers),
        muted(f"as of {freshness}") if freshness is not None else "",
    )


def span_of(answer: Estimate | Groups | EddylineError) -> Span | None:
    """Return the interval of a number relative to its value; None for anything else."""
    if not isinstance(answer, Estimate) or not is_plain_number(answer.value):
        return None
    span = Span.of(answer.value, answer.low, answer.high)
    if span is None:
        return None
    return Span(0.0, 0.0, 0.0) if answer.exact else span.relative()


def _answer_line(
    name: str, answer: Estimate | Groups | EddylineError, span: Span | None, axis: tuple[float, float]
) -> Sequence[str]:
    """Return the cells of a query: its value, its interval in words and drawn, and how it was read."""
    if isinstance(answer, EddylineError):
        return name, "refused", muted(str(answer))
    if isinstance(answer, Groups):
        return name, "1 group" if len(answer) == 1 else f"{len(answer):,} groups", "", "", answer.method
    drawing = draw_interval(span, axis, f"{name}: {answer}", width=160) if span is not None else ""
    value, low, high = answer.shown
    certain = answer.value is None or answer.exact
    return (
        name,
        value,
        "" if certain else f"{low} to {high} at {answer.confidence:.0%}",
        drawing,
        answer.method,
    )


def _notes(answers: AnswersByName) -> Markup:
    """Return what a careful reader should know about all answers, shown at a click."""
    shown = [
        f"{name}: {note}"
        for name, answer in answers.items()
        if not isinstance(answer, EddylineError)
        for note in answer.notes
    ]
    summary = "1 note" if len(shown) == 1 else f"{len(shown)} notes"
    return collapsible(summary, listed(shown)) if shown else Markup()


def plan_html(layout: Layout, explained: str) -> Markup:
    """Return a plan as HTML: which queries hold and share memory, the expected errors, and the text of explain."""
    counts = f"{len(layout.query_names)} queries on {len(layout.streams)} streams, {layout.nbytes:,} bytes"
    shares = _largest(memory_of(layout))
    named = [(f"{each.stream}: {each.holds}, {each.nbytes:,} bytes", each.nbytes) for each in shares]
    label = "memory: " + "; ".join(name for name, _ in named)
    return block(
        Markup(f"{bold(f'Plan {layout.digest[:12]}')} {muted(counts)}"),
        draw_shares(named, label),
        table(
            ("what is held", "of", "bytes", "share", "read by"),
            [_share_line(place, share, layout.nbytes) for place, share in enumerate(shares)],
            numbers=(2, 3),
        ),
        table(("query", "what is expected", "SQL"), _query_lines(layout)),
        collapsible("plan.explain()", preformatted(explained)),
    )


def _largest(shares: Sequence[Share]) -> list[Share]:
    """Return the largest shares, and all others as one."""
    ordered, whole = sorted(shares, key=lambda share: -share.nbytes), sum(share.nbytes for share in shares)
    large = [share for share in ordered[:_SHARES] if share.nbytes >= _SMALL * whole]
    others = ordered[len(large) :]
    if len(others) < 2:
        return ordered
    readers = tuple(dict.fromkeys(name for share in others for name in share.readers))
    streams = ", ".join(dict.fromkeys(share.stream for share in others))
    held = f"{len(others)} small ones, of at most {others[0].nbytes:,} bytes"
    return [*large, Share("", held, streams, sum(share.nbytes for share in others), readers)]


def _share_line(place: int, share: Share, whole: int) -> Sequence[str]:
    of_all = f"{share.nbytes / max(whole, 1):.1%}"
    held = Markup(f"{draw_swatch(place)} {escaped(share.holds)}")
    return held, share.stream, f"{share.nbytes:,}", of_all, ", ".join(share.readers)


def _query_lines(layout: Layout) -> Iterator[Sequence[str]]:
    for planned in layout.queries:
        yield planned.name, "; ".join(sureness_of(planned)) or "exact", _text(planned)
    for group in layout.windows:
        seconds = group.window.slide / 1e6
        for planned in group.layout.queries:
            yield planned.name, f"over a window of {group.window.panes} x {seconds:g} s", _text(planned)


def _text(planned: PlannedQuery) -> Markup:
    return code(" ".join(planned.query.text.split()))
