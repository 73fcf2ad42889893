"""Sizes: from a budget or an error to the shape of the sketches."""

import re

import scipy  # its subpackages are loaded where they are touched

from eddyline.errors import PlanError

MIN_DEPTH = 7
MIN_WIDTH = 16
HINT_SHARE = 4
"""One word in so many of a skimmed sketch goes to its candidate table."""
HIGHEST_CONFIDENCE = 1 - 1e-12
"""Nearer to 1 the quantiles of a float are infinite."""

_UNITS = {"": 1, "B": 1}
for _letter, _power in (("K", 1), ("M", 2), ("G", 3)):
    _UNITS |= {_letter: 1_000**_power, f"{_letter}B": 1_000**_power, f"{_letter}IB": 1_024**_power}


def checked_confidence(confidence: float) -> float:
    """Return a confidence that intervals can have, or raise PlanError."""
    if not isinstance(confidence, int | float) or not 0.5 <= confidence <= HIGHEST_CONFIDENCE:
        raise PlanError(f"confidence={confidence!r} is not a number between 0.5 and 1, such as 0.95 or 0.99.")
    return confidence


def parse_bytes(size: str | int) -> int:
    """Return a number of bytes from 64_000, "64 KB", "64K", "8 MB" or "1 MiB".

    >>> parse_bytes("8 MB")
    8000000
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(size))
    number = int(float(match[1]) * _UNITS.get(match[2].upper(), 0)) if match else 0
    if number <= 0:
        raise PlanError(
            f"budget {size!r} is not a size: write a number of bytes, or for example '64 KB' or '8 MB'."
        )
    return number


def shape_for(words: int) -> tuple[int, int]:
    """Return (width, depth) of the largest sketch within so many words: a power of two by 7 to 13 rows."""
    width = MIN_WIDTH
    while 2 * width * MIN_DEPTH <= words:
        width *= 2
    depth = min(words // width, 2 * MIN_DEPTH - 1)
    return width, depth


def two_sided_z(confidence: float) -> float:
    """Return the normal quantile that leaves (1 - confidence)/2 on either side."""
    return float(scipy.special.ndtri(0.5 + confidence / 2))
