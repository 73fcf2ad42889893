"""Reading a store: any number of processes, without a lock; `verify` reads every byte."""

import contextlib
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Literal

import msgspec

from eddyline.errors import CorruptState, FormatVersion, StoreError
from eddyline.sketch import codec
from eddyline.store.filesystem import ArrowFiles, Files, LocalFiles, Unread, Where, at_most, open_files
from eddyline.store.layout import (
    CURRENT,
    NEWEST,
    POINTER_LENGTH,
    TEMPORARY,
    Commit,
    Epoch,
    Pointer,
    decode_pointer,
    epoch_name,
    epoch_numbers,
    read_epoch,
)
from eddyline.store.lock import Holder, writer_of
from eddyline.store.retention import RECENT

# A reader reads the number in CURRENT, and then that epoch's whole file into memory. It writes nothing. If
# the file was removed in between, CURRENT has moved on, and the reader takes the newer epoch.


def _written(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).isoformat(sep=" ", timespec="seconds")


def _check_epoch(file: Unread) -> None:
    codec.check_length(file.size, file.first, file.blocks)


NOTHING_LEFT = (
    "no epoch can be read: remove the store's folder, and read the sources again with `eddyline run` and a "
    "--full-refresh QUERY for each query, or with `eddyline ask` if one pass made the store."
)
"""What to do where `restore` cannot help."""


class Reader:
    """A store as its readers see it."""

    pauses = (0.0, 0.01, 0.05, 0.25)
    """Seconds before each look at CURRENT: HDFS overwrites a file in more than one step."""

    def __init__(self, where: Where | Files) -> None:
        if where is None or isinstance(where, int | float | bytes):
            raise StoreError(f"a store is named by its directory or URI, not by {where!r}.")
        self.files = where if isinstance(where, LocalFiles | ArrowFiles) else open_files(where)

    @property
    def where(self) -> str:
        """The directory, as messages name it."""
        return self.files.where

    def names(self) -> list[str]:
        """Return the names of all files in the directory."""
        with self._store_errors():
            return self.files.names()

    def exists(self) -> bool:
        """Return whether a store is here; one whose creation was interrupted is not."""
        names = self.names()
        return CURRENT in names or any(epoch_numbers(names))

    def check_writable(self) -> None:
        """Raise StoreError where the directory, which may be missing, is not writable; the test leaves no file."""
        try:
            self.files.try_writing()
        except OSError as error:
            raise StoreError(
                f"the store {self.where} cannot be written: {error.strerror or error}; name a folder that can be, or "
                "give this user the right to write there."
            ) from error

    def epochs(self) -> list[int]:
        """Return the numbers of the kept epochs up to the current one, newest first."""
        current = self.current()
        return [number for number in epoch_numbers(self.names()) if number <= current]

    def writer(self) -> Holder | None:
        """Return the current writer of the store, as far as a reader can know; None where there is none."""
        return writer_of(self.files)

    def current(self) -> int:
        """Return the number of the current epoch."""
        return self.pointer().number

    def pointer(self) -> Pointer:
        """Return the number of the current epoch and the hash of its file."""
        for pause in self.pauses:
            if pause:  # even sleep(0) yields the processor, for milliseconds when others want it
                time.sleep(pause)
            with self._store_errors(), contextlib.suppress(CorruptState, FileNotFoundError):
                return decode_pointer(self.files.read(CURRENT, at_most(POINTER_LENGTH)))
            if not self.exists():
                raise StoreError(f"there is no store at {self.where}: check the path, or start a run there.")
        raise CorruptState(
            f"the pointer {CURRENT} of {self.where} is damaged or missing; {self._offer(None)}"
        )

    def stamp(self) -> tuple[int, str]:
        """Return the current epoch's number, and a stamp of its file, which differs between stores."""
        for pause in self.pauses:
            if pause:  # even sleep(0) yields the processor, for milliseconds when others want it
                time.sleep(pause)
            number = self.current()
            with self._store_errors(), contextlib.suppress(FileNotFoundError):
                return number, self.files.stamp(epoch_name(number))
        raise self._damaged(number, FileNotFoundError())

    def latest(self) -> Epoch:
        """Return the current epoch, or raise CorruptState with the newest one that can be read."""
        pointer = self.pointer()
        while True:
            try:
                return self._named(pointer)
            except (OSError, CorruptState) as error:
                newer = self.pointer()
                if newer == pointer:
                    raise self._damaged(pointer.number, error) from error
                pointer = newer

    def at(self, number: int) -> Epoch:
        """Return one epoch that is still kept."""
        try:
            return self.load(number)
        except FileNotFoundError:
            kept = epoch_numbers(self.names())
            raise StoreError(f"epoch {number} is not in {self.where}, which keeps {kept}.") from None
        except (OSError, CorruptState) as error:
            raise self._damaged(number, error) from error

    def as_of(self, time: float) -> Epoch:
        """Return the state at a time (seconds since 1970): the newest kept epoch that was committed by then."""
        newest = self.latest()
        number = self.number_as_of(time, newest.commit)
        return newest if number == newest.number else self.at(number)

    def number_as_of(self, time: float, newest: Commit) -> int:
        """Return the number of the epoch of a time, from the list of kept epochs in the newest commit."""
        if newest.time <= time:
            return newest.epoch
        there = set(epoch_numbers(self.names()))
        kept = [each for each in newest.kept if each.number in there]
        older = [each for each in kept if each.time <= time]
        if not older:
            first = min((each.time for each in kept), default=newest.time)
            raise StoreError(
                f"the store {self.where} keeps no epoch from {_written(time)} or before; its oldest one is of "
                f'{_written(first)}. Keep more by a rule in [run], such as keep = "hourly for 7 days, daily for 90".'
            )
        return max(each.number for each in older)

    def file_stamp(self, number: int) -> str:
        """Return what distinguishes the file of an epoch from one of another store, empty if it is not there."""
        with self._store_errors(), contextlib.suppress(FileNotFoundError):
            return self.files.stamp(epoch_name(number))
        return ""

    def load(self, number: int) -> Epoch:
        """Return an epoch whatever CURRENT names, or raise OSError, CorruptState or FormatVersion."""
        return read_epoch(self.files.read(epoch_name(number), _check_epoch), number)

    def _named(self, pointer: Pointer) -> Epoch:
        """Return the epoch that CURRENT names, or raise CorruptState where its file is another one."""
        epoch = self.load(pointer.number)
        if pointer.digest not in ("", epoch.digest):
            raise CorruptState(f"it is not the file that {CURRENT} names: it was replaced")
        return epoch

    def _damaged(self, number: int, error: Exception) -> StoreError:
        file = f"{epoch_name(number)} of {self.where}"
        if isinstance(error, FileNotFoundError):
            return CorruptState(f"{file} is missing; {self._offer(number)}")
        if isinstance(error, CorruptState):
            return CorruptState(f"{file} is damaged ({str(error).rstrip('.')}); {self._offer(number)}")
        return StoreError(f"{file} cannot be read: {error}")

    def _offer(self, damaged: int | None) -> str:
        number = self.newest_readable(damaged)
        if number is None:
            return NOTHING_LEFT
        return f"epoch {number} can be read: go back to it with `eddyline restore {self.where} --epoch {number}`."

    def newest_readable(self, below: int | None = None) -> int | None:
        """Return the newest undamaged epoch (below a number), or None."""
        for number in epoch_numbers(self.names()):
            if below is None or number < below:
                with contextlib.suppress(OSError, CorruptState, FormatVersion):
                    return self.load(number).number
        return None

    @contextlib.contextmanager
    def _store_errors(self) -> Iterator[None]:
        """Turn an error of the filesystem into a StoreError; the caller handles a missing file."""
        try:
            yield
        except FileNotFoundError:
            raise
        except NotADirectoryError as error:
            raise StoreError(f"{self.where} is a file, not a store: name the store's directory.") from error
        except OSError as error:
            raise StoreError(f"the store {self.where} cannot be read: {error}") from error


# Verification finds every problem of a store by reading every byte.
#
# Each epoch has the hash of its parent's file, and CURRENT has the hash of the epoch that it names. So a file
# that was replaced by another valid one, with another seed or from an older copy, is detected. Replacing the
# whole directory by an older copy is not detected here; the checkpoint of its run is then ahead of the store,
# and `eddyline run` compares both.


class Problem(msgspec.Struct, frozen=True):
    """A problem of one file.

    A "leftover" comes from a killed commit, or from a commit that is still running: it is harmless, and the next
    writer removes it.
    """

    file: str
    kind: Literal["corrupt", "missing", "version", "leftover"]
    sentence: str


def verify(where: Where, read: Callable[[Epoch], object] | None = None) -> list[Problem]:
    """Return all problems of a store, none for a valid one; raise StoreError when there is no store.

    read: decodes a state from an epoch's sections, which are opaque here, or raises CorruptState.
    """
    reader = Reader(where)
    try:
        pointer = reader.pointer()
    except CorruptState as error:
        names = reader.names()
        problem = Problem(CURRENT, "corrupt" if CURRENT in names else "missing", str(error))
        return [problem, *_Epochs(reader, names, None, read).problems()]
    names = reader.names()
    problems = _Epochs(reader, names, pointer, read).problems()
    if epoch_name(pointer.number) not in names and reader.pointer() == pointer:
        sentence = f"{CURRENT} names it, and it is not there."
        problems.insert(0, Problem(epoch_name(pointer.number), "missing", sentence))
    return problems


class _Epochs:
    """The epochs of a store, read one after the other, with what each records about others."""

    def __init__(
        self,
        reader: Reader,
        names: list[str],
        pointer: Pointer | None,
        read: Callable[[Epoch], object] | None,
    ) -> None:
        self._reader, self._names, self._pointer, self._read = reader, names, pointer, read
        self._digests: dict[int, str] = {}
        self._parents: dict[int, tuple[int, str]] = {}
        self._kept: list[int] = []

    def problems(self) -> list[Problem]:
        """Return the problems of files, then those of their order."""
        found = [
            Problem(name, "leftover", "a commit was killed, or is under way.")
            for name in self._names
            if name.endswith(TEMPORARY)
        ]
        current = self._pointer.number if self._pointer is not None else None
        for number in epoch_numbers(self._names):
            if current is not None and number > current:
                found.append(self._past(number, current))
            else:
                found.extend(self._epoch(number))
        return [*found, *self._missing(), *self._replaced(), *self._put_back()]

    def _epoch(self, number: int) -> list[Problem]:
        file = epoch_name(number)
        try:
            epoch = self._reader.load(number)
            if self._read is not None:
                self._read(epoch)
        except FileNotFoundError:
            return []  # collected since it was listed, or reported as missing by the pointer
        except CorruptState as error:
            return [Problem(file, "corrupt", str(error))]
        except FormatVersion as error:
            return [Problem(file, "version", str(error))]
        except OSError as error:
            raise StoreError(f"{file} of {self._reader.where} cannot be read: {error}") from error
        self._digests[number] = epoch.digest
        if self._pointer is not None and number == self._pointer.number:
            # Any commit may remove recent epochs, also while a copy is made.
            older = epoch.commit.kept[: -(RECENT - 1)]
            self._kept = [each.number for each in older]
        parent = epoch.commit.parent
        if parent is not None and parent >= number:
            return [Problem(file, "corrupt", f"it says that it follows epoch {parent}.")]
        if parent is not None and epoch.commit.parent_hash:
            self._parents[number] = parent, epoch.commit.parent_hash
        return []

    def _missing(self) -> list[Problem]:
        """Return the older epochs that the current one lists as kept but that are missing."""
        kept = [each for each in self._kept if epoch_name(each) not in self._names]
        if not kept or self._pointer is None or self._reader.pointer() != self._pointer:
            return []  # there was a commit meanwhile
        sentence = f"epoch {self._pointer.number} lists it as kept, and it is not there."
        return [Problem(epoch_name(each), "missing", sentence) for each in kept]

    def _past(self, number: int, current: int) -> Problem:
        """Return what an epoch above the current one means: nothing, or that CURRENT was put back."""
        with contextlib.suppress(OSError, StoreError):
            parent = self._reader.load(number).commit.parent
            if parent is not None and parent > current:
                return Problem(CURRENT, "corrupt", _put_back(current, parent))
        sentence = f"it lies past epoch {current}, the current one: its commit never finished."
        return Problem(epoch_name(number), "leftover", sentence)

    def _replaced(self) -> list[Problem]:
        """Return the epochs whose file differs from the one that their successor, or CURRENT, recorded."""
        named = dict(self._parents.values())
        if self._pointer is not None and self._pointer.digest:
            named[self._pointer.number] = self._pointer.digest
        return [
            Problem(epoch_name(number), "corrupt", "it is not the file that was committed: it was replaced.")
            for number, digest in self._digests.items()
            if named.get(number, digest) != digest
        ]

    def _put_back(self) -> list[Problem]:
        """Return whether CURRENT names an older epoch than the last one that was committed."""
        if self._pointer is None or NEWEST not in self._names:
            return []
        try:
            newest = decode_pointer(self._reader.files.read(NEWEST, at_most(POINTER_LENGTH)))
        except (OSError, CorruptState):
            sentence = (
                "it is damaged, as a crash of the machine may leave it; the next commit writes it again."
            )
            return [Problem(NEWEST, "leftover", sentence)]
        current = (
            self._reader.current()
        )  # after the note, which is written later: a commit in between does no harm
        return (
            []
            if newest.number <= current
            else [Problem(CURRENT, "corrupt", _put_back(current, newest.number))]
        )


def _put_back(current: int, newest: int) -> str:
    return (
        f"it names epoch {current}, and epoch {newest} was committed: an older {CURRENT} was put back, or files of two "
        f"copies were mixed. Restore a copy whole, or go on from here with `eddyline restore --epoch {current}`."
    )
