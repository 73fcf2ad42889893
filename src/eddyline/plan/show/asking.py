"""What can be asked of a stream sample beyond the queries that were planned, in a line for each explored stream."""

from collections.abc import Iterator

from eddyline.plan.decide.ad_hoc import readable_columns
from eddyline.plan.decide.exploring import explores
from eddyline.plan.layout import Elements, Layout, PlannedSample
from eddyline.sample.spec import DictionarySpec


def askable(sample: PlannedSample, layout: Layout) -> Iterator[str]:
    """Yield which columns of which stream SQL may read that was not planned, and on which links it may join."""
    joined = _joined_classes(sample)
    for stream in layout.streams:
        if not explores(sample, stream.name):
            continue
        kept = [
            (each, spec)
            for each, spec in zip(sample.kept, sample.spec.kept, strict=True)
            if each.stream == stream.name
        ]
        columns = sorted({name for each, _ in kept for name in readable_columns(each, stream)})
        links = dict.fromkeys(_links(each, spec) for each, spec in kept if joined & set(spec.classes))
        on = f", joined on {' or on '.join(links)}" if links else ""
        yield f"SQL that was not planned may read {', '.join(columns)} of {stream.name}{on}"


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
