"""Specs: what each demand becomes within its share of the budget.

All sketches of one family share seeds, so that any two of them can be read together: a query that is asked
later is covered whenever its parts are.
"""

from collections.abc import Iterable

import msgspec

from eddyline.errors import PlanError
from eddyline.plan.demands import Demand
from eddyline.plan.sizing import HINT_SHARE, MIN_DEPTH, MIN_WIDTH, shape_for, two_sided_z, words_for_error
from eddyline.sketch.agms import AgmsSpec
from eddyline.sketch.candidates import CandidateSpec
from eddyline.sketch.distinct import DistinctSpec
from eddyline.sketch.families import Family, derive_seed
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sketch.join_distinct import JoinDistinctSpec
from eddyline.sketch.peeling import PeelingSpec
from eddyline.sketch.synopsis import Spec
from eddyline.sketch.total import TotalSpec

SMALLEST_HASH = MIN_DEPTH * MIN_WIDTH * HINT_SHARE // (HINT_SHARE - 1)
MOST_DISTINCT = 1 << 30
STEPPED = ("join-distinct", "distinct")
"""Families that come in powers of two, the largest first."""


class Settings(msgspec.Struct, frozen=True):
    """What a workload may cost and how it hashes."""

    budget: int
    seed: int = 0
    confidence: float = 0.95
    hash: Family = "mix"
    max_distinct: int = MOST_DISTINCT


def least_words(demand: Demand, settings: Settings) -> int:
    """Return the words of the smallest synopsis that satisfies a demand."""
    if demand.family == "total":
        return 1
    if demand.family == "peeling":
        return PeelingSpec.for_sample(demand.sample, settings.max_distinct, 0).words
    if demand.family == "distinct":
        return DistinctSpec.for_error(settings.max_distinct, 0.99, 0).words
    if demand.family == "join-distinct":
        return JoinDistinctSpec.for_error(0.99, settings.max_distinct, 0).words
    return SMALLEST_HASH


def share_words(demands: Iterable[Demand], settings: Settings) -> dict[Demand, int]:
    """Return the words that each demand may take: exact counters and samples what they need, sketches equal shares.

    Some families come in powers of two, all of one size; what they leave over goes to the join sketches.
    """
    least = {demand: least_words(demand, settings) for demand in demands}
    left = settings.budget // 8
    if sum(least.values()) > left:
        raise PlanError(
            f"the workload keeps {len(least)} synopses, which take at least {8 * sum(least.values()):,} bytes, and "
            f"the budget is {settings.budget:,}: raise it to that, or drop queries."
        )
    shares = {demand: words for demand, words in least.items() if demand.family in ("total", "peeling")}
    left -= sum(shares.values())
    waiting = [demand for demand in least if demand not in shares]
    for family in STEPPED:
        group = [demand for demand in waiting if demand.family == family]
        if group:
            words = spec_for(group[0], max(left // len(waiting), least[group[0]]), settings).words
            shares.update(dict.fromkeys(group, words))
            left -= words * len(group)
            waiting = [demand for demand in waiting if demand.family != family]
    return shares | {demand: left // len(waiting) for demand in waiting}


def budget_for_error(error: float, demands: Iterable[Demand], settings: Settings) -> int:
    """Return the bytes in which each sketch is expected to reach a relative error on a favourable query.

    Favourable: a join as concentrated as a self-join, a set expression that is half of its union.
    """
    join = words_for_error(error, settings.confidence) * HINT_SHARE // (HINT_SHARE - 1)
    standard_error = error / two_sided_z(settings.confidence)
    distinct = DistinctSpec.for_error(settings.max_distinct, standard_error, 0, share=0.5).words
    pairs = JoinDistinctSpec.for_error(standard_error, settings.max_distinct, 0).words
    needed = {"hash": 2 * join, "agms": join, "distinct": distinct, "join-distinct": pairs}
    each = [needed.get(demand.family, least_words(demand, settings)) for demand in demands]
    shared = [words for words, demand in zip(each, demands, strict=True) if demand.family in needed]
    return 8 * (sum(each) - sum(shared) + len(shared) * max(shared, default=0))


def spec_for(demand: Demand, words: int, settings: Settings) -> Spec:
    """Return the largest spec of a demand's family within so many words."""
    if demand.family == "total":
        return TotalSpec()
    if demand.family == "distinct":
        return DistinctSpec.for_budget(
            8 * words, settings.max_distinct, derive_seed(settings.seed, "distinct")
        )
    if demand.family == "peeling":
        return PeelingSpec.for_sample(
            demand.sample, settings.max_distinct, derive_seed(settings.seed, "peeling")
        )
    if demand.family == "join-distinct":
        seed = derive_seed(settings.seed, "join-distinct")
        return JoinDistinctSpec.for_budget(8 * words, settings.max_distinct, seed, demand.side)
    seeds = tuple(derive_seed(settings.seed, "edge", index) for index in range(len(demand.keys)))
    if demand.family == "agms":
        return AgmsSpec(words // MIN_DEPTH, MIN_DEPTH, seeds)
    width, depth = shape_for(words)
    return HashSketchSpec(width, depth, seeds, settings.hash)


def candidates_for(words: int, settings: Settings) -> CandidateSpec:
    """Return the candidate table of a skimmed sketch that may take so many words together."""
    return CandidateSpec.within(words // HINT_SHARE, derive_seed(settings.seed, "candidates"))
