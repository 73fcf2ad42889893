"""Specs: what each demand becomes within its share of the budget.

All sketches of one kind share seeds, so that any two of them can be read together: a query that is asked
later is covered whenever its parts are.
"""

from collections.abc import Iterator
from functools import lru_cache

import msgspec

from eddyline.plan.layout import Demand, Place, SynopsisKind
from eddyline.plan.size.shapes import HINT_SHARE, MIN_DEPTH, MIN_WIDTH, shape_for
from eddyline.sketch.agms import AgmsSpec
from eddyline.sketch.candidates import CandidateSpec
from eddyline.sketch.distinct import DistinctSpec
from eddyline.sketch.hash_families import HashFamily, derive_seed
from eddyline.sketch.hash_sketch import HashSketchSpec, Use
from eddyline.sketch.join_distinct import JoinDistinctSpec
from eddyline.sketch.peeling import PeelingSpec
from eddyline.sketch.synopsis import Spec
from eddyline.sketch.total import TotalSpec

SMALLEST_HASH = MIN_DEPTH * MIN_WIDTH * HINT_SHARE // (HINT_SHARE - 1)
MOST_DISTINCT = 1 << 30
STEPPED = ("join-distinct", "distinct")
"""Families that come in powers of two, the largest first."""


class PlanSettings(msgspec.Struct, frozen=True):
    """What a workload may cost and how it hashes."""

    budget: int
    seed: int = 0
    confidence: float = 0.95
    hash: HashFamily = "mix"
    max_distinct: int = MOST_DISTINCT
    samples: bool = True


def least_words(demand: Demand, settings: PlanSettings) -> int:
    """Return the words of the smallest synopsis that satisfies a demand."""
    if demand.kind == "total":
        return 1 if demand.measure is None else demand.measure.words
    if demand.kind == "peeling":
        return PeelingSpec.for_sample(demand.sample, settings.max_distinct, 0).words
    if demand.kind == "distinct":
        return DistinctSpec.for_error(settings.max_distinct, 0.99, 0).words
    if demand.kind == "join-distinct":
        return JoinDistinctSpec.for_error(0.99, settings.max_distinct, 0).words
    return SMALLEST_HASH * number_words(demand)


def number_words(demand: Demand) -> int:
    """Return how many words a sketch takes of what it adds up."""
    return 1 if demand.measure is None else demand.measure.sketched_words


def words_per_size(demand: Demand, *, skimmed: bool) -> float:
    """Return how many times the words of a sketch of counts one takes: its counters for each word, candidates once.

    So equal sizes have equal shapes and equal candidates, whatever is added up, and errors of a quotient cancel.
    """
    words = number_words(demand)
    return words - (words - 1) / HINT_SHARE if skimmed and demand.kind == "hash" else words


@lru_cache(maxsize=64)
def step_words(kind: SynopsisKind, most: int) -> tuple[int, ...]:
    """Return the sizes in words, rising, that a kind in steps comes in."""
    if kind == "distinct":
        specs = [DistinctSpec.sized(1 << power, most, 0).words for power in range(6, 22)]
    else:
        specs = [JoinDistinctSpec.sized(3 << power, most, 0).words for power in range(6, 19)]
    return tuple(sorted(set(specs)))


def spec_for(demand: Demand, words: int, settings: PlanSettings) -> Spec:
    """Return the largest spec of a demand's kind within so many words."""
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
    width, depth = shape_for(each)
    seeds = tuple(seed for seed, _ in functions)
    return HashSketchSpec(width, depth, seeds, settings.hash, _uses(functions), many)


def _functions(key: int, place: Place, settings: PlanSettings) -> Iterator[tuple[int, Use]]:
    """Yield the hash functions (seed, use) of a key: its link's bucket, and the signs of its place in the link.

    The members of a link stand in a row, and each neighbouring two share a sign family: all signs together
    are 1 where all keys are equal, and of mean 0 otherwise.
    """
    first, last = max(place.member - 1, 0), min(place.member, place.members - 2)
    yield derive_seed(settings.seed, "edge", place.slot), Use(key, bucket=True, sign=first == 0)
    for sign in range(max(first, 1), last + 1):
        yield derive_seed(settings.seed, "edge", place.slot, sign), Use(key, bucket=False)


def _uses(functions: list[tuple[int, Use]]) -> tuple[Use, ...]:
    """Return the uses of a sketch's functions, nothing where they are the plain ones."""
    uses = tuple(use for _, use in functions)
    return () if uses == tuple(Use(key) for key in range(len(uses))) else uses


def candidates_for(demand: Demand, words: int, settings: PlanSettings) -> CandidateSpec:
    """Return the candidate table of a skimmed sketch that may take so many words together."""
    seed = derive_seed(settings.seed, "candidates")
    size = int(words / words_per_size(demand, skimmed=True))
    return CandidateSpec.within(size // HINT_SHARE, seed, len(demand.keys))
