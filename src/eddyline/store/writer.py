"""Making epochs durable, one writer at a time.

The next epoch is written under a new name, then the pointer CURRENT, each durably, then epochs past the
history are removed. The pointer decides: whatever a killed commit left above it is removed by the next
writer, and the batch comes again.
"""

import contextlib
import errno
from collections.abc import Iterator
from dataclasses import dataclass

from eddyline.errors import Locked, StoreError
from eddyline.store.commit import Epoch, encode
from eddyline.store.filesystem import Step, no_step
from eddyline.store.layout import (
    CURRENT,
    TEMPORARY,
    encode_pointer,
    epoch_name,
    epoch_number,
    epoch_numbers,
)
from eddyline.store.lock import Lock, acquire
from eddyline.store.reader import Reader

_FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the quota is used up",
    errno.EFBIG: "files may not grow so large",
}


@dataclass(frozen=True, slots=True)
class Options:
    """How to write: `keep` epochs of history, `adopt` another run's streams, `break_lock` of a dead writer.

    `fault` is called with each of `layout.COMMIT_STEPS` as it is reached, for tests that kill there.
    """

    keep: int = 3
    adopt: bool = False
    break_lock: bool = False
    fault: Step = no_step

    def __post_init__(self) -> None:
        if self.keep < 1:
            raise StoreError(f"a store keeps 1 epoch or more, not {self.keep}.")


@contextlib.contextmanager
def sentence(where: str, consequence: str) -> Iterator[None]:
    """Turn an error of the filesystem into one clear sentence."""
    try:
        yield
    except OSError as error:
        full = _FULL.get(error.errno or 0)
        reason = f"{full} at {where}; make room and run again" if full else f"{error} ({where})"
        raise StoreError(f"{consequence}: {reason}.") from error


class EpochWriter:
    """The holder of a store's lock; not for several threads at once."""

    def __init__(self, reader: Reader, options: Options) -> None:
        self.reader = reader
        self._files = reader.files
        self._options = options
        self._epoch: Epoch | None = None
        self._closed = False
        with sentence(reader.where, "the store cannot be opened"):
            self._lock: Lock = acquire(reader.files, break_lock=options.break_lock)

    def close(self) -> None:
        """Let the next writer in; a second time changes nothing."""
        if not self._closed:
            self._closed = True
            self._lock.release()

    @contextlib.contextmanager
    def closed_on_error(self) -> Iterator[None]:
        """Let the next writer in if the block fails."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def current(self) -> Epoch:
        """Return the last epoch that was committed, from disk when a commit of ours failed half-way."""
        if self._epoch is None:
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

    def publish(self, epoch: Epoch, consequence: str) -> None:
        """Make an epoch the current one; on an error the old one stays, and `consequence` tells of it."""
        if self._closed:
            raise StoreError(f"the store {self.reader.where} was closed: open it again to write.")
        fault = self._options.fault
        self._epoch = None
        with sentence(self.reader.where, consequence):
            fault("begun")
            self._lock.check()
            self._create(epoch)
            self._lock.check()
            pointer = encode_pointer(epoch.number)
            self._files.replace(CURRENT, pointer, lambda step: fault(f"pointer-{step}"))
        self._epoch = epoch
        self.forget(range(epoch.number - self._options.keep + 1))
        fault("collected")

    def forget(self, numbers: range) -> None:
        """Remove those of some epochs that are there; what cannot be removed now is met again later."""
        with contextlib.suppress(OSError):
            for number in epoch_numbers(self._files.names()):
                if number in numbers:
                    self._files.remove(epoch_name(number))

    def _create(self, epoch: Epoch) -> None:
        fault = self._options.fault
        try:
            self._files.create(epoch_name(epoch.number), encode(epoch), lambda step: fault(f"epoch-{step}"))
        except FileExistsError:
            raise Locked(
                f"another writer made epoch {epoch.number} of {self.reader.where} first, past our lock: "
                "stop one of them."
            ) from None
