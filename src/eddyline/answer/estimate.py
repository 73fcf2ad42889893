"""The estimate: what a reader is told, and nothing that was not earned."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import inf, isfinite

from eddyline.answer.freshness import Freshness

Number = int | float


@dataclass(frozen=True)
class Estimate:
    """An answer with its interval.

    value is None where SQL's answer is NULL (a SUM or AVG over no rows), and, without `exact`, where what is kept
    cannot tell it: a note says why. `exact` answers have
    low = value = high. `notes` tell what a careful reader should know. `freshness` is there for answers
    from a store: how far the streams behind them had come.
    """

    query: str
    value: Number | None
    low: Number | None
    high: Number | None
    confidence: float
    method: str
    exact: bool = False
    notes: tuple[str, ...] = ()
    freshness: Freshness | None = None

    @classmethod
    def exactly(
        cls, query: str, value: Number | None, confidence: float, notes: Sequence[str] = ()
    ) -> "Estimate":
        """Return an exact answer."""
        return cls(query, value, value, value, confidence, "exact", exact=True, notes=tuple(notes))

    @property
    def relative_error(self) -> float:
        """Half the interval's width relative to the value: 0.03 reads "within 3%"."""
        if self.exact:
            return 0.0
        if not self.value or self.low is None or self.high is None:
            return inf
        return (self.high - self.low) / 2 / abs(self.value)

    def __str__(self) -> str:
        if self.value is None:
            return "NULL (no rows)" if self.exact else "not known"
        if self.exact:
            return f"{show(self.value)} (exact)"
        return f"{show(self.value)}  [{show(self.low)} .. {show(self.high)}] at {self.confidence:.0%}, {self.method}"

    def __repr__(self) -> str:
        notes = "".join(f"\n  note: {note}" for note in self.notes)
        fresh = f"\n  as of {self.freshness}" if self.freshness else ""
        return f"Estimate({self.query}: {self}){notes}{fresh}"

    def _repr_html_(self) -> str:
        if self.value is None or self.exact:
            interval = "exact" if self.exact else ""
        else:
            interval = (
                f"{show(self.low)} to {show(self.high)} at {self.confidence:.0%} ({escape(self.method)})"
            )
        notes = "".join(f"<div style='color:#a60'>{escape(note)}</div>" for note in self.notes)
        value = show(self.value) if self.value is not None else "NULL" if self.exact else "not known"
        return (
            f"<div><span style='color:#666'>{escape(self.query)}</span><br>"
            f"<b style='font-size:1.4em'>{value}</b> <span style='color:#666'>{interval}</span>{notes}</div>"
        )


def show(number: Number | None) -> str:
    """Return a number as people read it: thousands grouped, no digits that mean nothing."""
    if number is None:
        return "NULL"
    if isinstance(number, int):
        return f"{number:,}"
    if not isfinite(number):
        return "unbounded" if number > 0 else "-unbounded"
    if abs(number) >= 1000 or number == int(number):
        return f"{number:,.0f}"
    return f"{number:,.4g}"
