"""The HTTP API: queries, answers, history, plan and freshness as JSON; see `openapi` for its description."""

from collections.abc import Callable
from math import isfinite

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from eddyline.api.plan import Plan
from eddyline.api.state import State
from eddyline.plan.layout import Layout, PlannedQuery
from eddyline.plan.show.memory import memory_of
from eddyline.serve.asking import Asking
from eddyline.serve.events import Events
from eddyline.serve.openapi import document
from eddyline.serve.parameters import HowToTell, boolean, parameters
from eddyline.serve.problems import Refused
from eddyline.serve.view import View, tell
from eddyline.serve.watcher import Watcher

_JSON = "application/json"
_FORMS = {"text": "text/plain; charset=utf-8", "mermaid": "text/plain; charset=utf-8", "svg": "image/svg+xml"}


class Api:
    """The addresses under /api/v1 and what answers them."""

    def __init__(self, watcher: Watcher, events: Events, asking: Asking) -> None:
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
            Route("/history", self.history),
            Route("/plan", self.plan),
            Route("/freshness", self.freshness),
            Route("/events", self.events),
        ]

    async def openapi(self, request: Request) -> Response:
        """Describe the API."""
        parameters(request)
        return _json(document())

    async def queries(self, request: Request) -> Response:
        """Tell the queries that the store's plan answers."""
        parameters(request)
        layout = self._state().snapshot.layout
        told = [_query(planned, None) for planned in layout.queries]
        for group in layout.windows:
            window = {
                "seconds": group.window.panes * group.window.slide / 1e6,
                "slide": group.window.slide / 1e6,
            }
            told += [_query(planned, window) for planned in group.layout.queries]
        return _json(told)

    async def answers(self, request: Request) -> Response:
        """Answer all queries."""
        how = HowToTell.read(parameters(request, "confidence", "limit"))
        view = self._view()
        if how.confidence is None:
            return _json(view.tell_all(how.limit))
        return await self._asked(lambda: [self._told(view, query, how) for query in view.answers])

    async def answer_by_name(self, request: Request) -> Response:
        """Answer one query of the plan."""
        how = HowToTell.read(parameters(request, "confidence", "limit"))
        view, query = self._view(), request.path_params["query"]
        if query not in view.answers:
            known = ", ".join(view.answers)
            raise Refused(404, "RequestError", f"the plan has no query {query!r}: its queries are {known}.")
        if how.confidence is None:
            return _json(view.tell(query, how.limit))
        return await self._asked(lambda: self._told(view, query, how))

    def _told(self, view: View, query: str, how: HowToTell) -> dict[str, object]:
        """Return the answer of a planned query at another confidence than the plan's."""
        told = view.tell(query, how.limit)
        if "refused" in told or view.state is None:
            return told
        return tell(view.state.answer(query, confidence=how.confidence), how.limit)

    async def answer_by_sql(self, request: Request) -> Response:
        """Answer an SQL text, or a query by its name, from what is kept."""
        given = parameters(request, "sql", "confidence", "limit", "window", "slide", "simultaneous")
        how, together = HowToTell.read(given), boolean(given, "simultaneous")
        if not given.get("sql", "").strip():
            raise Refused(
                400, "RequestError", "say what to answer: /api/v1/answer?sql=SELECT ..., or a query's name."
            )
        state = self._state()
        return await self._asked(
            lambda: tell(
                state.answer(
                    given["sql"],
                    confidence=how.confidence,
                    simultaneous=together,
                    window=given.get("window"),
                    slide=given.get("slide"),
                ),
                how.limit,
            )
        )

    async def history(self, request: Request) -> Response:
        """Tell how the estimates moved."""
        parameters(request)
        return Response(self._watcher.history_json(), media_type=_JSON)

    async def plan(self, request: Request) -> Response:
        """Tell what is kept: as text, as a picture, or as the memory that each part holds."""
        form = parameters(request, "form").get("form", "json")
        layout = self._state().snapshot.layout
        if form == "json":
            return _json(_plan(layout))
        if form not in _FORMS:
            raise Refused(400, "RequestError", f"form={form!r} is not one of json, {', '.join(_FORMS)}.")
        return Response(Plan(layout).explain(form), media_type=_FORMS[form])  # type: ignore[arg-type]

    async def freshness(self, request: Request) -> Response:
        """Tell how far the streams have come, whether a run writes the store, and what is wrong with it."""
        parameters(request)
        return _json(self._watcher.view.status())

    async def events(self, request: Request) -> Response:
        """Follow the answers as server-sent events."""
        parameters(request)
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        return await self._events.respond()

    async def _asked(self, question: Callable[[], object]) -> Response:
        """Return the answer of a question that is asked, and written as JSON, beside the event loop."""
        return Response(await self._asking.ask(lambda: msgspec.json.encode(question())), media_type=_JSON)

    def _view(self) -> View:
        self._state()
        return self._watcher.view

    def _state(self) -> State:
        state = self._watcher.view.state
        if state is None:
            problem = self._watcher.view.sighting.problem or "the store is being read: ask again in a moment."
            raise Refused(503, "NotReady", problem, {"retry-after": "1"})
        return state


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
        "streams": [{"name": stream.name, "changes": stream.changes} for stream in layout.streams],
    }


def _json(told: object) -> Response:
    return Response(msgspec.json.encode(told), media_type=_JSON)
