"""The byte envelope of all durable state: magic, version, lengths, header, counters, checksum.

    offset  size  what
    0       4     magic b"EDDY"
    4       2     format version, little endian
    6       2     kind: which object the header describes
    8       4     length of the header (JSON, UTF-8)
    12      8     length of the body (raw little-endian counters)
    20      ...   header, then body
    end-16  16    BLAKE2b-128 of everything before

Reading checks every field before it trusts any, and never unpickles. A checksum detects accidents, not intent:
whoever changes a byte can compute it again. So the code that decodes header and body checks their content as well.
"""

import hashlib
import struct
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from eddyline.errors import CorruptState, FormatVersion, SketchError

Decoded = TypeVar("Decoded")

MAGIC = b"EDDY"
VERSION = 5
READABLE = (3, 4, 5)
"""Version 4 has sketches that hold only rows whose key is not followed, version
5 has epochs with the hash of their parent."""
KIND_SYNOPSIS = 1
KIND_STATE = 2
KIND_EPOCH = 3
KIND_PLAN = 4
_HEAD = struct.Struct("<4sHHIQ")
_DIGEST = 16
_LARGE = 64 << 20  # bytes; smaller files are read whole: hashing them twice would take longer than reading


def _digest(data: bytes | memoryview) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST).digest()


def pack(kind: int, header: bytes, *body: bytes) -> bytes:
    """Return the envelope around a header and a body, which may come in parts: each is copied only once."""
    head = _HEAD.pack(MAGIC, VERSION, kind, len(header), sum(map(len, body)))
    digest = hashlib.blake2b(digest_size=_DIGEST)
    for part in (head, header, *body):
        digest.update(part)
    return b"".join((head, header, *body, digest.digest()))


def intact(data: bytes) -> bool:
    """Return whether the checksum at the end matches: it sits there in every version of the format."""
    view = memoryview(data)
    return _digest(view[:-_DIGEST]) == bytes(view[-_DIGEST:])


def digest_of(data: bytes) -> str:
    """Return the checksum of an envelope, which identifies it."""
    return data[-_DIGEST:].hex()


def check_length(size: int, first: bytes, blocks: Callable[[], Iterable[bytes]]) -> None:
    """Raise CorruptState if a file cannot be an envelope, before it is read: by its first bytes and its size.

    If it is large, also by its checksum, block by block: a sparse file of any size costs its maker nothing.
    """
    if size < _HEAD.size + _DIGEST:
        raise CorruptState(f"it is {size} bytes long, shorter than its own header: the file is truncated")
    magic, version, _, header_size, body_size = _HEAD.unpack_from(first)
    if magic != MAGIC:
        raise CorruptState(f"it starts with {magic!r}, not {MAGIC!r}: it is not eddyline state")
    announced = _HEAD.size + header_size + body_size + _DIGEST
    if announced != size and (version in READABLE or size > _LARGE):
        raise CorruptState(f"it declares {announced:,} bytes and has {size:,}: the file is damaged")
    if size > _LARGE and not _is_intact(size, blocks()):
        raise CorruptState("its checksum does not match its content: the file is damaged")


def _is_intact(size: int, blocks: Iterable[bytes]) -> bool:
    hashed, end, rest = hashlib.blake2b(digest_size=_DIGEST), b"", size - _DIGEST
    for block in blocks:
        hashed.update(block[:rest])
        end += block[max(rest, 0) :]
        rest = max(rest - len(block), 0)
    return hashed.digest() == end


def unpack(data: bytes, kind: int) -> tuple[bytes, memoryview]:
    """Return (header, body) of an envelope, or raise CorruptState or FormatVersion."""
    if len(data) < _HEAD.size + _DIGEST:
        raise CorruptState(
            f"eddyline state is {len(data)} bytes long, shorter than its own header: the file is truncated; "
            "use the previous version of it."
        )
    magic, version, found, header_size, body_size = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise CorruptState(f"these bytes start with {magic!r}, not {MAGIC!r}: they are not eddyline state.")
    if version not in READABLE:
        raise FormatVersion(
            f"this state has format version {version} and this eddyline reads versions {READABLE[0]} to {VERSION}: "
            "read it with the release that wrote it."
        )
    if len(data) != _HEAD.size + header_size + body_size + _DIGEST:
        raise CorruptState(
            f"eddyline state declares {_HEAD.size + header_size + body_size + _DIGEST} bytes and has "
            f"{len(data)}: the file is damaged; use the previous version of it."
        )
    if not intact(data):
        raise CorruptState(
            "the checksum of this eddyline state does not match its content: the file is damaged; "
            "use the previous version of it."
        )
    if found != kind:
        raise CorruptState(f"these bytes hold an object of kind {found}, not of kind {kind}.")
    view = memoryview(data)
    start = _HEAD.size + header_size
    return bytes(view[_HEAD.size : start]), view[start : start + body_size]


def read_json(what: str, data: bytes | str, type_: type[Decoded]) -> Decoded:
    """Return a value of a type from JSON, or raise CorruptState that names what could not be read."""
    try:
        return msgspec.json.decode(data, type=type_)
    except (msgspec.DecodeError, SketchError, ValueError, RecursionError) as error:
        raise CorruptState(f"{what} cannot be read: {error}") from error


def read_msgpack(what: str, data: bytes, type_: type[Decoded]) -> Decoded:
    """Return a value of a type from MessagePack, or raise CorruptState that names what could not be read."""
    try:
        return msgspec.msgpack.decode(data, type=type_)
    except (msgspec.DecodeError, SketchError, ValueError, RecursionError) as error:
        raise CorruptState(f"{what} cannot be read: {error}") from error
