"""The messages of a connected client: statements are parsed, bound, run, and their rows sent."""

import asyncio
import ssl
from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

import pyarrow as pa

from eddyline.serve.postgres import messages, values
from eddyline.serve.postgres.catalog.database import MOST_RESULT_BYTES
from eddyline.serve.postgres.connection import SECONDS_FOR_A_START, WireConnection
from eddyline.serve.postgres.copying import copied, read_options
from eddyline.serve.postgres.engine import QueryResult
from eddyline.serve.postgres.messages import MessageReader
from eddyline.serve.postgres.parameters import (
    Parameter,
    ParameterValue,
    example,
    parameter_types,
    read_parameters,
    with_values,
)
from eddyline.serve.postgres.portals import Portal, Portals, PreparedStatement
from eddyline.serve.postgres.refusals import Refusal, not_supported
from eddyline.serve.postgres.settings import show_name, shown_name
from eddyline.serve.postgres.statements import (
    Statement,
    copy_parts,
    cursor_name,
    one_statement,
    statements_of,
)
from eddyline.serve.postgres.values import WireColumn
from eddyline.serve.requests import Refused
from eddyline.serve.turns import LONG_SQL

_MOST_RESULTS = 512 << 20
"""Bytes of results that cursors and portals of all connections may hold together: chosen, eight of the largest."""
_ROWS = 1_000
_FLUSHED = 1 << 16
_T = TypeVar("_T")


class Session(WireConnection):
    """A connection that answers messages until the client ends it."""

    _status = b"I"
    _is_skipping = False
    _running: asyncio.Task[object] | None = None
    _is_cancelled = False

    @cached_property
    def _held(self) -> Portals:
        """Its prepared statements and portals."""
        return Portals()

    async def serve(self) -> None:
        """Serve the connection until it ends."""
        try:
            async with asyncio.timeout(SECONDS_FOR_A_START):
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

    def cancel(self) -> None:
        """Stop the statement that runs now, if any."""
        if self._running is not None and not self._running.done():
            self._is_cancelled = True
            self._client.interrupt()
            self._running.cancel()

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
        self._held.check_statement_name(name)

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
        self._held.prepare(name, statement, oids)
        self._send(messages.PARSE_COMPLETE)

    @property
    def held_results(self) -> int:
        """The bytes of the results that cursors and portals hold."""
        return self._held.result_bytes

    async def _bind(self, fields: MessageReader) -> None:
        name, prepared = fields.string(), self._held.statement(fields.string())
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
        size = sum(len(each) for each in given if each is not None) + 200
        self._held.make_room(name, size)
        read = await self._read(lambda: read_parameters(prepared.oids, given, how), size)
        self._held.open(name, Portal(prepared, read, results, size=size))
        self._send(messages.BIND_COMPLETE)

    async def _describe_message(self, fields: MessageReader) -> None:
        kind, name = fields.take(1), fields.string()
        fields.end()
        if kind == b"S":
            prepared = self._held.statement(name)
            self._send(messages.parameter_description(prepared.oids))
            columns = await self._columns(prepared)
            described = [column.described for column in columns]
            self._send(
                messages.row_description(described, [0] * len(columns)) if columns else messages.NO_DATA
            )
        elif kind == b"P":
            portal = self._held.portal(name)
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
        portal, most = self._held.portal(fields.string()), fields.int32()
        fields.end()
        if portal.prepared.statement.kind == "empty":
            self._send(messages.EMPTY_QUERY)
            return
        await self._fill(portal)
        await self._complete(portal, max(most, 0))

    async def _close(self, fields: MessageReader) -> None:
        kind, name = fields.take(1), fields.string()
        fields.end()
        self._held.close(kind, name)
        self._send(messages.CLOSE_COMPLETE)

    async def _flush_message(self, _fields: MessageReader) -> None:
        await self._flush()

    async def _call(self, _fields: MessageReader) -> None:
        raise not_supported("function calls are not supported", "Call the function in a SELECT.")

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
                await self._fill(self._held.cursor(statement))
                portal.result = self._held.fetched(statement)
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
        if nbytes > MOST_RESULT_BYTES:
            raise Refusal(
                "54000", f"the result has more than {MOST_RESULT_BYTES >> 20} MB", hint="Add a LIMIT."
            )
        if nbytes + self._server.held_results > _MOST_RESULTS:
            sentence = f"cursors hold results of more than {_MOST_RESULTS >> 20} MB"
            raise Refusal("53200", sentence, hint="Close some, or ask for fewer rows.")

    def _run(
        self,
        statement: Statement,
        given: list[Parameter],
        text: str,
        key: tuple[tuple[int, ParameterValue], ...],
    ) -> QueryResult:
        tree = with_values(statement.tree(), given)
        if statement.kind == "explain":
            return self._client.explained(tree)
        return self._client.run(tree, text, key)

    async def _read(self, question: Callable[[], _T], length: int) -> _T:
        """Return what is parsed: here if it is short, else in turn in a thread, as 5,000 terms take half a second."""
        return question() if length < LONG_SQL else await self._off_loop(question, length)

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
            self._held.discard()
            settings.run_reset("RESET ALL")
            return "DISCARD ALL"
        elif kind == "deallocate":
            return self._held.deallocate(statement.text)
        elif kind == "close":
            self._held.close_cursor(statement.text)
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
        self._held.close_portals()
        self._client.end(committed=committed)
        return "COMMIT" if committed else "ROLLBACK"

    async def _declare(self, statement: Statement, portal: Portal) -> None:
        name = cursor_name(statement.text)
        self._held.make_room(name, portal.size, is_cursor=True)
        query = Statement("query", statement.query, statement.words)
        made = Portal(PreparedStatement(query, []), portal.given, size=portal.size)
        await self._fill(made)
        self._held.open(name, made)

    def _shown(self, statement: Statement) -> QueryResult:
        name = show_name(statement.text)
        settings = self._client.settings
        if name.upper() == "ALL":
            names = sorted(settings.values)
            return QueryResult(
                pa.table(
                    {
                        "name": names,
                        "setting": [settings.values[n] for n in names],
                        "description": [""] * len(names),
                    }
                )
            )
        value = settings.get(name)
        return QueryResult(pa.table({shown_name(name): pa.array([value], pa.string())}))

    async def _off_loop(self, question: Callable[[], _T], length: int = 0) -> _T:
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
