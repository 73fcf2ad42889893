"""The HTTP API: queries, answers, ad hoc SQL, history, plan and freshness as JSON."""

from collections.abc import Callable, Mapping
from math import isfinite

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from eddyline.api.plan import Plan
from eddyline.api.state import State
from eddyline.api.store_tables import as_csv, as_parquet
from eddyline.errors import CorruptState, EddylineError, FormatVersion, StoreError
from eddyline.plan.layout import Layout, PlannedQuery
from eddyline.plan.show.explain import memory_of
from eddyline.serve.openapi import document
from eddyline.serve.requests import AnswerSettings, Refused, boolean, request_parameters
from eddyline.serve.turns import AnswerThreads
from eddyline.serve.view import AnswersView, answer_or_table, answered, content_of, stream_columns
from eddyline.serve.watcher import Events, Watcher

# Queries, answers, history, plan and freshness as JSON; `openapi` describes the API.


_JSON = "application/json"
_MANY_CELLS = 2_000  # from here on answers are written outside the event loop
_FILES = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}
_FORMS = {
    "full": _JSON,
    "text": "text/plain; charset=utf-8",
    "mermaid": "text/plain; charset=utf-8",
    "svg": "image/svg+xml",
}


class Api:
    """The addresses under /api/v1 and their handlers."""

    def __init__(self, watcher: Watcher, events: Events, asking: AnswerThreads) -> None:
        self._watcher = watcher
        self._events = events
        self._asking = asking

    def routes(self) -> list[Route]:
        """Return all addresses."""
        return [
            Route("/openapi.json", self.openapi),
            Route("/queries", self.queries),
            Route("/answers", self.answers),
            Route("/answers/{query}", self.answer_by_name),
            Route("/answer", self.answer_by_sql),
            Route("/explain/{query}", self.explain),
            Route("/history", self.history),
            Route("/plan", self.plan),
            Route("/freshness", self.freshness),
            Route("/events", self.events),
        ]

    async def openapi(self, request: Request) -> Response:
        """Return the description of the API."""
        request_parameters(request)
        return _json(document())

    async def queries(self, request: Request) -> Response:
        """Return the queries that the store's plan answers."""
        request_parameters(request)
        layout = self._state().snapshot.layout
        content = [_query(planned, None) for planned in layout.queries]
        for group in layout.windows:
            window = {
                "seconds": group.window.panes * group.window.slide / 1e6,
                "slide": group.window.slide / 1e6,
            }
            content += [_query(planned, window) for planned in group.layout.queries]
        return _json(content)

    async def answers(self, request: Request) -> Response:
        """Answer all queries."""
        given = request_parameters(request, "confidence", "limit", "as_of", "since")
        how = AnswerSettings.read(given)
        view = self._view()
        if "as_of" in given or "since" in given:
            state, names = self._state(), list(view.answers)
            return await self._asked(request, lambda: [_at_moment(state, name, given, how) for name in names])
        if how.confidence is None and view.cells(how.limit) < _MANY_CELLS:
            return _json(view.all_contents(how.limit))
        return await self._asked(
            request, lambda: [self._answer_of(view, query, how) for query in view.answers]
        )

    async def answer_by_name(self, request: Request) -> Response:
        """Answer one query of the plan."""
        given = request_parameters(request, "confidence", "limit", "as_of", "since")
        how = AnswerSettings.read(given)
        view, query = self._view(), request.path_params["query"]
        self._check_name(view, query)
        if "as_of" in given or "since" in given:
            state = self._state()
            return await self._asked(request, lambda: _at_moment(state, query, given, how))
        if how.confidence is None and view.cells(how.limit) < _MANY_CELLS:
            return _json(view.content(query, how.limit))
        return await self._asked(request, lambda: self._answer_of(view, query, how))

    def _answer_of(self, view: AnswersView, query: str, how: AnswerSettings) -> dict[str, object]:
        """Return the answer of a planned query, at another confidence than the plan's if one is asked for."""
        if how.confidence is None or view.state is None or isinstance(view.answers[query], EddylineError):
            return view.content(query, how.limit)
        return view.with_exact(content_of(answered(view.state, query, confidence=how.confidence), how.limit))

    async def answer_by_sql(self, request: Request) -> Response:
        """Answer SQL, or a query by its name, from what is kept."""
        given = request_parameters(
            request, "sql", "confidence", "limit", "window", "slide", "simultaneous", "as_of", "since"
        )
        how, together = AnswerSettings.read(given), boolean(given, "simultaneous")
        if not given.get("sql", "").strip():
            raise Refused(
                400, "RequestError", "say what to answer: /api/v1/answer?sql=SELECT ..., or a query's name."
            )
        state = self._state()
        if "since" in given:
            return await self._asked(
                request, lambda: _at_moment(state, given["sql"], given, how, refuse=True), len(given["sql"])
            )
        over = {"window": given.get("window"), "slide": given.get("slide")}
        return await self._asked(
            request,
            lambda: answer_or_table(
                _moment_of(state, given.get("as_of")),
                given["sql"],
                how.limit,
                confidence=how.confidence,
                simultaneous=together,
                **{key: value for key, value in over.items() if value},
            ),
            len(given["sql"]),
        )

    async def history(self, request: Request) -> Response:
        """Return the history of the estimates, or as a file the answers of all epochs that the store keeps."""
        given = request_parameters(request, "form", "sql", "since", "until", "confidence")
        how, form = AnswerSettings.read(given), given.get("form", "json")
        if form == "json":
            if len(given) > ("form" in given):
                raise Refused(
                    400, "RequestError", "sql, since, until and confidence need form=csv or form=parquet."
                )
            return Response(self._watcher.history_json(), media_type=_JSON)
        if form not in _FILES:
            raise Refused(400, "RequestError", f"form={form!r} is not one of json, {', '.join(_FILES)}.")
        self._state()

        def make() -> bytes:
            asked = (given["sql"],) if "sql" in given else ()
            table = self._watcher.history(asked, given.get("since"), given.get("until"), how.confidence)
            return as_csv(table) if form == "csv" else as_parquet(table)

        client = request.client.host if request.client else ""
        file = await self._asking.ask(make, client, len(given.get("sql", "")))
        headers = {"content-disposition": f'attachment; filename="history.{form}"'}
        return Response(file, media_type=_FILES[form], headers=headers)

    async def plan(self, request: Request) -> Response:
        """Return what is kept: as the memory that each part holds, in full, as text, or as a picture."""
        form = request_parameters(request, "form", "digest").get("form", "json")
        layout = self._state().snapshot.layout
        if form == "json":
            return _json(_plan(layout))
        if form not in _FORMS:
            raise Refused(400, "RequestError", f"form={form!r} is not one of json, {', '.join(_FORMS)}.")
        named = "json" if form == "full" else form
        return Response(Plan(layout).explain(named), media_type=_FORMS[form])  # type: ignore[arg-type]

    async def explain(self, request: Request) -> Response:
        """Return how one query was answered: what was decided for it, and what its synopses show at each step."""
        form = request_parameters(request, "form").get("form", "json")
        state, query = self._state(), request.path_params["query"]
        if form not in ("json", "text"):
            raise Refused(400, "RequestError", f"form={form!r} is not one of json, text.")
        self._check_name(self._view(), query)
        client = request.client.host if request.client else ""
        found = await self._asking.ask(lambda: state.explain(query, form=form), client)  # type: ignore[arg-type]
        return Response(found, media_type=_JSON if form == "json" else _FORMS["text"])

    async def freshness(self, request: Request) -> Response:
        """Return how far the streams have come, whether a run writes the store, and what is wrong with it."""
        request_parameters(request)
        return _json(self._watcher.view.status())

    async def events(self, request: Request) -> Response:
        """Send the answers as server-sent events."""
        request_parameters(request)
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        return self._events.respond()

    async def _asked(self, request: Request, question: Callable[[], object], length: int = 0) -> Response:
        """Return the answer of a question that is evaluated, and written as JSON, outside the event loop."""
        client = request.client.host if request.client else ""
        answer = await self._asking.ask(lambda: msgspec.json.encode(question()), client, length)
        return Response(answer, media_type=_JSON)

    def _check_name(self, view: AnswersView, query: str) -> None:
        if query not in view.answers:
            known = f"its queries are {', '.join(view.answers)}" if view.answers else "it has none"
            raise Refused(404, "RequestError", f"the plan has no query {query!r}: {known}.")

    def _view(self) -> AnswersView:
        self._state()
        return self._watcher.view

    def _state(self) -> State:
        state = self._watcher.view.state
        if state is None:
            problem = self._watcher.view.sighting.problem or "the store is being read: ask again in a moment."
            raise Refused(503, "NotReady", problem, {"retry-after": "1"})
        return state


def _moment_of(state: State, as_of: str | None) -> State:
    """Return the state that the parameter `as_of` or `since` asks for."""
    if as_of is None:
        return state
    if state.past is None:
        raise Refused(
            422, "RequestError", "as_of and since ask one store, and this server shows several sites."
        )
    try:
        return state.past(as_of)
    except (CorruptState, FormatVersion):
        raise
    except StoreError as error:  # not a time, or not kept: the request is at fault, not the store
        raise Refused(422, "StoreError", str(error)) from error


def _at_moment(
    state: State, query: str, given: Mapping[str, str], how: AnswerSettings, *, refuse: bool = False
) -> dict[str, object]:
    """Return an answer as of a moment, or how much it changed since one; or why it cannot be answered."""
    try:
        now = _moment_of(state, given.get("as_of"))
        if "since" not in given:
            return content_of(answered(now, query, confidence=how.confidence), how.limit)
        then = _moment_of(state, given["since"])
        return content_of(now.change(query, then, confidence=how.confidence), how.limit)
    except EddylineError as error:
        if refuse or isinstance(error, StoreError):
            raise
        return {"query": query, "refused": str(error)}


def _query(planned: PlannedQuery, window: dict[str, float] | None) -> dict[str, object]:
    error = planned.expected_error
    return {
        "name": planned.name,
        "sql": " ".join(planned.query.text.split()),
        "streams": planned.streams,
        "window": window,
        "expected_error": error if error is not None and isfinite(error) else None,
    }


def _plan(layout: Layout) -> dict[str, object]:
    return {
        "digest": layout.digest,
        "confidence": layout.confidence,
        "bytes": layout.nbytes,
        "memory": memory_of(layout),
        "streams": stream_columns(layout),
    }


def _json(content: object) -> Response:
    return Response(msgspec.json.encode(content), media_type=_JSON)
