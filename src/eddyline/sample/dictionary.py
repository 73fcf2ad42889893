"""A dictionary: distinct elements with their net totals as sorted columns, and the builder that fills it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from eddyline.errors import SMALLER_TOTALS, CorruptState, SketchError
from eddyline.kernels.doubles import carried
from eddyline.kernels.elements import fold_rows
from eddyline.kernels.hashing import chain_longs
from eddyline.sample.labels import Labels
from eddyline.sample.packing import BoolArray, IntArray, distinct, find, narrow, narrow_numbers, order_of
from eddyline.sample.spec import DictionarySpec

# Every column is stored in the narrowest integers that hold it, so that the bytes match what the data needs.
# A labelled key is stored as its place among the labels. Elements whose totals are all 0 are not held.
# Negative counts are held: a delete may come before its insert. Only what is requested is widened to 64 bits:
# a column, or the rows that a merge changes.


_FLAG_BITS = 63


def overflow() -> SketchError:
    """Return the error for a total that exceeds 64 bits."""
    return SketchError(
        f"adding these rows would overflow a 64-bit total, so nothing was changed: {SMALLER_TOTALS}"
    )


@dataclass(frozen=True, eq=False)
class Dictionary:
    """Elements (keys, then flag words) in ascending order, and their totals (count, then sums), by column."""

    spec: DictionarySpec
    elements: tuple[np.ndarray, ...]
    totals: tuple[np.ndarray, ...]
    labels: Mapping[int, Labels] = field(default_factory=dict, repr=False)
    _indexes: dict[int, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict, repr=False)

    @classmethod
    def empty(cls, spec: DictionarySpec) -> "Dictionary":
        """Return the dictionary of a stream without rows."""
        return cls.of(spec, np.empty((0, spec.words), np.int64), np.empty((0, 1 + spec.measures), np.int64))

    @classmethod
    def of(
        cls,
        spec: DictionarySpec,
        elements: np.ndarray,
        totals: np.ndarray,
        labels: Mapping[int, Labels] | None = None,
    ) -> "Dictionary":
        """Return the dictionary of sorted distinct elements, int64 (n, words), and their totals (n, 1 + measures).

        labels: those of each labelled key; only those of codes that the elements hold are kept.
        """
        columns = [elements[:, k] for k in range(elements.shape[1])]
        return cls.of_columns(spec, columns, [totals[:, v] for v in range(totals.shape[1])], labels or {})

    @classmethod
    def of_columns(
        cls,
        spec: DictionarySpec,
        elements: Sequence[np.ndarray],
        totals: Sequence[np.ndarray],
        labels: Mapping[int, Labels],
    ) -> "Dictionary":
        """Return the dictionary of sorted distinct elements and their totals, each column in any integer type."""
        columns, codes = list(elements), {key: distinct([elements[key]]) for key in spec.labelled}
        for key in spec.labelled:
            columns[key] = np.searchsorted(codes[key], columns[key])
        return _of_places(spec, columns, totals, codes, labels)

    def __len__(self) -> int:
        return len(self.totals[0])

    def __reduce__(self) -> "tuple[type[Dictionary], tuple[object, ...]]":
        """Define how to copy it: from the columns alone, without indexes."""
        return Dictionary, (self.spec, self.elements, self.totals, self.labels)

    @property
    def element_bytes(self) -> float:
        """The bytes of one element and its totals, and its share of the labels."""
        return self.nbytes / max(len(self), 1)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements, and of the labels."""
        labels = sum(each.nbytes for each in self.labels.values())
        return len(self) * sum(column.itemsize for column in (*self.elements, *self.totals)) + labels

    def matrices(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (elements, totals) as int64 matrices, a row for each element."""
        words = np.empty((len(self), len(self.elements)), dtype=np.int64)
        totals = np.empty((len(self), len(self.totals)), dtype=np.int64)
        for k in range(len(self.elements)):
            words[:, k] = self.key(k)
        for v, column in enumerate(self.totals):
            totals[:, v] = column
        return words, totals

    def key(self, position: int) -> IntArray:
        """Return a key column; NULL is held as 0."""
        column = self.elements[position]
        return self.labels[position].codes[column] if position in self.labels else column.astype(np.int64)

    def bit(self, position: int) -> BoolArray:
        """Return a bit of all elements: whether a key is NULL, or, after those bits, a flag."""
        return _bit(self.elements[self.spec.keys :], position)

    def is_null(self, key: int) -> BoolArray:
        """Return which elements have NULL as a key."""
        return self.bit(key)

    def null_links(self) -> BoolArray:
        """Return which elements have NULL as one of their link keys."""
        found = np.zeros(len(self), dtype=np.bool_)
        for key, link in enumerate(self.spec.classes):
            if link >= 0:
                found |= self.is_null(key)
        return found

    def codes(self, chosen: BoolArray) -> IntArray:
        """Return a hash of each chosen element: its keys and flags together, the same in every process."""
        columns = [self.key(k)[chosen] for k in range(self.spec.keys)]
        columns += [words[chosen] for words in self.elements[self.spec.keys :]]
        return element_codes(columns)

    def flag(self, flag: int) -> BoolArray:
        """Return which elements carry a flag."""
        return self.bit(self.spec.keys + flag)

    def total(self, measure: int) -> IntArray:
        """Return the net sums of a measure, the net counts for measure -1."""
        return self.totals[1 + measure].astype(np.int64)

    def index(self, key: int) -> tuple[IntArray, np.ndarray]:
        """Return (distinct values of a key, ascending; for each element the place of its value), computed once.

        The kept result is narrow: places are 32-bit integers if these suffice.
        """
        return self.values(key), self.places(key)

    def values(self, key: int) -> IntArray:
        """Return the distinct values of a key, ascending: see `index`."""
        values, _ = self._index(key)
        return self.labels[key].codes[values] if key in self.labels else values.astype(np.int64)

    def places(self, key: int) -> np.ndarray:
        """Return for each element the place of its value of a key: see `index`."""
        return self._index(key)[1]

    def _index(self, key: int) -> tuple[np.ndarray, np.ndarray]:
        if key not in self._indexes:
            values, places = narrow_numbers(self.elements[key], is_sorted=key == 0)
            self._indexes[key] = (narrow(values), places)
        return self._indexes[key]

    def forget_indexes(self) -> None:
        """Drop the indexes: they are built again when they are needed."""
        self._indexes.clear()

    def where(self, kept: BoolArray) -> "Dictionary":
        """Return the elements that a mask keeps."""
        if kept.all():
            return self
        elements, totals = ([each[kept] for each in columns] for columns in (self.elements, self.totals))
        codes = {key: each.codes for key, each in self.labels.items()}
        return _of_places(self.spec, elements, totals, codes, self.labels)

    def plus(self, other: "Dictionary", sign: int = 1) -> "Dictionary":
        """Return the sum of both, or the difference with sign -1.

        Only what the other one changes is added in 64 bits; everything else is copied column by column, at its
        width.
        """
        if len(other) == 0:
            return self
        codes = {key: distinct([mine.codes, other.labels[key].codes]) for key, mine in self.labels.items()}
        mine, theirs = self.columns_among(codes), other.columns_among(codes)
        places, same = find(mine, theirs, len(self), len(other))
        changed = _changed(self, other, sign, places, same)
        used = changed.any(axis=0)
        splice = _Splice(len(self), places[same & ~used], places[~same & used])
        elements = [splice.of(own, added[~same & used]) for own, added in zip(mine, theirs, strict=True)]
        replaced, fresh = same & used, ~same & used
        totals = [
            splice.of(_replaced(own, places[replaced], added[replaced]), added[fresh])
            for own, added in zip(self.totals, changed, strict=True)
        ]
        labels = {key: own.plus(other.labels[key]) for key, own in self.labels.items()}
        return _of_places(self.spec, elements, totals, codes, labels)

    def columns_among(self, codes: Mapping[int, IntArray]) -> list[np.ndarray]:
        """Return the columns of the elements, with labelled keys as their places among some codes."""
        columns = list(self.elements)
        for key, labels in self.labels.items():
            if len(labels) < len(codes[key]):
                columns[key] = narrow(np.searchsorted(codes[key], labels.codes))[columns[key]]
        return columns

    def regrouped(
        self, spec: DictionarySpec, keys: Sequence[int], flags: Sequence[int], measures: Sequence[int]
    ) -> "Dictionary":
        """Return the dictionary of fewer columns: elements that become equal are added up."""
        words = flag_words(spec, [self.is_null(k) for k in keys], [self.flag(f) for f in flags], len(self))
        elements = [
            self.elements[k]
            if place in spec.labelled
            else self.key(k)
            if k in self.labels
            else self.elements[k]
            for place, k in enumerate(keys)
        ]
        labels = {key: self.labels[keys[key]] for key in spec.labelled}
        codes = {key: each.codes for key, each in labels.items()}
        totals = [self.totals[1 + m] for m in (-1, *measures)]
        return folded(spec, [*elements, *map(narrow, words)], totals, codes, labels, may_be_sorted=True)

    def same(self, other: "Dictionary") -> bool:
        """Return whether both hold the same elements with the same totals."""
        labels = [each.codes for each in self.labels.values()]
        others = [each.codes for each in other.labels.values()]
        mine, theirs = (*self.elements, *self.totals, *labels), (*other.elements, *other.totals, *others)
        return len(self) == len(other) and all(
            np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True)
        )

    def to_bytes(self) -> bytes:
        """Return the columns as bytes: the number of rows, the widths, each column, and finally the labels."""
        columns = (*self.elements, *self.totals)
        head = np.array([len(self)], dtype="<i8").tobytes() + bytes(c.itemsize for c in columns)
        little = (np.ascontiguousarray(c, dtype=c.dtype.newbyteorder("<")) for c in columns)
        body = [c.data for c in little]  # the join below copies each column only once
        labels = [self.labels[key].to_bytes() for key in self.spec.labelled]
        return b"".join([head, *body, *(len(each).to_bytes(8, "little") + each for each in labels)])

    @classmethod
    def from_bytes(cls, spec: DictionarySpec, data: bytes | memoryview) -> "Dictionary":
        """Return the dictionary that `to_bytes` wrote, or raise CorruptState."""
        count = spec.words + 1 + spec.measures
        if len(data) < 8 + count:
            raise CorruptState(f"a dictionary has at least {8 + count} bytes and this one has {len(data)}.")
        rows, widths = int(np.frombuffer(data[:8], dtype="<i8")[0]), bytes(data[8 : 8 + count])
        ends = 8 + count + rows * sum(widths)
        if (
            rows < 0
            or not set(widths) <= {1, 2, 4, 8}
            or not (ends < len(data) if spec.labelled else ends == len(data))
        ):
            raise CorruptState(f"a dictionary of {rows} elements does not fit its {len(data)} bytes.")
        columns, at = [], 8 + count
        for width in widths:
            column = np.frombuffer(data[at : at + rows * width], dtype=f"<i{width}")
            columns.append(column.astype(f"i{width}"))
            at += rows * width
        if not _are_ascending(columns[: spec.words], rows):
            raise CorruptState("the elements of a dictionary are not in order.")
        labels = _labels_from_bytes(spec, columns, data[ends:])
        return cls(spec, tuple(columns[: spec.words]), tuple(columns[spec.words :]), labels)


def _bit(words: Sequence[np.ndarray] | np.ndarray, position: int) -> BoolArray:
    """Return a bit of elements, given their flag words in any integer type that holds them."""
    word, place = divmod(position, _FLAG_BITS)
    column = words[word]
    if place >= 8 * column.itemsize - 1:
        return np.zeros(len(column), dtype=np.bool_)  # a word is never negative: the highest bit is not used
    return np.asarray(column & column.dtype.type(1 << place), dtype=np.bool_)


def _of_places(
    spec: DictionarySpec,
    elements: Sequence[np.ndarray],
    totals: Sequence[np.ndarray],
    codes: Mapping[int, IntArray],
    labels: Mapping[int, Labels],
) -> Dictionary:
    """Return the dictionary of sorted distinct elements, whose labelled keys are places among some codes.

    labels: those of these codes; only those of codes that the elements hold are kept.
    """
    columns, used = list(elements), dict[int, Labels]()
    for key in spec.labelled:
        there = np.zeros((2, len(codes[key])), dtype=np.bool_)
        there[0, columns[key]] = True
        there[1, columns[key][~_bit(elements[spec.keys :], key)]] = True
        held = [codes[key][each] for each in there]
        of_null = np.repeat([True, False], [len(each) for each in held])
        used[key] = labels.get(key, Labels.none()).only(np.concatenate(held), of_null)
        if len(held[0]) < len(codes[key]):
            columns[key] = narrow(np.cumsum(there[0]) - 1)[columns[key]]
    return Dictionary(spec, tuple(map(narrow, columns)), tuple(map(narrow, totals)), used)


def _changed(mine: Dictionary, other: Dictionary, sign: int, places: IntArray, same: BoolArray) -> np.ndarray:
    """Return the totals of all elements of the other dictionary after a merge, int64 (totals, elements)."""
    changed = np.empty((len(other.totals), len(other)), dtype=np.int64)
    for out, own, added in zip(changed, mine.totals, other.totals, strict=True):
        out[:] = added
        if sign < 0:
            if np.any(out == np.iinfo(np.int64).min):  # it has no negative in 64 bits
                raise overflow()
            np.negative(out, out=out)
        before, step = own[places[same]].astype(np.int64), out[same]
        total = before + step
        if np.any((before ^ total) & (step ^ total) < 0):
            raise overflow()
        out[same] = total
    return _carried(mine.spec, changed)


def _replaced(column: np.ndarray, places: IntArray, values: np.ndarray) -> np.ndarray:
    """Return a column with other values at some places."""
    if len(places) == 0:
        return column
    values = narrow(values)
    column = column.astype(np.promote_types(column.dtype, values.dtype))
    column[places] = values
    return column


class _Splice:
    """Rows removed from columns and added to them: removed, before: places among the original rows, ascending."""

    def __init__(self, rows: int, removed: IntArray, before: IntArray) -> None:
        self.kept: BoolArray | None = None
        if len(removed):
            self.kept = np.ones(rows, dtype=np.bool_)
            self.kept[removed] = False
        self.at = before - np.searchsorted(removed, before) + np.arange(len(before))
        self.old = np.ones(rows - len(removed) + len(before), dtype=np.bool_)
        self.old[self.at] = False

    def of(self, column: np.ndarray, added: np.ndarray) -> np.ndarray:
        """Return a column with what was added, and without what was removed."""
        kept = column if self.kept is None else column[self.kept]
        if len(added) == 0:
            return kept
        added = narrow(added)
        out = np.empty(len(self.old), dtype=np.promote_types(column.dtype, added.dtype))
        out[self.old] = kept
        out[self.at] = added
        return out


def folded(
    spec: DictionarySpec,
    elements: Sequence[np.ndarray],
    totals: Sequence[np.ndarray],
    codes: Mapping[int, IntArray],
    labels: Mapping[int, Labels],
    *,
    may_be_sorted: bool = False,
) -> Dictionary:
    """Return the dictionary of rows in any order: equal elements added up, elements not to be held left out.

    codes: those among which the labelled keys of the elements are places. may_be_sorted: columns that are in order
    already become those of the dictionary, without a copy.
    """
    if spec.counted:
        held = counted_rows(spec, elements[spec.keys :])
        elements, totals = [each[held] for each in elements], [each[held] for each in totals]
    if may_be_sorted and _are_ascending(elements, len(totals[0])):
        columns, sums = list(elements), list(totals)
    else:
        order, first = order_of(elements, len(totals[0]))
        starts = np.flatnonzero(first)
        at = order[starts]
        columns, sums = [each[at] for each in elements], [_sums(each, order, starts) for each in totals]
    used = np.zeros(len(sums[0]), dtype=np.bool_)
    if spec.wide:
        sums = list(_carried(spec, np.stack(sums, dtype=np.int64)))
    for each in sums:
        used |= each != 0
    if not used.all():
        columns, sums = [each[used] for each in columns], [each[used] for each in sums]
    return _of_places(spec, columns, sums, codes, labels)


def _sums(column: np.ndarray, order: np.ndarray, starts: IntArray) -> np.ndarray:
    """Return the sums of a column, in an order, over runs of rows; raise SketchError if one exceeds 64 bits."""
    ordered = column[order]
    if len(starts) == len(ordered):
        return np.asarray(ordered)
    most = max(abs(int(column.min())), abs(int(column.max())))
    if most * len(column) >= 1 << 63:
        ordered = ordered.astype(np.int64)
        high = np.add.reduceat(ordered >> 32, starts)
        high += np.add.reduceat(ordered & 0xFFFFFFFF, starts) >> 32
        if np.any(high >= 1 << 31) or np.any(high < -(1 << 31)):
            raise overflow()
    return np.asarray(np.add.reduceat(ordered, starts, dtype=np.int64))


def _are_ascending(columns: Sequence[np.ndarray], rows: int) -> bool:
    """Return whether elements are in ascending order without duplicates."""
    above, equal = np.zeros(max(rows - 1, 0), np.bool_), np.ones(max(rows - 1, 0), np.bool_)
    for column in columns:
        above |= equal & (column[1:] > column[:-1])
        equal &= column[1:] == column[:-1]
    return bool(above.all())


def _labels_from_bytes(
    spec: DictionarySpec, columns: Sequence[np.ndarray], data: bytes | memoryview
) -> dict[int, Labels]:
    """Return the labels at the end of a dictionary's bytes, each with its length before it."""
    labels = {}
    for key in spec.labelled:
        length = int.from_bytes(data[:8], "little")
        labels[key] = Labels.from_bytes(data[8 : 8 + length])
        held = len(labels[key])
        if len(columns[key]) and not 0 <= columns[key].min() <= columns[key].max() < held:
            raise CorruptState(f"a group column refers to a label beyond the {held} that there are.")
        data = data[8 + length :]
    if len(data):
        raise CorruptState(f"a dictionary has {len(data)} bytes too many.")
    return labels


def flag_words(
    spec: DictionarySpec, nulls: Sequence[BoolArray], flags: Sequence[BoolArray], rows: int
) -> np.ndarray:
    """Return the flag words of rows, int64 (flag words, rows): bits of NULL keys, then flags."""
    words = np.zeros((spec.flag_words, rows), dtype=np.int64)
    for position, bit in enumerate((*nulls, *flags)):
        word, place = divmod(position, _FLAG_BITS)
        words[word] |= bit.astype(np.int64) << place
    return words


def element_codes(columns: Sequence[np.ndarray]) -> IntArray:
    """Return a hash of each element, given the columns of its keys (0 for NULL) and of its flag words."""
    out = np.empty(len(columns[0]), dtype=np.uint64)
    chain_longs(np.stack([each.astype(np.int64, copy=False).view(np.uint64) for each in columns]), out)
    return out.view(np.int64)


def counted_rows(spec: DictionarySpec, words: Sequence[np.ndarray] | np.ndarray) -> BoolArray:
    """Return which rows are held: those that carry all flags of some query; words: their flag words."""
    held = np.zeros(len(words[0]), dtype=np.bool_)
    for flags in spec.counted:
        held |= np.logical_and.reduce([_bit(words, spec.keys + flag) for flag in flags])
    return held


def _carried(spec: DictionarySpec, totals: np.ndarray) -> np.ndarray:
    """Return totals, int64 (totals, elements), with wide numbers in their canonical form, with small digits."""
    for first, words in spec.wide:
        at = slice(1 + first, 1 + first + words)
        totals[at] = carried(totals[at])
    return totals


# A builder: rows folded into a dictionary, in a hash table of 64-bit words that is small compared to the
# dictionary.
#
# When the table is full, its content becomes a dictionary, which is merged with the one that is already
# held. So most of what a pass holds takes the bytes that the budget counts.


_TABLE = 8 << 20
"""Bytes of a full table if less than that is held; a batch of 250,000 rows takes about as much."""
_SHARE = 0.5
"""A full table takes this part of what is held: merges take time in proportion to it, so there should be few."""


class Builder:
    """Rows folded into a dictionary."""

    def __init__(self, spec: DictionarySpec, room: int = 1024) -> None:
        self.spec = spec
        self.labels = {key: Labels.none() for key in spec.labelled}
        self._held = Dictionary.empty(spec)
        self._empty_table(room)

    def _empty_table(self, room: int) -> None:
        self._size = 0
        self._slots = np.full(2 * room, -1, dtype=np.int64)
        self._elements = np.empty((room, self.spec.words), dtype=np.int64)
        self._totals = np.empty((room, 1 + self.spec.measures), dtype=np.int64)

    def add(self, elements: np.ndarray, totals: np.ndarray) -> None:
        """Add those rows that are to be held: int64 (n, words) and (n, 1 + measures)."""
        if self.spec.counted:
            held = counted_rows(self.spec, elements[:, self.spec.keys :].T)
            elements, totals = elements[held], totals[held]
        elements, totals = np.ascontiguousarray(elements), np.ascontiguousarray(totals)
        at = 0
        while at < len(elements):
            taken, self._size, fine = fold_rows(
                elements[at:], totals[at:], self._slots, self._elements, self._totals, self._size
            )
            if not fine:
                raise overflow()
            at += taken
            if at < len(elements):
                self._grow_or_flush()

    def label(self, key: int, labels: Labels) -> None:
        """Add labels of a labelled key: those of the added rows, or more."""
        self.labels[key] = self.labels[key].plus(labels)

    def take(self, dictionary: Dictionary) -> None:
        """Add the elements of a dictionary of the same columns."""
        self._held = dictionary if len(self._held) == 0 else self._held.plus(dictionary)
        for key, labels in dictionary.labels.items():
            self.label(key, labels)

    def _grow_or_flush(self) -> None:
        """Make the table larger, or empty it if it is large enough already."""
        if self._table_bytes >= max(_TABLE, _SHARE * self._held.nbytes):
            self.compact()
            return
        held, totals = self._elements[: self._size], self._totals[: self._size]
        self._empty_table(2 * len(self._elements))
        _, self._size, _ = fold_rows(held, totals, self._slots, self._elements, self._totals, 0)

    @property
    def _table_bytes(self) -> int:
        return 8 * self._size * (self.spec.words + 1 + self.spec.measures)

    def compact(self) -> None:
        """Merge the table with what is held: elements whose inserts and deletes cancel are removed."""
        self._held = self.build()
        self._empty_table(1024)

    @property
    def nbytes(self) -> int:
        """Approximate bytes of the resulting dictionary, never less than its bytes."""
        more = [each.nbytes - self._held.labels[key].nbytes for key, each in self.labels.items()]
        return self._held.nbytes + self._table_bytes + sum(more)

    def build(self) -> Dictionary:
        """Return the dictionary of all rows so far."""
        elements = [self._elements[: self._size, k] for k in range(self.spec.words)]
        codes = {key: distinct([elements[key]]) for key in self.spec.labelled}
        for key in self.spec.labelled:
            elements[key] = np.searchsorted(codes[key], elements[key])
        totals = [self._totals[: self._size, v] for v in range(1 + self.spec.measures)]
        made = folded(self.spec, elements, totals, codes, self.labels)
        return made if len(self._held) == 0 else self._held.plus(made)
