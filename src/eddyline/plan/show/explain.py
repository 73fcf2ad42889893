"""A plan as text: what is kept and shared, where its memory goes, and what can be asked ad hoc."""

from collections.abc import Iterator, Sequence

import msgspec

from eddyline.plan.decide.ad_hoc import readable_columns
from eddyline.plan.decide.elements import explores, later_tier
from eddyline.plan.decide.shapes import is_answered_whole_only
from eddyline.plan.demands import DEFAULT_METHOD
from eddyline.plan.layout import (
    Demand,
    Elements,
    Guaranteed,
    KeptSynopsis,
    Layout,
    PlannedQuery,
    PlannedSample,
    SketchedQuantity,
    WindowGroup,
)
from eddyline.plan.show.picture import Sharing, holds_of, readers_of, sharing_of
from eddyline.plan.statistics import held_of
from eddyline.sample.spec import DictionarySpec
from eddyline.sketch.counters import TotalSpec
from eddyline.sketch.distinct import DistinctSpec
from eddyline.sketch.dyadic import DyadicSpec
from eddyline.sketch.jd_sketch import JdSketchSpec
from eddyline.sketch.join_distinct import JoinDistinctSpec
from eddyline.sketch.peeling import PeelingSpec
from eddyline.sketch.two_level import TwoLevelSpec
from eddyline.sql.clauses import double_quoted_columns, quoted_column_note
from eddyline.types import Column

# What can be asked ad hoc of a stream sample, in a line for each explored stream.


_CODE_BYTES = 8
"""The most bytes that an element holds for a column; a column of few values takes 1, 2 or 4."""


def askable(sample: PlannedSample, layout: Layout) -> Iterator[str]:
    """Yield which columns of which stream ad hoc SQL may read, and on which links it may join."""
    joined = _joined_classes(sample)
    for stream in layout.streams:
        if not explores(sample, stream.name):
            continue
        kept = [
            (each, spec)
            for each, spec in zip(sample.kept, sample.spec.kept, strict=True)
            if each.stream == stream.name and each.tier == later_tier(sample)
        ]
        columns = sorted({name for each, _ in kept for name in readable_columns(each, stream)})
        links = dict.fromkeys(_links(each, spec) for each, spec in kept if joined & set(spec.classes))
        on = f", joined on {' or on '.join(links)}" if links else ""
        yield f"SQL that was not planned may read {', '.join(columns)} of {stream.name}{on}"


def column_costs(sample: PlannedSample, layout: Layout) -> Iterator[str]:
    """Yield for each explored stream the most that its columns cost, and which columns are not held."""
    for stream in layout.streams:
        if not explores(sample, stream.name):
            continue
        kept = [each for each in sample.kept if each.stream == stream.name]
        places = [readable_columns(each, stream) for each in kept]
        shown, missing = [], []
        for column in stream.columns:
            holders = [
                (each, held[column.name])
                for each, held in zip(kept, places, strict=True)
                if column.name in held
            ]
            if not holders:
                missing.append(f"{column.name} ({column.type})")
                continue
            texts = any(each.keys[place] in each.labelled for each, place in holders)
            shown.append(
                f"{column.name} {_CODE_BYTES * len(holders)}{' and each value once' if texts else ''}"
            )
        rest = f"; not held: {', '.join(missing)}" if missing else ""
        yield f"at most, in bytes of a row of {stream.name}: {', '.join(shown)}{rest}"


def _joined_classes(sample: PlannedSample) -> set[int]:
    """Return the link classes that planned queries join on."""
    return {
        link
        for shape in sample.spec.shapes
        if shape.kind != "set" and any(len(each.nodes) > 1 for each in shape.quantities.values())
        for link in shape.classes
    }


def _links(elements: Elements, spec: DictionarySpec) -> str:
    links = [key for key, link in zip(elements.keys, spec.classes, strict=True) if link >= 0]
    return " and ".join("(" + ", ".join(part.text.strip("`") for part in key.columns) + ")" for key in links)


# A plan as text: what is kept, which queries share it, and what each stream's rows cost.


def explain(
    layout: Layout, asked_error: float | None = None, *, informed: bool = True, pane: bool = False
) -> str:
    """Return the plan as text that fits a terminal: what is kept, which queries share it, what is expected."""
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
        lines += [f"  {line}" for line in column_costs(sample, layout)]
    lines.append("\nqueries")
    for planned in layout.queries:
        columns = [each for stream in planned.streams for each in layout.stream(stream).columns]
        lines += [f"  {line}" for line in _query(planned, columns, pane=pane)]
    lines += [
        f"  {planned.name} [window of {_window(group)}] reads the panes of {group.id}, below"
        for group in layout.windows
        for planned in group.layout.queries
    ]
    sharing = sharing_of(layout)
    lines += [
        f"  {' and '.join(apart.ids)} hold the same and are two: {apart.why}" for apart in sharing.apart
    ]
    if not pane and any(
        each.sample is None or each.method != DEFAULT_METHOD for each in layout.queries if each.quantities
    ):
        lines += _weights(sharing)
    for group in layout.windows:
        panes = f"{group.window.panes + 1} panes, {group.nbytes:,} bytes"
        lines.append(f"\nwindow of {_window(group)} ({group.id}): {panes}; each pane:")
        lines += [f"  {line}".rstrip() for line in explain(group.layout, pane=True).splitlines()]
    return "\n".join(lines)


def _weights(sharing: Sharing) -> Iterator[str]:
    """Yield how the memory of join sketches was divided: W and M of each query, and components of one size."""
    if not sharing.queries:
        return
    squared = "W / M, weight times expected squared error"
    least = {"average": f"sum of {squared}", "largest": f"largest of {squared}"}
    yield f"\nsketches of joins: sizes M for the least {least.get(sharing.objective, 'sum of W phi(M), phi as given')}"
    for each in sharing.queries:
        yield f"  {each.query}: W {each.weight:,.3g}, M {each.size:,} counters, W / M {each.weight / each.size:.2g}"
    for number, own in enumerate(sharing.components, 1):
        yield (
            f"  component {number}: {', '.join(own.sketches)}: one size, {own.size:,.0f} counters before rounding, "
            f"by {', '.join(own.queries)} (W {own.weight:,.3g} together)"
        )


def plan_json(layout: Layout) -> str:
    """Return a plan as JSON: its synopses, its queries with their decisions, and how sketches were shared."""
    readers = readers_of(layout)
    synopses = [
        {
            "id": kept.id,
            "stream": kept.stream,
            "holds": holds_of(kept),
            "shape": _shape(kept),
            "counters": kept.size,
            "nbytes": kept.nbytes,
            "readers": readers.get(kept.id, []),
        }
        for kept in layout.by_id.values()
    ]
    queries = [
        {
            "name": each.name,
            "sql": " ".join(each.query.text.split()),
            "method": each.method,
            "sample": each.sample,
            "reads": {name: list(quantity.sketches) for name, quantity in each.quantities.items()},
            "hash_slots": each.decision.hash_slots,
            "cells": [
                {"share": share, "predicates": cell}
                for share, cell in zip(
                    each.decision.shares, each.decision.parts, strict=bool(each.decision.parts)
                )
            ],
            "gain": each.decision.gain,
            "expected_error": each.expected_error,
            "guarantee": each.guarantee,
        }
        for each in layout.queries
    ]
    found = {
        "plan": layout.digest,
        "nbytes": layout.nbytes,
        "synopses": synopses,
        "samples": [{"id": each.id, "nbytes": each.spec.budget} for each in layout.samples],
        "queries": queries,
        "sharing": sharing_of(layout),
        "windows": {group.id: msgspec.json.decode(plan_json(group.layout)) for group in layout.windows},
    }
    return msgspec.json.encode(found).decode()


def _window(group: WindowGroup) -> str:
    return f"{group.window.panes} x {group.window.slide / 1e6:g} s"


def _query(planned: PlannedQuery, columns: Sequence[Column], *, pane: bool) -> Iterator[str]:
    """Yield a query's lines: how it is answered, from what, and how accurately (omitted for a pane).

    columns: those of all its streams.
    """
    reads = "; ".join(f"{name}: {_reads(quantity)}" for name, quantity in planned.quantities.items())
    method = planned.method
    if method == DEFAULT_METHOD and planned.query.is_distinct:
        method = "distinct"
    if planned.query.is_total:
        method = "exact"
    if planned.sample is not None:
        method = "exact while it fits" + (
            f", then {planned.method}" if planned.method != DEFAULT_METHOD else ""
        )
        reads = f"{planned.sample}; then with {reads}" if reads else planned.sample
    yield f"{planned.name} [{method}] reads {reads}"
    if planned.query.text:
        yield f"  {' '.join(planned.query.text.split())}"
    if planned.query.conditions:
        met = "; ".join(condition.written for condition in planned.query.conditions)
        yield f"  conditions between relations, whose columns the elements hold: {met}"
    for name in double_quoted_columns(planned.query.text, columns):
        yield f"  warning: {quoted_column_note(name)}"
    if not pane:
        yield from (f"  {line}" for line in sureness_of(planned))
    parts = max((len(quantity.sketches) for quantity in planned.quantities.values()), default=1)
    if parts > 1:
        yield from _cells(planned)


def _cells(planned: PlannedQuery) -> Iterator[str]:
    """Yield the cells of a partitioned join, their shares of each relation's words, and the expected gain."""
    decision = planned.decision
    gain = decision.gain
    shown = f", expected to need {gain:.1f} times less memory for the same error" if gain > 1 else ""
    yield f"  partitioned into {len(decision.parts)} parts by the histograms of its keys{shown}"
    for number, (cell, share) in enumerate(zip(decision.parts, decision.shares, strict=True), 1):
        where = "; ".join(dict.fromkeys(" AND ".join(each).replace("`", "") for each in cell if each))
        yield f"    part {number}, {share:.0%} of the words: {where}"


def sureness_of(planned: PlannedQuery) -> Iterator[str]:
    """Yield how large the expected error is."""
    error, shape = planned.expected_error, planned.shape
    if shape is not None and (shape.has_deep_sides or shape.groups_missing_keys):
        yield "warning: not answered once the data no longer fit: the optional side is then not known"
        return
    query = planned.query
    if planned.ad_hoc:
        yield "added to a running plan: answered from what is held for other queries, as if it had not been planned"
        return
    if shape is not None and is_answered_whole_only(query, shape):
        yield "warning: not answered once the data no longer fit: one column is used in two of its links"
        return
    if query.kind == "pairs" and not planned.quantities and shape is None:
        yield "warning: no memory for a synopsis of distinct pairs: not answered once the data no longer fit"
    elif error is None:
        yield "expected error: not known; the statistics saw no rows of this join, or fewer than their noise"
    elif error > 0 and planned.sample is not None:
        yield f"a guess for data that do not fit: within {_percent(error)} of the answer; the state's explain() knows"
    elif error > 0:
        yield f"expected error: {_percent(error)} of the answer, less where values are dense"
    if planned.guarantee is not None:
        yield from _guarantee(planned.guarantee)
    if error is not None and error > 1:
        yield "warning: the interval is expected to be wider than the answer; give it more memory"


def _guarantee(given: Guaranteed) -> Iterator[str]:
    """Yield what a guarantee costs, and what an interval of the same width costs without one."""
    yield (
        f"guaranteed: within {_percent(given.epsilon)} but for a chance of {given.delta:g} ({given.theorem}): "
        f"{given.nbytes:,} bytes; a calibrated interval as narrow is expected from {given.calibrated:,} bytes"
    )


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
        rest = " of keys that are not followed" if kept.unfollowed else ""
        yield f"    {kept.id}: {describe(kept.demand)}{rest}; {_shape(kept)}, {kept.nbytes:,} bytes"


def describe_sample(sample: PlannedSample) -> str:
    """Return what a stream sample holds, in one line: the part of a plan that people compare."""
    held = "; ".join(_elements(elements) for elements in sample.exact)
    return f"stream sample of {held}; {len(sample.sketches)} sketches"


def _elements(elements: Elements) -> str:
    keys = ", ".join(str(key) for key in elements.keys)
    flags = [" and ".join(f.predicates) or f"{f.presence[0].text} is not NULL" for f in elements.flags]
    shown = f" with {len(flags)} flags ({'; '.join(flags)})" if flags else ""
    sums = ", ".join(m.text if m.power == 1 or m.times else f"{m.text}^{m.power}" for m in elements.measures)
    return f"{elements.stream}: net counts{' and sums of ' + sums if sums else ''} by {keys}{shown}"


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


def _shape(kept: KeptSynopsis) -> str:  # noqa: PLR0911 - one for each kind
    spec = kept.spec
    if spec.words == 1:
        return "one exact counter"
    if isinstance(spec, DistinctSpec | PeelingSpec | JoinDistinctSpec):
        return f"{spec.levels} levels of {spec.cells:,} cells"
    if isinstance(spec, TwoLevelSpec):
        form = "time-efficient" if spec.spread else "independent"
        return f"{spec.copies:,} {form} 2-level sketches of {spec.levels} levels and {spec.key_bits} bits"
    if isinstance(spec, JdSketchSpec):
        return (
            f"{spec.copies:,} JD sketches of {spec.levels} levels, each of {spec.sketches} 2-level sketches of "
            f"{spec.b_levels} levels and {spec.key_bits} bits"
        )
    if isinstance(spec, TotalSpec):
        return f"one exact sum in {spec.words} words"
    shape = f"{getattr(spec, 'depth', 1)} x {getattr(spec, 'width', spec.words):,} counters"
    if isinstance(spec, DyadicSpec):
        shape += f" of {spec.number_words} words" if spec.number_words > 1 else ""
        levels = "leaves" if spec.is_scanned else f"{spec.bits} dyadic levels"
        return f"{levels} of {shape}, over {spec.bits}-bit keys"
    shape += f" of {spec.number_words} words" if spec.number_words > 1 else ""
    return f"{shape} and {kept.candidates.slots:,} candidate keys" if kept.candidates else shape


def _reads(quantity: SketchedQuantity) -> str:
    """Return the synopses of a quantity: sketches multiplied, parts added."""
    return " + ".join(" x ".join(part) for part in quantity.sketches)


# Where a plan's memory goes: which part takes how many bytes, and which queries share it.


class Share(msgspec.Struct, frozen=True):
    """A part of a plan's memory: what it holds, of which streams, its bytes, and the queries that read it."""

    id: str
    holds: str
    stream: str
    nbytes: int
    readers: tuple[str, ...]


def memory_of(layout: Layout) -> tuple[Share, ...]:
    """Return the shares of a plan's memory, whose bytes add up to `layout.nbytes`.

    A stream sample is one share of all its streams, which compete for it, plus one for each sketch that is kept
    next to it from the first overflow on. A window is one share, all its panes together.
    """
    readers = {name: tuple(queries) for name, queries in readers_of(layout).items()}
    shares = [_synopsis(kept, readers) for kept in layout.kept]
    for sample in layout.samples:
        shares.append(_share_of_sample(sample, layout))
        shares += [_synopsis(kept, readers) for kept in sample.sketches]
    return (*shares, *(_share_of_window(group) for group in layout.windows))


def _synopsis(kept: KeptSynopsis, readers: dict[str, tuple[str, ...]]) -> Share:
    return Share(kept.id, holds_of(kept), kept.stream, kept.nbytes, readers.get(kept.id, ()))


def _share_of_sample(sample: PlannedSample, layout: Layout) -> Share:
    keys = "; ".join(dict.fromkeys(str(key).replace("`", "") for each in sample.exact for key in each.keys))
    in_sketches = sum(kept.nbytes for kept in sample.sketches)
    readers = tuple(each.name for each in layout.queries if each.sample == sample.id)
    streams = ", ".join(dict.fromkeys(each.stream for each in sample.exact))
    return Share(sample.id, f"stream sample by {keys}", streams, sample.spec.budget - in_sketches, readers)


def _share_of_window(group: WindowGroup) -> Share:
    seconds, streams = group.window.slide / 1e6, ", ".join(each.name for each in group.layout.streams)
    holds = f"window of {group.window.panes} x {seconds:g} s, {group.window.panes + 1} panes"
    return Share(group.id, holds, streams, group.nbytes, tuple(group.layout.query_names))
