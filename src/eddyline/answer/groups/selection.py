"""HAVING, ORDER BY and LIMIT on groups that are known up to intervals.

A condition of HAVING certainly holds for a group, certainly does not, or is undecided: its interval lies on one
side or on both. LIMIT takes the first groups by their estimates; groups that no other group could displace are
certain.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.answer import notes
from eddyline.answer.estimate import Estimate, Number
from eddyline.answer.groups.table import EXACT, IN, SELECTED, UNDECIDED
from eddyline.sql.query import ENDS, HavingTest, Query

BoolArray = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


def select_groups(
    table: pa.Table, query: Query, *, whole: bool, rest: Mapping[str, Estimate]
) -> tuple[pa.Table, tuple[str, ...]]:
    """Return (the groups of the answer in its order, notes).

    whole: no group is missing from the table; rest: what the missing groups hold together, by aggregate.
    """
    about: list[str] = []
    certain = np.ones(table.num_rows, dtype=np.bool_)
    if query.having:
        possible = np.ones(table.num_rows, dtype=np.bool_)
        for test in query.having:
            holds, may = _decided(table, test.name, test)
            certain, possible = certain & holds, possible & may
        table, certain = table.filter(pa.array(possible)), certain[possible]
    if query.order:
        places = _ordered(table, query)
        table, certain = table.take(pa.array(places)), certain[places]
    if query.limit is not None and not whole and query.order:
        certain &= _first_for_sure(table, query, _unseen_ahead(table, query, rest))
    if query.limit is not None and table.num_rows > query.limit:
        certain &= _first_for_sure(table, query, np.zeros(table.num_rows))
        others = int((~certain[query.limit :] & _could_enter(table, query)[query.limit :]).sum())
        table, certain = table.slice(0, query.limit), certain[: query.limit]
        if others:
            about.append(notes.groups_near_the_limit(others))
    if query.having or query.limit is not None:
        column = np.where(certain, IN, UNDECIDED)
        table = table.append_column(SELECTED, pa.array(column.tolist(), pa.string()))
        if not whole:
            about.append(notes.GROUPS_NOT_SEEN)
    shown = [name for name in table.column_names if _is_shown(name, query)]
    return table.select(shown), tuple(about)


def _is_shown(name: str, query: Query) -> bool:
    hidden = [each for each in query.measures if each not in query.selected]
    hidden += [each.name for each in query.groups if each.name not in query.selected]
    return name not in {each + suffix for each in hidden for suffix in ("", *ENDS)}


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    """Return numbers, and dates and times as numbers in their order; NaN where there is no value."""
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)


def _ends(table: pa.Table, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of an aggregate of all groups; NaN where its value is NULL or not known."""
    there = np.asarray(pc.is_valid(table[name]))
    low, high = (np.where(there, _numbers(table[name + end]), np.nan) for end in ENDS)
    return low, high


def _decided(table: pa.Table, name: str, test: HavingTest) -> tuple[BoolArray, BoolArray]:
    """Return (where a condition certainly holds, where it may): neither for NULL; an unknown value may meet it."""
    low, high = _ends(table, name)
    has_value = np.asarray(table[name].is_valid())
    low = np.where(has_value & np.asarray(table[f"{name}_low"].is_null()), -np.inf, low)
    high = np.where(has_value & np.asarray(table[f"{name}_high"].is_null()), np.inf, high)
    number = test.number
    with np.errstate(invalid="ignore"):
        sure, may = {
            "<": (high < number, low < number),
            "<=": (high <= number, low <= number),
            ">": (low > number, high > number),
            ">=": (low >= number, high >= number),
            "=": ((low == number) & (high == number), (low <= number) & (high >= number)),
            "<>": ((low > number) | (high < number), ~((low == number) & (high == number))),
        }[test.comparison]
    known = ~np.isnan(low)
    exact = np.asarray(table["exact"].to_numpy(zero_copy_only=False), dtype=np.bool_)
    return sure & known, (may & known) | (~known & ~exact)


def _ordered(table: pa.Table, query: Query) -> np.ndarray:
    """Return the places of the groups in the order of the query; the sort is stable."""
    places = np.arange(table.num_rows)
    for part in reversed(query.order):
        column = table[part.name].take(pa.array(places))
        null = np.asarray(pc.is_null(column))
        filled = column.combine_chunks()
        ranks = pc.rank(filled, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
        ranks = -ranks if part.descending else ranks
        ranks = np.where(
            null, ranks.min(initial=0) - 1 if part.nulls_first else ranks.max(initial=0) + 1, ranks
        )
        places = places[np.argsort(ranks, kind="stable")]
    return places


def _ends_of_order(table: pa.Table, query: Query) -> tuple[np.ndarray, np.ndarray] | None:
    """Return (worst, best) sort values of the groups, the least first; None where the order is certain."""
    if not query.order or query.order[0].name not in query.measures or pc.all(table[EXACT]).as_py():
        return None
    first = query.order[0]
    low, high = _ends(table, first.name)
    low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    return (-low, -high) if first.descending else (high, low)


def _first_for_sure(table: pa.Table, query: Query, unseen: np.ndarray) -> BoolArray:
    """Return which groups are among the first, whatever the true values are within the intervals.

    unseen: how many groups outside the table may be ahead of each.
    """
    limit, ends = query.limit, _ends_of_order(table, query)
    assert limit is not None
    if ends is None:
        return np.asarray(np.arange(table.num_rows) + unseen < limit)
    worst, best = ends
    ahead = np.searchsorted(np.sort(best), worst, side="left") - (best < worst)
    return np.asarray(ahead + unseen < limit)


def _unseen_ahead(table: pa.Table, query: Query, rest: Mapping[str, Estimate]) -> np.ndarray:
    """Return how many groups outside the table may be ahead of each inside: any number, except for counts.

    The total rows of the missing groups limit how many of them can have more rows than a given group.
    """
    first = query.order[0]
    counts = [each.name for each in query.aggregates if each.aggregate.moment.is_count]
    most = rest[first.name].high if first.name in counts and first.descending else None
    if not isinstance(most, Number):
        return np.full(table.num_rows, np.inf)
    more = np.maximum(_numbers(table[f"{first.name}_low"]), 0.0) + 1.0
    return np.asarray(np.floor(max(float(most), 0.0) / more))


def _could_enter(table: pa.Table, query: Query) -> BoolArray:
    """Return which groups may be among the first."""
    ends = _ends_of_order(table, query)
    if ends is None:
        return np.zeros(table.num_rows, dtype=np.bool_)
    worst, best = ends
    assert query.limit is not None
    ahead = np.searchsorted(np.sort(worst), best, side="right") - (worst <= best)
    return np.asarray(ahead < query.limit)
