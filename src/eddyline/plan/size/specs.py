"""From a budget or an error to sizes: the spec of each demand within its share."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from math import isinf, sqrt
from numbers import Integral

import msgspec
import scipy  # its subpackages are loaded when they are first used

from eddyline.errors import PlanError
from eddyline.plan.layout import Demand, Place, SynopsisKind
from eddyline.sketch.agms import AgmsSpec
from eddyline.sketch.candidates import CandidateSpec
from eddyline.sketch.counters import TotalSpec
from eddyline.sketch.distinct import DistinctSpec
from eddyline.sketch.dyadic import DyadicSpec
from eddyline.sketch.hash_sketch import HashSketchSpec, Use
from eddyline.sketch.jd_sketch import JdSketchSpec
from eddyline.sketch.join_distinct import JoinDistinctSpec
from eddyline.sketch.keys import HashFamily, derive_seed
from eddyline.sketch.peeling import PeelingSpec
from eddyline.sketch.synopsis import Spec
from eddyline.sketch.two_level import TwoLevelSpec

# Sizes: from a budget or an error to the shape of the sketches.


MIN_DEPTH = 7
MIN_WIDTH = 16
SMALL_WIDTH, SMALL_DEPTH = 8, 5
"""The least sketch of unfollowed keys of a join: it shows a key with a tenth of the rows of a relation."""
HINT_SHARE = 4
"""One in this many words of a skimmed sketch goes to its candidate table."""
HIGHEST_CONFIDENCE = 1 - 1e-12
"""Closer to 1 than this, the quantiles of a float are infinite."""

_UNITS = {"": 1, "B": 1}
for _letter, _power in (("K", 1), ("M", 2), ("G", 3)):
    _UNITS |= {_letter: 1_000**_power, f"{_letter}B": 1_000**_power, f"{_letter}IB": 1_024**_power}


def checked_confidence(confidence: float) -> float:
    """Return a valid confidence of intervals, or raise PlanError."""
    if not isinstance(confidence, int | float) or not 0.5 <= confidence <= HIGHEST_CONFIDENCE:
        raise PlanError(f"confidence={confidence!r} is not a number between 0.5 and 1, such as 0.95 or 0.99.")
    return confidence


def checked_most_distinct(most: int) -> int:
    """Return a valid max_distinct, or raise PlanError: hash words of 64 bits have no more levels."""
    if isinstance(most, bool) or not isinstance(most, Integral) or not 1 <= most <= 1 << 60:
        raise PlanError(f"max_distinct={most!r} is not a whole number from 1 to 2^60.")
    return int(most)


def parse_bytes(size: str | int) -> int:
    """Return a number of bytes from 64_000, "64 KB", "64K", "8 MB" or "1 MiB".

    >>> parse_bytes("8 MB")
    8000000
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(size))
    number = int(float(match[1]) * _UNITS.get(match[2].upper(), 0)) if match else 0
    if number <= 0:
        raise PlanError(
            f"budget {size!r} is not a size: write a number of bytes, or for example '64 KB' or '8 MB'."
        )
    return number


def shape_for(words: int) -> tuple[int, int]:
    """Return (width, depth) of the largest sketch within `words` words: a power of two by 7 to 13 rows.

    Below the smallest of these there is only the small sketch of unfollowed keys, with 5 to 13 rows.
    """
    if words < MIN_WIDTH * MIN_DEPTH:
        return SMALL_WIDTH, max(words // SMALL_WIDTH, SMALL_DEPTH)
    width = MIN_WIDTH
    while 2 * width * MIN_DEPTH <= words:
        width *= 2
    depth = min(words // width, 2 * MIN_DEPTH - 1)
    return width, depth


def two_sided_z(confidence: float) -> float:
    """Return the normal quantile that leaves (1 - confidence)/2 on either side."""
    return float(scipy.special.ndtri(0.5 + confidence / 2))


# Specs: what each demand becomes within its share of the budget.
#
# All sketches of one kind share seeds, so that any two of them can be read together: a later query is covered
# whenever its parts are.


SMALLEST_HASH = MIN_DEPTH * MIN_WIDTH * HINT_SHARE // (HINT_SHARE - 1)
LEAST_UNFOLLOWED = SMALL_WIDTH * SMALL_DEPTH * HINT_SHARE // (HINT_SHARE - 1)
MOST_DISTINCT = 1 << 30
STEPPED = ("join-distinct", "jd", "two-level-copies", "two-level", "distinct")
"""Families that come in steps, or whose synopses are read together at one size; the largest first."""
MOST_SCANNED_BITS = 16
"""The largest key domain in which every key is tested for density, without a hierarchy: 2^16 keys take 10 ms."""


class PlanSettings(msgspec.Struct, frozen=True):
    """What a workload may cost and how it hashes."""

    budget: int
    seed: int = 0
    confidence: float = 0.95
    hash: HashFamily = "mix"
    max_distinct: int = MOST_DISTINCT
    samples: bool = True


def least_words(demand: Demand, settings: PlanSettings) -> int:  # noqa: PLR0911 - one for each kind
    """Return the words of the smallest synopsis that satisfies a demand."""
    if demand.kind == "total":
        return 1 if demand.measure is None else demand.measure.words
    if demand.kind == "peeling":
        return PeelingSpec.for_sample(demand.sample, settings.max_distinct, 0).words
    if demand.kind == "distinct":
        return DistinctSpec.for_error(settings.max_distinct, 0.99, 0).words
    if demand.kind == "join-distinct":
        return JoinDistinctSpec.for_error(0.99, settings.max_distinct, 0).words
    if demand.kind in ("two-level", "two-level-copies", "jd"):
        return spec_for(demand, 0, settings).words
    if demand.kind == "dyadic":
        return (_dyadic_levels(demand) * MIN_DEPTH * MIN_WIDTH + 1) * number_words(demand)
    return SMALLEST_HASH * number_words(demand)


def _dyadic_levels(demand: Demand) -> int:
    """Return the levels of a dyadic hierarchy that are kept."""
    return 1 if demand.domain_bits <= MOST_SCANNED_BITS else demand.domain_bits


def number_words(demand: Demand) -> int:
    """Return how many words of its summed numbers a sketch takes."""
    return 1 if demand.measure is None else demand.measure.sketched_words


def words_per_size(demand: Demand, *, skimmed: bool) -> float:
    """Return the words of a sketch relative to one of counts: its counters for each word, candidates once.

    So equal sizes have equal shapes and equal candidates, whatever is summed, and errors of a quotient cancel.
    """
    words = number_words(demand)
    return words - (words - 1) / HINT_SHARE if skimmed and demand.kind == "hash" else words


@lru_cache(maxsize=64)
def step_words(kind: SynopsisKind, most: int, bits: int = 0) -> tuple[int, ...]:
    """Return the sizes in words, ascending, in which a kind in steps comes; bits: of the keys."""
    if kind in ("two-level", "two-level-copies"):
        spread = kind == "two-level"
        specs = [
            TwoLevelSpec.of_copies(1 << power, most, 0, bits, spread=spread).words for power in range(4, 21)
        ]
    elif kind == "jd":
        least = JdSketchSpec.within(0, most, 0, 0, bits).words
        specs = [least << power for power in range(12)]
    elif kind == "distinct":
        specs = [DistinctSpec.sized(1 << power, most, 0).words for power in range(6, 22)]
    else:
        specs = [JoinDistinctSpec.sized(3 << power, most, 0).words for power in range(6, 19)]
    return tuple(sorted(set(specs)))


def spec_for(demand: Demand, words: int, settings: PlanSettings) -> Spec:
    """Return the largest spec of a demand's kind within `words` words."""
    seed = derive_seed(settings.seed, demand.kind)
    match demand.kind:
        case "total":
            spec: Spec = TotalSpec(least_words(demand, settings))
        case "distinct":
            spec = DistinctSpec.for_budget(8 * words, settings.max_distinct, seed)
        case "peeling":
            spec = PeelingSpec.for_sample(demand.sample, settings.max_distinct, seed)
        case "join-distinct":
            spec = JoinDistinctSpec.for_budget(8 * words, settings.max_distinct, seed, demand.side)
        case "two-level" | "two-level-copies":
            spread = demand.kind == "two-level"
            plain = TwoLevelSpec.within(words, settings.max_distinct, seed, demand.domain_bits, spread=spread)
            spec = msgspec.structs.replace(plain, hash=settings.hash)
        case "jd":
            both = JdSketchSpec.within(words, settings.max_distinct, seed, demand.side, demand.domain_bits)
            spec = msgspec.structs.replace(both, hash=settings.hash)
        case _:
            spec = _sketch(demand, words, settings)
    return spec


def _sketch(demand: Demand, words: int, settings: PlanSettings) -> Spec:
    functions = [each for key, place in enumerate(demand.places) for each in _functions(key, place, settings)]
    many = number_words(demand)
    each = words // many
    if demand.kind == "agms":
        signs = [(seed, use.key) for seed, use in functions if use.sign]
        seeds, reads = tuple(seed for seed, _ in signs), tuple(key for _, key in signs)
        plain = reads == tuple(range(len(reads)))
        return AgmsSpec(each // MIN_DEPTH, MIN_DEPTH, seeds, reads=() if plain else reads, number_words=many)
    if demand.kind == "dyadic":
        levels = _dyadic_levels(demand)
        width, depth = shape_for((each - 1) // levels)
        seed = derive_seed(functions[0][0], "dyadic")
        scanned = levels == 1
        return DyadicSpec(demand.domain_bits, width, depth, seed, settings.hash, scanned, many)
    width, depth = shape_for(each)
    seeds = tuple(seed for seed, _ in functions)
    return HashSketchSpec(width, depth, seeds, settings.hash, _uses(functions), many)


def _functions(key: int, place: Place, settings: PlanSettings) -> Iterator[tuple[int, Use]]:
    """Yield the hash functions (seed, use) of a key: its link's bucket, and the signs of its place in the link.

    The members of a link are in a row, and each two neighbors share a sign family: the product of all signs
    is 1 if all keys are equal, and has mean 0 otherwise.
    """
    first, last = max(place.member - 1, 0), min(place.member, place.members - 2)
    seed = derive_seed(settings.seed, "cell", place.cell) if place.cell else settings.seed
    yield derive_seed(seed, "edge", place.slot), Use(key, bucket=True, sign=first == 0)
    for sign in range(max(first, 1), last + 1):
        yield derive_seed(seed, "edge", place.slot, sign), Use(key, bucket=False)


def _uses(functions: list[tuple[int, Use]]) -> tuple[Use, ...]:
    """Return the uses of a sketch's functions, nothing if they are the plain ones."""
    uses = tuple(use for _, use in functions)
    return () if uses == tuple(Use(key) for key in range(len(uses))) else uses


def candidates_for(demand: Demand, words: int, settings: PlanSettings) -> CandidateSpec:
    """Return the candidate table of a skimmed sketch that may take `words` words together with its table."""
    seed = derive_seed(settings.seed, "candidates")
    size = int(words / words_per_size(demand, skimmed=True))
    return CandidateSpec.within(size // HINT_SHARE, seed, len(demand.keys))


# The budget that an error requires, and the least budget of a plan.


LARGEST_BUDGET = 1 << 36
SMALLEST_BUDGET = 1 << 14
_STEP = 1.05


class OverBudget(PlanError):  # noqa: N818 - it says what is so
    """What is to be kept takes more than the budget."""


def least_budget(budget: int, plan_at: Callable[[int], object], most: int = LARGEST_BUDGET) -> int:
    """Return the smallest budget, to 5%, for a plan that does not fit `budget`; `most` if it fits none."""
    low, high = budget, 2 * max(budget, SMALLEST_BUDGET)
    while not _fits(plan_at, high) and high < most:
        low, high = high, 2 * high
    while high > _STEP * low:
        middle = (low + high) // 2
        low, high = (low, middle) if _fits(plan_at, middle) else (middle, high)
    return high


def _fits(plan_at: Callable[[int], object], budget: int) -> bool:
    try:
        plan_at(budget)
    except OverBudget:
        return False
    return True


def budget_for_error(error: float, errors_at: Callable[[int], Mapping[str, float]]) -> int:
    """Return the smallest budget, to 5%, at which every query is expected to reach a relative error.

    errors_at: the expected errors under a budget, by query. Raises PlanError with the query that requires too much.
    """
    if not 0 < error < 1:
        raise PlanError(f"error={error} is not a relative error between 0 and 1.")
    low, high = SMALLEST_BUDGET, SMALLEST_BUDGET
    while (worst := _worst(errors_at, high))[1] > error:
        if worst[0] and isinf(worst[1]):
            raise PlanError(
                f"by these statistics query {worst[0]!r} joins no rows, or fewer than their noise, so that there is "
                "no relative error to plan for: give a budget instead."
            )
        if high >= LARGEST_BUDGET:
            needed = high * (worst[1] / error) ** 2
            raise PlanError(
                f"no budget up to {LARGEST_BUDGET >> 30} GiB is expected to reach an error of {error:g} on query "
                f"{worst[0]!r}, which would take about {needed / 2**30:,.0f} GiB: drop the query, allow it a larger "
                "error, or give a budget instead."
            )
        low, high = high, 4 * high
    while high > _STEP * low:
        middle = int(sqrt(low * high))
        if _worst(errors_at, middle)[1] > error:
            low = middle
        else:
            high = middle
    return high


def _worst(errors_at: Callable[[int], Mapping[str, float]], budget: int) -> tuple[str, float]:
    """Return the query with the largest expected error; an empty name if the budget is too small for the plan."""
    try:
        errors = errors_at(budget)
    except PlanError:
        return "", float("inf")
    return max(errors.items(), key=lambda item: (item[1], item[0]), default=("", 0.0))
