"""The server: which address is answered by what, and how it begins and ends."""

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
from eddyline.serve.api import Api
from eddyline.serve.asking import Asking
from eddyline.serve.events import Events
from eddyline.serve.metrics import registry_of
from eddyline.serve.problems import Refused, tell_error, tell_fault, tell_http, tell_refused
from eddyline.serve.security import Guard, is_loopback
from eddyline.serve.watcher import Watcher

_MOST_CONNECTIONS = 1_000
_IDLE = 75  # seconds; longer than clients keep a connection, so that none is closed under a request
_SILENT = 15  # seconds that a connection may take for its first request
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
    """Return the application that tells what a watcher sees.

    token: what a client has to send, None where anyone may ask. hosts: the names under which the server may be asked,
    None for any.
    """
    registry, took = registry_of(watcher, events)
    asking = Asking(took)

    @asynccontextmanager
    async def alive(_app: Starlette) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()

        def tell() -> None:
            loop.call_soon_threadsafe(events.tell)

        watcher.start(tell)
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
            Refused: tell_refused,
            EddylineError: tell_error,
            HTTPException: tell_http,
            Exception: tell_fault,
        },
        lifespan=alive,
    )
    return Guard(app, token=token, hosts=hosts)


def _file(name: str, media: str) -> Endpoint:
    """Return what sends a file of the page, which is read once."""
    content = (files("eddyline.serve") / "page" / name).read_bytes()

    async def send(_request: Request) -> Response:
        return Response(content, media_type=media, headers={"cache-control": "no-cache"})

    return send


def _metrics(registry: CollectorRegistry) -> Endpoint:
    async def send(_request: Request) -> Response:
        told = await asyncio.to_thread(generate_latest, registry)
        return Response(told, headers={"content-type": CONTENT_TYPE_LATEST})

    return send


async def _healthy(_request: Request) -> Response:
    """Say that the server is there."""
    return PlainTextResponse("ok\n")


def _ready(watcher: Watcher) -> Endpoint:
    async def send(_request: Request) -> Response:
        """Say whether answers can be had: the store was read, and can be read now."""
        ready = watcher.view.state is not None and watcher.view.sighting.problem is None
        return PlainTextResponse("ready\n" if ready else "not ready\n", 200 if ready else 503)

    return send


class Server(uvicorn.Server):
    """uvicorn's server on a socket that listens already."""

    def __init__(self, config: uvicorn.Config, events: Events, listening: socket.socket) -> None:
        super().__init__(config)
        self._events = events
        self._listening = listening
        self._silent: dict[int, int] = {}

    @property
    def address(self) -> str:
        """Where a browser finds the page."""
        host, port = self._listening.getsockname()[:2]
        return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until told to end, by a signal or by `should_exit`."""
        super().run(sockets=sockets or [self._listening])

    async def on_tick(self, counter: int) -> bool:
        """Look after connections once a second: one that asks nothing is closed, for there is room for so many only."""
        if counter % _TICKS_A_SECOND == 0:
            silent = {
                id(each): each
                for each in self.server_state.connections
                if getattr(each, "cycle", None) is None
            }
            self._silent = {key: self._silent.get(key, 0) + 1 for key in silent}
            for key, seconds in self._silent.items():
                if seconds > _SILENT:
                    silent[key].transport.close()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let the clients of events go, for whom uvicorn would wait, then end."""
        self._events.end()
        await super().shutdown(sockets)


def server_of(watcher: Watcher, host: str, port: int, token: str | None = None) -> Server:
    """Return a server that listens already; PipelineError where the address cannot be had."""
    events = Events(watcher)
    hosts = _LOOPBACK_NAMES | {host} if token is None and is_loopback(host) else None
    config = uvicorn.Config(
        create_app(watcher, events, token=token, hosts=hosts),
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_keep_alive=_IDLE,
        timeout_graceful_shutdown=5,
        ws="none",
    )
    return Server(config, events, _listen(host, port))


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # with its protocol named, without which asyncio leaves a delay of 40 ms between the parts of a response
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
