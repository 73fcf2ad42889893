"""Integers in as few bits as they need, and the positions of the non-zero ones among many."""

import struct

import numpy as np

from eddyline.errors import CorruptState
from eddyline.sketch.counters import Int64Array

HEAD = struct.Struct("<IB")  # how many entries are not zero, and the bits of each


def zigzag(numbers: Int64Array) -> Int64Array:
    """Return signed numbers as non-negative ones, small where the number is small."""
    return numbers << 1 ^ numbers >> 63


def unzigzag(numbers: Int64Array) -> Int64Array:
    """Return the numbers that `zigzag` was given."""
    return numbers >> 1 ^ -(numbers & 1)


def bits_of(numbers: Int64Array) -> int:
    """Return how many bits the largest of these numbers needs."""
    return int(numbers.max()).bit_length() if len(numbers) else 0


def pack(numbers: Int64Array, width: int) -> bytes:
    """Return non-negative numbers in `width` bits each."""
    bits = numbers[:, None] >> np.arange(width) & 1
    return np.packbits(bits.astype(np.uint8)).tobytes()


def pack_positions(at: Int64Array, size: int) -> bytes:
    """Return ascending positions below `size`: as indices or as a bitmap, whichever is shorter."""
    index = (size - 1).bit_length()
    if len(at) * index < size:
        return pack(at, index)
    bitmap = np.zeros(size, dtype=np.uint8)
    bitmap[at] = 1
    return np.packbits(bitmap).tobytes()


def unpack_positions(reader: "BitReader", number: int, size: int) -> Int64Array:
    """Return the positions that `pack_positions` was given."""
    index = (size - 1).bit_length()
    at = (
        reader.take_numbers(number, index)
        if number * index < size
        else np.flatnonzero(reader.take_bits(size)).astype(np.int64)
    )
    if len(at) != number or (number and (at[-1] >= size or (np.diff(at) <= 0).any())):
        raise damaged()
    return at


def damaged() -> CorruptState:
    """Return the error of bytes that cannot have been packed so."""
    return CorruptState("these bytes are not the compact counters of this spec: they are damaged.")


class BitReader:
    """A cursor over bytes that never reads past their end."""

    def __init__(self, data: bytes) -> None:
        self._data = np.frombuffer(data, dtype=np.uint8)
        self._at = 0

    def _take(self, size: int) -> np.ndarray:
        if self._at + size > len(self._data):
            raise damaged()
        self._at += size
        return self._data[self._at - size : self._at]

    def head(self, most: int) -> tuple[int, int]:
        """Return the number of non-zero entries, of at most `most`, and the bits of each."""
        number, width = HEAD.unpack(self._take(HEAD.size).tobytes())
        if number > most or width > 63:
            raise damaged()
        return number, width

    def take_bits(self, number: int) -> np.ndarray:
        """Return the next bits, one uint8 each; packed bits end on a whole byte."""
        return np.unpackbits(self._take((number + 7) // 8), count=number)

    def take_numbers(self, number: int, width: int) -> Int64Array:
        """Return the next numbers of `width` bits each."""
        bits = self.take_bits(number * width).reshape(number, width).astype(np.int64)
        return np.asarray((bits << np.arange(width)).sum(axis=1), dtype=np.int64)

    def finish(self) -> None:
        """Raise unless every byte was read."""
        if self._at != len(self._data):
            raise damaged()
