"""Aggregates that need the single values of a group: distinct counts, quantiles, MIN and MAX.

They are not functions of sums: a sample holds values, and each aggregate reads them in its own way. This module has
what they share: what their answer is, the answer for no rows, and the message where it is not known.
"""

from dataclasses import dataclass
from typing import Literal

Reading = Literal["tuples", "quantile", "extreme"]
"""How the values of a group are read: counted, ranked, or compared."""


@dataclass(frozen=True)
class ValueAggregate:
    """An aggregate of single values.

    reading: how it reads them. returns_value: the answer is a value of the column itself, in its type. between: a
    quantile may lie between two values. largest: for an extreme, whether it is the largest. of_nothing: the answer
    for no rows. instead: for an extreme, the share of the quantile to ask for where a sample does not hold all
    rows.
    """

    name: str
    reading: Reading
    returns_value: bool = True
    between: bool = False
    largest: bool = False
    of_nothing: int | None = None
    instead: str = ""

    @property
    def counts(self) -> bool:
        """Whether the answer is a number of values, whatever their type."""
        return self.reading == "tuples"

    @property
    def needs_all(self) -> bool:
        """Whether it is known only while all rows are held."""
        return self.reading == "extreme"

    def not_known(self, name: str, *, has_quantiles: bool) -> str:
        """Return why an extreme is not known once rows are sampled, and what to ask instead."""
        ask = f"ask PERCENTILE_APPROX(..., {self.instead}), or " if has_quantiles else ""
        return (
            f"{name} is not known: not all rows fit the stream sample any more, and a sample does not know the "
            f"{self.name.upper()} of what it does not hold: {ask}plan with a larger budget."
        )


VALUES: tuple[ValueAggregate, ...] = (
    ValueAggregate("distinct", "tuples", returns_value=False, of_nothing=0),
    ValueAggregate("quantile", "quantile"),
    ValueAggregate("percentile", "quantile", returns_value=False, between=True),
    ValueAggregate("min", "extreme", instead="0.001"),
    ValueAggregate("max", "extreme", largest=True, instead="0.999"),
)
