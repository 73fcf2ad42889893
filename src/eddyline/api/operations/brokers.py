"""What Kafka brokers know about topics: whether they exist, and how many records they have.

Kafka's own client is in Spark's JVM, which takes half a minute to start. So this module speaks two requests of
Kafka's protocol, Metadata 4 and ListOffsets 1, which brokers from 1.0 to 4 answer. Brokers that need TLS or a login
are not asked.
"""

import json
import re
import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from eddyline.errors import PipelineError

KAFKA = "kafka"
_METADATA, _LIST_OFFSETS = (3, 4), (2, 1)  # key and version of a request
_EARLIEST, _LATEST = -2, -1
_UNKNOWN_TOPIC = 3
_PATIENCE = 5.0  # seconds to connect, and for each answer
_LONGEST = 64 << 20  # bytes of an answer
Address = tuple[str, int]


@dataclass(frozen=True)
class Topic:
    """A topic: for each partition, the broker that has it."""

    name: str
    leaders: dict[int, Address]


def needs_client(options: Mapping[str, str]) -> str | None:
    """Return why the brokers of a stream can only be asked by Kafka's own client, None if they can be asked here."""
    protocol = _lower(options).get("kafka.security.protocol", "PLAINTEXT").upper()
    return (
        None if protocol == "PLAINTEXT" else f"its brokers need {protocol}, which only Spark's client speaks"
    )


def find_topics(stream: str, options: Mapping[str, str]) -> list[Topic]:
    """Return the topics that a stream reads; raise PipelineError if no broker answers or a topic does not exist."""
    given = _lower(options)
    servers = given.get("kafka.bootstrap.servers", "")
    asked = _subscribed(given)
    for address in map(_address, filter(None, map(str.strip, servers.split(",")))):
        try:
            there = _metadata(address, None if asked is None else sorted(asked))
        except (OSError, ValueError, struct.error):
            continue
        break
    else:
        raise PipelineError(
            f"stream {stream!r}: no Kafka broker answers at {servers or 'any address'}: start it, or correct "
            "kafka.bootstrap.servers."
        )
    if asked is None:
        pattern = given.get("subscribepattern", "")
        there = {name: topic for name, topic in there.items() if re.fullmatch(pattern, name)}
        if not there:
            raise PipelineError(f"stream {stream!r}: no topic at {servers} matches {pattern!r}.")
        return list(there.values())
    for name in asked:
        if name not in there:
            raise PipelineError(
                f"stream {stream!r}: there is no topic {name!r} at {servers}: create it, or correct the name."
            )
    return [
        Topic(
            name,
            {number: at for number, at in there[name].leaders.items() if parts is None or number in parts},
        )
        for name, parts in asked.items()
    ]


def count_records(stream: str, options: Mapping[str, str]) -> tuple[int, int]:
    """Return how many records the topics of a stream have dropped, and how many they have now."""
    dropped = ended = 0
    for topic in find_topics(stream, options):
        for leader in set(topic.leaders.values()):
            numbers = [number for number, at in topic.leaders.items() if at == leader]
            try:
                dropped += _offsets(leader, topic.name, numbers, _EARLIEST)
                ended += _offsets(leader, topic.name, numbers, _LATEST)
            except (OSError, ValueError, struct.error) as error:
                raise PipelineError(
                    f"stream {stream!r}: the records of topic {topic.name!r} cannot be counted: {error}."
                ) from error
    return dropped, ended - dropped


def _lower(options: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in options.items()}


def _subscribed(given: Mapping[str, str]) -> dict[str, set[int] | None] | None:
    """Return the topics that options name, each with its partitions, None for all; None if they give a pattern."""
    if "subscribe" in given:
        return dict.fromkeys(name.strip() for name in given["subscribe"].split(","))
    if "assign" in given:
        return {name: set(parts) for name, parts in json.loads(given["assign"]).items()}
    return None


def _address(server: str) -> Address:
    """Return the host and port of "host:port"; the host may be an IPv6 address in brackets."""
    host, _, port = server.rpartition(":")
    return host.strip("[]"), int(port) if port.isdigit() else 0


# Kafka's protocol: big-endian numbers, strings and arrays with their lengths in front.


class _Answer:
    """The bytes of an answer, read from front to back."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self, form: str = "i") -> int:
        """Return the next number: b, h, i or q, of 1 to 8 bytes."""
        (value,) = struct.unpack_from(f">{form}", self._data, self._at)
        self._at += struct.calcsize(f">{form}")
        return int(value)

    def text(self) -> str:
        """Return the next string, empty if there is none."""
        length = self.number("h")
        if length < 0:
            return ""
        self._at += length
        return self._data[self._at - length : self._at].decode()

    def items(self) -> Iterator[int]:
        """Yield the places of an array."""
        yield from range(self.number())


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack(">h", len(data)) + data


@contextmanager
def _connected(address: Address) -> Iterator[Callable[[tuple[int, int], bytes], _Answer]]:
    """Yield a function that sends a request to a broker and returns the answer."""
    with socket.create_connection(address, timeout=_PATIENCE) as connection:

        def ask(request: tuple[int, int], body: bytes) -> _Answer:
            message = struct.pack(">hhi", *request, 0) + _text("eddyline") + body
            connection.sendall(struct.pack(">i", len(message)) + message)
            (length,) = struct.unpack(">i", _exactly(connection, 4))
            if not 4 <= length <= _LONGEST:
                raise ValueError("the answer is not one of Kafka")
            return _Answer(_exactly(connection, length)[4:])

        yield ask


def _exactly(connection: socket.socket, length: int) -> bytes:
    found = bytearray()
    while len(found) < length:
        block = connection.recv(min(length - len(found), 1 << 16))
        if not block:
            raise ValueError("the connection was closed")
        found += block
    return bytes(found)


def _metadata(address: Address, names: list[str] | None) -> dict[str, Topic]:
    """Return the topics of these names that a broker knows, all of them for None; it is not asked to create any."""
    asked = struct.pack(">i", -1) if names is None else struct.pack(">i", len(names))
    with _connected(address) as ask:
        answer = ask(_METADATA, asked + b"".join(map(_text, names or ())) + b"\0")
    answer.number()  # how long it was throttled
    brokers = {}
    for _ in answer.items():
        number = answer.number()
        brokers[number] = (answer.text(), answer.number())
        answer.text()  # rack
    answer.text()  # cluster
    answer.number()  # controller
    found = {}
    for _ in answer.items():
        error, name, _internal = answer.number("h"), answer.text(), answer.number("b")
        leaders = {}
        for _ in answer.items():
            answer.number("h")
            number, leader = answer.number(), answer.number()
            for _ in range(2):  # replicas, and those in sync
                for _ in answer.items():
                    answer.number()
            leaders[number] = brokers.get(leader, address)
        if error != _UNKNOWN_TOPIC:
            found[name] = Topic(name, leaders)
    return found


def _offsets(leader: Address, topic: str, numbers: list[int], which: int) -> int:
    """Return the sum of the first or the next offsets of partitions."""
    parts = b"".join(struct.pack(">iq", number, which) for number in numbers)
    body = struct.pack(">ii", -1, 1) + _text(topic) + struct.pack(">i", len(numbers)) + parts
    with _connected(leader) as ask:
        answer = ask(_LIST_OFFSETS, body)
    total = 0
    for _ in answer.items():
        answer.text()
        for _ in answer.items():
            answer.number()
            error, _time, offset = answer.number("h"), answer.number("q"), answer.number("q")
            if error:
                raise ValueError(f"the broker answers with error {error}")
            total += offset
    return total
