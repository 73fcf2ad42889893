"""The HTTP server: the handler of each address, and how the server starts and ends."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.resources import files

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from eddyline.errors import EddylineError, PipelineError
from eddyline.serve.api import Api, Asking
from eddyline.serve.connections import MOST_CONNECTIONS, Connection, drop_slow
from eddyline.serve.metrics import registry_of
from eddyline.serve.requests import Refused, respond_error, respond_fault, respond_http, respond_refused
from eddyline.serve.security import Guard, is_loopback
from eddyline.serve.watcher import Events, Watcher

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
    asking = Asking(took)

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
    return Guard(app, token=token, hosts=hosts)


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
