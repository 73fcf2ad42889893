"""How far FLOAT and DOUBLE may be off because what is held of them ends somewhere: `kernels.doubles` says where.

Numbers are cut off below 2^-120. That shows only where they are nearly as small themselves; an exact answer knows
whether any was cut off, and estimates allow for it always.
"""

from math import prod

import numpy as np

from eddyline.answer.interval import FloatArray, Interval
from eddyline.ingest.snapshot import Snapshot
from eddyline.kernels.doubles import LOWEST
from eddyline.plan.layout import Demand
from eddyline.sql.query import Query

_LARGEST_FACTOR = 2.0**63
"""No measure is larger, whatever its type."""


def widened(query: Query, interval: Interval, rows: float) -> Interval:
    """Return an interval of an aggregate that allows for digits cut off; rows: that are aggregated, at most."""
    if not may_be_cut_off(query):
        return interval
    low, high = widened_ends(query, np.array([interval.low]), np.array([interval.high]), np.array([rows]))
    return Interval(interval.value, float(low[0]), float(high[0]))


def widened_ends(
    query: Query, lows: FloatArray, highs: FloatArray, rows: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of an aggregate of many groups that allow for digits cut off.

    A standard deviation moves by no more than that of what is cut off, a variance from its square to another.
    """
    function, most = query.aggregate.function, _cut_off(query)
    if function == "sum":
        half = most * np.maximum(np.abs(rows), 1.0)
    elif function == "avg":
        half = np.full(len(lows), most)
    else:
        half = np.full(len(lows), 2.0 * most)
        if function.startswith("var"):
            half = 2.0 * half * (np.sqrt(np.maximum(highs, 0.0)) + half)
    lows, highs = np.nextafter(lows - half, -np.inf), np.nextafter(highs + half, np.inf)
    return (lows if function in ("sum", "avg") else np.maximum(lows, 0.0)), highs


def may_be_cut_off(query: Query) -> bool:
    """Return whether an aggregate adds up FLOAT or DOUBLE."""
    return query.aggregate.function != "count" and _cut_off(query) > 0.0


def _cut_off(query: Query) -> float:
    """Return the most that is cut off a joined row's measure: of each FLOAT factor, times the others."""
    factors = query.aggregate.factors
    wide = sum(factor.expression.type.is_float for factor in factors)
    return float(wide * 2.0**LOWEST * _LARGEST_FACTOR ** (len(factors) - 1))


def most_rows(snapshot: Snapshot, query: Query) -> float:
    """Return how many rows a join has at most, by the exact numbers of rows of its streams."""
    by_demand = {kept.demand: kept.id for kept in snapshot.layout.kept}
    names = [by_demand[Demand(relation.stream, "total")] for relation in query.relations]
    return prod(1.0 + abs(snapshot.total(name)) for name in names)
