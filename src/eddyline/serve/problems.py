"""What goes wrong, told in one shape: {"error": {"type": ..., "message": ...}} under the right status code."""

from collections.abc import Mapping

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from eddyline.errors import (
    ChangeError,
    EddylineError,
    PipelineError,
    PlanError,
    SketchError,
    SqlError,
    StoreError,
    UnsupportedQuery,
)

_JSON = "application/json"
_STATUS: tuple[tuple[type[EddylineError], int], ...] = (
    (UnsupportedQuery, 422),
    (SqlError, 400),
    (PlanError, 422),
    (StoreError, 503),
    (SketchError, 422),
    (ChangeError, 422),
    (PipelineError, 422),
)
_SENTENCES = {
    404: "there is nothing at this address: the API is described at /api/v1/openapi.json.",
    405: "only GET and HEAD are answered: nothing can be written over HTTP.",
}


class Refused(Exception):  # noqa: N818 - a refusal is no fault
    """A request that is answered with a status code and a sentence."""

    def __init__(
        self, status: int, kind: str, sentence: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(sentence)
        self.status, self.kind, self.headers = status, kind, dict(headers or {})

    def response(self) -> Response:
        """Return the refusal as the API tells it."""
        body = {"error": {"type": self.kind, "message": str(self)}}
        return Response(msgspec.json.encode(body), self.status, self.headers, _JSON)


def refused_by_us(error: EddylineError) -> Refused:
    """Return one of our errors as a refusal."""
    status = next(code for kind, code in _STATUS if isinstance(error, kind))
    return Refused(status, type(error).__name__, str(error))


async def tell_refused(_request: Request, error: Exception) -> Response:
    """Answer with a refusal."""
    assert isinstance(error, Refused)
    return error.response()


async def tell_error(_request: Request, error: Exception) -> Response:
    """Answer with one of our errors."""
    assert isinstance(error, EddylineError)
    return refused_by_us(error).response()


async def tell_http(_request: Request, error: Exception) -> Response:
    """Answer with what the router says: no such address, or no such method."""
    assert isinstance(error, HTTPException)
    sentence = _SENTENCES.get(error.status_code, str(error.detail))
    return Refused(error.status_code, "RequestError", sentence, error.headers).response()


async def tell_fault(_request: Request, _error: Exception) -> Response:
    """Answer with a sentence that says nothing of the inside; the server's log has it all."""
    return Refused(500, "ServerError", "the server failed on this request; its log says why.").response()
