"""The estimate: what a reader is told, and nothing that was not earned."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from math import inf, isnan

from eddyline.answer.drawing import draw_answer
from eddyline.answer.freshness import Freshness
from eddyline.answer.markup import Markup, block, heading, listed, muted
from eddyline.answer.plain import Plain, plain, plain_end

Number = int | float
Scalar = Number | Decimal | date | str | bytes
"""What an answer may be: a number (BOOLEAN among them), or a value of a column that MIN, MAX or a quantile tells."""


@dataclass(frozen=True)
class Estimate:
    """An answer with its interval.

    value is None where SQL's answer is NULL (a SUM or AVG over no rows), and, without `exact`, where what is kept
    cannot tell it: a note says why. `exact` answers have
    low = value = high. An end without a bound is an infinity, and None for types that have none: dates, times, DECIMAL.
    `notes` tell what a careful reader should know. `freshness` is there for answers
    from a store: how far the streams behind them had come.
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

    @classmethod
    def exactly(
        cls, query: str, value: Scalar | None, confidence: float, notes: Sequence[str] = ()
    ) -> "Estimate":
        """Return an exact answer."""
        return cls(query, value, value, value, confidence, "exact", exact=True, notes=tuple(notes))

    @property
    def relative_error(self) -> float:
        """Half the interval's width relative to the value: 0.03 reads "within 3%". Of what is no number infinite."""
        if self.exact:
            return 0.0
        if not isinstance(self.value, Number | Decimal) or not self.value:
            return inf
        if not isinstance(self.low, Number | Decimal) or not isinstance(self.high, Number | Decimal):
            return inf
        return (float(self.high) - float(self.low)) / 2 / abs(float(self.value))

    def numbers(self) -> dict[str, Plain]:
        """Return value, low, high and whether they are exact, as JSON has them; an end without a bound is None.

        Beside them the same as people read it: `shown`, and `shown_interval` where it is not exact.
        """
        known = self.value is not None
        return {
            "value": plain(self.value),
            "low": plain_end(self.low),
            "high": plain_end(self.high),
            "exact": self.exact,
            "shown": show(self.value) if known or self.exact else "not known",
            "shown_interval": self._ends(" .. ") if known and not self.exact else None,
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
        """Return the value as a float, or raise TypeError where it is no number."""
        if not isinstance(self.value, Number | Decimal):
            raise TypeError(f"the answer of {self.query} is no number: {self}.")
        return float(self.value)

    def __str__(self) -> str:
        if self.value is None:
            return "NULL (no rows)" if self.exact else "not known"
        if self.exact:
            return f"{show(self.value)} (exact)"
        return f"{show(self.value)}  [{self._ends(' .. ')}] at {self.confidence:.0%}, {self.method}"

    def _ends(self, between: str) -> str:
        return f"{show_end(self.low, low=True)}{between}{show_end(self.high)}"

    def __repr__(self) -> str:
        notes = "".join(f"\n  note: {note}" for note in self.notes)
        fresh = f"\n  as of {self.freshness}" if self.freshness else ""
        return f"Estimate({self.query}: {self}){notes}{fresh}"

    def _repr_html_(self) -> str:
        value = show(self.value) if self.value is not None else "NULL" if self.exact else "not known"
        interval, drawing = "exact" if self.exact else "", ""
        if self.value is not None and not self.exact:
            interval = f"{self._ends(' to ')} at {self.confidence:.0%} ({self.method})"
            drawing = draw_answer(self.value, self.low, self.high, f"{self.query}: {self}")
        fresh = muted(f"as of {self.freshness}") if self.freshness else ""
        told = Markup(f"{heading(value)} {muted(interval)}")
        return block(muted(self.query), told, drawing, listed(self.notes), fresh)


def show(value: Scalar | None) -> str:
    """Return a value as people read it: thousands grouped, no digits that mean nothing; others as SQL writes them."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Number):
        return _show_number(value)
    if isinstance(value, Decimal):
        return f"{value:,}"
    if isinstance(value, datetime):
        return value.isoformat(" ")
    return f"X'{value.hex().upper()}'" if isinstance(value, bytes) else str(value)


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
    if abs(number) >= 1000 or number == int(number):
        return f"{number:,.0f}"
    return f"{number:,.4g}"
