"""`eddyline mcp`: a store's answers for agents, over the Model Context Protocol on standard input and output.

The protocol is JSON-RPC 2.0, one message per line. This server has three tools (schema, ask, explain) and nothing
else, so it is written by hand: the official package brings 28 packages of 45 MB.
"""

import json
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from time import time
from typing import IO, Any

import msgspec

import eddyline
from eddyline.answer.freshness import plain
from eddyline.api.state import State
from eddyline.api.store_tables import Follower, Sighting
from eddyline.errors import EddylineError, PlanError, StoreError
from eddyline.plan.decide.elements import explores
from eddyline.plan.layout import Layout
from eddyline.serve.view import answer_or_table, query_texts

_LOG = logging.getLogger("eddyline.serve")
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Versions of the protocol, the newest first. What this server uses is the same in all of them."""
MOST_LINE = 1 << 20
"""Bytes of a message: as on the PostgreSQL wire."""
MOST_SQL = 100_000
"""Characters of SQL: as on the PostgreSQL wire."""
ROWS, MOST_ROWS = 100, 10_000
"""Rows of an answer if the client does not say how many, and the most: chosen, an agent reads every one of them."""
QUESTION_SECONDS = 30.0
"""How long a question may take: chosen; agents give up after a minute or so, and most answers take milliseconds."""
_MOST_RUNNING = 2
"""Questions that may run at a time; more than one only if an earlier one took too long. As over HTTP."""
_PARSE, _INVALID, _NO_METHOD, _BAD_PARAMETERS, _INTERNAL = -32700, -32600, -32601, -32602, -32603
_INSTRUCTIONS = (
    "Answers SQL aggregates over streams from a small summary of their rows. Call schema first. Every answer has a "
    "value and an interval from low to high, which holds the true value at the given confidence; exact=true means "
    "that value is the true one. Report the interval and the notes with the value. Rows are not kept: ask for "
    "aggregates (COUNT, SUM, AVG, ... with GROUP BY), not for SELECT *."
)
_STRING = {"type": "string"}
_TOOLS: tuple[dict[str, Any], ...] = (
    {
        "name": "schema",
        "title": "Streams and planned queries",
        "description": "Streams with their columns and types, whether ad hoc SQL over each is covered, planned queries "
        "by name with their SQL, the confidence of intervals, and how fresh the answers are.",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
    },
    {
        "name": "ask",
        "title": "Answer SQL",
        "description": "Answer a planned query by its name, or SQL (Spark's dialect) with aggregates over the streams. "
        "Returns value, low, high, exact, confidence, notes and freshness; groups or rows where there are several.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "sql": {**_STRING, "description": "SQL, or the name of a planned query."},
                "confidence": {
                    "type": "number",
                    "minimum": 0.5,
                    "exclusiveMaximum": 1,
                    "description": "Of the intervals; that of the plan by default.",
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MOST_ROWS,
                    "description": f"The most groups or rows to return; {ROWS} by default.",
                },
            },
            "required": ["sql"],
            "additionalProperties": False,
        },
    },
    {
        "name": "explain",
        "title": "How answers come about",
        "description": "Explain what is kept and how full it is, or, for a planned query, the steps to its answer.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {
                    **_STRING,
                    "description": "The name of a planned query; all of the store without it.",
                }
            },
            "additionalProperties": False,
        },
    },
)
for _tool in _TOOLS:
    _tool["annotations"] = {"readOnlyHint": True, "openWorldHint": False}


class _RpcError(Exception):
    """An error of the protocol, with its JSON-RPC code."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class McpServer:
    """Answers the messages of one client from the newest state of a store.

    seconds: how long a question may take.
    """

    def __init__(self, store: str, seconds: float = QUESTION_SECONDS) -> None:
        self._follower = Follower(store)
        self._seconds, self._running = seconds, list[threading.Thread]()
        self._tools: dict[str, Callable[[Mapping[str, Any]], object]] = {
            "schema": self._schema,
            "ask": self._ask,
            "explain": self._explain,
        }

    def run(self, lines: IO[bytes], replies: IO[bytes]) -> None:
        """Answer message after message until the client closes its end."""
        while line := lines.readline(MOST_LINE + 1):
            if len(line) > MOST_LINE:
                while line and not line.endswith(b"\n"):
                    line = lines.readline(MOST_LINE)
                reply: object = _error(
                    None, _RpcError(_INVALID, f"a message has more than {MOST_LINE} bytes.")
                )
            elif line.strip():
                reply = self.reply(line)
            else:
                continue
            if reply is not None:
                replies.write(msgspec.json.encode(reply) + b"\n")
                replies.flush()

    def reply(self, line: bytes) -> object:
        """Return the reply to a line, None if it needs no reply."""
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return _error(None, _RpcError(_PARSE, "the message is not JSON."))
        if not isinstance(message, list):
            return self._reply_to(message)
        if not message:
            return _error(None, _RpcError(_INVALID, "a batch needs at least one message."))
        return [reply for each in message if (reply := self._reply_to(each)) is not None] or None

    def _reply_to(self, message: object) -> dict[str, object] | None:
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            return _error(None, _RpcError(_INVALID, "the message is not JSON-RPC 2.0."))
        identity, method = message.get("id"), message.get("method")
        if not isinstance(method, str):
            is_reply = "result" in message or "error" in message
            return None if is_reply else _error(identity, _RpcError(_INVALID, "the message has no method."))
        if "id" not in message:
            return None  # a notification: initialized, cancelled
        try:
            return {"jsonrpc": "2.0", "id": identity, "result": self._result(method, message.get("params"))}
        except _RpcError as fault:
            return _error(identity, fault)
        except Exception as error:  # noqa: BLE001 - a server survives unexpected errors, and reports them
            _LOG.exception("a message could not be answered")
            return _error(identity, _RpcError(_INTERNAL, f"the server failed: {type(error).__name__}."))

    def _result(self, method: str, given: object) -> dict[str, object]:
        parameters = {} if given is None else given
        if not isinstance(parameters, dict):
            raise _RpcError(_BAD_PARAMETERS, "params is not an object.")
        if method == "initialize":
            wanted = parameters.get("protocolVersion")
            return {
                "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[0],
                "capabilities": {"tools": {"listChanged": False}},
                "serverInfo": {"name": "eddyline", "version": eddyline.__version__},
                "instructions": _INSTRUCTIONS,
            }
        if method == "ping":
            return {}
        if method == "tools/list":
            return {"tools": _TOOLS}
        if method == "tools/call":
            return self._called(parameters)
        raise _RpcError(_NO_METHOD, f"this server has no method {method!r}.")

    def _called(self, parameters: dict[str, Any]) -> dict[str, object]:
        name, given = parameters.get("name"), parameters.get("arguments")
        tool = next((each for each in _TOOLS if each["name"] == name), None)
        if tool is None:
            raise _RpcError(_BAD_PARAMETERS, f"there is no tool {name!r}: {', '.join(self._tools)}.")
        arguments = _checked(tool, {} if given is None else given)
        try:
            found = self._tools[tool["name"]](arguments)
        except EddylineError as error:
            sentence = self._follower.without_path(f"{type(error).__name__}: {error}")
            return {"content": [{"type": "text", "text": sentence}], "isError": True}
        text = msgspec.json.encode(found).decode()
        return {"content": [{"type": "text", "text": text}], "structuredContent": found, "isError": False}

    def _seen(self) -> tuple[Sighting, State]:
        seen = self._follower.look()
        if seen.state is None:
            raise StoreError(seen.problem or "the store has no epoch yet: ask again in a moment.")
        return seen, seen.state

    def _schema(self, _: Mapping[str, Any]) -> dict[str, object]:
        seen, state = self._seen()
        layout = state.snapshot.layout
        return {
            "streams": [
                {
                    "name": stream.name,
                    "columns": [{"name": each.name, "type": str(each.type)} for each in stream.every_column],
                    "explored": any(explores(sample, stream.name) for sample in layout.samples),
                }
                for stream in layout.streams
            ],
            "queries": _queries(layout),
            "confidence": layout.confidence,
            "time_zone": layout.timezone,
            "bytes": state.nbytes,
            **self._moment(seen, state),
        }

    def _ask(self, given: Mapping[str, Any]) -> dict[str, object]:
        seen, state = self._seen()
        sql, limit, at = given["sql"].strip().rstrip(";"), given.get("limit", ROWS), given.get("confidence")
        found = self._within_time(lambda: answer_or_table(state, sql, limit, confidence=at))
        return {**found, **self._moment(seen, state)}

    def _within_time(self, question: Callable[[], dict[str, object]]) -> dict[str, object]:
        """Return the answer of a question, or raise PlanError if it takes too long.

        Nothing can stop the thread of such a question. It ends by itself, and while two of them run, no other
        question begins.
        """
        self._running = [each for each in self._running if each.is_alive()]
        if len(self._running) >= _MOST_RUNNING:
            raise PlanError(f"{len(self._running)} earlier questions still run: ask again in a moment.")
        answer: Future[dict[str, object]] = Future()

        def run() -> None:
            try:
                answer.set_result(question())
            except Exception as error:  # noqa: BLE001 - it is raised where the answer is awaited
                answer.set_exception(error)

        thread = threading.Thread(target=run, daemon=True)
        self._running.append(thread)
        thread.start()
        try:
            return answer.result(self._seconds)
        except TimeoutError as error:
            raise PlanError(
                f"the question took longer than {self._seconds:g} s: ask for fewer groups, or join fewer streams."
            ) from error

    def _explain(self, given: Mapping[str, Any]) -> dict[str, object]:
        seen, state = self._seen()
        query = given.get("query")
        if query is None:
            return {"text": state.explain(), **self._moment(seen, state)}
        return {
            "steps": msgspec.json.decode(state.explain(query, form="json")),
            **self._moment(seen, state),
        }

    def _moment(self, seen: Sighting, state: State) -> dict[str, object]:
        """Return how fresh an answer is, whether a run writes the store, and what is wrong with it, if anything."""
        fresh = replace(state.origin.freshness, read_at=time()).to_dict() if state.origin else None
        problem = self._follower.without_path(seen.problem) if seen.problem else None
        return {"freshness": fresh, "running": seen.writer is not None, "problem": problem}


def _queries(layout: Layout) -> list[dict[str, object]]:
    windows = {
        planned.name: {
            "seconds": group.window.panes * group.window.slide / 1e6,
            "slide_seconds": group.window.slide / 1e6,
        }
        for group in layout.windows
        for planned in group.layout.queries
    }
    return [
        {"name": name, "sql": text, "window": windows.get(name)} for name, text in query_texts(layout).items()
    ]


def _checked(tool: Mapping[str, Any], given: object) -> dict[str, Any]:
    """Return the arguments of a call, or raise a fault that names the one that is wrong."""
    if not isinstance(given, dict):
        raise _RpcError(_BAD_PARAMETERS, "arguments is not an object.")
    known = tool["inputSchema"]["properties"]
    for name in tool["inputSchema"].get("required", ()):
        if name not in given:
            raise _RpcError(_BAD_PARAMETERS, f"{tool['name']} needs the argument {name!r}.")
    for name, value in given.items():
        if name not in known:
            raise _RpcError(_BAD_PARAMETERS, f"{tool['name']} has no argument {name!r}.")
        kind = known[name]["type"]
        if kind == "string" and (not isinstance(value, str) or not value.strip() or len(value) > MOST_SQL):
            raise _RpcError(
                _BAD_PARAMETERS,
                f"{name} is not a string of at most {MOST_SQL} characters: {plain(value)!r:.80}",
            )
        if kind == "number" and (
            isinstance(value, bool) or not isinstance(value, int | float) or not 0.5 <= value < 1
        ):
            raise _RpcError(_BAD_PARAMETERS, f"{name}={value!r} is not a number from 0.5 to below 1.")
        if kind == "integer" and (
            isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_ROWS
        ):
            raise _RpcError(_BAD_PARAMETERS, f"{name}={value!r} is not a whole number from 1 to {MOST_ROWS}.")
    return given


def _error(identity: object, fault: _RpcError) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": identity, "error": {"code": fault.code, "message": str(fault)}}
