"""Answers in notebooks: HTML with every string escaped, and small SVG drawings of intervals and groups."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from html import escape
from math import inf, isfinite, isinf, nan
from typing import TypeGuard

# The HTML with which answers show themselves in a notebook. Every string is escaped here, whatever its source.
#
# Nothing sets a color: less important parts are paler, so that light and dark pages both show them.


_CELL = "padding:.15em .8em .15em 0;border:0;vertical-align:middle;background:none"


class Markup(str):
    """A string that is HTML already; any other string is escaped."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    """Return a string escaped for HTML."""
    return text if isinstance(text, Markup) else Markup(escape(text))


def block(*parts: str) -> Markup:
    """Return the parts below each other, without the empty ones."""
    lines = "".join(f"<div>{escaped(part)}</div>" for part in parts if part)
    return Markup(f"<div style='overflow-wrap:break-word'>{lines}</div>")


def heading(text: str) -> Markup:
    """Return a heading, large and bold."""
    return Markup(f"<b style='font-size:1.4em'>{escaped(text)}</b>")


def bold(text: str) -> Markup:
    """Return a string in bold, such as a name."""
    return Markup(f"<b>{escaped(text)}</b>")


def muted(text: str) -> Markup:
    """Return a less important string in a paler shade; nothing if it is empty."""
    return Markup(f"<span style='opacity:.75'>{escaped(text)}</span>") if text else Markup()


def code(text: str) -> Markup:
    """Return a string as code, as it was typed."""
    return Markup(f"<code style='background:none;color:inherit'>{escaped(text)}</code>")


def listed(notes: Iterable[str]) -> Markup:
    """Return notes below each other; nothing if there are no notes."""
    return Markup("".join(f"<div style='opacity:.85'>note: {escaped(note)}</div>" for note in notes))


def collapsible(summary: str, text: str) -> Markup:
    """Return a long string that opens at a click."""
    return Markup(f"<details><summary>{escaped(summary)}</summary>{escaped(text)}</details>")


def preformatted(text: str) -> Markup:
    """Return lines as a terminal shows them."""
    return Markup(f"<pre style='background:none;color:inherit;overflow-x:auto'>{escaped(text)}</pre>")


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Collection[int] = ()) -> Markup:
    """Return a table whose first column names its rows. numbers: the columns that are aligned to the right.

    In a row that is shorter than the head, the last cell reaches to the end.
    """
    titles = "".join(_cell("th", text, "col", place in numbers) for place, text in enumerate(head))
    lines = "".join(f"<tr>{_row(row, len(head), numbers)}</tr>" for row in rows)
    style = "border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.3em 0"
    return Markup(f"<table style='{style}'><thead><tr>{titles}</tr></thead><tbody>{lines}</tbody></table>")


def _row(row: Sequence[str], width: int, numbers: Collection[int]) -> str:
    first, *others = row
    cells = [_cell("th", first, "row", 0 in numbers)]
    for place, text in enumerate(others, 1):
        last = place == len(row) - 1
        cells.append(_cell("td", text, "", place in numbers, width - place if last else 1))
    return "".join(cells)


def _cell(tag: str, text: str, scope: str, right: bool, span: int = 1) -> str:
    align = "right" if right else "left"
    weight = ";font-weight:normal" if scope == "row" else ""
    attribute = f" scope='{scope}'" if scope else ""
    wide = f" colspan='{span}'" if span > 1 else ""
    return f"<{tag}{attribute}{wide} style='{_CELL};text-align:{align}{weight}'>{escaped(text)}</{tag}>"


# Small drawings for notebooks, in SVG: an interval around its value, the bar of a group, a bar of shares.
#
# They use the color of the text around them, in several strengths, so that light and dark pages both show them.


_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_LARGEST = 1e300
_SHADES = (0.8, 0.4, 0.6, 0.25)
_ROOM = 8
"""Pixels at both sides of an axis, for the arrows of open ends."""

Axis = tuple[float, float]


@dataclass(frozen=True)
class Span:
    """An answer as places on an axis: its value, and the ends of its interval, infinite where they are open."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value: object, low: object, high: object) -> "Span | None":
        """Return the places of a value and its interval; None for a value without a place: a string, NULL, NaN."""
        place = axis_position(value)
        if not isfinite(place):
            return None
        first, last = axis_position(low), axis_position(high)
        return cls(place, first if first <= place else -inf, last if last >= place else inf)

    @property
    def finite(self) -> tuple[float, ...]:
        """The places that are finite."""
        return tuple(place for place in (self.low, self.value, self.high) if isfinite(place))

    def relative(self) -> "Span | None":
        """Return the same span around 0, in units of the value; None where the value is 0."""
        if not self.value:
            return None
        size = abs(self.value)
        return Span(0.0, (self.low - self.value) / size, (self.high - self.value) / size)


def axis_position(value: object) -> float:
    """Return the place of a value on an axis: a number unchanged, a date in seconds, anything else NaN.

    Infinities stay infinite. Finite numbers whose differences may overflow a float have no place: NaN.
    """
    if is_plain_number(value):
        try:
            place = float(value)
        except OverflowError:
            return nan
        return place if abs(place) < _LARGEST or isinf(place) else nan
    if isinstance(value, date):
        moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)  # noqa: DTZ001
        seconds = moment.hour * 3600 + moment.minute * 60 + moment.second + moment.microsecond / 1e6
        return 86400.0 * value.toordinal() + seconds
    return nan


def is_plain_number(value: object) -> TypeGuard[int | float | Decimal]:
    """Return whether a value is a number, and not a BOOLEAN, which Python counts among them."""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def relative_axis(spans: Iterable[Span]) -> Axis:
    """Return an axis around 0 that covers relative spans, with round ends: at most -1 to 1."""
    widest = max((abs(place) for span in spans for place in span.finite), default=0.0)
    end = next((step for step in _STEPS if step >= widest), _STEPS[-1])
    return -end, end


def axis_of(spans: Iterable[Span], *, zero: bool = False) -> Axis:
    """Return an axis that covers all finite places, and 0 if that is wanted."""
    places = [place for span in spans for place in span.finite] + ([0.0] if zero else [])
    low, high = min(places), max(places)
    if zero:
        return low, high if high > low else low + 1.0
    margin = (high - low) * 0.15 or abs(low) * 0.01 or 1.0
    return low - margin, high + margin


def draw_answer(value: object, low: object, high: object, label: str) -> Markup:
    """Return the drawing of one answer: relative to the value where that is meaningful, else on its own axis.

    Nothing is drawn for a value without a place on an axis, without an interval, or with one that is open at both
    ends.
    """
    span = Span.of(value, low, high)
    if span is None or len(set(span.finite)) < 2:
        return Markup()
    around = span.relative() if is_plain_number(value) else None
    if around is not None and max(map(abs, around.finite)) <= _STEPS[-1]:
        return draw_interval(around, relative_axis([around]), label, ends=True)
    return draw_interval(span, axis_of([span]), label)


def draw_column(answers: Sequence[tuple[object, object, object]], labels: Sequence[str]) -> list[Markup]:
    """Return drawings of values with their lows and highs on one axis: bars from 0 for numbers, bands for dates."""
    spans = [Span.of(*answer) for answer in answers]
    known = [span for span in spans if span is not None]
    if not known:
        return [Markup() for _ in answers]
    bars = any(is_plain_number(value) for value, _, _ in answers)
    draw, axis = draw_bar if bars else draw_interval, axis_of(known, zero=bars)
    return [
        draw(span, axis, label, width=160) if span is not None else Markup()
        for span, label in zip(spans, labels, strict=True)
    ]


def draw_interval(span: Span, axis: Axis, label: str, *, width: int = 240, ends: bool = False) -> Markup:
    """Return a band from low to high with its value as a mark. ends: with the axis' ends below, in percent."""
    across = _Across(axis, width)
    parts = [_line(_ROOM, width - _ROOM, 8, 0.3), *_band(span, across), _mark(across(span.value), 1, 14)]
    if ends:
        parts += [_percent(axis[0], _ROOM, "start"), _percent(axis[1], width - _ROOM, "end")]
    return _picture(parts, width, 28 if ends else 16, label)


def draw_bar(span: Span, axis: Axis, label: str, *, width: int = 160) -> Markup:
    """Return a bar from 0 to the value, with a whisker from low to high where there is an interval."""
    across = _Across(axis, width)
    start, end = sorted((across(0.0), across(span.value)))
    parts = [_rectangle(start, end, 3, 10, 0.4), _mark(across(0.0), 1, 14, 0.5)]
    if span.low < span.high:
        low, high = across(span.low), across(span.high)
        parts += [_line(low, high, 8, 1.0), *_arrows(span, axis, width)]
        parts += [_mark(place, 5, 6) for place in (low, high)]
    return _picture(parts, width, 16, label)


def draw_shares(shares: Sequence[tuple[str, int]], label: str, *, width: int = 640) -> Markup:
    """Return a bar whose segments are as long as their numbers, each with its name as a tooltip."""
    whole, parts, at = sum(number for _, number in shares) or 1, [], 0.0
    for place, (name, number) in enumerate(shares):
        end = at + number / whole * width
        drawn = _rectangle(at, end - 1, 1, 18, shade(place))  # a gap between neighbors
        parts.append(f"<g><title>{escaped(name)}</title>{drawn}</g>")
        at = end
    return _picture(parts, width, 20, label)


def draw_swatch(place: int) -> Markup:
    """Return a small square in the shade of a segment."""
    return _picture([_rectangle(0, 10, 0, 10, shade(place))], 10, 10, "")


def shade(place: int) -> float:
    """Return how dark the segment at a place is drawn, so that neighbors differ."""
    return _SHADES[place % len(_SHADES)]


@dataclass(frozen=True)
class _Across:
    """Maps places on an axis to pixels; a place beyond the axis maps to its end."""

    axis: Axis
    width: int

    def __call__(self, place: float) -> float:
        low, high = self.axis
        share = (min(max(place, low), high) - low) / (high - low)
        return _ROOM + share * (self.width - 2 * _ROOM)


def _band(span: Span, across: _Across) -> list[str]:
    low, high = across(span.low), across(span.high)
    band = [_rectangle(low, high, 3, 10, 0.35)] if high > low else []
    return [*band, *_arrows(span, across.axis, across.width)]


def _arrows(span: Span, axis: Axis, width: int) -> list[str]:
    """Return arrows where an interval continues beyond the axis."""
    arrows = [(span.low < axis[0], _ROOM, -_ROOM + 1), (span.high > axis[1], width - _ROOM, _ROOM - 1)]
    return [
        f'<path d="M{at} 3 l{out} 5 l{-out} 5 z" fill="currentColor" opacity="0.8"/>'
        for beyond, at, out in arrows
        if beyond
    ]


def _rectangle(start: float, end: float, top: int, height: int, opacity: float) -> str:
    size = f'width="{max(end - start, 0.5):.2f}" height="{height}"'
    return f'<rect x="{start:.2f}" y="{top}" {size} fill="currentColor" opacity="{opacity}"/>'


def _line(start: float, end: float, y: int, opacity: float) -> str:
    ends = f'x1="{start:.2f}" x2="{end:.2f}" y1="{y}" y2="{y}"'
    return f'<line {ends} stroke="currentColor" opacity="{opacity}"/>'


def _mark(x: float, top: int, height: int, opacity: float = 1.0) -> str:
    size = f'width="2" height="{height}"'
    return f'<rect x="{x - 1:.2f}" y="{top}" {size} fill="currentColor" opacity="{opacity}"/>'


def _percent(end: float, x: float, anchor: str) -> str:
    sign = "\N{MINUS SIGN}" if end < 0 else "+"
    where = f'x="{x}" y="26" font-size="10" text-anchor="{anchor}"'
    return f'<text {where} fill="currentColor" opacity="0.75">{sign}{100 * abs(end):g}%</text>'


def _picture(parts: Sequence[str], width: int, height: int, label: str) -> Markup:
    """Return the drawing, with its label for screen readers and as a tooltip; without a label it is decoration."""
    attribute = f'role="img" aria-label="{escaped(label)}"' if label else 'aria-hidden="true"'
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    title = f"<title>{escaped(label)}</title>" if label else ""
    style = 'style="vertical-align:middle;max-width:100%;margin:2px 0"'
    return Markup(
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {attribute} {style}>{title}{"".join(parts)}</svg>'
    )
