"""The budget that an error asks for, and the one that a plan takes at least."""

from collections.abc import Callable, Mapping
from math import isinf, sqrt

from eddyline.errors import PlanError

LARGEST_BUDGET = 1 << 36
SMALLEST_BUDGET = 1 << 14
_STEP = 1.05


class OverBudget(PlanError):  # noqa: N818 - it says what is so
    """What is to be kept takes more than the budget."""


def least_budget(budget: int, plan_at: Callable[[int], object]) -> int:
    """Return a budget, to 5% the smallest, that a plan fits which does not fit a smaller one."""
    low, high = budget, 2 * max(budget, SMALLEST_BUDGET)
    while not _fits(plan_at, high) and high < LARGEST_BUDGET:
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
