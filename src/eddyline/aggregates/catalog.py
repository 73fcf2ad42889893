"""All aggregates by name: an unknown name is an error, never an aggregate of another name."""

from collections.abc import Iterable

from eddyline.aggregates.moments import MOMENTS, Moment
from eddyline.aggregates.pairs import PAIRS
from eddyline.aggregates.skewness import SKEWNESS
from eddyline.aggregates.values import VALUES, ValueAggregate

_MOMENTS: dict[str, Moment] = {each.name: each for each in (*MOMENTS, *PAIRS, SKEWNESS)}
_VALUES: dict[str, ValueAggregate] = {each.name: each for each in VALUES}
_BY_SQL: dict[str, Moment] = {name: each for each in _MOMENTS.values() for name in each.sql_names}


def moment_named(name: str) -> Moment:
    """Return the aggregate of sums with this name."""
    found = _MOMENTS.get(name)
    if found is None:
        raise ValueError(f"{name!r} is not an aggregate of sums: there are {', '.join(_MOMENTS)}.")
    return found


def value_aggregate_named(name: str) -> ValueAggregate:
    """Return the aggregate of single values with this name."""
    found = _VALUES.get(name)
    if found is None:
        raise ValueError(f"{name!r} is not an aggregate of single values: there are {', '.join(_VALUES)}.")
    return found


def moment_of_sql(names: Iterable[str]) -> Moment | None:
    """Return the aggregate of sums that SQL knows by one of these names, or None."""
    return next((_BY_SQL[name] for name in names if name in _BY_SQL), None)


def written_names(*, sketched: bool = True) -> list[str]:
    """Return how SQL writes the aggregates of sums, one name each; sketched: also those that sketches answer."""
    return [each.written for each in _MOMENTS.values() if sketched or not each.is_sketched]
