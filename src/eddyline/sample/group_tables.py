"""What a relation sends to a link as a table: for every place a row, with a cell for every quantity and group.

Where groups have little to do with keys, nearly every value of a link stands in nearly every group. Entries would then
name group after group at every place; cells need no names, and are added up row by row.
"""

from dataclasses import dataclass
from math import prod

import numpy as np

from eddyline.kernels.group_tables import add_to_table
from eddyline.sample.carried import Carried
from eddyline.sample.sorting import FEW, MOST_CELLS, BoolArray, IntArray, numbered

MOST_GROUPS = 1 << 17
"""Of groups that a table has columns for."""
_DENSE = 4
"""A table is made where a cell in so many is used."""
_NEARLY_FULL = 3
"""What reaches a place in one of so many groups is written with all of them, to be added without looking them up."""

_Array = np.ndarray
Parts = tuple[_Array, _Array, _Array, _Array, _Array, _Array, _Array, _Array]


@dataclass(frozen=True)
class GroupTable:
    """The elements of a relation in the order of their places at a link, and what reaches them, by group.

    groups: the number of each column. row_starts: where the elements of each place begin; bases: the column of each
    with what reaches it in the first group. The rest is as `add_to_table` takes it.
    """

    groups: IntArray
    row_starts: IntArray
    weights: np.ndarray
    bases: IntArray
    reached_at: IntArray
    starts: IntArray
    codes: IntArray
    full: BoolArray
    sums: np.ndarray

    @property
    def parts(self) -> "Parts":
        """What `add_to_table` takes."""
        elements = (self.row_starts, self.weights, self.bases, self.reached_at)
        return *elements, self.starts, self.codes, self.full, self.sums

    @property
    def halves(self) -> tuple[slice, slice]:
        """Two parts of the places, with about as many elements each."""
        middle = int(np.searchsorted(self.row_starts, self.row_starts[-1] // 2))
        return slice(0, middle), slice(middle, len(self.row_starts) - 1)

    def entries(self) -> Carried | None:
        """Return the cells that are not 0 as entries; None where there are too many cells to be held at once."""
        shape = (len(self.row_starts) - 1, self.weights.shape[1], len(self.groups))
        if prod(shape) > MOST_CELLS:
            return None
        cells = np.zeros(shape)
        add_to_table(*self.parts, cells)
        used = np.flatnonzero((cells != 0.0).any(axis=1))
        places, columns = np.divmod(used, shape[2])
        sums = np.stack([cells[:, quantity].reshape(-1)[used] for quantity in range(shape[1])], axis=1)
        return Carried(sums, places, self.groups[columns])


def group_table(
    places: IntArray, groups: IntArray, weights: np.ndarray, reached_at: IntArray, reached: Carried, size: int
) -> GroupTable | None:
    """Return the table of what elements send to a link of so many places; None where most cells would be empty.

    As `carried_through` takes them, places ascending.
    """
    counts = reached.counts(reached_at)
    if reached.groups is None or weights.dtype != np.float64 or int(counts.sum()) < max(FEW, 1):
        return None
    own, own_codes = numbered(groups)
    theirs, codes = reached.numbered
    columns = len(own) * len(theirs)
    if columns > MOST_GROUPS or columns * weights.shape[1] > MOST_CELLS:
        return None
    row_starts = np.searchsorted(places, np.arange(size + 1))
    products = np.append(0, np.cumsum(counts))[row_starts]
    if _DENSE * int(np.minimum(np.diff(products), columns).sum()) < size * columns:
        return None
    starts, codes, full, sums = _filled(reached, codes, len(theirs))
    numbers = (own[:, None] + theirs).reshape(-1)
    bases = own_codes * len(theirs)
    return GroupTable(numbers, row_starts, weights, bases, reached_at, starts, codes, full, sums)


def _filled(
    reached: Carried, codes: IntArray, groups: int
) -> tuple[IntArray, IntArray, BoolArray, np.ndarray]:
    """Return (starts, codes, which places have all groups, sums by quantity), nearly full places filled with zeros."""
    counts = np.diff(reached.starts)
    full = _NEARLY_FULL * counts >= groups
    starts = np.append(0, np.cumsum(np.where(full, groups, counts)))
    places = np.repeat(np.arange(len(counts)), counts)
    at = np.where(full[places], codes, np.arange(len(codes)) - reached.starts[places]) + starts[places]
    sums, written = np.zeros((reached.sums.shape[1], starts[-1])), np.zeros(starts[-1], dtype=np.int64)
    written[at] = codes
    for quantity in range(len(sums)):
        sums[quantity][at] = reached.sums[:, quantity]
    return starts, written, full, sums
