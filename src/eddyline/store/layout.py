"""What lies in a store's directory: names of files, and the pointer to the current epoch.

    CURRENT                    the number of the current epoch and a checksum, 46 bytes, written last
    epoch-000000000012.eddy    one immutable epoch: codec envelope of kind KIND_EPOCH
    LOCK                       local only: held with flock by the writer, names it
    writer-<token>.claim       elsewhere: names the writer; alone in the directory it is the lock
    *.tmp                      half-written files of a killed writer, removed when the next one opens

Epochs are ordered by their number, never by a clock.
"""

import hashlib
import re

from eddyline.errors import CorruptState, StoreError

CURRENT = "CURRENT"
LOCK = "LOCK"
TEMPORARY = ".tmp"
CLAIM = ".claim"
WRITE_STEPS = ("half-written", "written", "synced", "named", "listed")
COMMIT_STEPS = (
    "begun",
    *(f"epoch-{step}" for step in WRITE_STEPS),
    *(f"pointer-{step}" for step in WRITE_STEPS),
    "collected",
)

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_EPOCH = re.compile(r"epoch-([0-9]{12})\.eddy")


def check_id(what: str, value: str) -> str:
    """Return the id, or raise StoreError when it may not stand in a path."""
    if not _ID.fullmatch(value):
        raise StoreError(f"the {what} {value!r} is not 1 to 64 letters, digits, '_' or '-': rename it.")
    return value


def epoch_name(number: int) -> str:
    """Return the file name of an epoch."""
    return f"epoch-{number:012d}.eddy"


def epoch_number(name: str) -> int | None:
    """Return the number in an epoch's file name, None for any other file."""
    match = _EPOCH.fullmatch(name)
    return int(match[1]) if match else None


def epoch_numbers(names: list[str]) -> list[int]:
    """Return the numbers of all epochs among some file names, the newest first."""
    return sorted((n for n in map(epoch_number, names) if n is not None), reverse=True)


def encode_pointer(number: int) -> bytes:
    """Return the content of CURRENT: always 46 bytes, so that no read mixes two lengths."""
    digits = f"{number:012d}".encode()
    return digits + b" " + hashlib.blake2b(digits, digest_size=16).hexdigest().encode() + b"\n"


def decode_pointer(data: bytes) -> int:
    """Return the number of the current epoch, or raise CorruptState."""
    digits = data[:12]
    if not digits.isdigit() or encode_pointer(int(digits)) != data:
        raise CorruptState(f"the pointer {CURRENT} is damaged")
    return int(digits)
