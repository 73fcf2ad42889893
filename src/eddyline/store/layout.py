"""What is in a store's directory: file names, the pointer to the current epoch, and an epoch as bytes."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from eddyline.errors import CorruptState, FormatVersion, StoreError
from eddyline.sketch import codec
from eddyline.store.retention import Kept

# CURRENT                  number of the current epoch, hash of its file and a checksum; written last
# NEWEST                   the same for the last commit, without fsync: shows that CURRENT was put back
# epoch-000000000012.eddy  one immutable epoch: codec envelope of kind KIND_EPOCH
# LOCK                     local only: held with flock by the writer, and names the writer
# writer-<token>.claim     elsewhere: names the writer; alone in the directory it is the lock
# *.tmp                    half-written files of a killed writer, removed when the next one opens
#
# Epochs are ordered by their number, never by a clock.


CURRENT = "CURRENT"
NEWEST = "NEWEST"
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
_POINTER = re.compile(rb"([0-9]{12})(?: ([0-9a-f]{32}))? [0-9a-f]{32}\n")
POINTER_LENGTH = 79
_EPOCH = re.compile(r"epoch-([0-9]{12})\.eddy")


def check_id(what: str, value: str) -> str:
    """Return the id, or raise StoreError when it is not allowed in a path."""
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


@dataclass(frozen=True, slots=True)
class Pointer:
    """What CURRENT names: an epoch, and the hash of its file, empty where an earlier version wrote it."""

    number: int
    digest: str = ""


def encode_pointer(number: int, digest: str = "") -> bytes:
    """Return the content of CURRENT: 79 bytes, or 46 without the hash of the epoch's file (earlier versions)."""
    content = " ".join([f"{number:012d}", *filter(None, [digest])]).encode()
    return content + b" " + hashlib.blake2b(content, digest_size=16).hexdigest().encode() + b"\n"


def decode_pointer(data: bytes) -> Pointer:
    """Return what CURRENT names, or raise CorruptState."""
    match = _POINTER.fullmatch(data)
    if match is not None:
        pointer = Pointer(int(match[1]), (match[2] or b"").decode())
        if encode_pointer(pointer.number, pointer.digest) == data:
            return pointer
    raise CorruptState(f"the pointer {CURRENT} is damaged")


# An epoch as a value and as bytes: the commit that made it, and named sections of opaque content.
#
# The bytes are a codec envelope of kind KIND_EPOCH. Its header is the `Commit` as JSON, its body the
# sections in the order and with the lengths that `Commit.sections` gives.


Content = bytes | memoryview


class PlanStamp(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the store knows about a plan: its hash, its opaque text, and a line for each of its names.

    The lines are for people. settings: those of the whole plan, such as its budget. identity: a digest of what each
    name keeps, which decides what survives a change of the plan; stores of older versions do not have it.
    """

    hash: str
    header: str
    describe: dict[str, str]
    settings: dict[str, str] = {}
    identity: dict[str, str] = {}


class SourcePosition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How far one stream was read: its last batch, and totals over all batches of the store.

    `batch_id` is -1 where the stream is to be read again from before its first batch. `last_commit_time` (seconds
    since 1970) is for people to read: nothing is ordered by it. held: a hash of the content of the last batch,
    empty where it is not known. folder: where the files of the stream are, and `files`: hashes of their names
    (`position.remembered`). again: the stream is to be read again from its start; its current state stays until its
    first batch is committed.
    """

    query_id: str
    batch_id: int
    rows: int
    deletes: int
    bad: int
    last_commit_time: float
    late: int = 0
    held: str = ""
    folder: str = ""
    files: str = ""
    again: bool = False


class Commit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The header of an epoch.

    parent_hash: the hash of its parent's file; empty in epoch 0, and in epochs of format 4 and before. kept: the older
    epochs that are kept with it. rebuilt: how often the state was rebuilt from its sources and replaced; each time
    its streams get new checkpoints, which are named by this number.
    """

    epoch: int
    parent: int | None
    run_id: str
    plan: PlanStamp
    sources: dict[str, SourcePosition]
    sections: dict[str, int]
    parent_hash: str = ""
    kept: tuple[Kept, ...] = ()
    rebuilt: int = 0

    @property
    def time(self) -> float:
        """The time when its last batch was committed, in seconds since 1970; 0 before the first."""
        return max((at.last_commit_time for at in self.sources.values()), default=0.0)


@dataclass(frozen=True, slots=True)
class Epoch:
    """One whole version of the state, in memory: no later commit or clean-up changes it.

    digest: the hash of its file, empty before it is written.
    """

    commit: Commit
    sections: Mapping[str, bytes]
    digest: str = field(default="", compare=False)

    @property
    def number(self) -> int:
        """The place in the order of commits."""
        return self.commit.epoch

    @property
    def time(self) -> float:
        """The time when its last batch was committed, in seconds since 1970; 0 before the first."""
        return self.commit.time


def make_epoch(commit: Commit, sections: Mapping[str, Content]) -> Epoch:
    """Return an epoch with copies of sections; its header lists their lengths."""
    content = {name: bytes(section) for name, section in sections.items()}
    lengths = {name: len(section) for name, section in content.items()}
    return Epoch(msgspec.structs.replace(commit, sections=lengths), content)


def encode(epoch: Epoch) -> bytes:
    """Return the bytes of an epoch."""
    header = msgspec.json.encode(epoch.commit)
    return codec.pack(codec.KIND_EPOCH, header, *epoch.sections.values())


def read_epoch(data: bytes, number: int) -> Epoch:
    """Return the epoch of that number from its bytes, or raise CorruptState or FormatVersion."""
    try:
        header, body = codec.unpack(data, codec.KIND_EPOCH)
    except FormatVersion as error:
        if codec.intact(data):
            raise
        raise CorruptState("its version and its checksum are damaged") from error
    commit = codec.read_json("its header", header, Commit)
    if commit.epoch != number:
        raise CorruptState(f"it holds epoch {commit.epoch}, not {number}: a file was copied over another")
    return Epoch(commit, _cut(commit.sections, body), codec.digest_of(data))


def _cut(lengths: dict[str, int], body: memoryview) -> dict[str, bytes]:
    if min(lengths.values(), default=0) < 0 or sum(lengths.values()) != len(body):
        raise CorruptState("the lengths of its sections do not add up")
    sections = {}
    start = 0
    for name, length in lengths.items():
        sections[name] = bytes(body[start : start + length])
        start += length
    return sections
