"""The HTTP server: the handler of each address, limits on connections, and how the server starts and ends.

uvicorn limits how long a connection may be idle between two requests, but neither how long a request may take to
arrive nor how long a response may wait for its reader. So a client without a token could hold all connections, and
every other client, including a health check, would get 503. So slow connections are closed, and idle ones are closed
when all are in use.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from eddyline.errors import EddylineError, PipelineError
from eddyline.serve.api import Api
from eddyline.serve.metrics import registry_of
from eddyline.serve.requests import Refused, respond_error, respond_fault, respond_http, respond_refused
from eddyline.serve.security import AccessGuard, is_loopback
from eddyline.serve.turns import AnswerThreads
from eddyline.serve.watcher import Events, Watcher

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


_IDLE = 75  # seconds; longer than clients keep a connection, so that none is closed during a request
_TICKS_A_SECOND = 10  # of uvicorn's main loop
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
_PAGE = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/chart.js": ("chart.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}

Endpoint = Callable[[Request], Awaitable[Response]]


def create_app(
    watcher: Watcher, events: Events, *, token: str | None = None, hosts: frozenset[str] | None = None
) -> ASGIApp:
    """Return the application that serves what a watcher sees.

    token: what a client has to send, None if no token is needed. hosts: the host names that requests may use,
    None for any.
    """
    registry, took = registry_of(watcher, events)
    asking = AnswerThreads(took.observe)

    @asynccontextmanager
    async def alive(_app: Starlette) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()

        def notify() -> None:
            loop.call_soon_threadsafe(events.notify)

        watcher.start(notify)
        yield
        asking.close()
        await asyncio.to_thread(watcher.stop)

    app = Starlette(
        routes=[
            *(Route(path, _file(name, media)) for path, (name, media) in _PAGE.items()),
            Mount("/api/v1", routes=Api(watcher, events, asking).routes()),
            Route("/metrics", _metrics(registry)),
            Route("/healthz", _healthy),
            Route("/readyz", _ready(watcher)),
        ],
        exception_handlers={
            Refused: respond_refused,
            EddylineError: respond_error,
            HTTPException: respond_http,
            Exception: respond_fault,
        },
        lifespan=alive,
    )
    return AccessGuard(app, token=token, hosts=hosts)


def _file(name: str, media: str) -> Endpoint:
    """Return the handler that sends a file of the page, which is read once."""
    content = (files("eddyline.serve") / "page" / name).read_bytes()

    async def send(_request: Request) -> Response:
        return Response(content, media_type=media, headers={"cache-control": "no-cache"})

    return send


def _metrics(registry: CollectorRegistry) -> Endpoint:
    async def send(_request: Request) -> Response:
        content = await asyncio.to_thread(generate_latest, registry)
        return Response(content, headers={"content-type": CONTENT_TYPE_LATEST})

    return send


async def _healthy(_request: Request) -> Response:
    """Report that the server runs."""
    return PlainTextResponse("ok\n")


def _ready(watcher: Watcher) -> Endpoint:
    async def send(_request: Request) -> Response:
        """Report whether answers are available: the store was read, and can be read now."""
        ready = watcher.view.state is not None and watcher.view.sighting.problem is None
        return PlainTextResponse("ready\n" if ready else "not ready\n", 200 if ready else 503)

    return send


class Server(uvicorn.Server):
    """uvicorn's server on a socket that already listens."""

    def __init__(
        self, config: uvicorn.Config, watcher: Watcher, events: Events, listening: socket.socket
    ) -> None:
        super().__init__(config)
        self.watcher = watcher
        self._events = events
        self._listening = listening

    @property
    def address(self) -> str:
        """The URL of the page."""
        host, port = self._listening.getsockname()[:2]
        return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"

    def close(self) -> None:
        """Close the socket, if the server never ran."""
        self._listening.close()

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal or `should_exit` ends it."""
        super().run(sockets=sockets or [self._listening])

    async def on_tick(self, counter: int) -> bool:
        """Close the connections of clients that are too slow, once a second."""
        if counter % _TICKS_A_SECOND == 0:
            drop_slow(self.server_state.connections)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Disconnect the clients of events, for which uvicorn would wait, then end."""
        self._events.end()
        await super().shutdown(sockets)


def server_of(
    watcher: Watcher, host: str, port: int, token: str | None = None, most_connections: int = MOST_CONNECTIONS
) -> Server:
    """Return a server that already listens; PipelineError if the address is not available."""
    events = Events(watcher)
    hosts = _LOOPBACK_NAMES | {host} if token is None and is_loopback(host) else None
    config = uvicorn.Config(
        create_app(watcher, events, token=token, hosts=hosts),
        log_level="warning",
        access_log=False,
        server_header=False,
        http=Connection,
        limit_concurrency=most_connections,
        timeout_keep_alive=_IDLE,
        timeout_graceful_shutdown=5,
        ws="none",
    )
    return Server(config, watcher, events, _listen(host, port))


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # with its protocol named; without it asyncio leaves a delay of 40 ms between the parts of a response
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host.strip("[]"), port))
    except OSError as error:
        listening.close()
        raise PipelineError(
            f"the server cannot listen on {host} port {port}: {error.strerror or error}; name another --host or --port."
        ) from error
    listening.set_inheritable(True)
    return listening
