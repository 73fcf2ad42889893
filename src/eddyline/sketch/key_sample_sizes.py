"""How large the levels of a key sample are, and how much they hold."""

from collections.abc import Sequence
from math import ceil, floor, log2

from eddyline.kernels.key_sample import FIELD_BITS, LARGE

SMALLEST_LEVEL, LARGEST_LEVEL, MOST_LEVELS = 32, 3 << 19, 34

_LOAD = 0.7  # elements per cell that peel, roughly
_SHRINK = 0.65  # with statistics a level has 2^-0.65 the cells for half the elements: slack grows
_TAIL = 0.1  # ... and no level has fewer cells than this share of the first
_GROWTH = 16  # ... and the last level can be read when the stream is so many times larger than expected
_UNKNOWN_SHRINK = 0.95  # without statistics levels are nearly equal: small streams are a little likelier


def cell_words(edges: int, *, wide: bool, bits: int) -> int:
    """Return the words of a cell: its multiplicity, and two slots of 30 bits, or one of 60, to a word."""
    return 1 + ceil((edges + wide) * bits / FIELD_BITS)


def capacity_of(words: int, edges: int, *, wide: bool = False, bits: int = 30) -> int:
    """Return how many elements, expected by statistics, a sample of so many words decodes with high chance.

    The first level is the fullest. A small one peels to a lower load (measured), and the number of its elements
    varies by chance: two standard deviations are left for that.
    """
    first = level_sizes(words // cell_words(edges, wide=wide, bits=bits), _known_shares(edges, _GROWTH))[0]
    if first < SMALLEST_LEVEL:
        return 0
    load = (0.79 if first >= LARGE else 0.72) - first**-0.5
    elements: float = load * first
    spare: float = 2 * elements**0.5
    return floor((elements - spare) / (1 - 0.5**edges))


def level_shares(cells: int, edges: int, elements: float | None, max_elements: int) -> list[float]:
    """Return the relative sizes of the levels."""
    if elements is not None:
        usual = _known_shares(edges, _GROWTH)
        expected = _LOAD * cells * usual[0] / sum(usual) / (1 - 0.5**edges)
        return usual if elements <= 1.2 * expected else _known_shares(edges, _GROWTH * elements / expected)
    levels = 1
    while levels < MOST_LEVELS and max_elements * 0.5 ** (edges * (levels - 1)) > _LOAD / 2 * cells / levels:
        levels += 1
    return [_UNKNOWN_SHRINK**level for level in range(levels)]


def level_sizes(cells: int, shares: Sequence[float]) -> tuple[int, ...]:
    """Return the cells of each level; the first one pays for those that would be too small."""
    later = [
        min(max(floor(cells * share / sum(shares)), SMALLEST_LEVEL), LARGEST_LEVEL) for share in shares[1:]
    ]
    return min(cells - sum(later), LARGEST_LEVEL), *later


def _known_shares(edges: int, growth: float) -> list[float]:
    """Return sizes of levels relative to the first, for as many elements as the first level allows."""
    elements = _LOAD / (1 - 0.5**edges)
    last = ceil(log2(growth * elements / (_LOAD * _TAIL)) / edges)
    return [max(0.5 ** (_SHRINK * edges * level), _TAIL) for level in range(last + 1)]
