"""The bytes of a client's connection: how it starts, with TLS and a password, and what is sent to it."""

import asyncio
import re
import ssl
import struct
from typing import TYPE_CHECKING

from eddyline.serve.postgres import messages, scram
from eddyline.serve.postgres.engine import Client
from eddyline.serve.postgres.messages import MessageReader
from eddyline.serve.postgres.refusals import Refusal

if TYPE_CHECKING:
    from eddyline.serve.postgres.server import WireServer

SECONDS_FOR_A_START = 15.0
_SECONDS_FOR_ROWS = 300.0
"""Seconds that a client may take to read what was sent."""


class WireConnection:
    """A connection: its first packets, its password, and the bytes that wait to be sent."""

    def __init__(
        self,
        server: "WireServer",
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        process: int,
        secret: int,
    ) -> None:
        self._server, self._reader, self._writer = server, reader, writer
        self.process, self.secret = process, secret
        self._client = Client(server.engine, process=process)
        self._host = str((writer.get_extra_info("peername") or ("",))[0])
        self._out: list[bytes] = []
        self._out_bytes = 0

    async def _start(self) -> bool:
        """Return whether the client may send statements: it has sent its startup packet and the password."""
        body = await self._first_packet()
        if body is None:
            return False
        fields = MessageReader(body)
        version = fields.int32()
        if version >> 16 != 3:
            raise Refusal(
                "0A000", f"protocol {version >> 16}.{version & 0xFFFF} is not supported: 3.0 is", fatal=True
            )
        given = self._introduced(fields)
        unknown = [name for name in given if name.startswith("_pq_.")]
        if version & 0xFFFF or unknown:
            self._send(messages.negotiate(unknown))
        self._client.user = given.get("user", "")
        self._client.database = given.get("database") or self._client.user
        if not self._client.user:
            raise Refusal("28000", "no user name was given", fatal=True)
        if given.get("replication", "false").lower() not in ("false", "off", "no", "0"):
            raise Refusal("0A000", "replication is not supported", fatal=True)
        await self._authenticate()
        self._take_settings(given)
        self._send(messages.authentication(0))
        for name, value in self._client.settings.reported():
            self._send(messages.parameter_status(name, value))
        self._send(messages.key_data(self.process, self.secret))
        self._send(messages.ready(b"I"))
        await self._flush()
        return True

    async def _first_packet(self) -> bytes | None:
        """Return the startup packet of the client, after TLS if it wants it; None after a cancel request."""
        is_encrypted = False
        for _ in range(3):  # one for GSS, one for TLS, then the startup packet
            body = await messages.read_startup(self._reader)
            (code,) = struct.unpack_from("!i", body)
            if code == messages.CANCEL_REQUEST and len(body) == 12:
                self._server.cancel(*struct.unpack_from("!iI", body, 4))
                return None
            if code == messages.GSS_REQUEST or (code == messages.SSL_REQUEST and self._server.tls is None):
                self._writer.write(b"N")
                await self._writer.drain()
            elif code == messages.SSL_REQUEST and not is_encrypted:
                await self._encrypt()
                is_encrypted = True
            else:
                if (
                    self._server.tls is not None
                    and not is_encrypted
                    and not self._server.is_local(self._writer)
                ):
                    raise Refusal(
                        "28000", "this server requires TLS", hint="Set sslmode=require.", fatal=True
                    )
                return body
        raise messages.malformed("the client sends no startup message")

    async def _encrypt(self) -> None:
        assert self._server.tls is not None
        if self._reader._buffer:  # type: ignore[attr-defined]  # noqa: SLF001 - bytes sent before TLS could be anyone's
            raise Refusal("08P01", "bytes arrived between the request for TLS and its start", fatal=True)
        self._writer.write(b"S")
        await self._writer.drain()
        await self._writer.start_tls(self._server.tls, ssl_handshake_timeout=SECONDS_FOR_A_START)

    @staticmethod
    def _introduced(fields: MessageReader) -> dict[str, str]:
        given: dict[str, str] = {}
        while name := fields.string():
            given[name] = fields.string()
        fields.end()
        return given

    def _take_settings(self, given: dict[str, str]) -> None:
        """Apply the settings that the client sent, including those of `options=-c name=value`."""
        named = {
            k: v
            for k, v in given.items()
            if k not in ("user", "database", "options", "replication") and not k.startswith("_pq_.")
        }
        named |= dict(re.findall(r"(?:-c\s*|--)([\w.-]+)=((?:\\.|\S)*)", given.get("options", "")))
        named = {name.replace("-", "_"): value.replace("\\ ", " ") for name, value in named.items()}
        try:
            self._client.settings.started({"session_authorization": self._client.user, **named})
        except Refusal as refusal:
            refusal.fatal = True
            raise

    async def _authenticate(self) -> None:
        secret = self._server.secret
        if secret is None:
            return
        self._send(messages.authentication(10, messages.texts(scram.MECHANISM) + b"\0"))
        await self._flush()
        exchange = scram.Exchange(secret)
        fields = MessageReader(await self._password())
        if fields.string() != scram.MECHANISM:
            raise Refusal("08P01", f"only {scram.MECHANISM} is supported", fatal=True)
        first = fields.take(max(fields.int32(), 0))
        self._send(messages.authentication(11, exchange.challenge(first)))
        await self._flush()
        try:
            signature = exchange.final(await self._password())
        except Refusal:
            await asyncio.sleep(0.2)  # so that guesses take time
            raise
        self._send(messages.authentication(12, signature))

    async def _password(self) -> bytes:
        kind, body = await messages.read_message(self._reader)
        if kind != b"p":
            raise Refusal("08P01", "a password was expected", fatal=True)
        return body

    def _send(self, data: bytes) -> None:
        self._out.append(data)
        self._out_bytes += len(data)

    async def _flush(self) -> None:
        if self._out:
            self._writer.write(b"".join(self._out))
            self._out.clear()
            self._out_bytes = 0
            async with asyncio.timeout(_SECONDS_FOR_ROWS):
                await self._writer.drain()

    async def _say_last(self, refusal: Refusal) -> None:
        """Send an error that ends the connection."""
        refusal.fatal = True
        try:
            self._send(messages.error(refusal))
            await self._flush()
        except (ConnectionError, TimeoutError, ssl.SSLError):
            pass

    def end(self) -> None:
        """Close the connection because the server ends."""
        self._send(messages.error(Refusal("57P01", "the server is ending", fatal=True)))
        self._writer.write(b"".join(self._out))
        self._writer.close()
