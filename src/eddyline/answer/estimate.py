"""The estimate: what a reader is told, and nothing that was not earned."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal, localcontext
from math import floor, inf, isfinite, isnan, log10

from eddyline.answer.drawing import draw_answer
from eddyline.answer.freshness import Freshness
from eddyline.answer.markup import Markup, block, heading, listed, muted
from eddyline.answer.plain import Plain, finite, plain, plain_end

Number = int | float
Scalar = Number | Decimal | date | str | bytes
"""What an answer may be: a number (BOOLEAN among them), or a value of a column that MIN, MAX or a quantile tells."""


_WHOLE = 1e16  # from here on floats are written with an exponent
_TINY = -7  # decimals below ten to this power, too
_NO_GAP = 1e-6
"""The part of an interval's width below which an end counts as the value itself: chosen, to bound the digits shown."""


@dataclass(frozen=True)
class Estimate:
    """An answer with its interval.

    value is None where SQL's answer is NULL (a SUM or AVG over no rows, a STDDEV over one), and where it is not known
    because what is kept cannot tell it: `known` is False then, and a note says why. `exact` answers have
    low = value = high. An end without a bound is an infinity, and None for types that have none: dates, times, DECIMAL.
    is_null: a NULL is certain although other answers of its group are not exact.
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
    is_null: bool = False

    @property
    def known(self) -> bool:
        """Whether what is kept tells the answer, be it NULL; where it does not, value is None, too."""
        return self.value is not None or self.exact or self.is_null

    @classmethod
    def unknown(cls, query: str, confidence: float, method: str, notes: Sequence[str]) -> "Estimate":
        """Return an answer that what is kept cannot tell, with the reason among its notes."""
        return cls(query, None, None, None, confidence, method, notes=tuple(notes))

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
        """Return value, low, high, whether they are exact and known, as JSON has them; an end without a bound is None.

        Beside them the same as people read it: `shown`, and `shown_interval` where it is not exact.
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
        """Return the value as a float, or raise TypeError where it is no number."""
        if not isinstance(self.value, Number | Decimal):
            raise TypeError(f"the answer of {self.query} is no number: {self}.")
        return float(self.value)

    @property
    def shown(self) -> tuple[str, str, str]:
        """Value, low and high as people read them: exact ones in full, others to the digits that the interval supports.

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
        told = Markup(f"{heading(value)} {muted(interval)}")
        return block(muted(self.query), told, drawing, listed(self.notes), fresh)


def show(value: Scalar | None) -> str:
    """Return a value as people read it: in full, thousands grouped; what is no number as SQL writes it."""
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
    return f"X'{value.hex().upper()}'" if isinstance(value, bytes) else _printable(str(value))


def show_key(value: Scalar | None) -> str:
    """Return a value that names a group: numbers are years and ids there, and their thousands are not set apart."""
    return show(value).replace(",", "") if isinstance(value, Number | Decimal) else show(value)


def show_share(share: float) -> str:
    """Return a share of 1 in percent, with all the digits that it has: 95%, 99.9%."""
    return f"{100 * share:.6g}%"


def _printable(text: str) -> str:
    """Return a text with what a terminal would obey, and lines would break at, written out."""
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
    """Return how many places behind the point an interval supports, None for no numbers.

    They are two digits of how far the nearer of its ends lies from the value, so that all three are told apart.
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
    """Return a number with so many places behind the point; what is none stays as it is."""
    if isinstance(number, int) or not isinstance(number, float | Decimal) or not isfinite(number):
        return number
    with localcontext(prec=400):
        rounded = Decimal(repr(number) if isinstance(number, float) else number).quantize(
            Decimal(1).scaleb(-places), how
        )
        return abs(rounded) if rounded == 0 else rounded
