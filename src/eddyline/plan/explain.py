"""A plan as text: what is kept, who shares it, and what each stream's rows cost."""

from eddyline.plan.layout import Demand, Kept, Layout, Term
from eddyline.sketch.distinct import DistinctSpec
from eddyline.sketch.join_distinct import JoinDistinctSpec
from eddyline.sketch.peeling import PeelingSpec
from eddyline.sql.query import Query


def explain(layout: Layout, assumption: str = "") -> str:
    """Return the plan as a text that fits a terminal."""
    counts = f"{len(layout.queries)} queries on {len(layout.streams)} streams"
    lines = [f"plan {layout.digest[:12]}: {counts}, {layout.nbytes:,} bytes kept"]
    if assumption:
        lines.append(assumption)
    readers = _readers(layout)
    for stream in layout.streams:
        lines.append(f"\nstream {stream.name} (changes: {stream.changes or 'insert-only'})")
        lines += [f"  {line}" for kept in layout.kept_for(stream.name) for line in _kept(kept, readers)]
        lines.append(f"  update cost: {_touched(layout, stream.name)} words a row")
    lines.append("\nqueries")
    for planned in layout.queries:
        reads = "; ".join(f"{name}: {_reads(term)}" for name, term in planned.terms.items())
        method = planned.method if isinstance(planned.query, Query) else "distinct"
        if isinstance(planned.query, Query) and not planned.query.links:
            method = "exact"
        lines.append(f"  {planned.name} [{method}] reads {reads}")
        lines.append(f"    {' '.join(planned.query.text.split())}")
    for group in layout.windows:
        seconds, panes = group.window.slide / 1e6, group.window.panes
        lines.append(
            f"\nwindow of {panes} x {seconds:g} s: {panes + 1} panes, {group.nbytes:,} bytes; each pane:"
        )
        lines += [f"  {line}".rstrip() for line in explain(group.layout).splitlines()]
    return "\n".join(lines)


def describe(demand: Demand) -> str:
    """Return what a synopsis holds, in one line: the part of a plan that people compare."""
    parts: list[str] = [demand.family]
    if demand.keys:
        parts.append("on " + " x ".join(map(str, demand.keys)))
    if demand.measure is not None:
        parts.append(f"of {demand.measure.expression.text}")
    conditions = [f"{part.text} is not null" for part in demand.presence] + list(demand.predicates)
    if conditions:
        parts.append("where " + " and ".join(conditions))
    return " ".join(parts).replace("`", "")


def _kept(kept: Kept, readers: dict[str, list[str]]) -> list[str]:
    names = readers.get(kept.id)
    unread = "sample" if kept.demand.sample else "row count"
    used = f"read by {', '.join(names)}" if names else unread
    return [f"{kept.id}: {describe(kept.demand)}", f"  {_shape(kept)}, {kept.nbytes:,} bytes, {used}"]


def _shape(kept: Kept) -> str:
    spec = kept.spec
    if spec.words == 1:
        return "one exact counter"
    if isinstance(spec, DistinctSpec | PeelingSpec | JoinDistinctSpec):
        return f"{spec.levels} levels of {spec.cells:,} cells"
    shape = f"{getattr(spec, 'depth', 1)} x {getattr(spec, 'width', spec.words):,} counters"
    return f"{shape} and {kept.candidates.slots:,} candidate keys" if kept.candidates else shape


def _reads(term: Term) -> str:
    """Return the synopses of a term: sketches multiplied, parts added, samples beside them."""
    sketches = " + ".join(" x ".join(part) for part in term.sketches)
    return f"{sketches} and samples {' x '.join(term.samples)}" if term.samples else sketches


def _readers(layout: Layout) -> dict[str, list[str]]:
    readers: dict[str, list[str]] = {}
    for planned in layout.queries:
        for identifier in planned.ids:
            readers.setdefault(identifier, []).append(planned.name)
    return readers


def _touched(layout: Layout, stream: str) -> int:
    return sum(kept.spec.touched + (2 if kept.candidates else 0) for kept in layout.kept_for(stream))
