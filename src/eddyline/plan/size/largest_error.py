"""Words for every synopsis so that the largest expected error is least, then the next largest, and so on.

The squared error of a query is its weight over the size of its smallest bundle. For one bound on the errors of all
queries, the sizes that it takes are known, and so is the least bound that the memory allows. Then some query cannot be
lowered any more: mostly one whose synopses come in steps, the next of which does not fit. It keeps its size, and the
bound of the others is lowered on; so a query that cannot gain takes nothing from those that can.

Paper: sharing, paragraphs 0082 and 0083. Deviation: they stop at the largest error, and know no synopses in steps.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from eddyline.plan.layout import Demand

_ROUNDS = 60  # halvings of the bound's logarithm: to about 1e-12 of it
_LOWER = 1e-6  # how much lower a bound is tried for a query alone
_LOWEST, _HIGHEST = 1e-18, 1e18

Steps = Callable[[Demand], Sequence[int] | None]
"""The sizes in which a synopsis comes, rising; None where it can have any."""


class Bundled(Protocol):
    """What is sized together: synopses with their words per unit of size."""

    @property
    def members(self) -> tuple[tuple[Demand, float], ...]:
        """The synopses, each with its words per unit of size."""


class Weighted(Protocol):
    """A query: its weight and what it reads."""

    @property
    def weight(self) -> float:
        """Its squared error times the size of its smallest bundle."""

    @property
    def bundles(self) -> Sequence[Bundled]:
        """What it reads."""


def minimise_errors_in_turn(
    readers: Sequence[Weighted], least: Mapping[Demand, int], words: int, steps: Steps
) -> dict[Demand, int]:
    """Return the words of every demand, at most `words` together: the largest error least, then the next.

    least: what each demand takes at least; together no more than `words`.
    """
    sizes = {demand: float(size) for demand, size in least.items()}
    active = list(readers)
    while active:
        bound = _least_bound(active, sizes, words, steps)
        for each in _stuck(active, sizes, bound, words, steps):
            sizes = _raised(sizes, [each], bound, steps)
            active.remove(each)
    return {demand: int(size) for demand, size in sizes.items()}


def _stuck(
    readers: Sequence[Weighted], sizes: Mapping[Demand, float], bound: float, words: int, steps: Steps
) -> list[Weighted]:
    """Return the readers whose error cannot be lowered below the bound that all of them reach, at least one.

    Where each could be lowered alone, but not all together, it is the one that would take most.
    """
    reached = _raised(sizes, readers, bound, steps)
    lower = bound * (1 - _LOWER)
    taken = [_total(_raised(reached, [each], lower, steps)) for each in readers]
    found = [
        each
        for each, total in zip(readers, taken, strict=True)
        if total > words or _at_its_largest(each, lower, steps)
    ]
    return found or [readers[max(range(len(readers)), key=lambda index: taken[index])]]


def _at_its_largest(reader: Weighted, bound: float, steps: Steps) -> bool:
    """Return whether a reader would need a synopsis larger than the largest that there is."""
    for bundle in reader.bundles:
        for demand, share in bundle.members:
            offered = steps(demand)
            if offered is not None and share * reader.weight / bound > offered[-1]:
                return True
    return False


def _least_bound(
    readers: Sequence[Weighted], sizes: Mapping[Demand, float], words: int, steps: Steps
) -> float:
    """Return the least squared error that all readers can have together, beside the sizes that stand."""
    low, high = _LOWEST, _HIGHEST
    for _ in range(_ROUNDS):
        middle = (low * high) ** 0.5
        if _total(_raised(sizes, readers, middle, steps)) <= words:
            high = middle
        else:
            low = middle
    return high


def _raised(
    sizes: Mapping[Demand, float], readers: Sequence[Weighted], bound: float, steps: Steps
) -> dict[Demand, float]:
    """Return the sizes, raised where a reader needs more for its squared error to be within the bound."""
    out = dict(sizes)
    for reader in readers:
        for bundle in reader.bundles:
            for demand, share in bundle.members:
                if demand in out:
                    wanted = _stepped(share * reader.weight / bound, steps(demand))
                    out[demand] = max(out[demand], wanted)
    return out


def _stepped(size: float, steps: Sequence[int] | None) -> float:
    """Return the first step of at least this size; the last where none is, which is as good as it gets."""
    if steps is None:
        return size
    return float(steps[min(bisect_left(steps, size), len(steps) - 1)])


def _total(sizes: Mapping[Demand, float]) -> float:
    return sum(sizes.values())
