"""Messages of PostgreSQL's protocol 3.0: how they are read from a connection and written to it."""

import asyncio
import struct
from collections.abc import Iterable, Mapping, Sequence

from eddyline.serve.postgres.refusals import Refusal

PROTOCOL = 3 << 16
SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST = 80877103, 80877104, 80877102
LONGEST_STARTUP = 10_000
"""The most bytes of the first packet: PostgreSQL's own limit."""
LONGEST_MESSAGE = 1 << 20
"""The most bytes of any later message. We read SQL of at most 100,000 characters, of 4 bytes each at most."""
SECONDS_FOR_A_MESSAGE = 60.0
"""Seconds that the rest of a message may take after its first byte: chosen, for a slow network."""

_INT32, _INT16 = struct.Struct("!i"), struct.Struct("!h")
_HEAD = struct.Struct("!ci")
_NULL = _INT32.pack(-1)


class MessageReader:
    """The fields of one message, in their order; Refusal 08P01 if the message is shorter than they are."""

    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0

    def take(self, length: int) -> bytes:
        """Return the next bytes."""
        end = self._at + length
        if length < 0 or end > len(self._body):
            raise malformed("a message ends before its last field")
        found, self._at = self._body[self._at : end], end
        return found

    def int32(self) -> int:
        """Return the next number of four bytes."""
        return int(_INT32.unpack(self.take(4))[0])

    def int16(self) -> int:
        """Return the next number of two bytes."""
        return int(_INT16.unpack(self.take(2))[0])

    def count(self) -> int:
        """Return how many fields follow."""
        number = self.int16() & 0xFFFF
        if number > len(self._body):
            raise malformed("a message has fewer fields than it declares")
        return number

    def string(self) -> str:
        """Return the string up to the next zero byte."""
        end = self._body.find(b"\0", self._at)
        if end < 0:
            raise malformed("a string in a message is not terminated")
        found, self._at = self._body[self._at : end], end + 1
        return utf8_text(found)

    def rest(self) -> bytes:
        """Return all remaining bytes."""
        return self.take(len(self._body) - self._at)

    def end(self) -> None:
        """Check that no bytes remain."""
        if self._at != len(self._body):
            raise malformed("a message is longer than its fields")


def malformed(what: str) -> Refusal:
    """Return the refusal of a message that breaks the protocol."""
    return Refusal("08P01", what)


def utf8_text(given: bytes) -> str:
    """Return UTF-8 as a string."""
    try:
        return given.decode()
    except UnicodeDecodeError as error:
        raise Refusal("22021", "a text is not valid UTF-8") from error


async def read_startup(stream: asyncio.StreamReader) -> bytes:
    """Return the body of a first packet, which starts with its length."""
    (length,) = _INT32.unpack(await stream.readexactly(4))
    if not 8 <= length <= LONGEST_STARTUP:
        raise Refusal("08P01", "the first packet has an invalid length", fatal=True)
    return await stream.readexactly(length - 4)


async def read_message(stream: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Return the type and the body of the next message; a connection may be idle before it without a limit."""
    kind = await stream.readexactly(1)
    async with asyncio.timeout(SECONDS_FOR_A_MESSAGE):
        (length,) = _INT32.unpack(await stream.readexactly(4))
        if length < 4:
            raise Refusal("08P01", "a message has an invalid length", fatal=True)
        if length - 4 > LONGEST_MESSAGE:
            sentence = f"a message has {length - 4:,} bytes; at most {LONGEST_MESSAGE:,} are read"
            raise Refusal("54000", sentence, fatal=True)
        return kind, await stream.readexactly(length - 4) if length > 4 else b""


def message(kind: bytes, body: bytes = b"") -> bytes:
    """Return a message as it is sent."""
    return _HEAD.pack(kind, len(body) + 4) + body


def texts(*given: str) -> bytes:
    """Return strings as fields of a message."""
    return b"".join(each.replace("\0", "").encode() + b"\0" for each in given)


def authentication(code: int, body: bytes = b"") -> bytes:
    """Return a message of the authentication: 0 for success, 10 to 12 for SASL."""
    return message(b"R", _INT32.pack(code) + body)


def parameter_status(name: str, value: str) -> bytes:
    """Return the message with a setting that clients follow."""
    return message(b"S", texts(name, value))


def key_data(process: int, secret: int) -> bytes:
    """Return the message with the key that a cancel request of this connection needs."""
    return message(b"K", struct.pack("!iI", process, secret))


def negotiate(options: Sequence[str]) -> bytes:
    """Return the message that only protocol 3.0 is supported, with the unknown options of the client."""
    return message(b"v", struct.pack("!ii", PROTOCOL, len(options)) + texts(*options))


def ready(status: bytes) -> bytes:
    """Return the message that the next statement may come, and whether a transaction is open (I, T or E)."""
    return message(b"Z", status)


def complete(tag: str) -> bytes:
    """Return the message that a statement is done."""
    return message(b"C", texts(tag))


def error(refusal: Refusal) -> bytes:
    """Return an error message."""
    return message(b"E", _fields(refusal.fields()))


def notice(sentence: str, *, severity: str = "NOTICE", state: str = "00000") -> bytes:
    """Return a notice with a sentence about a statement."""
    return message(b"N", _fields({"S": severity, "V": severity, "C": state, "M": sentence}))


def _fields(given: Mapping[str, str]) -> bytes:
    return b"".join(code.encode() + texts(text) for code, text in given.items()) + b"\0"


def row_description(columns: Iterable[tuple[str, int, int, int]], formats: Sequence[int]) -> bytes:
    """Return the columns of a result: name, type's oid, type's length and modifier, and the format of each."""
    parts = [
        texts(name) + struct.pack("!ihihih", 0, 0, _signed(oid), length, modifier, how)
        for (name, oid, length, modifier), how in zip(columns, formats, strict=True)
    ]
    return message(b"T", _INT16.pack(len(parts)) + b"".join(parts))


def _signed(oid: int) -> int:
    return oid - (1 << 32) if oid >= 1 << 31 else oid


def parameter_description(oids: Sequence[int]) -> bytes:
    """Return the types of a statement's parameters."""
    return message(b"t", struct.pack(f"!h{len(oids)}i", len(oids), *map(_signed, oids)))


def data_rows(columns: Sequence[Sequence[bytes | None]], start: int, end: int) -> bytes:
    """Return rows, given the cells of each column."""
    pack, count, parts = _INT32.pack, _INT16.pack(len(columns)), []
    if not columns:
        return message(b"D", count) * (end - start)
    for row in zip(*(column[start:end] for column in columns), strict=True):
        body = count + b"".join([_NULL if cell is None else pack(len(cell)) + cell for cell in row])
        parts.append(_HEAD.pack(b"D", len(body) + 4) + body)
    return b"".join(parts)


PARSE_COMPLETE, BIND_COMPLETE, CLOSE_COMPLETE = message(b"1"), message(b"2"), message(b"3")
NO_DATA, EMPTY_QUERY, SUSPENDED, COPY_DONE = message(b"n"), message(b"I"), message(b"s"), message(b"c")


def copy_out(columns: int, how: int) -> bytes:
    """Return the message that a copy begins, as text (0) or binary (1)."""
    return message(b"H", struct.pack(f"!bh{columns}h", how, columns, *[how] * columns))
