"""Exactly once: whether a batch is new, was committed before, or does not belong to this store.

Spark delivers a batch at least once, with ids 0, 1, 2, ... within one checkpoint, which its query id names. A new
checkpoint starts again at 0 under a new query id. A copy of an older checkpoint plans an id a second time, with
other rows. So a position has the query id, the batch id, and a hash of the batch's content.
"""

import base64
import hashlib
from collections.abc import Collection, Iterable
from typing import Protocol

import msgspec

from eddyline.errors import WrongRun
from eddyline.store.layout import SourcePosition

MOST_FILES = 4096
"""The number of file names that a position remembers, 8 bytes each; chosen: 45 KB of an epoch's header."""
_MANY = "many"
_ADOPT = "open the store with adopt=True (eddyline run --adopt) to take it over knowingly, or use another directory"
REFRESH = "read the stream again from its start (eddyline run --full-refresh QUERY)"


class PlannedBatches(Protocol):
    """What a checkpoint knows about its batches."""

    @property
    def where(self) -> str:
        """The folder, as messages name it."""

    @property
    def query_id(self) -> str | None:
        """The id of its query, None where there is no checkpoint."""

    @property
    def last(self) -> int:
        """The last batch that was planned, -1 where none was."""

    def is_done(self, batch: int) -> bool:
        """Return whether a batch was done."""

    def held(self, batch: int) -> str:
        """Return a hash of a batch's content, empty where it is no longer known."""


class Batch(msgspec.Struct, frozen=True):
    """What is known about a batch besides its id: a hash of its content, its files and their folder."""

    held: str = ""
    folder: str = ""
    files: tuple[str, ...] = ()


UNKNOWN = Batch()


def already_seen(
    position: SourcePosition | None,
    source: str,
    query_id: str,
    batch_id: int,
    *,
    adopt: bool,
    batch: Batch = UNKNOWN,
) -> bool:
    """Return whether a batch was committed before; raise WrongRun when it is not this store's next one.

    `adopt` accepts any first batch of another query, unless it has files that the store knows.
    """
    if position is not None and position.query_id == query_id:
        _refuse_gap(source, batch_id, position.batch_id + 1)
        if batch_id <= position.batch_id:
            _refuse_other(position, source, batch_id, batch.held)
        elif position.folder and batch.folder and batch.folder != position.folder:
            _refuse_known(position, source, batch)
        return batch_id <= position.batch_id
    if position is None or position.batch_id < 0:
        if not adopt:
            _refuse_gap(source, batch_id, 0)
        return False
    if not adopt:
        raise _other_query(position, source, query_id, batch_id)
    _refuse_known(position, source, batch)
    return False


def last_to_keep(
    position: SourcePosition | None, source: str, checkpoint: PlannedBatches, *, adopt: bool
) -> int | None:
    """Return the batch that a checkpoint must go back to, None where it fits as it is; or raise WrongRun.

    It is called before a run takes its first batch. A checkpoint that is ahead of the store goes back, so that what
    the store lacks is read again. A checkpoint that is behind the store, or belongs to another run, would lose rows
    or count them twice.
    """
    query_id, last = checkpoint.query_id, checkpoint.last
    has_taken = last > 0 or (last == 0 and checkpoint.is_done(0))
    if position is None or position.batch_id < 0:
        if not has_taken:
            return None
        if position is not None and position.query_id == query_id:
            return -1
        raise WrongRun(
            f"the store holds no batch of stream {source}, and its checkpoint {checkpoint.where} has taken batches up "
            f"to {last}, whose rows would be missing: {REFRESH}, or restore the store that belongs to it."
        )
    if position.query_id != query_id:
        if adopt and not has_taken:
            return -1 if last == 0 else None  # planned by an adoption that was refused
        raise _other_checkpoint(position, source, checkpoint, query_id, has_taken=has_taken)
    if last < position.batch_id:
        raise WrongRun(
            f"the checkpoint {checkpoint.where} of stream {source} is older than the store: it ends at batch {last}, "
            f"and the store holds batch {position.batch_id}; put the newer checkpoint back, restore an epoch of the "
            f"store that ends at batch {last} (eddyline restore), or {REFRESH}."
        )
    held = checkpoint.held(position.batch_id)
    if not held:
        raise WrongRun(
            f"the checkpoint {checkpoint.where} of stream {source} is at batch {last} and no longer has batch "
            f"{position.batch_id}, the last one that the store holds: {REFRESH}, or restore a newer store."
        )
    _refuse_other(position, source, position.batch_id, held)
    is_next = last == position.batch_id + 1 and not checkpoint.is_done(last)
    return None if last == position.batch_id or is_next else position.batch_id


def check_folder(position: SourcePosition | None, source: str, folder: str, *, adopt: bool) -> None:
    """Raise WrongRun where the files of a stream are in another folder: Spark would treat all of them as new."""
    if position is None or adopt or not position.folder or not folder or position.folder == folder:
        return
    raise WrongRun(
        f"the store holds files of stream {source} from {position.folder}, and they are now read from {folder}, where "
        f"each would count as new: move them back, {REFRESH}, or say that the files there are new (eddyline run "
        "--adopt)."
    )


def _refuse_gap(source: str, batch_id: int, expected: int) -> None:
    if batch_id > expected:
        raise WrongRun(
            f"batch {batch_id} of stream {source} arrived, and batch {expected} is next: the store lacks the batches "
            "between. It is older than the checkpoint, or does not belong to it: restore copies that belong "
            "together, or read the stream again from its start (eddyline run --full-refresh QUERY)."
        )


def _refuse_known(position: SourcePosition, source: str, batch: Batch) -> None:
    """Raise WrongRun where a batch that seems new reads a file that the store already holds."""
    if known := known_file(position, batch):
        raise WrongRun(
            f"stream {source} would read {known} again, whose rows the store holds: {REFRESH}, or leave only new files "
            "in its folder."
        )


def _refuse_other(position: SourcePosition, source: str, batch_id: int, held: str) -> None:
    """Raise WrongRun where a repeated batch is not known to be the one that the store holds."""
    if held and (batch_id < position.batch_id or (position.held and held != position.held)):
        raise WrongRun(
            f"batch {batch_id} of stream {source} is not the one that the store holds: the checkpoint is an older "
            f"copy, or was restored; put the right one back, or {REFRESH}."
        )


def _other_query(position: SourcePosition, source: str, query_id: str, batch_id: int) -> WrongRun:
    held = f"stream {source} up to batch {position.batch_id} of query {position.query_id}"
    if batch_id == 0:
        return WrongRun(
            f"the store holds {held}, and query {query_id} starts at batch 0: its checkpoint was lost or belongs to "
            f"another query, and its rows may be in the store already; restore the checkpoint, {_ADOPT}."
        )
    return WrongRun(f"the store holds {held}, and batch {batch_id} is of query {query_id}: {_ADOPT}.")


def _other_checkpoint(
    position: SourcePosition,
    source: str,
    checkpoint: PlannedBatches,
    query_id: str | None,
    *,
    has_taken: bool,
) -> WrongRun:
    held = f"the store holds stream {source} up to batch {position.batch_id} of query {position.query_id}"
    if has_taken:
        return WrongRun(
            f"{held}, and its checkpoint {checkpoint.where} is of query {query_id}, which has taken batches that the "
            f"store does not hold; put the right checkpoint back, or {REFRESH}."
        )
    return WrongRun(
        f"{held}, and its checkpoint was lost: that query has none at {checkpoint.where}, and a new one would "
        f"read rows again that the store holds; put it back, {REFRESH}, or say that the source has only new rows "
        "(eddyline run --adopt)."
    )


def name_hashes(names: Iterable[str]) -> set[bytes]:
    """Return the hashes by which names of files are remembered."""
    return {hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names}


def remembered(files: str, names: Collection[str]) -> str:
    """Return what a position remembers after more files: their hashes, or that there are too many."""
    if not names or files == _MANY:
        return files
    known = _hashes(files) | name_hashes(names)
    return _MANY if len(known) > MOST_FILES else base64.b64encode(b"".join(sorted(known))).decode()


def known_file(position: SourcePosition, batch: Batch) -> str | None:
    """Return a file of a batch that may be in the store already, None where all are new."""
    if position.files == _MANY or (position.rows and not position.files):
        return next(iter(batch.files), None)
    known = _hashes(position.files)
    return next((name for name in batch.files if name_hashes([name]) & known), None)


def _hashes(files: str) -> set[bytes]:
    content = base64.b64decode(files)
    return {content[at : at + 8] for at in range(0, len(content), 8)}


def advanced(
    position: SourcePosition | None,
    query_id: str,
    batch_id: int,
    counts: tuple[int, int, int, int],
    time: float,
    batch: Batch = UNKNOWN,
) -> SourcePosition:
    """Return the position after a batch with these numbers of (rows, deletes, bad, late) records."""
    old = position if position is not None else SourcePosition(query_id, -1, 0, 0, 0, time)
    before = (old.rows, old.deletes, old.bad, old.late)
    rows, deletes, bad, late = (one + more for one, more in zip(before, counts, strict=True))
    files = remembered(old.files, batch.files)
    return SourcePosition(
        query_id, batch_id, rows, deletes, bad, time, late, batch.held, batch.folder or old.folder, files
    )
