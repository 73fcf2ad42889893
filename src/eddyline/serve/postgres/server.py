"""The PostgreSQL server: it listens, counts connections, and gives each a session."""

import asyncio
import logging
import secrets
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path

from eddyline.api.state import State
from eddyline.errors import PipelineError
from eddyline.serve.postgres import messages
from eddyline.serve.postgres.engine import Engine
from eddyline.serve.postgres.refusals import Refusal
from eddyline.serve.postgres.scram import Secret
from eddyline.serve.postgres.session import Session
from eddyline.serve.security import is_loopback
from eddyline.serve.turns import AnswerThreads

_LOG = logging.getLogger("eddyline.serve")
WIRE_PORT = 8322
"""The default port: next to that of HTTP, and not that of a PostgreSQL on the same machine."""
MOST_SESSIONS = 100
"""The most connections at a time: PostgreSQL's default."""
STATEMENT_SECONDS = 10.0
"""Seconds that a statement may take, as over HTTP: answers take milliseconds."""
_THREADS = 4
"""Statements that are answered at a time; the others wait for their client's turn."""
_BACKLOG = 128


class WireServer:
    """Serves a store's answers over PostgreSQL's protocol, in its own thread and event loop."""

    def __init__(
        self,
        newest: Callable[[], State],
        listening: socket.socket,
        *,
        password: str | None = None,
        tls: ssl.SSLContext | None = None,
        connections: int = MOST_SESSIONS,
        seconds: float = STATEMENT_SECONDS,
    ) -> None:
        self.engine = Engine(newest)
        self.tls, self.seconds = tls, seconds
        self.secret = Secret(password) if password is not None else None
        self.asking = AnswerThreads(
            threads=_THREADS, waiting=connections, seconds=seconds, name="eddyline-postgres-asking"
        )
        self._listening = listening
        self._most = connections
        self._sessions: dict[int, Session] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._processes = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Event | None = None
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve()), name="eddyline-postgres", daemon=True
        )
        self._started = threading.Event()

    @property
    def address(self) -> tuple[str, int]:
        """The host and the port that it listens on."""
        host, port = self._listening.getsockname()[:2]
        return host, port

    def start(self) -> None:
        """Start to accept connections."""
        self._thread.start()
        self._started.wait()

    def stop(self) -> None:
        """End all connections and the thread."""
        if self._loop is not None and self._ended is not None:
            self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join(timeout=10)
        self.asking.close()

    async def _serve(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._accept, sock=self._listening, backlog=_BACKLOG)
        self._started.set()
        await self._ended.wait()
        server.close()
        for session in list(self._sessions.values()):
            session.end()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._processes = self._processes % 1_000_000 + 1
        process = self._processes
        try:
            if len(self._sessions) >= self._most:
                await self._refuse(reader, writer)
                return
            session = Session(self, reader, writer, process, secrets.randbits(32))
            self._sessions[process] = session
            await session.serve()
        except asyncio.CancelledError:  # the server ends; asyncio's own callback would log it
            if self._ended is None or not self._ended.is_set():
                raise
        finally:
            self._sessions.pop(process, None)
            self._tasks.discard(task)
            writer.close()

    async def _refuse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Refuse a connection beyond the limit, after its first packet, so that its client sees the reason."""
        try:
            async with asyncio.timeout(1):
                await messages.read_startup(reader)
                sentence = f"there are {self._most} connections already: try again later"
                writer.write(messages.error(Refusal("53300", sentence, fatal=True)))
                await writer.drain()
        except (Refusal, TimeoutError, asyncio.IncompleteReadError, ConnectionError):
            pass

    @property
    def held_results(self) -> int:
        """The bytes of the results that cursors of all connections hold."""
        return sum(session.held_results for session in self._sessions.values())

    def cancel(self, process: int, secret: int) -> None:
        """Stop what a session runs, if the secret is that session's."""
        session = self._sessions.get(process)
        if session is not None and secrets.compare_digest(str(session.secret), str(secret)):
            session.cancel()

    @staticmethod
    def is_local(writer: asyncio.StreamWriter) -> bool:
        """Return whether a client is on this machine."""
        peer = writer.get_extra_info("peername")
        return bool(peer) and is_loopback(str(peer[0]))

    @staticmethod
    def log_fault() -> None:
        """Log an unexpected exception of a statement."""
        _LOG.exception("a statement failed")


def wire_server(
    newest: Callable[[], State],
    host: str,
    port: int,
    *,
    password: str | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
) -> WireServer:
    """Return a server that already listens; PipelineError if the address or the certificate cannot be used."""
    tls = None
    if certificate is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            tls.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            raise PipelineError(f"the certificate {str(certificate)!r} cannot be used: {error}.") from error
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # with its protocol named: else asyncio leaves a delay of 40 ms between the parts of a response
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host.strip("[]"), port))
    except OSError as error:
        listening.close()
        raise PipelineError(
            f"the server cannot listen on {host} port {port}: {error.strerror or error}; name another --pg HOST:PORT."
        ) from error
    return WireServer(newest, listening, password=password, tls=tls)
