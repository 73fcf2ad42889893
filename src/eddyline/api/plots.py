"""Plots of answers with matplotlib (the extra `plot`), which only this module imports, and only `plot` imports it.

Figures are made without pyplot: nothing is shown, and nothing stays open, unless the caller does so.
"""

from collections.abc import Mapping, Sequence
from io import BytesIO
from math import isfinite

from eddyline.answer.drawing import Span, axis_of, is_plain_number, relative_axis
from eddyline.answer.estimate import Estimate, show_key
from eddyline.answer.groups.table import Groups
from eddyline.api.notebook import span_of
from eddyline.errors import EddylineError, PipelineError, PlanError
from eddyline.expressions.arrow_values import python_rows

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError as error:
    raise PipelineError('plots need matplotlib: pip install "eddyline[plot]".') from error

_COLOUR = "#1f6fb4"
_DOTS = 144
"""Dots per inch: twice what is shown, so that letters are sharp on dense screens."""


class AnswerFigure(Figure):
    """A figure that a notebook shows, with or without pyplot."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        drawn = BytesIO()
        self.savefig(drawn, format="png", dpi=_DOTS)
        width, height = self.get_size_inches() * _DOTS / 2
        return drawn.getvalue(), {"width": int(width), "height": int(height)}


def plot_answers(answers: Mapping[str, Estimate | Groups | EddylineError]) -> Figure:
    """Return all answers in one figure: points with intervals, in percent of each value, which is shown alongside.

    Queries differ by orders of magnitude, so only relative values can share an axis. What cannot be drawn
    (groups, strings, NULL, refused queries) has a line that says what it is.
    """
    figure, axes = _figure(1, 0.9 + 0.36 * len(answers))
    (panel,) = axes
    spans = {name: span_of(answer) for name, answer in answers.items()}
    low, high = relative_axis(span for span in spans.values() if span is not None)
    panel.axvline(0.0, color="0.8", zorder=0)
    for place, span in enumerate(spans.values()):
        if span is not None:
            _draw_span(panel, span, place, (low, high))
            panel.plot([0.0], [place], "o", color=_COLOUR)
    panel.set_xlim(1.08 * low, 1.08 * high)
    panel.xaxis.set_major_formatter(lambda share, _: f"{100 * share:+.3g}%" if share else "0")
    panel.locator_params(axis="x", nbins=6)
    panel.spines["left"].set_visible(False)
    panel.set_xlabel("interval, relative to the estimate")
    _label_rows(panel, list(answers))
    values_axis = panel.secondary_yaxis("right")
    values_axis.set_yticks(range(len(answers)), [_sentence(answer) for answer in answers.values()])
    values_axis.tick_params(length=0, labelsize="small")
    values_axis.spines["right"].set_visible(False)
    return figure


def plot_groups(groups: Groups, aggregate: str | None = None, top: int = 20) -> Figure:
    """Return the first groups as bars with intervals, a panel for each aggregate or for the named one."""
    if aggregate is not None and aggregate not in groups.aggregates:
        known = ", ".join(groups.aggregates)
        raise PlanError(f"{groups.query} has no aggregate {aggregate!r}: its aggregates are {known}.")
    if not isinstance(top, int) or top < 1:
        raise PlanError(f"top={top!r} is not a number of groups: give a whole number of 1 or more.")
    names = (aggregate,) if aggregate is not None else groups.aggregates
    rows = python_rows(groups.table.slice(0, top))
    figure, axes = _figure(len(names), 1.2 + 0.3 * max(len(rows), 1))
    for panel, name in zip(axes, names, strict=True):
        _draw_groups(panel, [groups.estimate(row, name) for row in rows])
        panel.set_xlabel(name)
    labels = [", ".join(show_key(row[name]) for name in groups.group_columns) for row in rows]
    _label_rows(axes[0], labels)
    for panel in axes[1:]:
        _label_rows(panel, [""] * len(rows))
    more = f", the first {len(rows)}" if len(groups) > len(rows) else ""
    certainty = "exact" if groups.exact else f"{groups.confidence:.0%} intervals"
    figure.suptitle(_plain(f"{groups.query}: {len(groups):,} groups{more}, {certainty}"), fontsize="medium")
    return figure


def plot_track(estimates: Sequence[Estimate]) -> Figure:
    """Return how the answers of one query changed: values with intervals over the seconds since the first one."""
    figure, (panel,) = _figure(1, 3.2)
    spans = [(each.freshness, Span.of(each.value, each.low, each.high)) for each in estimates]
    drawn = [(fresh.read_at, span) for fresh, span in spans if fresh is not None and span is not None]
    if drawn:
        low, high = axis_of(span for _, span in drawn)
        seconds = [moment - drawn[0][0] for moment, _ in drawn]
        lows, highs = [max(span.low, low) for _, span in drawn], [min(span.high, high) for _, span in drawn]
        panel.fill_between(seconds, lows, highs, color=_COLOUR, alpha=0.25, linewidth=0)
        panel.plot(seconds, [span.value for _, span in drawn], "o-", color=_COLOUR, markersize=3)
        panel.set_ylim(low, high)
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    last = estimates[-1]
    panel.set_title(_plain(f"{last.query}: {last.shown[0]}"), loc="left", fontsize="medium")
    panel.set_xlabel("seconds since the first answer")
    return figure


def _figure(panels: int, height: float) -> tuple[Figure, list[Axes]]:
    """Return a figure with panels side by side."""
    figure = AnswerFigure(figsize=(7.5 if panels == 1 else 3.6 * panels + 1, height), layout="constrained")
    axes = list(figure.subplots(1, panels, squeeze=False)[0])
    for panel in axes:
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize="small")
    return figure, axes


def _label_rows(panel: Axes, labels: Sequence[str]) -> None:
    """Name the rows of a panel, the first one on top."""
    panel.set_yticks(range(len(labels)), [_plain(label) for label in labels])
    panel.tick_params(axis="y", length=0)
    panel.set_ylim(max(len(labels), 1) - 0.4, -0.6)


def _draw_groups(panel: Axes, estimates: Sequence[Estimate]) -> None:
    """Draw one aggregate of the groups; what is not a number is written as text."""
    spans = [
        Span.of(each.value, each.low, each.high) if is_plain_number(each.value) else None
        for each in estimates
    ]
    known = [span for span in spans if span is not None]
    axis = axis_of(known, zero=True) if known else (0.0, 1.0)
    for place, (estimate, span) in enumerate(zip(estimates, spans, strict=True)):
        if span is None:
            panel.text(
                0.0, place, f" {_plain(estimate.shown[0])}", va="center", fontsize="small", color="0.3"
            )
            continue
        panel.barh([place], [span.value], height=0.7, color=_COLOUR, alpha=0.5)
        if not estimate.exact:
            _draw_span(panel, span, place, axis)
    if known:
        panel.axvline(0.0, color="0.6", linewidth=0.8)
        panel.xaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
        panel.locator_params(axis="x", nbins=4)
    else:
        panel.set_xticks([])


def _draw_span(panel: Axes, span: Span, place: int, axis: tuple[float, float]) -> None:
    """Draw an interval as a line with caps, or with arrows if it extends beyond the axis."""
    ends = [max(span.low, axis[0]), min(span.high, axis[1])]
    panel.plot(ends, [place, place], color=_COLOUR, linewidth=2)
    for end, beyond, arrow in zip(ends, (span.low < axis[0], span.high > axis[1]), "<>", strict=True):
        panel.plot([end], [place], arrow if beyond else "|", color=_COLOUR, markersize=7)


def _sentence(answer: Estimate | Groups | EddylineError) -> str:
    """Return the text next to a row."""
    if isinstance(answer, EddylineError):
        return "refused"
    if isinstance(answer, Groups):
        return "1 group" if len(answer) == 1 else f"{len(answer):,} groups"
    value = _plain(answer.shown[0])
    if answer.exact:
        return f"{value} (exact)"
    error = answer.relative_error
    return f"{value} \N{PLUS-MINUS SIGN}{100 * error:.2g}%" if isfinite(error) else value


def _plain(text: str) -> str:
    """Return a string on one line, cut if it is long, in which matplotlib reads no formula."""
    line = " ".join(text.split())
    return (line if len(line) <= 48 else f"{line[:46]}...").replace("$", r"\$")
