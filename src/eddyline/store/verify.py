"""Every problem of a store, found by reading every byte of it."""

from collections.abc import Callable
from typing import Literal

import msgspec

from eddyline.errors import CorruptState, FormatVersion, StoreError
from eddyline.store.commit import Epoch, decode
from eddyline.store.filesystem import Where
from eddyline.store.layout import CURRENT, TEMPORARY, epoch_name, epoch_numbers
from eddyline.store.reader import Reader


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong with one file.

    A "leftover" is what a killed commit left, or what a commit under way has not finished: it harms nothing,
    and the next writer removes it.
    """

    file: str
    kind: Literal["corrupt", "missing", "version", "leftover"]
    sentence: str


def verify(where: Where, read: Callable[[Epoch], object] | None = None) -> list[Problem]:
    """Return all problems of a store, none for a sound one; StoreError when there is no store.

    read: makes a state of an epoch's sections, whose content means nothing here, or raises CorruptState.
    """
    reader = Reader(where)
    try:
        current = reader.current()
    except CorruptState as error:
        names = reader.names()
        problem = Problem(CURRENT, "corrupt" if CURRENT in names else "missing", str(error))
        return [problem, *_epochs(reader, names, None, read)]
    names = reader.names()
    problems = _epochs(reader, names, current, read)
    if epoch_name(current) not in names and reader.current() == current:
        sentence = f"{CURRENT} names it, and it is not there."
        problems.insert(0, Problem(epoch_name(current), "missing", sentence))
    return problems


def _epochs(
    reader: Reader, names: list[str], current: int | None, read: Callable[[Epoch], object] | None
) -> list[Problem]:
    found = [
        Problem(name, "leftover", "a commit was killed, or is under way.")
        for name in names
        if name.endswith(TEMPORARY)
    ]
    for number in epoch_numbers(names):
        if current is not None and number > current:
            sentence = f"it lies past epoch {current}, the current one: its commit never finished."
            found.append(Problem(epoch_name(number), "leftover", sentence))
        else:
            found.extend(_epoch(reader, number, read))
    return found


def _epoch(reader: Reader, number: int, read: Callable[[Epoch], object] | None) -> list[Problem]:
    file = epoch_name(number)
    try:
        epoch = decode(reader.files.read(file), number)
        if read is not None:
            read(epoch)
    except FileNotFoundError:
        return []  # collected since it was listed, or reported as missing by the pointer
    except CorruptState as error:
        return [Problem(file, "corrupt", str(error))]
    except FormatVersion as error:
        return [Problem(file, "version", str(error))]
    except OSError as error:
        raise StoreError(f"{file} of {reader.where} cannot be read: {error}") from error
    if epoch.commit.parent is not None and epoch.commit.parent >= number:
        return [Problem(file, "corrupt", f"it says that it follows epoch {epoch.commit.parent}.")]
    return []
