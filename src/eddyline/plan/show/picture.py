"""What the queries of a plan share, as values, and join graphs before and after sharing as Mermaid and SVG."""

from collections.abc import Iterator
from html import escape
from itertools import combinations
from math import inf, isinf
from statistics import fmean

import msgspec

from eddyline.plan.demands import links_of
from eddyline.plan.layout import Demand, KeptSynopsis, Layout, PlannedQuery, PlannedSample
from eddyline.plan.sharing.coalesce import without_slots
from eddyline.plan.sharing.join_graph import (
    Conflict,
    DifferentRoles,
    End,
    GraphQuery,
    JoinGraph,
    Vertex,
    VertexId,
    conflict,
)
from eddyline.plan.sharing.space import compute_space
from eddyline.plan.statistics import held_of
from eddyline.sql.query import Link, Query


class Apart(msgspec.Struct, frozen=True):
    """Two synopses that hold the same data but could not be merged, and why."""

    ids: tuple[str, str]
    why: str


class Weighed(msgspec.Struct, frozen=True):
    """A query with sketches: W, and M, the counters of the smallest sketch (or bundle of parts) that it reads.

    Its expected squared error is W / M, times its weight. Paper: sharing, W_Q and M_Q.
    """

    query: str
    weight: float
    size: int


class Component(msgspec.Struct, frozen=True):
    """Sketches that have one size in the optimum, the queries that decide it, and the size, in counters.

    The size is the optimum of the shared graph before floors and rounding; for an error function that was given, the
    mean of the sizes in the plan. Paper: sharing, ≡-component.
    """

    sketches: tuple[str, ...]
    queries: tuple[str, ...]
    weight: float
    size: float


class Sharing(msgspec.Struct, frozen=True):
    """How the sketches of a plan's joins were sized, and which of them could not be shared."""

    objective: str
    queries: tuple[Weighed, ...]
    components: tuple[Component, ...]
    apart: tuple[Apart, ...]


def sharing_of(layout: Layout) -> Sharing:
    """Return the weights, sizes and components of a plan's joins; empty if no join has sketches."""
    weighed = tuple(
        Weighed(each.name, each.sketch_weight, _smallest(each, layout))
        for each in layout.queries
        if each.sketch_weight is not None and each.query.is_scalar and each.quantities
    )
    return Sharing(layout.objective, weighed, _components(layout), could_not_share(layout))


def _smallest(planned: PlannedQuery, layout: Layout) -> int:
    """Return the counters of the smallest relation of a query, all its parts together."""
    return min(
        sum(layout.by_id[name].size for name in set(relation))
        for quantity in planned.quantities.values()
        for relation in zip(*quantity.sketches, strict=True)
    )


def _components(layout: Layout) -> tuple[Component, ...]:
    """Return the components of equal size, if the average error is least and all weights are known."""
    graph, ids = _shared_graph(layout)
    known = all(each.sketch_weight is not None for each in layout.queries if each.name in graph.queries)
    if layout.objective == "largest" or not graph.queries or not known:
        return ()
    budget = sum(layout.by_id[name].size for name in ids.values())
    found = compute_space(graph, budget)
    return tuple(
        Component(
            tuple(ids[vertex] for vertex in each.vertices),
            each.queries,
            each.weight,
            found.sizes[each.vertices[0]]
            if layout.objective == "average"
            else fmean(layout.by_id[ids[vertex]].size for vertex in each.vertices),
        )
        for each in found.components
    )


def readers_of(layout: Layout) -> dict[str, list[str]]:
    """Return the queries that read each synopsis, by its id."""
    readers: dict[str, list[str]] = {}
    for planned in layout.queries:
        for identifier in planned.ids:
            readers.setdefault(identifier, []).append(planned.name)
    return readers


def holds_of(kept: KeptSynopsis) -> str:
    """Return what a synopsis holds, with its hash slots, short enough for a picture."""
    slots = sorted({place.slot for place in kept.demand.places})
    by = f", slot {', '.join(map(str, slots))}" if slots else ""
    return f"{kept.demand.kind} {held_of(kept.demand)}{by}".replace("  ", " ").strip()


def could_not_share(layout: Layout) -> tuple[Apart, ...]:
    """Return the pairs of sketches that hold the same data for different queries, and why they are not one."""
    graph, ids = _shared_graph(layout)
    alike: dict[Demand, list[VertexId]] = {}
    for vertex, name in ids.items():
        alike.setdefault(without_slots(layout.by_id[name].demand), []).append(vertex)
    found = []
    for group in alike.values():
        for one, other in combinations(group, 2):
            why = conflict(graph, one, other)
            if why is not None:
                found.append(Apart((ids[one], ids[other]), _why_apart(why, layout)))
    return tuple(found)


def _why_apart(why: Conflict | DifferentRoles, layout: Layout) -> str:
    if isinstance(why, DifferentRoles):
        return "they are at different places of a link of three relations or more"
    query = next(each.query for each in layout.queries if each.name == why.query)
    one, other = (spelled(query.links[int(link)]) for link in sorted(why.links))
    return f"query {why.query} would hash its joins on {one} and on {other} alike, and count rows that do not join"


def _shared_graph(layout: Layout) -> tuple[JoinGraph, dict[VertexId, str]]:
    """Return the join graph as shared by the plan, and the synopsis of each of its vertices."""
    queries: list[GraphQuery] = []
    names: dict[VertexId, str] = {}
    for each in layout.queries:
        if not each.query.is_scalar or not each.query.links or not each.quantities:
            continue
        vertices: dict[str, Vertex] = {}
        shares = each.decision.shares
        for quantity in each.quantities.values():
            for share, part in zip(shares, quantity.sketches, strict=True):
                for index, name in enumerate(part):
                    demand = layout.by_id[name].demand
                    ends = tuple(
                        End(str(link), place.member, place.members)
                        for link, place in zip(links_of(each.query, index), demand.places, strict=True)
                    )
                    vertices.setdefault(name, Vertex(without_slots(demand), ends, share))
        queries.append(GraphQuery(each.name, each.sketch_weight or 1.0, tuple(vertices.values())))
        names |= {(each.name, place): name for place, name in enumerate(vertices)}
    graph = JoinGraph.separate(queries)
    groups: dict[str, list[VertexId]] = {}
    for vertex in graph.members:
        groups.setdefault(names[vertex], []).append(vertex)
    shared = JoinGraph(graph.queries, {group[0]: tuple(group) for group in groups.values()})
    return shared, {group[0]: name for name, group in groups.items()}


def spelled(link: Link) -> str:
    """Return the key of a link, in the spellings of all its members."""
    return " = ".join(dict.fromkeys(str(member.key).replace("`", "") for member in link.members))


# Join graphs before and after sharing are a value, from which Mermaid and SVG are drawn.


class PicturedLink(msgspec.Struct, frozen=True):
    """A link of a query: the relations that meet, on which key, and with which hash slot."""

    relations: tuple[int, ...]
    key: str
    slot: int


class PicturedQuery(msgspec.Struct, frozen=True):
    """A query before sharing: its relations by alias, their links, and its expected error."""

    name: str
    text: str
    relations: tuple[str, ...]
    meetings: tuple[PicturedLink, ...]
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

    queries: tuple[PicturedQuery, ...]
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


def _asking(planned: PlannedQuery) -> PicturedQuery:
    query, text = planned.query, " ".join(planned.query.text.split())
    error = inf if planned.expected_error is None else planned.expected_error
    if not isinstance(query, Query) or query.is_table:
        return PicturedQuery(planned.name, text, (), (), error)
    # an ad hoc query has no slots
    slots = planned.shape.classes if planned.shape is not None else planned.decision.hash_slots
    meetings = tuple(
        PicturedLink(tuple(member.relation for member in link.members), spelled(link), slot)
        for link, slot in zip(query.links, slots, strict=not planned.ad_hoc)
    )
    return PicturedQuery(
        planned.name, text, tuple(relation.alias for relation in query.relations), meetings, error
    )


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


def _expected(query: PicturedQuery) -> str:
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


def _query_boxes(query: PicturedQuery, top: int, stroke: str) -> list[str]:
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
