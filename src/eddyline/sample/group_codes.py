"""The groups of one relation, numbered: which there are, and in which each element is."""

from dataclasses import dataclass

import numpy as np

from eddyline.sample.join import Join
from eddyline.sample.sorting import BoolArray, IntArray, numbered
from eddyline.sample.spec import Node


@dataclass(frozen=True)
class GroupCodes:
    """The groups of one relation: for each its codes, column by column, and which of them are NULL.

    of_rows: the group of each element. missing: the group whose columns are all NULL, where rows are that an
    outer join finds no match for.
    """

    codes: tuple[IntArray, ...]
    nulls: tuple[BoolArray, ...]
    of_rows: IntArray
    missing: int = 0

    def __len__(self) -> int:
        return len(self.codes[0]) if self.codes else 1


def group_codes(join: Join, node: Node, *, missing: bool) -> GroupCodes:
    """Return the groups that a relation's elements are in, numbered; missing: there is a group of NULLs in any case."""
    view, dictionary = join.view(node), join.dictionary(node)
    if not view.groups:
        return GroupCodes((), (), np.zeros(len(dictionary), dtype=np.int64))
    columns = [np.where(dictionary.is_null(key), 0, dictionary.key(key)) for key in view.groups]
    nulls = [dictionary.is_null(key) for key in view.groups]
    number: IntArray = np.zeros(len(dictionary), dtype=np.int64)
    for null, key in zip(nulls, view.groups, strict=True):
        values, places = dictionary.index(key)
        _, number = numbered(number * (len(values) + 1) + np.where(null, len(values), places))
    first = np.empty(int(number.max(initial=-1)) + 1, dtype=np.int64)
    first[number[::-1]] = np.arange(len(number))[::-1]
    codes, null_codes = [column[first] for column in columns], [null[first] for null in nulls]
    of_nulls = np.flatnonzero(np.logical_and.reduce(null_codes))
    if missing and not len(of_nulls):
        codes = [np.append(each, 0) for each in codes]
        null_codes = [np.append(each, values=True) for each in null_codes]
    place = int(of_nulls[0]) if len(of_nulls) else len(first)
    return GroupCodes(tuple(codes), tuple(null_codes), number, place)
