"""Making epochs durable, one writer at a time.

The next epoch is written under a new name, then the pointer CURRENT, each durably, then epochs past the history are
removed. The pointer decides: the next writer removes whatever a killed commit left above it, and the batch is
delivered again.
"""

import contextlib
import errno
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, replace

import msgspec

from eddyline.errors import Locked, StoreError
from eddyline.sketch.codec import digest_of
from eddyline.store.filesystem import Step, no_step
from eddyline.store.layout import (
    CURRENT,
    NEWEST,
    TEMPORARY,
    Epoch,
    encode,
    encode_pointer,
    epoch_name,
    epoch_number,
    epoch_numbers,
)
from eddyline.store.lock import Lock, acquire
from eddyline.store.reader import Reader
from eddyline.store.retention import Kept, parse_retention

_FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the quota is used up",
    errno.EFBIG: "files may not grow so large",
}


@dataclass(frozen=True, slots=True)
class Options:
    """How to write.

    keep: which older epochs to keep, a number or a rule of `retention`; adopt: accept another run's streams;
    break_lock: remove the lock of a dead writer. `fault` is called with each of `layout.COMMIT_STEPS` as it is
    reached, for tests that kill there.
    """

    keep: int | str = 3
    adopt: bool = False
    break_lock: bool = False
    fault: Step = no_step

    def __post_init__(self) -> None:
        parse_retention(self.keep)


@contextlib.contextmanager
def sentence(where: str, consequence: str | Callable[[], str]) -> Iterator[None]:
    """Turn an error of the filesystem into one clear sentence."""
    try:
        yield
    except OSError as error:
        full = _FULL.get(error.errno or 0)
        reason = f"{full} at {where}; free some space and run again" if full else f"{error} ({where})"
        begin = consequence if isinstance(consequence, str) else consequence()
        raise StoreError(f"{begin}: {reason}.") from error


class EpochWriter:
    """The holder of a store's lock; not for several threads at once."""

    def __init__(self, reader: Reader, options: Options) -> None:
        self.reader = reader
        self._files = reader.files
        self._options = options
        self._retention = parse_retention(options.keep)
        self._epoch: Epoch | None = None
        self._closed = False
        with sentence(reader.where, "the store cannot be opened"):
            self._lock: Lock = acquire(reader.files, break_lock=options.break_lock)

    def close(self) -> None:
        """Release the lock; a second call changes nothing."""
        if not self._closed:
            self._closed = True
            self._lock.release()

    @contextlib.contextmanager
    def closed_on_error(self) -> Iterator[None]:
        """Release the lock if the block fails."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def current(self) -> Epoch:
        """Return the last epoch that was committed, from disk when a commit of ours failed half-way.

        It is made durable first: a killed writer may have named it without the fsync of the directory, and a
        repeated batch is confirmed by what is read here.
        """
        if self._epoch is None:
            with sentence(self.reader.where, "the store cannot be opened for writing"):
                self._files.settle()
            epoch = self.reader.latest()
            self.sweep(above=epoch.number)
            self._epoch = epoch
        return self._epoch

    def sweep(self, above: int) -> None:
        """Remove what a killed or failed commit left: temporary files, and epochs above the current one."""
        with sentence(self.reader.where, "what a killed commit left cannot be removed"):
            for name in self._files.names():
                number = epoch_number(name)
                if name.endswith(TEMPORARY) or (number is not None and number > above):
                    self._files.remove(name)

    def publish(self, epoch: Epoch, consequence: str, *, keep_all: bool = False) -> Epoch:
        """Make an epoch the current one and return it as it was written.

        On an error the old epoch stays, and the error begins with `consequence`; only if the last fsync fails, the new
        epoch may be current, and the error says so. keep_all: keep all epochs that its parent had.
        """
        if self._closed:
            raise StoreError(f"the store {self.reader.where} was closed: open it again to write.")
        fault = self._options.fault
        epoch = self._follows(epoch, keep_all=keep_all)
        data = encode(epoch)
        epoch = replace(epoch, digest=digest_of(data))
        self._epoch = None
        pointer = encode_pointer(epoch.number, epoch.digest)

        def renamed(step: str) -> None:
            nonlocal consequence
            if step == "named":
                consequence = f"epoch {epoch.number} is current, and a loss of power may still undo it"
            fault(f"pointer-{step}")

        with sentence(self.reader.where, lambda: consequence):
            fault("begun")
            self._lock.check()
            self._create(epoch, data)
            self._lock.check()
            self._files.replace(CURRENT, pointer, renamed)
        self._epoch = epoch
        with contextlib.suppress(OSError):
            self._files.note(NEWEST, pointer)
        self.keep_only({each.number for each in epoch.commit.kept} | {epoch.number})
        fault("collected")
        return epoch

    def keep_only(self, numbers: Container[int]) -> None:
        """Remove all other epochs; a later commit retries what cannot be removed now."""
        with contextlib.suppress(OSError):
            for number in epoch_numbers(self._files.names()):
                if number not in numbers:
                    self._files.remove(epoch_name(number))

    def _follows(self, epoch: Epoch, *, keep_all: bool) -> Epoch:
        """Return an epoch with the hash of its parent's file and the list of kept epochs."""
        number, last = epoch.commit.parent, self._epoch
        if number is None:
            return epoch
        parent = last if last is not None and last.number == number else self.reader.at(number)
        known = {each.number: each for each in parent.commit.kept}
        if not known:  # an earlier format, or the first epoch: the times of older epochs are not known
            known = {
                each: Kept(each, parent.time, 0)
                for each in epoch_numbers(self.reader.names())
                if each < number
            }
        if keep_all:
            there = set(epoch_numbers(self.reader.names()))
            known = {each: kept for each, kept in known.items() if each in there}
        nbytes = sum(parent.commit.sections.values())
        older = [*known.values(), Kept(parent.number, parent.time, nbytes)]
        newest = Kept(epoch.number, epoch.time, sum(epoch.commit.sections.values()))
        kept = tuple(older) if keep_all else self._retention.chosen(older, newest)
        commit = msgspec.structs.replace(epoch.commit, parent_hash=parent.digest, kept=kept)
        return replace(epoch, commit=commit)

    def _create(self, epoch: Epoch, data: bytes) -> None:
        fault = self._options.fault
        try:
            self._files.create(epoch_name(epoch.number), data, lambda step: fault(f"epoch-{step}"))
        except FileExistsError:
            raise Locked(
                f"another writer made epoch {epoch.number} of {self.reader.where} first, past our lock: "
                "stop one of them."
            ) from None
