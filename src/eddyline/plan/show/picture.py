"""A plan as a picture: join graphs before and after sharing, drawn as Mermaid and SVG."""

from collections.abc import Iterator
from html import escape
from math import inf, isinf

import msgspec

from eddyline.plan.layout import Layout, PlannedQuery, PlannedSample
from eddyline.plan.show.sharing import Apart, could_not_share, holds_of, readers_of, spelled
from eddyline.sql.query import Query

# Join graphs before and after sharing are a value, from which Mermaid and SVG are drawn.


class Meeting(msgspec.Struct, frozen=True):
    """A link of a query: the relations that meet, on which key, and with which hash slot."""

    relations: tuple[int, ...]
    key: str
    slot: int


class Asking(msgspec.Struct, frozen=True):
    """A query before sharing: its relations by alias, their links, and its expected error."""

    name: str
    text: str
    relations: tuple[str, ...]
    meetings: tuple[Meeting, ...]
    error: float


class Shown(msgspec.Struct, frozen=True):
    """A synopsis after sharing: its stream, what it holds, its bytes, and which queries read it."""

    id: str
    stream: str
    holds: str
    nbytes: int
    readers: tuple[str, ...]


class Picture(msgspec.Struct, frozen=True):
    """Everything that a picture of a plan shows."""

    queries: tuple[Asking, ...]
    synopses: tuple[Shown, ...]
    apart: tuple[Apart, ...]
    costs: dict[str, int]


def picture_of(layout: Layout) -> Picture:
    """Return the picture of a plan, without windows."""
    readers = readers_of(layout)
    synopses = tuple(
        Shown(kept.id, kept.stream, holds_of(kept), kept.nbytes, tuple(readers.get(kept.id, ())))
        for kept in layout.by_id.values()
        if kept.id in readers or kept.demand.sample
    )
    synopses += tuple(shown for sample in layout.samples for shown in _dictionaries(sample, layout))
    costs = {stream.name: layout.update_cost(stream.name) for stream in layout.streams}
    drawn = tuple(_asking(each) for each in layout.queries)
    return Picture(drawn, synopses, could_not_share(layout), costs)


def _dictionaries(sample: PlannedSample, layout: Layout) -> Iterator[Shown]:
    """Yield the dictionaries of a stream sample, each with an equal part of the memory that they share."""
    readers = tuple(each.name for each in layout.queries if each.sample == sample.id)
    for elements in sample.exact:
        keys = ", ".join(str(key).replace("`", "") for key in elements.keys)
        share = sample.spec.kept_budget // len(sample.exact)
        yield Shown(f"{sample.id}-{elements.stream}", elements.stream, f"sample by {keys}", share, readers)


def _asking(planned: PlannedQuery) -> Asking:
    query, text = planned.query, " ".join(planned.query.text.split())
    error = inf if planned.expected_error is None else planned.expected_error
    if not isinstance(query, Query):
        return Asking(planned.name, text, (), (), error)
    slots = planned.shape.classes if planned.shape is not None else planned.decision.hash_slots
    meetings = tuple(
        Meeting(tuple(member.relation for member in link.members), spelled(link), slots[index])
        for index, link in enumerate(query.links)
    )
    return Asking(planned.name, text, tuple(relation.alias for relation in query.relations), meetings, error)


# Drawing: Mermaid for documents, SVG for a browser.


_COLOURS = ("#1f77b4", "#d95f02", "#2ca02c", "#9467bd", "#8c564b", "#17becf", "#bcbd22", "#e377c2")
_RED = "#c0392b"
_DARK = """\
<style>@media (prefers-color-scheme: dark) {
.eddyline-ground { fill: #18212a } .eddyline-ink { fill: #e8eef2 } .eddyline-quiet { fill: #a3b1bd }
.eddyline-warn { fill: #ff9c9c } .eddyline-kept { fill: #22303b; stroke: #5d7081 }
.eddyline-shared { fill: #20362a; stroke: #5d7081 }
.eddyline-line-0 { stroke: #6db3e8 } .eddyline-line-1 { stroke: #ff9d5c } .eddyline-line-2 { stroke: #6fcf6f }
.eddyline-line-3 { stroke: #c3a1e6 } .eddyline-line-4 { stroke: #d3a294 } .eddyline-line-5 { stroke: #5fdbe8 }
.eddyline-line-6 { stroke: #dbdc66 } .eddyline-line-7 { stroke: #f5a9da } .eddyline-apart { stroke: #ff9c9c }
}</style>"""
"""Other colors on dark pages; if styles are not read, the picture is dark on white."""
_CLASSES = {"#111": "ink", "#444": "quiet", _RED: "warn"}
_WIDE, _BOX, _HIGH, _GAP = 1180, 430, 40, 12


def as_mermaid(picture: Picture) -> str:
    """Return a Mermaid flowchart: every query's joins, then the kept synopses, and which queries read them."""
    lines = ["flowchart LR"]
    for number, query in enumerate(picture.queries):
        lines.append(f'  subgraph q{number}["{query.name}{_expected(query)}"]')
        lines += [f'    q{number}r{i}(["{alias}"])' for i, alias in enumerate(query.relations)]
        for meeting in query.meetings:
            first, *others = meeting.relations
            label = f"{meeting.key}, slot {meeting.slot}"
            lines += [f'    q{number}r{first} ---|"{label}"| q{number}r{other}' for other in others]
        lines.append("  end")
    names = {query.name: f"q{number}" for number, query in enumerate(picture.queries)}
    nodes = {shown.id: f"s{number}" for number, shown in enumerate(picture.synopses)}
    for stream, cost in picture.costs.items():
        lines.append(f'  subgraph stream_{stream}["stream {stream}: {cost} words a row"]')
        for shown in picture.synopses:
            if shown.stream == stream:
                holds = shown.holds.replace('"', "#quot;")
                lines.append(f'    {nodes[shown.id]}["{holds}<br/>{shown.nbytes:,} bytes"]')
        lines.append("  end")
    for shown in picture.synopses:
        lines += [f"  {names[reader]} --> {nodes[shown.id]}" for reader in shown.readers if reader in names]
    for apart in picture.apart:
        one, other = (nodes[name] for name in apart.ids)
        lines.append(f'  {one} -. "cannot share: {apart.why}" .- {other}')
    return "\n".join(lines).replace("`", "")


def as_svg(picture: Picture) -> str:
    """Return an SVG: the queries' joins on the left, the synopses on the right, a line for each reader."""
    queries = _placed_queries(picture)
    synopses = _placed_synopses(picture)
    notes = [f"not shared: {_label(picture, apart)}: {apart.why}" for apart in picture.apart]
    bottom = max(
        [top + _HIGH for top in queries.values()] + [top + _HIGH for top in synopses.values()] + [80]
    )
    height = bottom + 30 + 20 * len(notes)
    size = f'width="{_WIDE}" height="{height}" viewBox="0 0 {_WIDE} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        _DARK,
        f'<rect class="eddyline-ground" width="{_WIDE}" height="{height}" fill="white"/>',
        _text(20, 24, "queries and their joins", bold=True),
        _text(_WIDE - _BOX - 20, 24, "what is kept of each stream", bold=True),
    ]
    for number, query in enumerate(picture.queries):
        parts += _query_boxes(query, queries[query.name], _stroke(number))
    for shown in picture.synopses:
        parts += _synopsis_box(shown, synopses[shown.id])
        parts += [
            _line(number, queries[query.name], synopses[shown.id])
            for number, query in enumerate(picture.queries)
            if query.name in shown.readers
        ]
    for apart in picture.apart:
        parts.append(_apart_line(apart, synopses))
    parts += [_text(20, bottom + 24 + 20 * i, note, colour=_RED) for i, note in enumerate(notes)]
    return "\n".join([*parts, "</svg>"])


def _expected(query: Asking) -> str:
    if isinf(query.error):
        return ", expected error not known"
    return f", expected error {100 * query.error:.2g}%" if query.error else ""


def _label(picture: Picture, apart: Apart) -> str:
    return next(shown.holds for shown in picture.synopses if shown.id == apart.ids[0])


def _placed_queries(picture: Picture) -> dict[str, int]:
    return {query.name: 40 + i * (_HIGH + 2 * _GAP) for i, query in enumerate(picture.queries)}


def _placed_synopses(picture: Picture) -> dict[str, int]:
    return {shown.id: 40 + i * (_HIGH + _GAP) for i, shown in enumerate(picture.synopses)}


def _stroke(number: int) -> str:
    """Return the attributes of a query's lines."""
    place = number % len(_COLOURS)
    return f'class="eddyline-line-{place}" fill="none" stroke="{_COLOURS[place]}"'


def _query_boxes(query: Asking, top: int, stroke: str) -> list[str]:
    """Return a query: its name, then its relations in a row with their links below the names of the keys."""
    written = [
        f"{' - '.join(query.relations[r] for r in m.relations)} on {m.key} [{m.slot}]" for m in query.meetings
    ]
    title = f"{query.name}{_expected(query)}"
    below = "; ".join(written) or query.text
    return [
        f'<rect x="20" y="{top}" width="{_BOX}" height="{_HIGH + _GAP}" rx="6" {stroke}/>',
        _boxed(30, top, _text(0, 18, title, bold=True), _text(0, 38, _cut(below), colour="#444")),
    ]


def _synopsis_box(shown: Shown, top: int) -> list[str]:
    left = _WIDE - _BOX - 20
    kind, shade = ("shared", "#eef5ee") if len(shown.readers) > 1 else ("kept", "#f6f6f6")
    filled = f'fill="{shade}" stroke="#888"'
    readers = f", read by {len(shown.readers)}" if shown.readers else ""
    return [
        f'<rect class="eddyline-{kind}" x="{left}" y="{top}" width="{_BOX}" height="{_HIGH}" rx="6" {filled}/>',
        _boxed(
            left + 10,
            top,
            _text(0, 16, _cut(f"{shown.stream}: {shown.holds}")),
            _text(0, 32, f"{shown.nbytes:,} bytes{readers}", colour="#444"),
        ),
    ]


def _line(number: int, query_top: int, synopsis_top: int) -> str:
    start, end = 20 + _BOX, _WIDE - _BOX - 20
    from_y, to_y, middle = query_top + 26, synopsis_top + _HIGH // 2, (start + end) // 2
    return (
        f'<path d="M {start} {from_y} C {middle} {from_y}, {middle} {to_y}, {end} {to_y}" '
        f'{_stroke(number)} stroke-width="1.4"/>'
    )


def _apart_line(apart: Apart, synopses: dict[str, int]) -> str:
    top, bottom = sorted(synopses[name] + _HIGH // 2 for name in apart.ids)
    right = _WIDE - 20
    return (
        f'<path d="M {right} {top} C {right + 18} {top}, {right + 18} {bottom}, {right} {bottom}" '
        f'class="eddyline-apart" fill="none" stroke="{_RED}" stroke-dasharray="4 3" stroke-width="1.6"/>'
    )


def _boxed(left: int, top: int, *texts: str) -> str:
    """Return SVG texts that end at the edge of their box, however wide their letters are."""
    inner = f'x="{left}" y="{top}" width="{_BOX - 20}" height="{_HIGH + _GAP}"'
    return f"<svg {inner}>{''.join(texts)}</svg>"


def _cut(text: str) -> str:
    return text if len(text) <= 68 else text[:66] + "..."


def _text(x: int, y: int, text: str, *, bold: bool = False, colour: str = "#111") -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text class="eddyline-{_CLASSES[colour]}" x="{x}" y="{y}" fill="{colour}"{weight}>{escape(text)}</text>'
