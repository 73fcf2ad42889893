"""What values of a link add to groups, where most of them stand in most groups: by tables, a cell for each group.

One side of the link is a table of places and groups, made row by row; the other side's entries meet its rows. All sums
that are asked for are added up in the same pass, in two threads, each of which has half of the elements: always two, so
that the same state gives the same bits on every machine.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from eddyline.answer.interval import FloatArray
from eddyline.kernels.group_tables import add_table_moments
from eddyline.sample.carried import Carried
from eddyline.sample.group_tables import GroupTable
from eddyline.sample.sorting import MOST_CELLS, IntArray, numbered

LEAST_REST = 0.2
"""What is left of a count without one of its values is taken to be at least this share."""

_NUMBERS = 10
"""So many are held for each sum and group: moments, factors, shares."""


@dataclass(frozen=True)
class Asked:
    """A sum of quantities, by column, times factors, by group, of which is asked how sure it is.

    count: of a ratio, the quantity that it is divided by and its total in each group. A value's own part is taken off,
    as the estimate without that value would have it, and values without such rows tell nothing. owners: of so many
    (`number`), to which groups are added up, -1 for none; each is its own if there are none.
    """

    factors: Mapping[int, FloatArray]
    count: tuple[int, FloatArray] | None = None
    owners: IntArray | None = None
    number: int = 0


@dataclass(frozen=True)
class TableMoments:
    """What was added up of some groups: for each sum (variance, squares, third, largest, by themselves) by group.

    values, sampled: how many values of the link tell of each group, all and sampled ones, by sum.
    """

    groups: IntArray
    cells: FloatArray
    values: FloatArray
    sampled: FloatArray


def shares_of(totals: FloatArray) -> FloatArray:
    """Return one over each total, 0 where it is 0: of a group without a row that counts nothing is taken off."""
    return np.divide(1.0, totals, out=np.zeros(len(totals)), where=totals != 0.0)


def fits(entries: Carried, table: GroupTable, sums: int) -> bool:
    """Return whether there is room for what so many sums need to know of all groups that two sides of a link make."""
    others = 1 if entries.groups is None else len(entries.numbered[0])
    return _NUMBERS * sums * others * len(table.groups) <= MOST_CELLS


def table_moments(
    entries: Carried,
    table: GroupTable,
    scales: FloatArray,
    chances: FloatArray,
    asked: Sequence[Asked],
    groups: IntArray,
) -> TableMoments:
    """Return the moments of the groups that two sides of a link make.

    scales, chances: how often a value counts, and how likely it is to be missing. groups: the numbers of those that are
    shown, ascending.
    """
    starts, numbers, sums = entries.entries()
    known, codes = numbered(numbers)
    made = (known[:, None] + table.groups).reshape(-1)
    at = np.minimum(np.searchsorted(groups, made), len(groups) - 1)
    shown = groups[at] == made
    shape = (len(known), len(table.groups))
    packed = _packed(asked, at, shown, shape)

    def added(places: slice) -> tuple[FloatArray, FloatArray]:
        """Return the moments of the values at some places, and how many show each group."""
        moments, seen = np.zeros((len(asked), 5, *shape)), np.zeros((1 + len(asked), 2, *shape))
        ends = slice(places.start, places.stop + 1)
        add_table_moments(
            table.row_starts[ends],
            *table.parts[1:],
            starts[ends],
            codes,
            sums,
            scales[places],
            chances[places],
            *packed,
            LEAST_REST,
            np.empty((sums.shape[1], shape[1])),
            np.empty(shape[1]),
            np.empty(shape[1]),
            moments,
            seen,
        )
        return moments.reshape(len(asked), 5, -1)[:, :, shown], seen.reshape(1 + len(asked), 2, -1)[
            :, :, shown
        ]

    with ThreadPoolExecutor(2) as threads:
        (cells, seen), (others, seen_there) = threads.map(added, table.halves)
    largest = np.maximum(cells[:, 3], others[:, 3])
    cells, seen = cells + others, seen + seen_there
    cells[:, 3] = largest
    told = seen[[0 if each.count is None else 1 + number for number, each in enumerate(asked)]]
    return TableMoments(at[shown], cells, told.sum(axis=1), told[:, 1])


def _packed(
    asked: Sequence[Asked], at: IntArray, shown: np.ndarray, shape: tuple[int, int]
) -> tuple[IntArray, np.ndarray, FloatArray, IntArray, FloatArray]:
    """Return (columns, which are plain, factors, counted quantities, shares), as `add_table_moments` takes them."""
    most = max(len(each.factors) for each in asked)
    columns, counted = np.full((len(asked), most), -1), np.full(len(asked), -1)
    factors, shares = np.zeros((len(asked), most, *shape)), np.zeros((len(asked), *shape))
    for number, each in enumerate(asked):
        for part, (column, factor) in enumerate(each.factors.items()):
            columns[number, part] = column
            factors[number, part] = np.where(shown, factor[at], 0.0).reshape(shape)
        if each.count is not None:
            counted[number], totals = each.count
            shares[number] = np.where(shown, shares_of(totals)[at], 0.0).reshape(shape)
    plain = np.array([bool(np.all(next(iter(each.factors.values()), np.zeros(1)) == 1.0)) for each in asked])
    return columns, plain, factors, counted, shares
