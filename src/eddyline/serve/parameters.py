"""What a request asks for, read strictly: an unknown or malformed parameter is refused by name."""

from dataclasses import dataclass

from starlette.requests import Request

from eddyline.errors import PlanError
from eddyline.plan.size.shapes import checked_confidence
from eddyline.serve.problems import Refused

LEAST_GROUPS, MOST_GROUPS, DEFAULT_GROUPS = 1, 10_000, 1_000
_BOOLEANS = {"true": True, "false": False}


def parameters(request: Request, *allowed: str) -> dict[str, str]:
    """Return the parameters of a request, each of which may stand there once; Refused for any other."""
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
class HowToTell:
    """With which confidence to answer, None for the plan's own, and how many groups to tell."""

    confidence: float | None
    limit: int

    @classmethod
    def read(cls, given: dict[str, str]) -> "HowToTell":
        """Return what the parameters `confidence` and `limit` say."""
        return cls(_confidence(given.get("confidence")), _limit(given.get("limit")))


def boolean(given: dict[str, str], name: str) -> bool:
    """Return a parameter that is true or false, false where it is not given."""
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
