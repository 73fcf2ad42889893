"""What is remembered of a stream's rows that went by, beside all counters: what the input check goes by.

Tallies of two parts of a stream add up to that of both, however the rows were parted.
"""

import msgspec


class Tally(msgspec.Struct, frozen=True, omit_defaults=True):
    """Rows of a stream that went by, and what was striking about all of them.

    deletes: how many took rows away. empty: columns that were NULL in all of them. earliest, latest: their event times,
    in microseconds since 1970, where windows go by them. unread: columns that seem to say what a row changes, and that
    nothing reads. similar: columns that the schema does not have, spelt like those that were NULL. timed: rows of which
    the event time was looked at, which is not done before a query has a window.
    """

    rows: int = 0
    deletes: int = 0
    empty: tuple[str, ...] = ()
    earliest: int | None = None
    latest: int | None = None
    unread: tuple[str, ...] = ()
    similar: tuple[str, ...] = ()
    timed: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        if not self.rows or not other.rows:
            return other if not self.rows else self
        return Tally(
            self.rows + other.rows,
            self.deletes + other.deletes,
            _both(self.empty, other.empty),
            min((each.earliest for each in (self, other) if each.earliest is not None), default=None),
            max((each.latest for each in (self, other) if each.latest is not None), default=None),
            _both(self.unread, other.unread),
            tuple(sorted({*self.similar, *other.similar})),
            self.timed + other.timed,
        )


def _both(left: tuple[str, ...], right: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in left if name in right)
