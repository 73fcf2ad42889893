"""An estimate with its interval, and how far FLOAT and DOUBLE sums may be off by rounding."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal, localcontext
from math import floor, inf, isfinite, isnan, log10, prod

import numpy as np

from eddyline.answer.drawing import Markup, block, draw_answer, heading, listed, muted
from eddyline.answer.freshness import Freshness, Plain, finite, plain, plain_end, show_time_span
from eddyline.answer.interval import FloatArray, Interval
from eddyline.errors import PlanError
from eddyline.ingest.snapshot import Snapshot
from eddyline.kernels.doubles import LOWEST
from eddyline.plan.layout import Demand
from eddyline.sql.query import Aggregate, AnyQuery

Number = int | float
Scalar = Number | Decimal | date | timedelta | str | bytes
"""What an answer may be: a number (including BOOLEAN), or a column's value that MIN, MAX or a quantile returns."""


_WHOLE = 1e16  # from here on floats are written with an exponent
_TINY = -7  # decimals below ten to this power, too
_NO_GAP = 1e-6
"""An end nearer to the value than this share of the width counts as the value: chosen, to limit the digits."""


@dataclass(frozen=True)
class Estimate:
    """An answer with its interval.

    value is None where SQL's answer is NULL (a SUM or AVG over no rows, a STDDEV over one), and where it is not
    known because the kept state cannot answer it: `known` is False then, and a note says why. `exact` answers have
    low = value = high. An end without a bound is an infinity, and None for types without infinities: dates, times,
    DECIMAL. is_null: a NULL is certain although other answers of its group are not exact. `notes` are caveats about
    the answer. Answers from a store have a `freshness`: how far the streams behind them had come.
    """

    query: str
    value: Scalar | None
    low: Scalar | None
    high: Scalar | None
    confidence: float
    method: str
    exact: bool = False
    notes: tuple[str, ...] = ()
    freshness: Freshness | None = None
    is_null: bool = False

    @property
    def known(self) -> bool:
        """Whether the kept state gives the answer, which may be NULL; where it does not, value is None, too."""
        return self.value is not None or self.exact or self.is_null

    @classmethod
    def unknown(cls, query: str, confidence: float, method: str, notes: Sequence[str]) -> "Estimate":
        """Return an answer that the kept state cannot give, with the reason among its notes."""
        return cls(query, None, None, None, confidence, method, notes=tuple(notes))

    @classmethod
    def exactly(
        cls, query: str, value: Scalar | None, confidence: float, notes: Sequence[str] = ()
    ) -> "Estimate":
        """Return an exact answer."""
        return cls(query, value, value, value, confidence, "exact", exact=True, notes=tuple(notes))

    @property
    def relative_error(self) -> float:
        """Half the interval's width relative to the value: 0.03 means "within 3%". Infinite for non-numbers."""
        if self.exact:
            return 0.0
        if not isinstance(self.value, Number | Decimal) or not self.value:
            return inf
        if not isinstance(self.low, Number | Decimal) or not isinstance(self.high, Number | Decimal):
            return inf
        return (float(self.high) - float(self.low)) / 2 / abs(float(self.value))

    def numbers(self) -> dict[str, Plain]:
        """Return value, low, high, exact and known as JSON values; an end without a bound is None.

        Also the same values formatted for people: `shown`, and `shown_interval` where the answer is not exact.
        """
        value, low, high = self.shown
        return {
            "value": plain(self.value),
            "low": plain(self.low) if self.exact else plain_end(self.low),
            "high": plain(self.high) if self.exact else plain_end(self.high),
            "exact": self.exact,
            "known": self.known,
            "shown": value,
            "shown_interval": None if self.exact or self.value is None else f"{low} .. {high}",
        }

    def to_dict(self) -> dict[str, object]:
        """Return the answer as plain values with all their digits, ready for JSON."""
        return {
            "query": self.query,
            **self.numbers(),
            "confidence": self.confidence,
            "method": self.method,
            "notes": list(self.notes),
            "freshness": self.freshness.to_dict() if self.freshness else None,
        }

    def __float__(self) -> float:
        """Return the value as a float, or raise TypeError where it is not a number."""
        if not isinstance(self.value, Number | Decimal):
            raise TypeError(f"the answer of {self.query} is not a number: {self}.")
        return float(self.value)

    @property
    def shown(self) -> tuple[str, str, str]:
        """Value, low and high for people: exact ones in full, others to the digits that the interval supports.

        The ends are rounded outwards.
        """
        if self.value is None:
            return ("NULL" if self.known else "not known"), "", ""
        if self.exact:
            return show(self.value), show(self.value), show(self.value)
        places = _places(self.value, self.low, self.high)
        if places is None:
            return show(self.value), show_end(self.low, low=True), show_end(self.high)
        low = show_end(_rounded(self.low, places, ROUND_FLOOR), low=True)
        return show(_rounded(self.value, places)), low, show_end(_rounded(self.high, places, ROUND_CEILING))

    def __str__(self) -> str:
        value, low, high = self.shown
        if self.value is None:
            return f"{value} (exact)" if self.exact else value
        if self.exact:
            return f"{value} (exact)"
        return f"{value}  [{low} .. {high}] at {show_share(self.confidence)}, {self.method}"

    def __repr__(self) -> str:
        notes = "".join(f"\n  note: {note}" for note in self.notes)
        fresh = f"\n  as of {self.freshness}" if self.freshness else ""
        return f"Estimate({self.query}: {self}){notes}{fresh}"

    def _repr_html_(self) -> str:
        value, low, high = self.shown
        interval, drawing = "exact" if self.exact else "", ""
        if self.value is not None and not self.exact:
            interval = f"{low} to {high} at {show_share(self.confidence)} ({self.method})"
            drawing = draw_answer(self.value, self.low, self.high, f"{self.query}: {self}")
        fresh = muted(f"as of {self.freshness}") if self.freshness else ""
        shown = Markup(f"{heading(value)} {muted(interval)}")
        return block(muted(self.query), shown, drawing, listed(self.notes), fresh)


def show(value: Scalar | None) -> str:  # noqa: PLR0911 - one line per type
    """Return a value as people read it: in full, thousands grouped; a non-number as SQL writes it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Number):
        return _show_number(value)
    if isinstance(value, Decimal):
        return f"{value:,f}" if value == 0 or value.adjusted() > _TINY else f"{value:e}"
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, timedelta):
        return show_time_span(value)
    return f"X'{value.hex().upper()}'" if isinstance(value, bytes) else _printable(str(value))


def show_key(value: Scalar | None) -> str:
    """Return a value that names a group: numbers are often years and ids there, so thousands are not grouped."""
    return show(value).replace(",", "") if isinstance(value, Number | Decimal) else show(value)


def show_share(share: float) -> str:
    """Return a share of 1 in percent, with all the digits that it has: 95%, 99.9%."""
    return f"{100 * share:.6g}%"


def _printable(text: str) -> str:
    """Return a string with control characters and line breaks written as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def show_end(end: Scalar | None, *, low: bool = False) -> str:
    """Return an end of an interval as people read it."""
    if end is None or end == (-inf if low else inf):
        return "-unbounded" if low else "unbounded"
    return show(end)


def _show_number(number: Number) -> str:
    if isinstance(number, int):
        return f"{number:,}"
    if isnan(number):
        return "NaN"
    if number in (inf, -inf):
        return "Infinity" if number > 0 else "-Infinity"
    return f"{number:,.0f}" if number == int(number) and abs(number) < _WHOLE else f"{number:,}"


def _places(value: Scalar, low: Scalar | None, high: Scalar | None) -> int | None:
    """Return how many decimal places an interval supports, None for non-numbers.

    They give two digits of the distance from the value to its nearer end, so that value and both ends differ.
    """
    middle = finite(value)
    ends = [end for end in (finite(low), finite(high)) if end is not None]
    if middle is None or not ends:
        return None
    width = max(*ends, middle) - min(*ends, middle)
    if not 0 < width < inf or max(map(abs, (*ends, middle))) >= _WHOLE:
        return None
    gaps = [gap for end in ends if (gap := abs(end - middle)) > _NO_GAP * width]
    return max(0, 1 - floor(log10(min(gaps))))


def _rounded(number: Scalar | None, places: int, how: str = ROUND_HALF_EVEN) -> Scalar | None:
    """Return a number rounded to `places` decimal places; a non-number is returned unchanged."""
    if isinstance(number, int) or not isinstance(number, float | Decimal) or not isfinite(number):
        return number
    with localcontext(prec=400):
        rounded = Decimal(repr(number) if isinstance(number, float) else number).quantize(
            Decimal(1).scaleb(-places), how
        )
        return abs(rounded) if rounded == 0 else rounded


def difference_of(now: object, then: object, confidence: float) -> Estimate:
    """Return how much a number has changed, with an interval from the ends of both answers; PlanError for groups.

    Each answer may fail with at most half of 1 - confidence, so that both hold together at the confidence.
    """
    if not isinstance(now, Estimate) or not isinstance(then, Estimate):
        raise PlanError("a change is one number: ask for one group by a condition in WHERE.")
    notes = tuple(dict.fromkeys([*now.notes, *then.notes]))
    values = (now.value, then.value)
    if not all(isinstance(value, Number | Decimal) for value in values):
        return Estimate.unknown(
            now.query, confidence, "difference", (*notes, "one of the two answers is not a number.")
        )
    if now.exact and then.exact:
        return Estimate.exactly(now.query, _minus(now.value, then.value), confidence, notes)
    low, high = _minus(now.low, then.high), _minus(now.high, then.low)
    value = _minus(now.value, then.value)
    return Estimate(
        now.query,
        value,
        -inf if low is None else low,
        inf if high is None else high,
        confidence,
        "difference",
        notes=notes,
        freshness=now.freshness,
    )


def _minus(one: Scalar | None, other: Scalar | None) -> Number | Decimal | None:
    """Return a difference of numbers; None where one of them is not known."""
    if isinstance(one, Decimal) and isinstance(other, Decimal):
        return one - other
    if isinstance(one, int) and isinstance(other, int):
        return one - other
    if isinstance(one, Number | Decimal) and isinstance(other, Number | Decimal):
        return float(one) - float(other)
    return None


# How far FLOAT and DOUBLE may be off because only some of their digits are held: `kernels.doubles` says which.
#
# Numbers are cut off below 2^-120. That matters only for numbers that are nearly as small themselves. An exact
# answer knows whether any digit was cut off; estimates always allow for it.


_LARGEST_FACTOR = 2.0**63
"""No measure is larger, whatever its type."""


def widened(aggregate: Aggregate, interval: Interval, rows: float) -> Interval:
    """Return an interval of an aggregate that allows for digits cut off; rows: at most this many are aggregated."""
    if not may_be_cut_off(aggregate):
        return interval
    low, high = widened_ends(aggregate, np.array([interval.low]), np.array([interval.high]), np.array([rows]))
    return Interval(interval.value, float(low[0]), float(high[0]))


def widened_ends(
    aggregate: Aggregate, lows: FloatArray, highs: FloatArray, rows: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of an aggregate for many groups, allowing for digits cut off."""
    moment = aggregate.moment
    half = moment.cut_off(_cut_off(aggregate), highs, rows)
    if half is None:
        return lows, highs
    lows, highs = np.nextafter(lows - half, -np.inf), np.nextafter(highs + half, np.inf)
    return np.maximum(lows, moment.least), np.minimum(highs, moment.most)


def may_be_cut_off(aggregate: Aggregate) -> bool:
    """Return whether an aggregate adds up FLOAT or DOUBLE."""
    return not aggregate.moment.is_count and _cut_off(aggregate) > 0.0


def open_ends(aggregate: Aggregate, interval: Interval) -> Interval:
    """Return an interval without bounds where digits cut off may move an aggregate by any amount."""
    moment, nothing = aggregate.moment, np.empty(0)
    if moment.cut_off(0.0, nothing, nothing) is not None:
        return interval
    return Interval(interval.value, moment.least, moment.most)


def _cut_off(aggregate: Aggregate) -> float:
    """Return the most that is cut off a joined row's measure: the error of each FLOAT factor, times the others."""
    factors = aggregate.factors
    wide = sum(factor.expression.type.is_float for factor in factors)
    return float(wide * 2.0**LOWEST * _LARGEST_FACTOR ** (len(factors) - 1))


def most_rows(snapshot: Snapshot, query: AnyQuery) -> float:
    """Return how many rows a join has at most, by the exact numbers of rows of its streams."""
    by_demand = {kept.demand: kept.id for kept in snapshot.layout.kept}
    names = [by_demand[Demand(relation.stream, "total")] for relation in query.relations]
    return prod(1.0 + abs(snapshot.total(name)) for name in names)
