"""Checks whether a layout that was read is one that a plan could have made.

A layout comes with every state, from files that anybody can write. It determines how much memory is allocated and
which words are touched by the kernels, which check no bounds. So no part of it is used before it is checked.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from eddyline.errors import CorruptState, EddylineError, FormatVersion
from eddyline.kernels import doubles
from eddyline.plan.layout import (
    UNHASHED,
    KeptSynopsis,
    Layout,
    Measure,
    PlannedQuery,
    PlannedSample,
    as_first_written,
    layout_hash,
)
from eddyline.sample.spec import DictionarySpec, Regrouped, SampleSpec, Shape, View
from eddyline.sketch.agms import AgmsSpec
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sql.query import Key

_WORD = 1 << 64
_LOWEST = 3 * doubles.LOWEST


def check_layout(layout: Layout, content: object, digest: str) -> None:
    """Raise CorruptState for a layout that no plan makes, FormatVersion if its number format is no longer read.

    content: the layout as it was written, as plain values. digest: its hash at that time, if known.
    """
    try:
        check_measures(layout)
        if digest and digest not in _digests(content):
            raise CorruptState("the plan is not the one whose hash is stored next to it.")
        _check(layout)
    except (IndexError, KeyError, OverflowError, ValueError) as error:
        raise CorruptState(f"the plan contradicts itself: {error}.") from error


@contextmanager
def plan_that_was_read(*, decoded: bool) -> Iterator[None]:
    """Raise CorruptState if Python fails on a plan that came as bytes; decoded: whether it came as bytes.

    A forger can also compute the hash of a plan. The checks above protect memory, but they cannot find every plan
    that no workload makes: for example an index of a query that is too large, or SQL that cannot be parsed.
    """
    try:
        yield
    except (EddylineError, MemoryError):
        raise
    except Exception as error:
        if not decoded:
            raise
        raise CorruptState(
            f"the plan of this state does not fit what it keeps ({type(error).__name__}: {error}). If the file was "
            "damaged or changed, restore an earlier epoch or build the state again; if not, please report a bug."
        ) from error


def _digests(content: object) -> set[str]:
    """Return the hash of a layout as it was written, as this version and the first versions computed it."""
    if isinstance(content, dict) and isinstance(content.get("queries"), list):
        queries = [{**each, "expected_error": None} for each in content["queries"]]
        content = {name: each for name, each in content.items() if name not in UNHASHED} | {
            "queries": queries
        }
    return {layout_hash(content), layout_hash(as_first_written(content))}


def _check(layout: Layout) -> None:
    streams = {stream.name for stream in layout.streams}
    for kept in layout.by_id.values():
        if kept.stream not in streams or not _is_sound(kept):
            raise CorruptState(f"the plan keeps {kept.id!r}, which is not a valid synopsis.")
    for sample in layout.samples:
        if not _is_sound_sample(sample, streams):
            raise CorruptState(f"the plan keeps a sample {sample.id!r}, which is not valid.")
    for planned in layout.queries:
        _check_query(planned, layout, streams)
    for group in layout.windows:
        if group.window.panes < 1 or group.window.slide < 1:
            raise CorruptState(f"the windows {group.id!r} of the plan have length 0.")
        _check(group.layout)


def _check_query(planned: PlannedQuery, layout: Layout, streams: set[str]) -> None:
    """Raise CorruptState if a query reads something that the plan does not keep."""
    sample = next((each for each in layout.samples if each.id == planned.sample), None)
    if (
        not layout.by_id.keys() >= set(planned.ids)
        or not streams >= set(planned.streams)
        or (planned.sample is None) != (sample is None)
        or (planned.shape is not None and (sample is None or not _is_sound_shape(planned.shape, sample.spec)))
    ):
        raise CorruptState(f"the plan's query {planned.name!r} reads a synopsis that is not kept.")
    for detail in planned.details:
        _check_query(detail, layout, streams)


def _is_sound_shape(shape: Shape, spec: SampleSpec) -> bool:
    """Return whether a query reads only dictionaries and columns that its sample has."""
    sizes = {len(quantity.nodes) for quantity in shape.quantities.values()}
    nodes = [node for quantity in shape.quantities.values() for node in quantity.nodes]
    return (
        len(sizes) == 1
        and 0 not in sizes
        and all(0 <= link < len(spec.seeds) for link in shape.classes)
        and all(
            len(node.variables) == len(node.exact.keys)
            and len(node.roles) in (0, len(node.variables))
            and all(0 <= each < len(shape.classes) for each in node.variables)
            and _is_sound_view(node.exact, spec.exact)
            and (node.kept is None or _is_sound_view(node.kept, spec.kept))
            for node in nodes
        )
    )


def _is_sound_view(view: View, dictionaries: tuple[DictionarySpec, ...]) -> bool:
    if not 0 <= view.dictionary < len(dictionaries):
        return False
    held = dictionaries[view.dictionary]
    return (
        all(0 <= key < held.keys for key in (*view.keys, *view.groups))
        and all(0 <= flag < held.flags for flag in view.flags)
        and view.measure >= -1
        and view.number_words >= 1
        and view.measure + view.number_words <= held.measures
        and _LOWEST <= view.lowest <= 0
    )


def _is_sound(kept: KeptSynopsis) -> bool:
    """Return whether a synopsis reads only keys that its stream has, into counters that it has."""
    spec, reads = kept.spec, [0]
    if isinstance(spec, HashSketchSpec):
        reads = [use.key for use in spec.uses]
    elif isinstance(spec, AgmsSpec):
        reads = list(spec.reads)
    return (
        min(reads, default=0) >= 0
        and spec.edges <= max(len(kept.demand.keys), 0)
        and kept.number_words >= 1
        and (kept.candidates is None or 1 <= kept.candidates.edges <= len(kept.demand.keys))
    )


def _is_sound_sample(sample: PlannedSample, streams: set[str]) -> bool:
    """Return whether a sample's dictionaries match their columns, within the budgets of both stages."""
    spec = sample.spec
    parts = [*zip(sample.exact, spec.exact, strict=False), *zip(sample.kept, spec.kept, strict=False)]
    return (
        (len(sample.exact), len(sample.kept)) == (len(spec.exact), len(spec.kept))
        and len(spec.regrouped) == len(spec.kept)
        and all(0 <= seed < _WORD for seed in spec.seeds)
        and 0 <= spec.kept_budget + sum(kept.nbytes for kept in sample.sketches) <= spec.budget
        and all(
            each.stream in streams and _unlinked(each.spec({})) == _unlinked(held) for each, held in parts
        )
        and all(-1 <= link < len(spec.seeds) for _, held in parts for link in held.classes)
        and all(_is_sound_shape(shape, spec) for shape in spec.shapes)
        and all(_is_sound_rest(kept, sample) for kept in sample.sketches)
        and all(_fits(how, spec.exact, held) for how, held in zip(spec.regrouped, spec.kept, strict=True))
    )


def _is_sound_rest(kept: KeptSynopsis, sample: PlannedSample) -> bool:
    """Return whether a sketch of unfollowed keys has a dictionary of the followed ones, with the values to show."""
    if not kept.unfollowed:
        return not kept.has_labels
    source = sample.source(kept.demand)
    if source is None or kept.candidates is None or kept.demand.kind != "hash" or len(kept.demand.keys) != 1:
        return False
    held, links = sample.kept[source], sample.spec.kept[source].classes
    parts = {Key((part,)) for part in kept.demand.keys[0].columns} if kept.has_labels else set()
    return sum(link >= 0 for link in links) == 1 and parts <= set(held.keys)


def _unlinked(spec: DictionarySpec) -> DictionarySpec:
    return replace(spec, classes=(-1,) * spec.keys)


def _fits(how: Regrouped, sources: tuple[DictionarySpec, ...], made: DictionarySpec) -> bool:
    """Return whether a dictionary of the second stage takes columns that its source has."""
    if not 0 <= how.source < len(sources):
        return False
    source = sources[how.source]
    taken = ((how.keys, source.keys, made.keys), (how.flags, source.flags, made.flags))
    return all(
        len(columns) == wanted and all(0 <= each < held for each in columns)
        for columns, held, wanted in (*taken, (how.measures, source.measures, made.measures))
    )


def check_measures(layout: Layout) -> None:
    """Raise FormatVersion if FLOAT or DOUBLE measures are held in one word, rounded, as earlier versions did."""
    for group in layout.windows:
        check_measures(group.layout)
    for measure, words in _held_measures(layout):
        if words < measure.sketched_words:
            raise FormatVersion(
                f"this state holds sums of {measure.text}, a {measure.expression.type}, rounded to a few digits, as "
                "earlier versions wrote them. This version does not read such sums: rebuild the state, or read it "
                "with the "
                "release that wrote it."
            )


def _held_measures(layout: Layout) -> Iterator[tuple[Measure, int]]:
    """Yield each wide measure that is kept, and how many words hold it."""
    for kept in layout.by_id.values():
        if kept.demand.measure is not None and kept.demand.measure.is_wide:
            yield kept.demand.measure, kept.number_words
    for sample in layout.samples:
        for elements, spec in zip(sample.exact, sample.spec.exact, strict=True):
            yield from ((m, m.words if spec.wide else 1) for m in elements.measures if m.is_wide)
