"""What is known of the cardinality of a set expression."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor

from eddyline.answer.estimate import Estimate


@dataclass(frozen=True)
class SetReading:
    """A cardinality with its interval; `witnesses` are sampled elements seen to be in the expression."""

    value: float
    low: float
    high: float
    exact: bool
    witnesses: int
    note: str | None = None

    def told(self, query: str, confidence: float, method: str, about: Sequence[str]) -> Estimate:
        """Return the estimate of a query from this reading, in whole numbers."""
        about = (*about, self.note) if self.note else tuple(about)
        value, low, high = round(self.value), floor(self.low), ceil(self.high)
        method = "exact" if self.exact else method
        return Estimate(query, value, low, high, confidence, method, exact=self.exact, notes=about)
