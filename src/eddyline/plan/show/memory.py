"""Where a plan's memory goes: who holds how many bytes, and which queries share them."""

import msgspec

from eddyline.plan.layout import KeptSynopsis, Layout, PlannedSample, WindowGroup
from eddyline.plan.show.picture import holds_of, readers_of


class Share(msgspec.Struct, frozen=True):
    """A part of a plan's memory: what it holds, of which stream or streams, its bytes, and the queries that read it."""

    id: str
    holds: str
    stream: str
    nbytes: int
    readers: tuple[str, ...]


def memory_of(layout: Layout) -> tuple[Share, ...]:
    """Return the shares of a plan's memory, whose bytes add up to `layout.nbytes`.

    A stream sample is a share of all its streams, which compete for it, and one for each sketch that
    stands beside it from the first overflow on. A window is one share, all its panes together.
    """
    readers = {name: tuple(queries) for name, queries in readers_of(layout).items()}
    shares = [_synopsis(kept, readers) for kept in layout.kept]
    for sample in layout.samples:
        shares.append(_sample(sample, layout))
        shares += [_synopsis(kept, readers) for kept in sample.sketches]
    return (*shares, *(_window(group) for group in layout.windows))


def _synopsis(kept: KeptSynopsis, readers: dict[str, tuple[str, ...]]) -> Share:
    return Share(kept.id, holds_of(kept), kept.stream, kept.nbytes, readers.get(kept.id, ()))


def _sample(sample: PlannedSample, layout: Layout) -> Share:
    keys = "; ".join(dict.fromkeys(str(key).replace("`", "") for each in sample.exact for key in each.keys))
    beside = sum(kept.nbytes for kept in sample.sketches)
    readers = tuple(each.name for each in layout.queries if each.sample == sample.id)
    streams = ", ".join(dict.fromkeys(each.stream for each in sample.exact))
    return Share(sample.id, f"stream sample by {keys}", streams, sample.spec.budget - beside, readers)


def _window(group: WindowGroup) -> Share:
    seconds, streams = group.window.slide / 1e6, ", ".join(each.name for each in group.layout.streams)
    holds = f"window of {group.window.panes} x {seconds:g} s, {group.window.panes + 1} panes"
    return Share(group.id, holds, streams, group.nbytes, tuple(group.layout.query_names))
