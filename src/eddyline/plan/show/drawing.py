"""Pictures of plans, drawn: Mermaid text for documents, SVG for a browser."""

from html import escape
from math import isinf

from eddyline.plan.show.picture import Apart, Asking, Picture, Shown

_COLOURS = ("#1f77b4", "#d95f02", "#2ca02c", "#9467bd", "#8c564b", "#17becf", "#bcbd22", "#e377c2")
_RED = "#c0392b"
_DARK = """\
<style>@media (prefers-color-scheme: dark) {
.eddyline-ground { fill: #18212a } .eddyline-ink { fill: #e8eef2 } .eddyline-quiet { fill: #a3b1bd }
.eddyline-warn { fill: #ff9c9c } .eddyline-kept { fill: #22303b; stroke: #5d7081 }
.eddyline-shared { fill: #20362a; stroke: #5d7081 }
}</style>"""
"""Other colours on dark pages; where styles are not read, the picture is dark on white."""
_CLASSES = {"#111": "ink", "#444": "quiet", _RED: "warn"}
_WIDE, _BOX, _HIGH, _GAP = 1180, 430, 40, 12


def as_mermaid(picture: Picture) -> str:
    """Return a Mermaid flowchart: every query's joins, then the synopses that are kept, and who reads them."""
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
        parts += _query_boxes(query, queries[query.name], _COLOURS[number % len(_COLOURS)])
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


def _query_boxes(query: Asking, top: int, colour: str) -> list[str]:
    """Return a query: its name, then its relations in a row with their links below the names of the keys."""
    written = [
        f"{' - '.join(query.relations[r] for r in m.relations)} on {m.key} [{m.slot}]" for m in query.meetings
    ]
    title = f"{query.name}{_expected(query)}"
    below = "; ".join(written) or query.text
    return [
        f'<rect x="20" y="{top}" width="{_BOX}" height="{_HIGH + _GAP}" rx="6" fill="none" stroke="{colour}"/>',
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
        f'<path d="M {start} {from_y} C {middle} {from_y}, {middle} {to_y}, {end} {to_y}" fill="none" '
        f'stroke="{_COLOURS[number % len(_COLOURS)]}" stroke-width="1.4"/>'
    )


def _apart_line(apart: Apart, synopses: dict[str, int]) -> str:
    top, bottom = sorted(synopses[name] + _HIGH // 2 for name in apart.ids)
    right = _WIDE - 20
    return (
        f'<path d="M {right} {top} C {right + 18} {top}, {right + 18} {bottom}, {right} {bottom}" fill="none" '
        f'stroke="{_RED}" stroke-dasharray="4 3" stroke-width="1.6"/>'
    )


def _boxed(left: int, top: int, *texts: str) -> str:
    """Return texts that end where their box does, however wide their letters are."""
    inner = f'x="{left}" y="{top}" width="{_BOX - 20}" height="{_HIGH + _GAP}"'
    return f"<svg {inner}>{''.join(texts)}</svg>"


def _cut(text: str) -> str:
    return text if len(text) <= 68 else text[:66] + "..."


def _text(x: int, y: int, text: str, *, bold: bool = False, colour: str = "#111") -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text class="eddyline-{_CLASSES[colour]}" x="{x}" y="{y}" fill="{colour}"{weight}>{escape(text)}</text>'
