"""Expected errors: how the relative variance of a query falls with the words of its synopses.

The variance of a sketched join is about the product of the self-join sizes over the words of a sketch; relative to
the square of the join size that is W / words, and W is the query's weight. Without statistics we assume that a join
is as concentrated as a self-join. Paper: sharing, W_Q = 8 Var[X_Q] / E[X_Q]^2.
"""

from collections.abc import Mapping, Sequence
from math import prod, sqrt

from eddyline.plan.demands import DEFAULT_METHOD, DecidedQuery, QuantityDemands, WorkloadQuery, links_of
from eddyline.plan.layout import Demand
from eddyline.plan.size.specs import MOST_SCANNED_BITS, PlanSettings, two_sided_z
from eddyline.plan.statistics import PlanningInputs, RelationStatistics, Statistics
from eddyline.sample.spec import DictionarySpec, SampleSpec
from eddyline.sketch.distinct import DistinctSpec
from eddyline.sketch.jd_sketch import JdSketchSpec
from eddyline.sketch.join_distinct import JoinDistinctSpec
from eddyline.sketch.two_level import TwoLevelSpec
from eddyline.sql.query import AnyQuery

FAVOURABLE = 2.0
"""The weight of a join that is as concentrated as a self-join: the row variance is then 2 J^2 / width."""
GUESSED_SPREAD = 4.0
"""The mean square of what a value adds to an answer over its squared mean, as guessed before data is seen."""
_DEPTH_SHARE = 1.2  # for rows and buckets that do not fill the words
_PROBE = 0.05  # a standard error at which kinds with sizes in steps are weighted


def query_weights(
    asked: Sequence[WorkloadQuery], known: PlanningInputs, settings: PlanSettings
) -> dict[str, float]:
    """Return W of each query."""
    return {each.name: sketch_weight(each, known.statistics, settings.max_distinct) for each in asked}


def sketch_weight(asked: WorkloadQuery, statistics: Statistics, most: int) -> float:
    """Return W of a query: its relative variance with sketches, times their words. Paper: sharing, W_Q."""
    query = asked.query
    if query.is_distinct and asked.method != DEFAULT_METHOD:
        demand = next(iter(asked.quantities.values())).whole[0]
        return _document_weight(demand, most)
    if query.kind == "set":
        return DistinctSpec.for_error(most, _PROBE, 0, share=0.5).words * _PROBE**2
    assert not query.is_table, "groups are answered by samples"
    if query.kind == "pairs":
        return JoinDistinctSpec.for_error(_PROBE, most, 0).words * _PROBE**2
    if not query.links:
        return FAVOURABLE
    known = [
        _quantity_weight(query, name, quantity, statistics) for name, quantity in asked.quantities.items()
    ]
    levels = max(_levels(quantity.whole[0]) for quantity in asked.quantities.values())
    return levels * max((each for each in known if each is not None), default=FAVOURABLE)


def _levels(demand: Demand) -> int:
    """Return how many sketches share the words of a demand: one for each level of a dyadic hierarchy."""
    scanned = demand.domain_bits <= MOST_SCANNED_BITS
    return demand.domain_bits if demand.kind == "dyadic" and not scanned else 1


def _document_weight(demand: Demand, most: int) -> float:
    """Return W of a set expression, or of a distinct count over a join, with the document's synopses.

    Of b copies, about b / 11 are not empty at the union's level, and about 0.13 b at the level of witnesses, half
    of them in an expression of half the union: the relative variances are 11 / b and 8 / b. Of s2 copies of JD
    sketches about one in eight has its bit set at the index that is read.
    """
    if demand.kind == "jd":
        spec = JdSketchSpec.within(0, most, 0, demand.side, demand.domain_bits)
        return 8 * spec.words / spec.copies
    copies = TwoLevelSpec.of_copies(256, most, 0, demand.domain_bits, spread=demand.kind == "two-level")
    return 19 * copies.words / copies.copies


def _quantity_weight(
    query: AnyQuery, name: str, quantity: QuantityDemands, statistics: Statistics
) -> float | None:
    size = quantity_size(query, name, quantity, statistics)
    found = [statistics.relation(demand) for demand in quantity.whole]
    if not size or any(each is None for each in found):
        return None
    # atomic sketches of several links repeat pairs of rows in their products: measured, figures/sharing.py
    crossed = 2.0 ** (len(query.links) - 1) if quantity.whole[0].kind == "agms" else 1.0
    return crossed * _DEPTH_SHARE * prod(each.self_join for each in found if each is not None) / size**2


def quantity_size(
    query: AnyQuery, name: str, quantity: QuantityDemands, statistics: Statistics
) -> float | None:
    """Return the size of a quantity: measured, else estimated from totals and numbers of values; None if unknown.

    The estimate is the product of the relations' totals over, for each link, the numbers of values of all its
    relations but the smallest. It assumes that values are spread evenly, and that those of the smaller side are
    among the larger's.
    """
    measured = statistics.size(query, name)
    if measured:
        return measured
    known = [statistics.relation(demand) for demand in quantity.whole]
    totals = [each.total if each is not None else None for each in known]
    if any(total is None for total in totals) or not _counted(known, quantity.whole):
        return None
    return _likely_size(query, known, [total for total in totals if total is not None])


def _counted(known: Sequence[RelationStatistics | None], relations: Sequence[Demand]) -> bool:
    """Return whether the number of values of every key of every relation is known."""
    return all(
        each is not None and len(each.distinct) == len(demand.keys)
        for each, demand in zip(known, relations, strict=True)
    )


def _likely_size(
    query: AnyQuery, known: Sequence[RelationStatistics | None], totals: Sequence[float]
) -> float:
    values: dict[int, list[float]] = {}
    for index, each in enumerate(known):
        for link, distinct in zip(
            links_of(query, index), each.distinct if each is not None else (), strict=True
        ):
            values.setdefault(link, []).append(max(distinct, 1.0))
    return prod(totals) / prod(prod(sorted(each)[1:]) for each in values.values())


def expected_of_sketches(
    decided: DecidedQuery, weight: float, sizes: Mapping[str, int], statistics: Statistics, confidence: float
) -> float | None:
    """Return the expected error of a query with sketches, None if it is not known; 0 for exact counters.

    It uses the variance before skimming, which can only lower it. weight: W of the query; sizes: the words of each
    synopsis. It is not known if the statistics saw no rows of the join, or fewer than their noise.
    """
    query = decided.asked.query
    if query.is_total:
        return 0.0
    if query.is_scalar and any(statistics.below_noise(query, name) for name in decided.quantities):
        return None
    words = min(
        sum(sizes[name] for name in {demand.id for demand in relation})
        for quantity in decided.quantities.values()
        for relation in zip(*quantity.parts, strict=True)
    )
    return two_sided_z(confidence) * sqrt(weight / words / decided.decision.gain)


def guessed_of_sample(links: int, sample: SampleSpec, confidence: float) -> float:
    """Return a guess of the error once a sample overflows: one value in each of its elements, all equal.

    Every link adds the variance of as many values as its share of the memory holds.
    """
    element = sum(8.0 * (spec.words + 1 + _sums(spec)) for spec in sample.kept)
    held = max(sample.kept_budget / element, 1.0)
    return two_sided_z(confidence) * sqrt(links * GUESSED_SPREAD / held)


def _sums(spec: DictionarySpec) -> float:
    """Return the sums of a dictionary in words: half of the digits of wide numbers are 0 or small."""
    return spec.measures - sum(words for _, words in spec.wide) / 2
