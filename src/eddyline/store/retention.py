"""Which epochs a store keeps: the newest, and one of each hour or day for some time, in a bounded number of bytes.

    3                                           the last three
    "hourly for 7 days, daily for 90 days"      those, the last of each hour of a week and of each day of 90
    "daily for 90 days, at most 2 GB"           the oldest go first where they take more

Every epoch lists those that are kept with it, so that applying a rule or looking up a time does not read other
epochs. Times are those of commits, by the clock of the machine that wrote them. A clock that jumps may thin the
history, but never the last three epochs: these are known by their numbers.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import floor

import msgspec

from eddyline.errors import StoreError
from eddyline.plan.size.specs import parse_bytes

RECENT = 3
"""Epochs that are always kept. Two are enough for readers; the third is for `restore` if the newest is damaged."""
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 7 * 86_400}
_PERIODS = {"minutely": 60, "hourly": 3600, "daily": 86_400, "weekly": 7 * 86_400}
_PART = re.compile(r"(minutely|hourly|daily|weekly) for (\d+)\s*(minute|hour|day|week)?s?", re.IGNORECASE)
_LIMIT = re.compile(r"at most (.+)", re.IGNORECASE)


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """An epoch that is kept: its number, the time of its last batch in seconds since 1970, and its bytes."""

    number: int
    time: float
    nbytes: int


def _number(kept: Kept) -> int:
    return kept.number


@dataclass(frozen=True, slots=True)
class Retention:
    """A rule. periods: (seconds of a period, seconds for which the last epoch of each period is kept)."""

    recent: int = RECENT
    periods: tuple[tuple[int, int], ...] = ()
    most_bytes: int | None = None

    def chosen(self, epochs: Sequence[Kept], newest: Kept) -> tuple[Kept, ...]:
        """Return the epochs to keep next to the newest one, in the order of their numbers."""
        ordered = sorted(epochs, key=_number)
        recent = ordered[max(len(ordered) - self.recent + 1, 0) :] if self.recent > 1 else []
        kept = set(recent)
        for period, span in self.periods:
            last: dict[int, Kept] = {}
            for each in ordered:
                if newest.time - span < each.time <= newest.time:
                    last[floor(each.time / period)] = each
            kept |= set(last.values())
        result = sorted(kept, key=_number)
        while (
            self.most_bytes is not None and sum(each.nbytes for each in [*result, newest]) > self.most_bytes
        ):
            oldest = next((each for each in result if each not in recent), None)
            if oldest is None:
                break
            result.remove(oldest)
        return tuple(result)


def parse_retention(rule: int | str) -> Retention:
    """Return the rule that a number of epochs or a string describes, or raise StoreError.

    >>> parse_retention("hourly for 7 days, daily for 90").periods
    ((3600, 604800), (86400, 7776000))
    """
    if isinstance(rule, int):
        if rule < 1:
            raise StoreError(f"a store keeps 1 epoch or more, not {rule}.")
        return Retention(recent=rule)
    periods: list[tuple[int, int]] = []
    most: int | None = None
    unit = "day"
    for part in (each.strip() for each in rule.split(",")):
        if found := _PART.fullmatch(part):
            unit = (found[3] or unit).lower()
            periods.append((_PERIODS[found[1].lower()], int(found[2]) * _UNITS[unit]))
        elif found := _LIMIT.fullmatch(part):
            most = parse_bytes(found[1])
        else:
            raise StoreError(
                f"keep = {rule!r} cannot be read at {part!r}: write a number of epochs, or for example "
                '"hourly for 7 days, daily for 90 days, at most 1 GB".'
            )
    return Retention(periods=tuple(periods), most_bytes=most)
