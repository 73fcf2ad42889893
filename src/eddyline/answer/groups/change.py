"""How much the groups of a query changed between two moments: each group that either answer has, with intervals."""

from dataclasses import dataclass, replace
from decimal import Decimal
from math import inf, isnan
from typing import Any

import pyarrow as pa

from eddyline.answer.estimate import Estimate, Number, difference_of
from eddyline.answer.groups.table import EXACT, SELECTED, Groups
from eddyline.expressions.arrow_values import python_rows
from eddyline.sql.query import Query

Key = tuple[object, ...]
_LEFT_OUT = (
    "HAVING or LIMIT leaves out groups at each moment: the change of a group that only one of the answers has is not "
    "known."
)
_ONE_SIDED = "groups that only one of the answers has: their other value may be among the groups not seen."


def difference_of_groups(now: Groups, then: Groups, query: Query, confidence: float) -> Groups:
    """Return how much each group of a query has changed; groups of both answers are matched by their values.

    A group that one answer does not have has no rows at that moment if that answer is exact: its COUNT and SUM are 0,
    and other aggregates have no value. Otherwise it may be among the groups not seen, which limit its COUNT; nothing
    is known about its other aggregates.
    """
    sides = _Side(now, query), _Side(then, query)
    keys = [*sides[0].rows, *(key for key in sides[1].rows if key not in sides[0].rows)]
    changes = [
        {
            name: _difference(sides[0].estimate(key, name), sides[1].estimate(key, name), confidence)
            for name in now.aggregates
        }
        for key in keys
    ]
    labels = [next(side.rows[key] for side in sides if key in side.rows) for key in keys]
    kinds = (now.table.schema, then.table.schema)
    table = {
        name: _labels([row[name] for row in labels], kinds[0].field(name).type, kinds[1].field(name).type)
        for name in now.group_columns
    }
    for name in now.aggregates:
        for ending, values in _columns([each[name] for each in changes]).items():
            table[f"{name}{ending}"] = values
    exact = [all(each.exact for each in change.values()) for change in changes]
    table[EXACT] = pa.array(exact, pa.bool_())
    is_exact = now.exact and then.exact and all(exact)
    one_sided = any(key not in side.rows for key in keys for side in sides if not side.is_complete)
    notes = [*now.notes, *then.notes]
    if one_sided:
        notes.append(_LEFT_OUT if sides[0].is_selective else _ONE_SIDED)
    return replace(
        now,
        table=pa.table(table),
        rest={name: _rest(name, sides, confidence) for name in now.aggregates},
        confidence=confidence,
        method="exact" if is_exact else "difference",
        exact=is_exact,
        notes=tuple(dict.fromkeys(notes)),
    )


@dataclass
class _Side:
    """The answer of one moment, with its rows by their groups."""

    answer: Groups
    query: Query

    def __post_init__(self) -> None:
        columns = self.answer.group_columns
        self.rows: dict[Key, dict[str, Any]] = {
            tuple(_comparable(row[name]) for name in columns): row for row in python_rows(self.answer.table)
        }
        self.is_selective = SELECTED in self.answer.table.column_names
        self.is_complete = self.answer.exact and not self.is_selective
        sums = {each.name: each.aggregate.moment for each in self.query.aggregates}
        self._counts = {name for name, moment in sums.items() if moment.is_count}
        self._counts |= {each.name for each in self.query.details if each.aggregate.of_nothing == 0}
        self._sums = {name for name, moment in sums.items() if moment.is_sum}

    def estimate(self, key: Key, name: str) -> Estimate:
        """Return an aggregate of a group, also where the answer does not have the group."""
        if key in self.rows:
            return self.answer.estimate(self.rows[key], name)
        confidence, method = self.answer.confidence, self.answer.method
        if self.is_complete:
            return Estimate.exactly(name, 0 if name in self._counts | self._sums else None, confidence)
        if name in self._counts and not self.is_selective:
            return Estimate(name, 0, 0, self.answer.rest[name].high, confidence, method)
        return Estimate.unknown(name, confidence, method, ())

    def unseen(self, name: str) -> tuple[float, float]:
        """Return the ends of what the groups that are not seen may hold of an aggregate."""
        if self.answer.exact:
            return 0.0, 0.0
        high = self.answer.rest[name].high
        is_bounded = name in self._counts and isinstance(high, Number | Decimal)
        return (0.0, float(high)) if is_bounded else (-inf, inf)  # type: ignore[arg-type]  # a number: see above


def _comparable(value: object) -> object:
    """Return a value of a group that equals itself: NaN does not."""
    return "NaN" if isinstance(value, float) and isnan(value) else value


def _difference(now: Estimate, then: Estimate, confidence: float) -> Estimate:
    if any(each.known and each.value is None for each in (now, then)):  # NULL, as SQL has it
        return replace(
            Estimate.unknown(now.query, confidence, "difference", ()),
            exact=now.exact and then.exact,
            is_null=now.known and then.known,
        )
    return difference_of(now, then, confidence)


def _rest(name: str, sides: tuple[_Side, _Side], confidence: float) -> Estimate:
    """Return how much the groups that neither answer has may have changed together."""
    about = f"{sides[0].answer.query}.{name}"
    if all(side.answer.exact for side in sides):
        return Estimate.exactly(about, 0, confidence)
    (low_now, high_now), (low_then, high_then) = (side.unseen(name) for side in sides)
    return Estimate(about, None, low_now - high_then, high_now - low_then, confidence, "difference")


def _columns(changes: list[Estimate]) -> dict[str, pa.Array]:
    """Return an aggregate's columns by their endings; a number that is not known is NULL with infinite ends."""
    unknown = [not each.known for each in changes]
    ends = {
        "_low": [-inf if missing else each.low for each, missing in zip(changes, unknown, strict=True)],
        "_high": [inf if missing else each.high for each, missing in zip(changes, unknown, strict=True)],
    }
    return {ending: _numbers(values) for ending, values in {"": [e.value for e in changes], **ends}.items()}


def _numbers(values: list[Any]) -> pa.Array:
    """Return numbers as a column of the narrowest type that fits: BIGINT, DECIMAL or DOUBLE."""
    known = [each for each in values if each is not None]
    try:
        if known and all(isinstance(each, int) for each in known):
            return pa.array(values, pa.int64())
        if known and all(isinstance(each, int | Decimal) for each in known):
            return pa.array([None if each is None else Decimal(each) for each in values])
    except (pa.ArrowException, OverflowError):
        pass
    return pa.array([None if each is None else float(each) for each in values], pa.float64())


def _labels(values: list[Any], now: pa.DataType, then: pa.DataType) -> pa.Array:
    """Return the values of a group column, in the type of the answers."""
    return pa.array(values, now if not pa.types.is_null(now) else then)
