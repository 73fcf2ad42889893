"""Limits on slow and idle connections: slow ones are closed, idle ones are closed when all are in use.

uvicorn limits how long a connection may be idle between two requests, but neither how long a request may take to
arrive nor how long a response may wait for its reader. So a client without a token could hold all connections, and
every other client, including a health check, would get 503.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 1_000
SPARE_CONNECTIONS = 24
"""Connections beyond the limit, for /healthz and /readyz while all others are busy. Chosen."""


class Connection(H11Protocol):
    """One connection, and since when it waits for its client."""

    arrival = 15.0
    """Seconds for a request to arrive, from the connection or from its first byte. Chosen: slow phones need 3."""
    unread = 60.0
    """Seconds that a response may wait for its reader. Chosen: a browser in the background still reads."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._most = self.limit_concurrency or MOST_CONNECTIONS
        self.limit_concurrency = None  # uvicorn would answer 503 to every client before it reads the request
        self._idle_since = self.loop.time()
        self._arriving_since: float | None = None
        self._stalled_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection; if all are in use, close the one that has waited longest for its client."""
        super().connection_made(transport)
        self._arriving_since = self.loop.time()
        if len(self.connections) > self._most:
            waiting = [each for each in self.connections if isinstance(each, Connection) and each.is_waiting]
            others = [each for each in waiting if each is not self]
            if others:
                min(others, key=lambda each: each.waiting_since).drop()
            elif len(self.connections) > self._most + SPARE_CONNECTIONS:
                self.drop()

    def data_received(self, data: bytes) -> None:
        """Receive bytes of a request; the first byte starts its time."""
        if self.is_waiting and self._arriving_since is None:
            self._arriving_since = self.loop.time()
        super().data_received(data)
        if not self.is_waiting:
            self._arriving_since = None

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._idle_since, self._arriving_since = self.loop.time(), None
        super().on_response_complete()

    @property
    def is_waiting(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def waiting_since(self) -> float:
        """When it began to wait for its client."""
        return self._idle_since if self._arriving_since is None else self._arriving_since

    def is_too_slow(self) -> bool:
        """Return whether its client had enough time to send a request or read a response; called once a second."""
        now = self.loop.time()
        is_stalled = self.flow is not None and self.flow.write_paused
        self._stalled_since = (self._stalled_since or now) if is_stalled else None
        if self._stalled_since is not None and now - self._stalled_since > self.unread:
            return True
        arriving = self._arriving_since
        return self.is_waiting and arriving is not None and now - arriving > self.arrival

    def drop(self) -> None:
        """Close it at once, even with bytes left to send: its client may never read them."""
        self.connections.discard(self)
        self.transport.abort()


def drop_slow(connections: Iterable[object]) -> None:
    """Close the connections whose clients are too slow."""
    for each in list(connections):
        if isinstance(each, Connection) and each.is_too_slow():
            each.drop()
