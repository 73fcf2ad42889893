"""A plan as text: what is kept, who shares it, and what each stream's rows cost."""

from collections.abc import Iterator, Sequence

from eddyline.plan.decide.repeated_links import is_answered_whole_only
from eddyline.plan.layout import (
    Demand,
    Elements,
    KeptSynopsis,
    Layout,
    PlannedQuery,
    PlannedSample,
    SketchedQuantity,
    WindowGroup,
)
from eddyline.plan.show.asking import askable
from eddyline.plan.show.picture import could_not_share, readers_of
from eddyline.plan.statistics import held_of
from eddyline.sketch.distinct import DistinctSpec
from eddyline.sketch.join_distinct import JoinDistinctSpec
from eddyline.sketch.peeling import PeelingSpec
from eddyline.sketch.total import TotalSpec
from eddyline.sql.literals import double_quoted_columns, quoted_column_note
from eddyline.sql.query import GroupQuery, JoinDistinctQuery, Query
from eddyline.types import Column


def explain(
    layout: Layout, asked_error: float | None = None, *, informed: bool = True, pane: bool = False
) -> str:
    """Return the plan as a text that fits a terminal: what is kept, who shares it, what is expected."""
    counts = f"{len(layout.query_names)} queries on {len(layout.streams)} streams"
    lines = [f"plan {layout.digest[:12]}: {counts}, {layout.nbytes:,} bytes kept"]
    if asked_error is not None:
        lines.append(f"sized for a relative error of {asked_error:.2g} at {layout.confidence:.0%}")
    if not informed and any(
        planned.sample is None and planned.quantities and planned.expected_error != 0
        for planned in layout.queries
    ):
        lines.append(
            "no statistics: expected errors are those of joins as concentrated as self-joins; sparser joins will show "
            "wider intervals"
        )
    readers = readers_of(layout)
    for stream in layout.streams:
        lines.append(f"\nstream {stream.name} (changes: {stream.changes or 'insert-only'})")
        lines += [f"  {line}" for kept in layout.kept_for(stream.name) for line in _kept(kept, readers)]
        if not pane:
            lines.append(f"  update cost: {layout.update_cost(stream.name)} words a row")
    for sample in layout.samples:
        lines.append("")
        lines += [*_sample(sample), *(f"  {line}" for line in askable(sample, layout))]
    lines.append("\nqueries")
    for planned in layout.queries:
        columns = [each for stream in planned.streams for each in layout.stream(stream).columns]
        lines += [f"  {line}" for line in _query(planned, columns, pane=pane)]
    lines += [
        f"  {planned.name} [window of {_window(group)}] reads the panes of {group.id}, below"
        for group in layout.windows
        for planned in group.layout.queries
    ]
    for apart in could_not_share(layout):
        lines.append(f"  {' and '.join(apart.ids)} hold the same and are two: {apart.why}")
    for group in layout.windows:
        panes = f"{group.window.panes + 1} panes, {group.nbytes:,} bytes"
        lines.append(f"\nwindow of {_window(group)} ({group.id}): {panes}; each pane:")
        lines += [f"  {line}".rstrip() for line in explain(group.layout, pane=True).splitlines()]
    return "\n".join(lines)


def _window(group: WindowGroup) -> str:
    return f"{group.window.panes} x {group.window.slide / 1e6:g} s"


def _query(planned: PlannedQuery, columns: Sequence[Column], *, pane: bool) -> Iterator[str]:
    """Yield a query's lines: how it is answered, from what, and how well; of a pane, not how well.

    columns: of all its streams.
    """
    reads = "; ".join(f"{name}: {_reads(quantity)}" for name, quantity in planned.quantities.items())
    method = planned.method if isinstance(planned.query, Query) else "distinct"
    if isinstance(planned.query, Query) and not planned.query.links:
        method = "exact"
    if planned.sample is not None:
        method = "exact while it fits" + (f", then {planned.method}" if planned.method != "skimmed" else "")
        reads = f"{planned.sample}; then with {reads}" if reads else planned.sample
    yield f"{planned.name} [{method}] reads {reads}"
    if planned.query.text:
        yield f"  {' '.join(planned.query.text.split())}"
    if isinstance(planned.query, GroupQuery) and planned.query.conditions:
        met = "; ".join(condition.written for condition in planned.query.conditions)
        yield f"  conditions between relations, whose columns the elements hold: {met}"
    for name in double_quoted_columns(planned.query.text, columns):
        yield f"  warning: {quoted_column_note(name)}"
    if not pane:
        yield from (f"  {line}" for line in sureness_of(planned))
    parts = max((len(quantity.sketches) for quantity in planned.quantities.values()), default=1)
    if parts > 1:
        gain = planned.decision.gain
        told = f", expected to need {gain:.1f} times less memory for the same error" if gain > 1 else ""
        yield f"  partitioned into {parts} parts by the histograms of its keys{told}"


def sureness_of(planned: PlannedQuery) -> Iterator[str]:
    """Yield how large an error is expected."""
    error, shape = planned.expected_error, planned.shape
    if shape is not None and (shape.has_deep_sides or shape.groups_missing_keys):
        yield "warning: not answered once the data no longer fit, for a side that may be missing is then not known"
        return
    query = planned.query
    if planned.ad_hoc:
        yield "added to a running plan: answered from what is held for other queries, as if it had not been planned"
        return
    if shape is not None and isinstance(query, GroupQuery) and is_answered_whole_only(query, shape):
        yield "warning: not answered once the data no longer fit, for one column stands in two of its links"
        return
    if isinstance(query, JoinDistinctQuery) and not planned.quantities:
        yield "warning: no room for a synopsis of distinct pairs: not answered once the data no longer fit"
    elif error is None:
        yield "expected error: not known; the statistics saw no rows of this join, or fewer than their noise"
    elif error > 0 and planned.sample is not None:
        yield f"a guess for data that do not fit: within {_percent(error)} of the answer; the state's explain() knows"
    elif error > 0:
        yield f"expected error: {_percent(error)} of the answer, less where values are dense"
    if error is not None and error > 1:
        yield "warning: the interval is expected to be wider than the answer; give it more memory"


def _percent(error: float) -> str:
    return f"{100 * error:.2g}%" if error < 1 else f"{error:.2g} times"


def _sample(sample: PlannedSample) -> Iterator[str]:
    """Yield what a stream sample holds, in the first stage and in the second."""
    yield f"{sample.id}: stream sample, {sample.spec.budget:,} bytes, every answer exact while all elements fit"
    for elements in sample.exact:
        yield f"  {_elements(elements)}"
    sketches = sum(kept.nbytes for kept in sample.sketches)
    yield (
        f"  from the first overflow on: {len(sample.kept)} dictionaries of followed values, "
        f"{sample.spec.kept_budget:,} bytes, and {len(sample.sketches)} sketches, {sketches:,} bytes"
    )
    for kept in sample.sketches:
        yield f"    {kept.id}: {describe(kept.demand)}; {_shape(kept)}, {kept.nbytes:,} bytes"


def describe_sample(sample: PlannedSample) -> str:
    """Return what a stream sample holds, in one line: the part of a plan that people compare."""
    held = "; ".join(_elements(elements) for elements in sample.exact)
    return f"stream sample of {held}; {len(sample.sketches)} sketches"


def _elements(elements: Elements) -> str:
    keys = ", ".join(str(key) for key in elements.keys)
    flags = [" and ".join(f.predicates) or f"{f.presence[0].text} is not NULL" for f in elements.flags]
    told = f" with {len(flags)} flags ({'; '.join(flags)})" if flags else ""
    sums = ", ".join(
        m.expression.text if m.power == 1 else f"{m.expression.text}^{m.power}" for m in elements.measures
    )
    return f"{elements.stream}: net counts{' and sums of ' + sums if sums else ''} by {keys}{told}"


def describe(demand: Demand) -> str:
    """Return what a synopsis holds, in one line: the part of a plan that people compare."""
    slots = sorted({place.slot for place in demand.places})
    with_slots = f" by slot {' and '.join(map(str, slots))}" if any(slots) else ""
    return f"{demand.kind} {held_of(demand)}{with_slots}".strip()


def _kept(kept: KeptSynopsis, readers: dict[str, list[str]]) -> list[str]:
    names = readers.get(kept.id)
    unread = "sample" if kept.demand.sample else "row count"
    used = f"read by {', '.join(names)}" if names else unread
    return [f"{kept.id}: {describe(kept.demand)}", f"  {_shape(kept)}, {kept.nbytes:,} bytes, {used}"]


def _shape(kept: KeptSynopsis) -> str:
    spec = kept.spec
    if spec.words == 1:
        return "one exact counter"
    if isinstance(spec, DistinctSpec | PeelingSpec | JoinDistinctSpec):
        return f"{spec.levels} levels of {spec.cells:,} cells"
    if isinstance(spec, TotalSpec):
        return f"one exact sum in {spec.words} words"
    shape = f"{getattr(spec, 'depth', 1)} x {getattr(spec, 'width', spec.words):,} counters"
    shape += f" of {spec.number_words} words" if spec.number_words > 1 else ""
    return f"{shape} and {kept.candidates.slots:,} candidate keys" if kept.candidates else shape


def _reads(quantity: SketchedQuantity) -> str:
    """Return the synopses of a quantity: sketches multiplied, parts added."""
    return " + ".join(" x ".join(part) for part in quantity.sketches)
