"""All aggregates by name: an unknown name is an error, never an aggregate of another name.

Aggregates that are functions of sums have modules of their own. Aggregates of single values (distinct counts,
quantiles, MIN and MAX) are declared here: a sample holds values, and the answer code reads them in different ways.
Here is what they share: their answer, the answer for no rows, and the message if it is not known.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from eddyline.aggregates.moments import MOMENTS, Moment
from eddyline.aggregates.pairs import PAIRS
from eddyline.aggregates.skewness import SKEWNESS

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
            f"{name} is not known: not all rows fit the stream sample any more, and the {self.name.upper()} of the "
            f"missing rows is unknown: {ask}plan with a larger budget."
        )


VALUES: tuple[ValueAggregate, ...] = (
    ValueAggregate("distinct", "tuples", returns_value=False, of_nothing=0),
    ValueAggregate("quantile", "quantile"),
    ValueAggregate("percentile", "quantile", returns_value=False, between=True),
    ValueAggregate("min", "extreme", instead="0.001"),
    ValueAggregate("max", "extreme", largest=True, instead="0.999"),
)


_MOMENTS: dict[str, Moment] = {each.name: each for each in (*MOMENTS, *PAIRS, SKEWNESS)}
_VALUES: dict[str, ValueAggregate] = {each.name: each for each in VALUES}
_BY_SQL: dict[str, Moment] = {name: each for each in _MOMENTS.values() for name in each.sql_names}


def moment_named(name: str) -> Moment:
    """Return the aggregate of sums with this name."""
    found = _MOMENTS.get(name)
    if found is None:
        raise ValueError(f"{name!r} is not an aggregate of sums: they are {', '.join(_MOMENTS)}.")
    return found


def value_aggregate_named(name: str) -> ValueAggregate:
    """Return the aggregate of single values with this name."""
    found = _VALUES.get(name)
    if found is None:
        raise ValueError(f"{name!r} is not an aggregate of single values: they are {', '.join(_VALUES)}.")
    return found


def moment_of_sql(names: Iterable[str]) -> Moment | None:
    """Return the aggregate of sums that SQL knows by one of these names, or None."""
    return next((_BY_SQL[name] for name in names if name in _BY_SQL), None)


def written_names(*, sketched: bool = True) -> list[str]:
    """Return how SQL writes the aggregates of sums, one name each; sketched: also those that sketches answer."""
    return [each.written for each in _MOMENTS.values() if sketched or not each.is_sketched]
