"""A dictionary: distinct elements with their net totals, as dense sorted columns.

Every column is stored in the narrowest integers that hold it, so that bytes are what the data need. A key that is
labelled is stored as its place among the labels. Elements whose totals are all 0 are not there. Negative counts are: a
delete may come before its insert.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from eddyline.errors import CorruptState, SketchError
from eddyline.kernels.doubles import carried
from eddyline.kernels.elements import fold_rows, merge_sorted
from eddyline.kernels.xxhash import chain_longs
from eddyline.sample.labels import Labels
from eddyline.sample.sorting import BoolArray, IntArray, numbered
from eddyline.sample.spec import DictionarySpec

_WIDTHS = (np.int8, np.int16, np.int32, np.int64)
_FLAG_BITS = 63


def _overflow() -> SketchError:
    return SketchError(
        "adding these rows would overflow a 64-bit total, so nothing was changed: use smaller weights, a coarser "
        "scale for the measure, or shorter windows."
    )


def _narrow(column: np.ndarray) -> np.ndarray:
    """Return a column in the narrowest integers that hold it."""
    if len(column) == 0:
        return column.astype(np.int8)
    low, high = int(column.min()), int(column.max())
    for width in _WIDTHS:
        info = np.iinfo(width)
        if info.min <= low and high <= info.max:
            return np.ascontiguousarray(column, dtype=width)
    raise AssertionError


@dataclass(frozen=True, eq=False)
class Dictionary:
    """Elements (keys, then flag words) in ascending order, and their totals (count, then sums), column by column."""

    spec: DictionarySpec
    elements: tuple[np.ndarray, ...]
    totals: tuple[np.ndarray, ...]
    labels: Mapping[int, Labels] = field(default_factory=dict, repr=False)
    _indexes: dict[int, tuple[IntArray, IntArray]] = field(default_factory=dict, repr=False)

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

        labels: of each labelled key; only those of codes that the elements hold are kept.
        """
        columns = [elements[:, k] for k in range(elements.shape[1])]
        used: dict[int, Labels] = {}
        for key in spec.labelled:
            word, place = divmod(key, _FLAG_BITS)
            null = (elements[:, spec.keys + word] >> place) & 1 == 1
            used[key] = (labels or {}).get(key, Labels.none()).only(columns[key], null)
            columns[key] = np.searchsorted(used[key].codes, columns[key])
        return cls(
            spec,
            tuple(map(_narrow, columns)),
            tuple(_narrow(totals[:, v]) for v in range(totals.shape[1])),
            used,
        )

    def __len__(self) -> int:
        return len(self.totals[0])

    def __reduce__(self) -> "tuple[type[Dictionary], tuple[object, ...]]":
        """Say how to make a copy: from the columns alone, without indexes."""
        return Dictionary, (self.spec, self.elements, self.totals, self.labels)

    @property
    def element_bytes(self) -> float:
        """The bytes of one element and its totals, and its share of the labels."""
        return self.nbytes / max(len(self), 1)

    @property
    def nbytes(self) -> int:
        """The bytes of all of them, and of the labels."""
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
        """Return a key column; NULL holds 0."""
        column = self.elements[position]
        return self.labels[position].codes[column] if position in self.labels else column.astype(np.int64)

    def bit(self, position: int) -> BoolArray:
        """Return a bit of all elements: the NULL of a key, or, after those, a flag."""
        word, place = divmod(position, _FLAG_BITS)
        column = self.elements[self.spec.keys + word].astype(np.int64)
        return np.asarray((column >> place) & 1 == 1)

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

    def index(self, key: int) -> tuple[IntArray, IntArray]:
        """Return (distinct values of a key, ascending; for each element the place of its value), made once."""
        if key not in self._indexes:
            values, places = numbered(self.elements[key])
            self._indexes[key] = (self.labels[key].codes[values] if key in self.labels else values, places)
        return self._indexes[key]

    def where(self, kept: BoolArray) -> "Dictionary":
        """Return the elements that a mask keeps."""
        if kept.all():
            return self
        if self.labels:
            elements, totals = self.matrices()
            return Dictionary.of(self.spec, elements[kept], totals[kept], self.labels)
        return Dictionary(
            self.spec,
            tuple(_narrow(column[kept]) for column in self.elements),
            tuple(_narrow(column[kept]) for column in self.totals),
        )

    def plus(self, other: "Dictionary", sign: int = 1) -> "Dictionary":
        """Return both added up, or the other one subtracted with sign -1."""
        if len(other) == 0:
            return self
        left, right = self.matrices(), other.matrices()
        size = len(self) + len(other)
        elements = np.empty((size, self.spec.words), dtype=np.int64)
        totals = np.empty((size, 1 + self.spec.measures), dtype=np.int64)
        size = merge_sorted(*left, *right, sign, elements, totals)
        if size < 0:
            raise _overflow()
        labels = {key: mine.plus(other.labels[key]) for key, mine in self.labels.items()}
        return Dictionary.of(self.spec, *_carried(self.spec, elements[:size], totals[:size]), labels)

    def regrouped(
        self, spec: DictionarySpec, keys: Sequence[int], flags: Sequence[int], measures: Sequence[int]
    ) -> "Dictionary":
        """Return the dictionary of fewer columns: elements that have become equal are added up."""
        words = flag_words(spec, [self.is_null(k) for k in keys], [self.flag(f) for f in flags], len(self))
        columns = [self.key(k) for k in keys] + list(words)
        elements = np.stack(columns, axis=1) if columns else np.empty((len(self), 0), np.int64)
        totals = np.stack([self.total(-1), *(self.total(m) for m in measures)], axis=1)
        builder = Builder(spec)
        builder.add(elements, totals)
        for key in spec.labelled:
            builder.label(key, self.labels[keys[key]])
        return builder.build()

    def same(self, other: "Dictionary") -> bool:
        """Return whether both hold the same elements with the same totals."""
        labels = [each.codes for each in self.labels.values()]
        others = [each.codes for each in other.labels.values()]
        mine, theirs = (*self.elements, *self.totals, *labels), (*other.elements, *other.totals, *others)
        return len(self) == len(other) and all(
            np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True)
        )

    def to_bytes(self) -> bytes:
        """Return the columns as bytes: their number of rows, their widths, each of them, and at last the labels."""
        columns = (*self.elements, *self.totals)
        head = np.array([len(self)], dtype="<i8").tobytes() + bytes(c.itemsize for c in columns)
        body = b"".join(c.astype(c.dtype.newbyteorder("<"), copy=False).tobytes() for c in columns)
        labels = [self.labels[key].to_bytes() for key in self.spec.labelled]
        return head + body + b"".join(len(each).to_bytes(8, "little") + each for each in labels)

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


def _are_ascending(columns: Sequence[np.ndarray], rows: int) -> bool:
    """Return whether elements are in ascending order, each there once."""
    above, equal = np.zeros(max(rows - 1, 0), np.bool_), np.ones(max(rows - 1, 0), np.bool_)
    for column in columns:
        above |= equal & (column[1:] > column[:-1])
        equal &= column[1:] == column[:-1]
    return bool(above.all())


def _labels_from_bytes(
    spec: DictionarySpec, columns: Sequence[np.ndarray], data: bytes | memoryview
) -> dict[int, Labels]:
    """Return the labels that stand at the end of a dictionary's bytes, each with its length before it."""
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


def _counted(spec: DictionarySpec, elements: np.ndarray) -> BoolArray:
    """Return which rows are held: they carry all flags that some query asks for."""
    held = np.zeros(len(elements), dtype=np.bool_)
    for flags in spec.counted:
        carried = np.ones(len(elements), dtype=np.bool_)
        for flag in flags:
            word, place = divmod(spec.keys + flag, _FLAG_BITS)
            carried &= (elements[:, spec.keys + word] >> place) & 1 == 1
        held |= carried
    return held


def _carried(spec: DictionarySpec, elements: np.ndarray, totals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return elements and totals with wide numbers in one form, of small digits; without those that are 0 then."""
    if not spec.wide:
        return elements, totals
    totals = totals.copy()
    for first, words in spec.wide:
        at = slice(1 + first, 1 + first + words)
        totals[:, at] = carried(totals[:, at].T).T
    used = totals.any(axis=1)
    return elements[used], totals[used]


class Builder:
    """Rows folded into a dictionary, in a hash table that grows."""

    def __init__(self, spec: DictionarySpec, room: int = 1024) -> None:
        self.spec = spec
        self.size = 0
        self.labels = {key: Labels.none() for key in spec.labelled}
        self._make_room(room)

    def _make_room(self, room: int) -> None:
        self._slots = np.full(2 * room, -1, dtype=np.int64)
        self._elements = np.empty((room, self.spec.words), dtype=np.int64)
        self._totals = np.empty((room, 1 + self.spec.measures), dtype=np.int64)

    def add(self, elements: np.ndarray, totals: np.ndarray) -> None:
        """Add rows, those that are to be held: int64 (n, words) and (n, 1 + measures)."""
        if self.spec.counted:
            held = _counted(self.spec, elements)
            elements, totals = elements[held], totals[held]
        elements, totals = np.ascontiguousarray(elements), np.ascontiguousarray(totals)
        at = 0
        while at < len(elements):
            taken, self.size, fine = fold_rows(
                elements[at:], totals[at:], self._slots, self._elements, self._totals, self.size
            )
            if not fine:
                raise _overflow()
            at += taken
            if at < len(elements):
                self._grow()

    def label(self, key: int, labels: Labels) -> None:
        """Add labels of a labelled key: those of the rows that were added, or more."""
        self.labels[key] = self.labels[key].plus(labels)

    def take(self, dictionary: Dictionary) -> None:
        """Add the elements of a dictionary of the same columns."""
        self.add(*dictionary.matrices())
        for key, labels in dictionary.labels.items():
            self.label(key, labels)

    def _grow(self) -> None:
        held, totals = self._elements[: self.size], self._totals[: self.size]
        self._make_room(2 * len(self._elements))
        _, self.size, _ = fold_rows(held, totals, self._slots, self._elements, self._totals, 0)

    def compact(self) -> None:
        """Drop elements whose inserts and deletes cancel."""
        used = self._totals[: self.size].any(axis=1)
        if used.all():
            return
        held, totals = self._elements[: self.size][used], self._totals[: self.size][used]
        self._make_room(max(1024, 2 * len(held)))
        _, self.size, _ = fold_rows(held, totals, self._slots, self._elements, self._totals, 0)

    @property
    def nbytes(self) -> int:
        """About the bytes of the dictionary that it makes, never less."""
        labels = sum(each.nbytes for each in self.labels.values())
        return 8 * self.size * (self.spec.words + 1 + self.spec.measures) + labels

    def build(self) -> Dictionary:
        """Return the dictionary of all rows so far."""
        elements, totals = self._elements[: self.size], self._totals[: self.size]
        used = totals.any(axis=1)
        elements, totals = _carried(self.spec, elements[used], totals[used])
        order = np.lexsort(elements.T[::-1]) if elements.shape[1] else np.arange(len(elements))
        return Dictionary.of(self.spec, elements[order], totals[order], self.labels)
