"""Server-sent events: each client is sent the newest view when there is one.

Nothing is queued for a client. One that reads slowly misses views in between, and holds no more than the bytes
that the newest one shares with all others.
"""

import asyncio
from collections.abc import AsyncIterator

from starlette.responses import StreamingResponse

from eddyline.serve.problems import Refused
from eddyline.serve.watcher import Watcher

MOST_CLIENTS = 500
_BEAT = 10.0
"""Seconds after which a client that had nothing new hears that the server is there."""


class Events:
    """The clients that follow a watcher."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._news = asyncio.Event()
        self._sent: tuple[int, bytes] = (-1, b"")
        self._ended = False
        self.clients = 0

    def tell(self) -> None:
        """Wake all clients: there is something new. Called on the event loop."""
        self._news.set()
        self._news = asyncio.Event()

    def end(self) -> None:
        """Let all clients go, so that the server can end."""
        self._ended = True
        self.tell()

    async def respond(self) -> StreamingResponse:
        """Return the stream of views for one more client."""
        if self.clients >= MOST_CLIENTS:
            raise Refused(
                503,
                "Busy",
                f"{self.clients} clients follow this server: ask again later.",
                {"retry-after": "5"},
            )
        return StreamingResponse(
            self._views(), media_type="text/event-stream", headers={"x-accel-buffering": "no"}
        )

    async def _views(self) -> AsyncIterator[bytes]:
        self.clients += 1
        last = -1
        try:
            yield b"retry: 2000\n\n"
            while not self._ended:
                news = self._news
                if last != self._watcher.version:
                    last, message = self._message()
                    yield message
                    continue
                try:
                    await asyncio.wait_for(news.wait(), _BEAT)
                except TimeoutError:
                    yield b"event: beat\ndata: {}\n\n"
        finally:
            self.clients -= 1

    def _message(self) -> tuple[int, bytes]:
        """Return the newest view as a message; all clients share its bytes."""
        version = self._watcher.version
        if self._sent[0] != version:
            body = self._watcher.view.to_json()
            self._sent = (version, b"id: %d\nevent: view\ndata: %s\n\n" % (version, body))
        return self._sent
