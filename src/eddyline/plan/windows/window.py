"""Windows over event time: panes of the slide's length, each with synopses of its own.

A window is a whole number of panes. Its synopses are the sum of those of its panes, because they are linear; a
pane that no window reaches any more is dropped. One pane more than the window is kept: the newest, which is
still filling.
"""

import hashlib
import re
from collections.abc import Sequence

import msgspec

from eddyline.errors import PlanError
from eddyline.plan.layout import Window

MOST_PANES = 10_000
_UNITS = {
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_SHORT = {
    "ms": "millisecond",
    "s": "second",
    "sec": "second",
    "m": "minute",
    "min": "minute",
    "h": "hour",
    "d": "day",
}
_DURATION = re.compile(r"\s*(\d+)\s*([a-z]+)\s*", re.IGNORECASE)


def parse_duration(text: str) -> int:
    """Return the microseconds of "5 minutes", "5 min", "1 hour", "1h", "30 seconds".

    >>> parse_duration("5 minutes")
    300000000
    """
    match = _DURATION.fullmatch(str(text))
    word = match[2].lower() if match else ""
    unit = _SHORT.get(word, word.removesuffix("s"))
    if match is None or unit not in _UNITS or int(match[1]) == 0:
        raise PlanError(
            f"{text!r} is not a length of time: write for example '30 seconds', '5 minutes' or '1 hour'."
        )
    return int(match[1]) * _UNITS[unit]


def parse_window(window: str, slide: str | None) -> Window:
    """Return the window of a query; without a slide it tumbles."""
    size = parse_duration(window)
    step = size if slide is None else parse_duration(slide)
    if size % step or size // step > MOST_PANES:
        raise PlanError(
            f"a window of {window} is not 1 to {MOST_PANES:,} slides of {slide}: choose a slide that divides it."
        )
    return Window(step, size // step)


def group_id(window: Window, streams: Sequence[str]) -> str:
    """Return the id of the panes that queries with one window on the same streams share."""
    content = msgspec.json.encode((window.slide, window.panes, sorted(streams)))
    return f"window-{hashlib.blake2b(content, digest_size=4).hexdigest()}"
