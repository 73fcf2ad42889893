"""One connection of a client: its first packets, its password, and its statements until it disconnects."""

import asyncio
import re
import ssl
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from eddyline.serve.postgres import messages, scram, values
from eddyline.serve.postgres.catalog.database import MOST_BYTES
from eddyline.serve.postgres.copying import copied, read_options
from eddyline.serve.postgres.engine import Client, Result
from eddyline.serve.postgres.messages import MessageReader
from eddyline.serve.postgres.parameters import (
    Parameter,
    ParameterValue,
    example,
    parameter_types,
    read_parameters,
    with_values,
)
from eddyline.serve.postgres.refusals import Refusal, not_supported
from eddyline.serve.postgres.settings import show_name, shown_name
from eddyline.serve.postgres.statements import (
    Statement,
    copy_parts,
    cursor_name,
    identifier,
    one_statement,
    statements_of,
)
from eddyline.serve.postgres.values import WireColumn
from eddyline.serve.requests import Refused
from eddyline.serve.turns import LONG_TEXT

if TYPE_CHECKING:
    from eddyline.serve.postgres.server import WireServer

_MOST_STATEMENTS, _MOST_PORTALS = 1_000, 100
"""Prepared statements and open portals of a connection: chosen, far above what pools and drivers hold."""
_MOST_HELD = 4 << 20
"""Bytes of SQL and parameters that a connection may hold."""
_MOST_RESULTS = 512 << 20
"""Bytes of results that cursors and portals of all connections may hold together: chosen, eight of the largest."""
_ROWS = 1_000
_FLUSHED = 1 << 16
_SECONDS_FOR_A_START = 15.0
_SECONDS_FOR_ROWS = 300.0
"""Seconds that a client may take to read what was sent."""
_FETCH = re.compile(
    r"(?P<what>FETCH|MOVE)\s+(?:(?P<how>NEXT|FORWARD)\s+)?(?P<count>\d+|ALL)?\s*(?:(?:FROM|IN)\s+)?(?P<name>\"[^\"]+\"|\w+)$",
    re.IGNORECASE,
)
T = TypeVar("T")


@dataclass
class PreparedStatement:
    """A prepared statement: the types of its parameters, and its columns once they were described."""

    statement: Statement
    oids: list[int]
    columns: tuple[WireColumn, ...] | None = None

    @property
    def size(self) -> int:
        """Its bytes, which count toward the limit of a connection."""
        return len(self.statement.text) + 200


@dataclass
class Portal:
    """A statement with its parameters, its result once it was run, and how many of its rows were sent."""

    prepared: PreparedStatement
    given: list[Parameter] = field(default_factory=list)
    formats: list[int] = field(default_factory=list)
    result: Result | None = None
    columns: tuple[WireColumn, ...] = ()
    sent: int = 0
    has_noticed: bool = False
    size: int = 0

    def format_of(self, place: int) -> int:
        """Return the format of a column: 0 for text, 1 for binary."""
        if len(self.formats) <= 1:
            return self.formats[0] if self.formats else 0
        return self.formats[place]


class Session:
    """A connection, from its first byte to its last."""

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
        self._status = b"I"
        self._is_skipping = False
        self._statements: dict[str, PreparedStatement] = {}
        self._portals: dict[str, Portal] = {}
        self._running: asyncio.Task[object] | None = None
        self._is_cancelled = False

    async def serve(self) -> None:
        """Serve the connection until it ends."""
        try:
            async with asyncio.timeout(_SECONDS_FOR_A_START):
                started = await self._start()
            if started:
                while await self._next():
                    pass
        except Refusal as refusal:
            await self._say_last(refusal)
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError, ssl.SSLError):
            pass
        finally:
            self._client.interrupt()
            self._client.close()

    async def _say_last(self, refusal: Refusal) -> None:
        """Send an error that ends the connection."""
        refusal.fatal = True
        try:
            self._send(messages.error(refusal))
            await self._flush()
        except (ConnectionError, TimeoutError, ssl.SSLError):
            pass

    def cancel(self) -> None:
        """Stop the statement that runs now, if any."""
        if self._running is not None and not self._running.done():
            self._is_cancelled = True
            self._client.interrupt()
            self._running.cancel()

    def end(self) -> None:
        """Close the connection because the server ends."""
        self._send(messages.error(Refusal("57P01", "the server is ending", fatal=True)))
        self._writer.write(b"".join(self._out))
        self._writer.close()

    # the start

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
        self._send(messages.ready(self._status))
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
        await self._writer.start_tls(self._server.tls, ssl_handshake_timeout=_SECONDS_FOR_A_START)

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

    # messages

    async def _next(self) -> bool:  # noqa: C901 - the loop of the protocol
        """Handle the next message, and return whether the connection continues."""
        kind, body = await messages.read_message(self._reader)
        if kind == b"X":
            return False
        if kind == b"S":
            self._is_skipping = False
            self._ready()
            await self._flush()
            return True
        if self._is_skipping and kind != b"Q":
            return True
        try:
            if kind == b"Q":
                self._is_skipping = False
                fields = MessageReader(body)
                text = fields.string()
                fields.end()
                await self._simple(text)
            elif kind in _HANDLERS:
                await _HANDLERS[kind](self, MessageReader(body))
            elif kind in b"dcf":
                pass  # the rest of a copy that was refused
            else:
                raise Refusal("08P01", f"a message of type {kind!r} is not known", fatal=True)  # noqa: TRY301
        except Refusal as refusal:
            if refusal.fatal:
                raise
            self._failed(refusal)
            self._is_skipping = kind != b"Q"
        except Exception:  # noqa: BLE001 - a server survives unexpected errors, and logs them
            self._server.log_fault()
            self._failed(Refusal("XX000", "the server failed on this statement; its log has the reason"))
            self._is_skipping = kind != b"Q"
        if kind == b"Q":
            self._ready()
            await self._flush()
        return True

    def _failed(self, refusal: Refusal) -> None:
        if self._status == b"T":
            self._status = b"E"
        self._send(messages.error(refusal))

    def _ready(self) -> None:
        changed, self._client.settings.changed = self._client.settings.changed, []
        for name in dict.fromkeys(changed):
            self._send(messages.parameter_status(name, self._client.settings.get(name)))
        self._send(messages.ready(self._status))

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

    async def _simple(self, text: str) -> None:
        """Run all statements of a SQL string, one after the other, until one fails."""
        found = await self._read(lambda: statements_of(text), len(text))
        if not found:
            self._send(messages.EMPTY_QUERY)
        for statement in found:
            if statement.parameters():
                raise Refusal(
                    "42P02", "there is no parameter $1", hint="Parameters come with Parse and Bind."
                )
            portal = Portal(PreparedStatement(statement, []))
            await self._fill(portal)
            if portal.result is not None and statement.kind != "copy":
                self._describe(portal)
            await self._complete(portal, 0)

    async def _parse(self, fields: MessageReader) -> None:
        name, text = fields.string(), fields.string()
        oids = [fields.int32() & 0xFFFFFFFF for _ in range(fields.count())]
        fields.end()
        if name and name in self._statements:
            raise Refusal("42P05", f'prepared statement "{name}" already exists')

        def read() -> tuple[Statement, int]:
            statement = one_statement(text)
            return statement, statement.parameters()

        statement, highest = await self._read(read, len(text))
        self._check_transaction(statement)
        count = max(highest, len(oids))
        if count > 0 and statement.is_query:
            oids = await self._off_loop(
                lambda: parameter_types(
                    statement.tree(), count, oids, self._client.schema().parameter_columns()
                ),
                len(text),
            )
        self._statements.pop(name, None)
        if len(self._statements) >= _MOST_STATEMENTS or self._held() + len(text) > _MOST_HELD:
            raise Refusal(
                "53400", "this connection holds too many prepared statements", hint="DEALLOCATE some."
            )
        self._statements[name] = PreparedStatement(statement, oids)
        self._send(messages.PARSE_COMPLETE)

    def _held(self) -> int:
        return sum(each.size for each in self._statements.values()) + sum(
            each.size for each in self._portals.values()
        )

    @property
    def held_results(self) -> int:
        """The bytes of the results that cursors and portals hold."""
        return sum(each.result.table.nbytes for each in self._portals.values() if each.result is not None)

    async def _bind(self, fields: MessageReader) -> None:
        name, prepared = fields.string(), self._statement(fields.string())
        formats = [fields.int16() for _ in range(fields.count())]
        count = fields.count()
        given = []
        for _ in range(count):
            length = fields.int32()
            given.append(None if length == -1 else fields.take(length))
        results = [fields.int16() for _ in range(fields.count())]
        fields.end()
        if count != len(prepared.oids):
            raise Refusal(
                "08P01", f"{count} parameters were given, and the statement has {len(prepared.oids)}"
            )
        if len(formats) not in (0, 1, count) or any(each not in (0, 1) for each in (*formats, *results)):
            raise Refusal("08P01", "the formats of parameters do not fit")
        how = formats * count if len(formats) == 1 else formats or [0] * count
        if name and name in self._portals:
            raise Refusal("42P03", f'cursor "{name}" already exists')
        self._portals.pop(name, None)
        size = sum(len(each) for each in given if each is not None) + 200
        if len(self._portals) >= _MOST_PORTALS or self._held() + size > _MOST_HELD:
            raise Refusal("53400", "this connection holds too many portals", hint="Close some.")
        read = await self._read(lambda: read_parameters(prepared.oids, given, how), size)
        self._portals[name] = Portal(prepared, read, results, size=size)
        self._send(messages.BIND_COMPLETE)

    async def _describe_message(self, fields: MessageReader) -> None:
        kind, name = fields.take(1), fields.string()
        fields.end()
        if kind == b"S":
            prepared = self._statement(name)
            self._send(messages.parameter_description(prepared.oids))
            columns = await self._columns(prepared)
            described = [column.described for column in columns]
            self._send(
                messages.row_description(described, [0] * len(columns)) if columns else messages.NO_DATA
            )
        elif kind == b"P":
            portal = self._portal(name)
            await self._fill(portal, only_rows=True)
            if portal.result is None or portal.prepared.statement.kind == "copy":
                self._send(messages.NO_DATA)
            else:
                self._describe(portal)
        else:
            raise messages.malformed("Describe asks for a statement (S) or a portal (P)")

    async def _columns(self, prepared: PreparedStatement) -> tuple[WireColumn, ...]:
        """Return the columns of a statement, found with example values of its parameters."""
        if prepared.statement.kind not in _ROW_KINDS:
            return ()
        if prepared.columns is None:
            portal = Portal(prepared, [example(oid) for oid in prepared.oids])
            await self._fill(portal, only_rows=True)
            prepared.columns = portal.columns
        return prepared.columns

    async def _execute(self, fields: MessageReader) -> None:
        portal, most = self._portal(fields.string()), fields.int32()
        fields.end()
        if portal.prepared.statement.kind == "empty":
            self._send(messages.EMPTY_QUERY)
            return
        await self._fill(portal)
        await self._complete(portal, max(most, 0))

    async def _close(self, fields: MessageReader) -> None:
        kind, name = fields.take(1), fields.string()
        fields.end()
        (self._statements if kind == b"S" else self._portals).pop(name, None)
        self._send(messages.CLOSE_COMPLETE)

    async def _flush_message(self, _fields: MessageReader) -> None:
        await self._flush()

    async def _call(self, _fields: MessageReader) -> None:
        raise not_supported("function calls are not supported", "Call the function in a SELECT.")

    def _statement(self, name: str) -> PreparedStatement:
        found = self._statements.get(name)
        if found is None:
            raise Refusal("26000", f'prepared statement "{name}" does not exist')
        return found

    def _portal(self, name: str) -> Portal:
        found = self._portals.get(name)
        if found is None:
            raise Refusal("34000", f'portal "{name}" does not exist')
        return found

    # statements

    def _check_transaction(self, statement: Statement) -> None:
        if self._status == b"E" and statement.kind not in ("commit", "rollback", "empty"):
            sentence = "current transaction is aborted, commands ignored until end of transaction block"
            raise Refusal("25P02", sentence)

    async def _fill(self, portal: Portal, *, only_rows: bool = False) -> None:
        """Run a portal's statement if it returns rows and was not run yet."""
        statement = portal.prepared.statement
        self._check_transaction(statement)
        if portal.result is not None or statement.kind not in (*_ROW_KINDS, "copy"):
            return
        if statement.kind == "show":
            portal.result = self._shown(statement)
        elif statement.kind == "fetch":
            if not only_rows:
                portal.result = self._fetched(statement)
        else:
            text = statement.text if statement.kind == "query" else ""
            given = tuple((each.oid, each.value) for each in portal.given)
            length = len(statement.text) + portal.size
            portal.result = self._client.recalled(text, given) or await self._off_loop(
                lambda: self._run(statement, portal.given, text, given), length
            )
        if portal.result is not None:
            self._check_result(portal.result.table.nbytes)
            found = tuple(values.result_column(each) for each in portal.result.table.schema)
            known = portal.prepared.columns
            portal.columns = known if known and [c.name for c in known] == [c.name for c in found] else found

    def _check_result(self, nbytes: int) -> None:
        if nbytes > MOST_BYTES:
            raise Refusal("54000", f"the result has more than {MOST_BYTES >> 20} MB", hint="Add a LIMIT.")
        if nbytes + self._server.held_results > _MOST_RESULTS:
            sentence = f"cursors hold results of more than {_MOST_RESULTS >> 20} MB"
            raise Refusal("53200", sentence, hint="Close some, or ask for fewer rows.")

    def _run(
        self,
        statement: Statement,
        given: list[Parameter],
        text: str,
        key: tuple[tuple[int, ParameterValue], ...],
    ) -> Result:
        tree = with_values(statement.tree(), given)
        if statement.kind == "explain":
            return self._client.explained(tree)
        return self._client.run(tree, text, key)

    async def _read(self, question: Callable[[], T], length: int) -> T:
        """Return what is parsed: here if it is short, else in turn in a thread, as 5,000 terms take half a second."""
        return question() if length < LONG_TEXT else await self._off_loop(question, length)

    def _describe(self, portal: Portal) -> None:
        if len(portal.formats) > 1 and len(portal.formats) != len(portal.columns):
            raise Refusal(
                "08P01", f"{len(portal.formats)} formats were given for {len(portal.columns)} columns"
            )
        formats = [portal.format_of(place) for place in range(len(portal.columns))]
        self._send(messages.row_description([column.described for column in portal.columns], formats))

    async def _complete(self, portal: Portal, most: int) -> None:
        """Send the rows of a portal, at most `most` of them (0: all), or run its statement if it has no rows."""
        statement = portal.prepared.statement
        if portal.result is None:
            self._send(messages.complete(await self._command(statement, portal)))
            return
        self._send_notices(portal)
        if statement.kind == "copy":
            await self._copy(portal)
            return
        if len(portal.formats) > 1 and len(portal.formats) != len(portal.columns):
            raise Refusal(
                "08P01", f"{len(portal.formats)} formats were given for {len(portal.columns)} columns"
            )
        table, start = portal.result.table, portal.sent
        end = min(len(table), start + most) if most else len(table)
        for first in range(start, end, _ROWS):
            last = min(first + _ROWS, end)
            part = table.slice(first, last - first)
            cells = [
                values.cells_of(part.column(i), column.oid, binary=portal.format_of(i) == 1)
                for i, column in enumerate(portal.columns)
            ]
            self._send(messages.data_rows(cells, 0, last - first))
            if self._out_bytes > _FLUSHED:
                await self._flush()
        portal.sent = end
        if most and end < len(table):
            self._send(messages.SUSPENDED)
            return
        tag = {"show": "SHOW", "explain": "EXPLAIN", "fetch": f"FETCH {end - start}"}
        self._send(messages.complete(tag.get(statement.kind, f"SELECT {end - start}")))

    def _send_notices(self, portal: Portal) -> None:
        """Send the notices of a result, once."""
        if portal.has_noticed or portal.result is None:
            return
        portal.has_noticed = True
        if self._client.settings.values["client_min_messages"].lower() in (
            "warning",
            "error",
            "fatal",
            "panic",
        ):
            return
        for sentence in portal.result.notices:
            self._send(messages.notice(sentence))

    async def _copy(self, portal: Portal) -> None:
        assert portal.result is not None
        options = read_options(copy_parts(portal.prepared.statement.text)[1])
        self._send(messages.copy_out(len(portal.columns), 1 if options.form == "binary" else 0))
        for part in copied(portal.result.table, portal.columns, options):
            self._send(part)
            if self._out_bytes > _FLUSHED:
                await self._flush()
        self._send(messages.COPY_DONE)
        self._send(messages.complete(f"COPY {len(portal.result.table)}"))

    async def _command(self, statement: Statement, portal: Portal) -> str:  # noqa: C901, PLR0911 - a case for each kind
        """Run a statement without rows, and return its tag."""
        kind, words, settings = statement.kind, statement.words, self._client.settings
        if kind == "begin":
            return self._begin()
        if kind == "commit" or (kind == "rollback" and "TO" not in words):
            return self._end(committed=kind == "commit" and self._status != b"E")
        if kind in ("savepoint", "rollback"):
            if self._status == b"I":
                raise Refusal("25P01", f"{words[0]} can only be used in transaction blocks")
            if kind == "rollback":
                self._status = b"T"
            return words[0]
        if kind == "set":
            settings.run_set(statement.text)
        elif kind == "reset":
            settings.run_reset(statement.text)
        elif kind == "discard":
            self._statements.clear()
            self._portals.clear()
            settings.run_reset("RESET ALL")
            return "DISCARD ALL"
        elif kind == "deallocate":
            return self._deallocate(statement.text)
        elif kind == "close":
            self._close_cursor(statement.text)
            return "CLOSE CURSOR"
        elif kind == "declare":
            await self._declare(statement, portal)
            return "DECLARE CURSOR"
        return words[0] if words else ""

    def _begin(self) -> str:
        if self._status == b"T":
            self._send(
                messages.notice(
                    "there is already a transaction in progress", severity="WARNING", state="25001"
                )
            )
        else:
            self._status = b"T"
            self._client.begin()
        return "BEGIN"

    def _end(self, *, committed: bool) -> str:
        if self._status == b"I":
            self._send(
                messages.notice("there is no transaction in progress", severity="WARNING", state="25P01")
            )
            return "COMMIT" if committed else "ROLLBACK"
        self._status = b"I"
        self._portals.clear()
        self._client.end(committed=committed)
        return "COMMIT" if committed else "ROLLBACK"

    def _deallocate(self, text: str) -> str:
        name = text.rsplit(maxsplit=1)[-1]
        if name.upper() == "ALL":
            self._statements.clear()
            return "DEALLOCATE ALL"
        if self._statements.pop(identifier(name), None) is None:
            raise Refusal("26000", f'prepared statement "{identifier(name)}" does not exist')
        return "DEALLOCATE"

    async def _declare(self, statement: Statement, portal: Portal) -> None:
        name = cursor_name(statement.text)
        if name in self._portals:
            raise Refusal("42P03", f'cursor "{name}" already exists')
        if len(self._portals) >= _MOST_PORTALS:
            raise Refusal("53400", "this connection holds too many portals", hint="Close some.")
        query = Statement("query", statement.query, statement.words)
        made = Portal(PreparedStatement(query, []), portal.given, size=portal.size)
        await self._fill(made)
        self._portals[name] = made

    def _close_cursor(self, text: str) -> None:
        name = text.rsplit(maxsplit=1)[-1]
        if name.upper() == "ALL":
            self._portals.clear()
        elif self._portals.pop(identifier(name), None) is None:
            raise Refusal("34000", f'cursor "{identifier(name)}" does not exist')

    def _fetched(self, statement: Statement) -> Result:
        found = _FETCH.match(" ".join(statement.text.split()))
        if found is None:
            raise not_supported("only FETCH [FORWARD] n FROM cursor is supported")
        cursor = self._portal(identifier(found["name"]))
        assert cursor.result is not None
        forward = (found["how"] or "").upper() == "FORWARD"
        count = found["count"] or "1"
        left = len(cursor.result.table) - cursor.sent
        number = left if count.upper() == "ALL" else min(int(count), left)
        part = cursor.result.table.slice(cursor.sent, number if number or not forward else 0)
        cursor.sent += number
        noticed, cursor.has_noticed = cursor.has_noticed, True
        empty = found["what"].upper() == "MOVE"
        return Result(part.slice(0, 0) if empty else part, () if noticed else cursor.result.notices)

    def _shown(self, statement: Statement) -> Result:
        name = show_name(statement.text)
        settings = self._client.settings
        if name.upper() == "ALL":
            names = sorted(settings.values)
            return Result(
                pa.table(
                    {
                        "name": names,
                        "setting": [settings.values[n] for n in names],
                        "description": [""] * len(names),
                    }
                )
            )
        value = settings.get(name)
        return Result(pa.table({shown_name(name): pa.array([value], pa.string())}))

    async def _off_loop(self, question: Callable[[], T], length: int = 0) -> T:
        """Return the result of a question, run in a thread in the client's turn, within the time of a statement.

        length: of its SQL and parameters: long ones leave a thread to short ones.
        """
        limit = int(self._client.settings.values["statement_timeout"]) / 1000
        seconds = min(limit or self._server.seconds, self._server.seconds)
        self._is_cancelled = False
        asked = self._client.statement(question)
        running = asyncio.ensure_future(self._server.asking.ask(asked, self._host, length, seconds))
        self._running = running
        try:
            return await running
        except Refused as refused:
            if refused.kind == "Busy":
                raise Refusal(
                    "53300", str(refused).partition(":")[0], hint="Ask again in a moment."
                ) from None
            self._client.abandon()
            raise Refusal(
                "57014",
                f"canceling statement due to statement timeout ({seconds:g} s)",
                hint=_AFTER_A_TIMEOUT,
            ) from None
        except asyncio.CancelledError:
            if not self._is_cancelled:
                raise
            self._client.abandon()
            raise Refusal("57014", "canceling statement due to user request") from None
        finally:
            self._running = None


_AFTER_A_TIMEOUT = (
    "An answer over streams is still computed, and kept: ask again in a moment. The first questions after an "
    "installation compile code; `eddyline warm` does it ahead."
)
_ROW_KINDS = ("query", "show", "explain", "fetch")
_HANDLERS = {
    b"P": Session._parse,  # noqa: SLF001 - a table of this class's own methods
    b"B": Session._bind,  # noqa: SLF001
    b"D": Session._describe_message,  # noqa: SLF001
    b"E": Session._execute,  # noqa: SLF001
    b"C": Session._close,  # noqa: SLF001
    b"H": Session._flush_message,  # noqa: SLF001
    b"F": Session._call,  # noqa: SLF001
}
