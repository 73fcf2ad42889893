"""The outlook of a plan: the error that each query is expected to have, and the budget that an error asks for."""

from collections.abc import Callable, Iterable, Mapping
from math import inf, isinf, sqrt

from eddyline.errors import PlanError
from eddyline.plan.decide.choices import choice_of
from eddyline.plan.demands import WorkloadQuery, quantities_of
from eddyline.plan.layout import KeptSynopsis, Layout, PlannedQuery, PlannedSample
from eddyline.plan.partition.partitioning import joint_gain
from eddyline.plan.partition.parts import MOST_PARTS, partitioning_of
from eddyline.plan.size.expected import sketch_weight
from eddyline.plan.size.shapes import two_sided_z
from eddyline.plan.statistics import Statistics
from eddyline.sql.query import JoinDistinctQuery, Query

LARGEST_BUDGET = 1 << 36
SMALLEST_BUDGET = 1 << 14
GUESSED_SPREAD = 4.0
"""The mean square of what a value adds to an answer over its squared mean, as guessed before data are seen."""
_STEP = 1.05
MOST_GAIN = float(MOST_PARTS**2)
"""Histograms in which nothing meets promise infinite gains; values that they do not show allow no more than this."""


def expected_errors(layout: Layout, statistics: Statistics, most: int) -> dict[str, float]:
    """Return for each query half the width of its interval that is expected, relative to the answer.

    By the variance before skimming, which can only lower it. Exact counters have none. Infinite stands for not
    known: the statistics saw no rows of the join, or fewer than their noise, or nothing is kept for it.
    """
    z = two_sided_z(layout.confidence)
    return {each.name: z * sqrt(_variance(each, layout, statistics, most)) for each in layout.queries}


def _variance(planned: PlannedQuery, layout: Layout, statistics: Statistics, most: int) -> float:
    query = planned.query
    if isinstance(query, Query) and not query.links:
        return 0.0
    if planned.sample is not None and not isinstance(query, JoinDistinctQuery):
        return _guess(planned, layout.sample(planned.sample))
    if not planned.quantities:
        return inf
    asked = WorkloadQuery(planned.name, query, planned.method)  # type: ignore[arg-type]
    quantities = quantities_of(query, asked.method, choice_of(planned, layout))
    if isinstance(query, Query) and any(statistics.below_noise(query, name) for name in quantities):
        return inf
    words = min(_sketch_words(layout, planned))
    variance = sketch_weight(query, quantities, statistics, most) / words
    return variance / _gain(planned, asked, statistics, words) if isinstance(query, Query) else variance


def _guess(planned: PlannedQuery, sample: PlannedSample) -> float:
    """Return a guess of the variance once a sample overflows: one value in each of its elements, all alike.

    Every link adds the variance of as many values as its share of the memory holds.
    """
    element = sum(8.0 * (spec.words + 1 + spec.measures) for spec in sample.spec.kept)
    held = max(sample.spec.kept_budget / element, 1.0)
    links = len(planned.shape.classes) if planned.shape is not None else 1
    return links * GUESSED_SPREAD / held


def partition_gains(layout: Layout, statistics: Statistics) -> dict[str, float]:
    """Return for each partitioned query how many times less memory its parts are expected to need."""
    found = {}
    for each in layout.queries:
        if any(len(quantity.sketches) > 1 for quantity in each.quantities.values()):
            asked = WorkloadQuery(each.name, each.query, each.method)  # type: ignore[arg-type]
            found[each.name] = _gain(each, asked, statistics, min(_sketch_words(layout, each)))
    return found


def _gain(planned: PlannedQuery, asked: WorkloadQuery, statistics: Statistics, words: int) -> float:
    if all(len(quantity.sketches) == 1 for quantity in planned.quantities.values()):
        return 1.0
    parts = partitioning_of(asked, statistics, words)
    return min(joint_gain(parts), MOST_GAIN) if parts is not None else 1.0


def _sketch_words(layout: Layout, planned: PlannedQuery) -> Iterable[int]:
    """Yield the words of each relation's sketches, all its parts together."""
    for quantity in planned.quantities.values():
        for relation in zip(*quantity.sketches, strict=True):
            kept: dict[str, KeptSynopsis] = {name: layout.by_id[name] for name in relation}
            yield sum(each.spec.words for each in kept.values())


def budget_for_error(error: float, errors_at: Callable[[int], Mapping[str, float]]) -> int:
    """Return the smallest budget, to 5%, at which every query is expected to reach a relative error.

    errors_at: the expected errors under a budget, by query. Raises PlanError with the query that asks too much.
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
    """Return the query with the largest expected error; a budget too small for the plan at all has none."""
    try:
        errors = errors_at(budget)
    except PlanError:
        return "", float("inf")
    return max(errors.items(), key=lambda item: (item[1], item[0]), default=("", 0.0))
