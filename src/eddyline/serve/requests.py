"""Requests and refusals: parameters are read strictly, and errors have one JSON shape."""

from collections.abc import Mapping
from dataclasses import dataclass

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
from eddyline.plan.size.specs import checked_confidence

# All errors have one shape: {"error": {"type": ..., "message": ...}} under the right status code.


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


class Refused(Exception):  # noqa: N818 - a refusal is not a failure
    """A request that is answered with a status code and a message."""

    def __init__(
        self, status: int, kind: str, sentence: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(sentence)
        self.status, self.kind, self.headers = status, kind, dict(headers or {})

    def response(self) -> Response:
        """Return the refusal as the API sends it."""
        body = {"error": {"type": self.kind, "message": str(self)}}
        return Response(msgspec.json.encode(body), self.status, self.headers, _JSON)


def refused_by_us(error: EddylineError) -> Refused:
    """Return one of our errors as a refusal."""
    status = next(code for kind, code in _STATUS if isinstance(error, kind))
    return Refused(status, type(error).__name__, str(error))


async def respond_refused(_request: Request, error: Exception) -> Response:
    """Answer with a refusal."""
    assert isinstance(error, Refused)
    return error.response()


async def respond_error(_request: Request, error: Exception) -> Response:
    """Answer with one of our errors."""
    assert isinstance(error, EddylineError)
    return refused_by_us(error).response()


async def respond_http(_request: Request, error: Exception) -> Response:
    """Answer with the router's error: unknown address, or unsupported method."""
    assert isinstance(error, HTTPException)
    sentence = _SENTENCES.get(error.status_code, str(error.detail))
    return Refused(error.status_code, "RequestError", sentence, error.headers).response()


async def respond_fault(_request: Request, _error: Exception) -> Response:
    """Answer with a message that shows no internals; the server's log has everything."""
    return Refused(500, "ServerError", "the server failed on this request; its log says why.").response()


# Parameters of a request are read strictly: an unknown or malformed parameter is refused by name.


LEAST_GROUPS, MOST_GROUPS, DEFAULT_GROUPS = 1, 10_000, 1_000
_BOOLEANS = {"true": True, "false": False}


def request_parameters(request: Request, *allowed: str) -> dict[str, str]:
    """Return the parameters of a request, each given at most once; Refused for any other."""
    given = request.query_params.multi_items()
    names = [name for name, _ in given]
    for name in names:
        if name not in allowed:
            takes = f"takes {', '.join(allowed)}" if allowed else "takes none"
            raise _wrong(f"the parameter {name!r} is not known here: this address {takes}.")
        if names.count(name) > 1:
            raise _wrong(f"the parameter {name!r} is given {names.count(name)} times: give it once.")
    return dict(given)


@dataclass(frozen=True)
class AnswerSettings:
    """The confidence of answers, None for the plan's own, and how many groups to show."""

    confidence: float | None
    limit: int

    @classmethod
    def read(cls, given: dict[str, str]) -> "AnswerSettings":
        """Return the values of the parameters `confidence` and `limit`."""
        return cls(_confidence(given.get("confidence")), _limit(given.get("limit")))


def boolean(given: dict[str, str], name: str) -> bool:
    """Return a parameter that is true or false, false if it is not given."""
    text = given.get(name, "false")
    if text not in _BOOLEANS:
        raise _wrong(f"{name}={text!r} is neither true nor false.")
    return _BOOLEANS[text]


def _confidence(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return checked_confidence(float(text))
    except (ValueError, PlanError):
        raise _wrong(f"confidence={text!r} is not a number between 0.5 and 1, such as 0.95.") from None


def _limit(text: str | None) -> int:
    number = int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 9 else None
    if text is None:
        return DEFAULT_GROUPS
    if number is None or not LEAST_GROUPS <= number <= MOST_GROUPS:
        raise _wrong(f"limit={text!r} is not a number of groups from {LEAST_GROUPS} to {MOST_GROUPS:,}.")
    return number


def _wrong(sentence: str) -> Refused:
    return Refused(400, "RequestError", sentence)
