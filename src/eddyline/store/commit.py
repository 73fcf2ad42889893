"""An epoch as a value and as bytes: the commit that made it, and named sections of opaque content.

The bytes are a codec envelope of kind KIND_EPOCH. Its header is the `Commit` as JSON, its body the sections
in the order and with the lengths that `Commit.sections` gives.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from eddyline.errors import CorruptState, FormatVersion
from eddyline.sketch import codec

Content = bytes | memoryview


class PlanStamp(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the store knows of a plan: its hash, itself as opaque text, and a line for each of its names.

    settings: what holds for all of it, such as its budget, in words that can be compared.
    """

    hash: str
    header: str
    describe: dict[str, str]
    settings: dict[str, str] = {}


class SourcePosition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How far one stream has come: its last batch, and totals over all batches of the store.

    `batch_id` is -1 where the stream is to be read again from before its first batch. `last_commit_time` (seconds since
    1970) is for people to read: nothing is ordered by it. held: a hash of what the last batch held, empty where it is
    not known. folder: where the files of the stream are, and `files`: hashes of their names (`position.remembered`).
    again: the stream is to be read again from its start, and what is here of it stays until its first batch is there.
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


class Commit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The header of an epoch."""

    epoch: int
    parent: int | None
    run_id: str
    plan: PlanStamp
    sources: dict[str, SourcePosition]
    sections: dict[str, int]


@dataclass(frozen=True, slots=True)
class Epoch:
    """One whole version of the state, in memory: no later commit or clean-up changes it."""

    commit: Commit
    sections: Mapping[str, bytes]

    @property
    def number(self) -> int:
        """Its place in the order of commits."""
        return self.commit.epoch


def make_epoch(commit: Commit, sections: Mapping[str, Content]) -> Epoch:
    """Return an epoch with copies of sections, whose lengths its header lists."""
    content = {name: bytes(section) for name, section in sections.items()}
    lengths = {name: len(section) for name, section in content.items()}
    return Epoch(msgspec.structs.replace(commit, sections=lengths), content)


def encode(epoch: Epoch) -> bytes:
    """Return the bytes of an epoch."""
    header = msgspec.json.encode(epoch.commit)
    return codec.pack(codec.KIND_EPOCH, header, b"".join(epoch.sections.values()))


def decode(data: bytes, number: int) -> Epoch:
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
    return Epoch(commit, _cut(commit.sections, body))


def _cut(lengths: dict[str, int], body: memoryview) -> dict[str, bytes]:
    if min(lengths.values(), default=0) < 0 or sum(lengths.values()) != len(body):
        raise CorruptState("the lengths of its sections do not add up")
    sections = {}
    start = 0
    for name, length in lengths.items():
        sections[name] = bytes(body[start : start + length])
        start += length
    return sections
