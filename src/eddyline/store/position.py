"""Exactly once: whether a batch is new, was committed before, or does not belong to this store.

Spark delivers a batch at least once, with ids 0, 1, 2, ... within one checkpoint, which its query id names.
A new checkpoint starts again at 0 under a new query id, so the batch id alone says nothing.
"""

from eddyline.errors import WrongRun
from eddyline.store.commit import SourcePosition

_ADOPT = "open the store with adopt=True (eddyline run --adopt) to take it over knowingly, or use another directory"


def already_seen(
    position: SourcePosition | None, source: str, query_id: str, batch_id: int, *, adopt: bool
) -> bool:
    """Return whether a batch was committed before; raise WrongRun when it is not this store's next one.

    `adopt` accepts any first batch of another query.
    """
    if position is not None and position.query_id == query_id:
        _refuse_gap(source, batch_id, position.batch_id + 1)
        return batch_id <= position.batch_id
    if adopt:
        return False
    if position is None:
        _refuse_gap(source, batch_id, 0)
        return False
    raise _other_query(position, source, query_id, batch_id)


def _refuse_gap(source: str, batch_id: int, expected: int) -> None:
    if batch_id > expected:
        raise WrongRun(
            f"batch {batch_id} of stream {source} came where batch {expected} is next: the store lacks the "
            "batches between, so it is older than the checkpoint or another one's; give both their matching "
            "copies, or rebuild the store with a new checkpoint."
        )


def _other_query(position: SourcePosition, source: str, query_id: str, batch_id: int) -> WrongRun:
    held = f"stream {source} up to batch {position.batch_id} of query {position.query_id}"
    if batch_id == 0:
        return WrongRun(
            f"the store holds {held}, and query {query_id} starts at batch 0: its checkpoint was lost or is "
            f"another one's, and its rows may be in the store already; restore the checkpoint, {_ADOPT}."
        )
    return WrongRun(f"the store holds {held}, and batch {batch_id} is of query {query_id}: {_ADOPT}.")


def advanced(
    position: SourcePosition | None,
    query_id: str,
    batch_id: int,
    counts: tuple[int, int, int, int],
    time: float,
) -> SourcePosition:
    """Return the position after a batch with so many (rows, deletes, bad, late) records."""
    before = (0, 0, 0, 0)
    if position is not None:
        before = (position.rows, position.deletes, position.bad, position.late)
    rows, deletes, bad, late = (old + new for old, new in zip(before, counts, strict=True))
    return SourcePosition(query_id, batch_id, rows, deletes, bad, time, late)
