"""What is known of the cardinality of a set expression."""

from dataclasses import dataclass
from math import sqrt

from eddyline.answer.joins.row_estimates import two_sided_z

FEW_WITNESSES = 30
_MARGIN = 1.03  # because the variance is itself estimated: keeps every setting of the figure above 93%


@dataclass(frozen=True)
class SetReading:
    """A cardinality with its interval; `witnesses` are sampled elements seen to be in the expression."""

    value: float
    low: float
    high: float
    exact: bool
    witnesses: int
    note: str | None = None


def few_witnesses(number: int) -> str | None:
    """Return the note that an estimate owes its reader when it rests on few witnesses."""
    if number >= FEW_WITNESSES:
        return None
    return (
        f"this estimate rests on {number} witnesses: the expression is a small share of the union of its "
        "streams; more memory narrows the interval."
    )


def relative_interval(value: float, variance: float, confidence: float) -> tuple[float, float]:
    """Return the interval of a value whose relative variance is known at the truth: skewed upwards, as the
    variance of a count grows with it.
    """  # noqa: D205
    z = _MARGIN * two_sided_z(confidence)
    shift, half = z**2 * variance / 2, z * sqrt(variance + z**2 * variance**2 / 4)
    return max(0.0, value * (1 + shift - half)), value * (1 + shift + half)
