"""The exact total: one counter that holds the net sum of the weights. It needs no key."""

import msgspec

from eddyline.sketch.counters import Int64Array, add, check_headroom, subtract
from eddyline.sketch.hashed_keys import KeyArray


class TotalSpec(msgspec.Struct, frozen=True, tag_field="kind", tag="total"):
    """One exact int64 counter."""

    @property
    def words(self) -> int:
        """The number of 8-byte words of its counters."""
        return 1

    @property
    def touched(self) -> int:
        """The number of counters that a row touches: its only one."""
        return 1

    @property
    def edges(self) -> int:
        """The number of key arrays that an update takes."""
        return 0

    def accumulate(self, counters: Int64Array, keys: KeyArray, weights: Int64Array) -> None:  # noqa: ARG002
        """Add the weights to the counter in place; raise, with nothing changed, if it might overflow."""
        check_headroom(counters, weights)
        counters[0] += weights.sum()

    def add(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:  # noqa: ARG002
        """Return the sum of two blocks of counters that begin at word `start`."""
        return add(left, right)

    def subtract(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:  # noqa: ARG002
        """Return the difference of two blocks of counters that begin at word `start`."""
        return subtract(left, right)
