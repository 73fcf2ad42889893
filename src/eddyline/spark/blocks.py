"""Blocks of counters on their way between tasks: only what was touched, in as few bytes as its numbers need.

A block is a header and the words, in the narrowest of 1, 2, 4 or 8 bytes each that holds them all; where few of them
are not zero, their positions and those only. Most counters of a task fit 2 bytes, so that a state travels
in a quarter of its size or less.
"""

import struct
from typing import Final

import numpy as np

from eddyline.sketch.counters import Int64Array

_HEADER: Final = struct.Struct("<BBII")
"""Bytes of a word, bytes of a position (0: all words follow), words of the block, words that follow."""
_WIDTHS: Final = (1, 2, 4, 8)


def pack(words: Int64Array) -> bytes:
    """Return a block of words as bytes."""
    width = _width(words)
    count, place = int(np.count_nonzero(words)), _place(len(words))
    if count * (width + place) >= len(words) * width:
        return _HEADER.pack(width, 0, len(words), len(words)) + words.astype(f"<i{width}").tobytes()
    positions = np.flatnonzero(words)
    return b"".join(
        (
            _HEADER.pack(width, place, len(words), count),
            positions.astype(f"<u{place}").tobytes(),
            words[positions].astype(f"<i{width}").tobytes(),
        )
    )


def unpack(block: bytes | memoryview) -> Int64Array:
    """Return the words of a block."""
    width, place, words, count = _HEADER.unpack_from(block)
    values = np.frombuffer(block, f"<i{width}", count, _HEADER.size + count * place)
    if place == 0:
        return values.astype(np.int64)
    out = np.zeros(words, dtype=np.int64)
    out[np.frombuffer(block, f"<u{place}", count, _HEADER.size)] = values
    return out


def _width(words: Int64Array) -> int:
    """Return the bytes that the largest of some words takes."""
    if len(words) == 0:
        return 1
    low, high = int(words.min()), int(words.max())
    return next(width for width in _WIDTHS if -(1 << 8 * width - 1) <= low and high < 1 << 8 * width - 1)


def _place(words: int) -> int:
    return 2 if words <= 1 << 16 else 4
