"""Reading a store: any number of processes, at any time, without a lock and without writing.

A reader takes the number in CURRENT and then that epoch's file, whole, into memory. When the file was
collected in between, CURRENT has moved on, and it takes the newer one.
"""

import contextlib
import time
from collections.abc import Iterator

from eddyline.errors import CorruptState, FormatVersion, StoreError
from eddyline.store.commit import Epoch, decode
from eddyline.store.filesystem import Where, open_files
from eddyline.store.layout import CURRENT, decode_pointer, epoch_name, epoch_numbers
from eddyline.store.lock import Holder, writer_of

_PAUSES = (0.0, 0.01, 0.05, 0.25)  # seconds; HDFS overwrites a file in more than one step


class Reader:
    """A store as its readers see it."""

    def __init__(self, where: Where) -> None:
        if where is None or isinstance(where, int | float | bytes):
            raise StoreError(f"a store is named by its directory or URI, not by {where!r}.")
        self.files = open_files(where)

    @property
    def where(self) -> str:
        """The directory, as messages name it."""
        return self.files.where

    def names(self) -> list[str]:
        """Return the names of all files in the directory."""
        with self._told():
            return self.files.names()

    def exists(self) -> bool:
        """Return whether a store is here; one whose creation was interrupted is not."""
        names = self.names()
        return CURRENT in names or any(epoch_numbers(names))

    def check_writable(self) -> None:
        """Raise StoreError where no file can be written to the directory, which may be missing; nothing stays of it."""
        try:
            self.files.try_writing()
        except OSError as error:
            raise StoreError(
                f"the store {self.where} cannot be written: {error.strerror or error}; name a folder that can be, or "
                "give this user the right to write there."
            ) from error

    def epochs(self) -> list[int]:
        """Return the numbers of the epochs that are kept, the newest first, none past the current one."""
        current = self.current()
        return [number for number in epoch_numbers(self.names()) if number <= current]

    def writer(self) -> Holder | None:
        """Return who writes to the store now, as far as a reader can know; None where nobody does."""
        return writer_of(self.files)

    def current(self) -> int:
        """Return the number of the current epoch."""
        for pause in _PAUSES:
            time.sleep(pause)
            with self._told(), contextlib.suppress(CorruptState, FileNotFoundError):
                return decode_pointer(self.files.read(CURRENT))
            if not self.exists():
                raise StoreError(f"there is no store at {self.where}: check the path, or start a run there.")
        raise CorruptState(
            f"the pointer {CURRENT} of {self.where} is damaged or missing; {self._offer(None)}"
        )

    def stamp(self) -> tuple[int, str]:
        """Return the number of the current epoch, and what tells its file from that of another store of that number."""
        for pause in _PAUSES:
            time.sleep(pause)
            number = self.current()
            with self._told(), contextlib.suppress(FileNotFoundError):
                return number, self.files.stamp(epoch_name(number))
        raise self._damaged(number, FileNotFoundError())

    def latest(self) -> Epoch:
        """Return the current epoch, or raise CorruptState with the newest one that can be read."""
        number = self.current()
        while True:
            try:
                return self._load(number)
            except (OSError, CorruptState) as error:
                newer = self.current()
                if newer == number:
                    raise self._damaged(number, error) from error
                number = newer

    def at(self, number: int) -> Epoch:
        """Return one epoch that is still kept."""
        try:
            return self._load(number)
        except FileNotFoundError:
            kept = epoch_numbers(self.names())
            raise StoreError(f"epoch {number} is not in {self.where}, which keeps {kept}.") from None
        except (OSError, CorruptState) as error:
            raise self._damaged(number, error) from error

    def _load(self, number: int) -> Epoch:
        return decode(self.files.read(epoch_name(number)), number)

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
            return "no other epoch can be read: rebuild the store."
        return f"epoch {number} can be read: go back to it with `eddyline restore {self.where} --epoch {number}`."

    def newest_readable(self, below: int | None = None) -> int | None:
        """Return the newest epoch (below a number) whose every byte is right, None when there is none."""
        for number in epoch_numbers(self.names()):
            if below is None or number < below:
                with contextlib.suppress(OSError, CorruptState, FormatVersion):
                    return self._load(number).number
        return None

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Turn an error of the filesystem into a StoreError; a missing file is for the caller."""
        try:
            yield
        except FileNotFoundError:
            raise
        except NotADirectoryError as error:
            raise StoreError(f"{self.where} is a file and no store: name the store's directory.") from error
        except OSError as error:
            raise StoreError(f"the store {self.where} cannot be read: {error}") from error
