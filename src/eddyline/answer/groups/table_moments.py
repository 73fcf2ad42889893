"""What values of a link add to groups, where most of them stand in most groups: by tables, a cell for each group.

One side of the link is a table of places and groups, made for some places at a time; the other side's entries meet its
rows. All sums that are asked for are added up in the same pass.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eddyline.answer.interval import FloatArray
from eddyline.kernels.group_tables import add_table_moments
from eddyline.sample.carried import Carried
from eddyline.sample.group_tables import GroupTable
from eddyline.sample.sorting import IntArray, numbered

LEAST_REST = 0.2
"""What is left of a count without one of its values is taken to be at least this share."""
_CELLS = 1 << 17
"""Of a table that are made at once: few enough to stay in the processor's cache until they are read."""


@dataclass(frozen=True)
class Asked:
    """A sum of quantities, by column, times factors, by group, of which is asked how sure it is.

    count: a quantity and its total in each group, of which a value's own part is taken off, as the estimate without
    that value would have it. owners: of so many (`number`), to which groups are added up, -1 for none; each is its own
    if there are none.
    """

    factors: Mapping[int, FloatArray]
    count: tuple[int, FloatArray] | None = None
    owners: IntArray | None = None
    number: int = 0


@dataclass(frozen=True)
class TableMoments:
    """What was added up of some groups: for each sum (variance, squares, third, largest, by themselves) by group.

    values, sampled: how many values of the link show each group, all and sampled ones.
    """

    groups: IntArray
    cells: FloatArray
    values: FloatArray
    sampled: FloatArray


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
    columns, factors, counted, shares = _packed(asked, at, shown, shape)
    moments, seen = np.zeros((len(asked), 5, *shape)), np.zeros((2, *shape))
    step = max(_CELLS // (sums.shape[1] * shape[1]), 1)
    room, values, here = np.empty((step, sums.shape[1], shape[1])), *np.empty((2, shape[1]))
    for start in range(0, len(starts) - 1, step):
        part = room[: len(starts) - 1 - start]
        table.write(start, part)
        add_table_moments(
            starts[start : start + len(part) + 1],
            codes,
            sums,
            part,
            scales[start:],
            chances[start:],
            columns,
            factors,
            counted,
            shares,
            LEAST_REST,
            values,
            here,
            moments,
            seen,
        )
    cells, (all_values, sampled) = moments.reshape(len(asked), 5, -1), seen.reshape(2, -1)
    return TableMoments(at[shown], cells[:, :, shown], all_values[shown], sampled[shown])


def _packed(
    asked: Sequence[Asked], at: IntArray, shown: np.ndarray, shape: tuple[int, int]
) -> tuple[IntArray, FloatArray, IntArray, FloatArray]:
    """Return (columns, factors, counted quantities, shares) of sums as `add_table_moments` takes them."""
    most = max(len(each.factors) for each in asked)
    columns, counted = np.full((len(asked), most), -1), np.full(len(asked), -1)
    factors, shares = np.zeros((len(asked), most, *shape)), np.zeros((len(asked), *shape))
    for number, each in enumerate(asked):
        for part, (column, factor) in enumerate(each.factors.items()):
            columns[number, part] = column
            factors[number, part] = np.where(shown, factor[at], 0.0).reshape(shape)
        if each.count is not None:
            counted[number], totals = each.count
            with np.errstate(divide="ignore"):
                shares[number] = np.where(shown & (totals[at] != 0.0), 1.0 / totals[at], 0.0).reshape(shape)
    return columns, factors, counted, shares
