"""Who may ask, and what a browser may do with the answer.

On the loopback address anyone on the machine may ask, but only under a name of the loopback: a page of another site
whose name is made to point here is refused. On any other address a token is demanded, as `Authorization: Bearer
TOKEN`, or as the password of Basic authentication, which browsers ask for by themselves.
"""

import base64
import hmac
import ipaddress
from pathlib import Path

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eddyline.errors import PipelineError
from eddyline.serve.problems import Refused

SHORTEST_TOKEN = 16
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def is_loopback(host: str) -> bool:
    """Return whether an address to listen on can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def read_token(path: Path | None, host: str) -> str | None:
    """Return the token of a file, None where none is needed; PipelineError where it is missing or too short."""
    if path is None:
        if is_loopback(host):
            return None
        raise PipelineError(
            f"--host {host} can be reached from other machines: give --token-file FILE, a file with a secret of "
            f"{SHORTEST_TOKEN} characters or more, or listen on 127.0.0.1."
        )
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"the token file {str(path)!r} cannot be read: {error}.") from error
    if len(token) < SHORTEST_TOKEN or not token.isascii() or any(c.isspace() for c in token):
        raise PipelineError(
            f"the token in {str(path)!r} must be {SHORTEST_TOKEN} ASCII characters or more without spaces: make one "
            "with `openssl rand -hex 32`."
        )
    return token


class Guard:
    """Middleware that lets through who may ask and adds the headers that a browser obeys to every response."""

    def __init__(self, app: ASGIApp, *, token: str | None, hosts: frozenset[str] | None) -> None:
        self._app = app
        self._token = token
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refused = self._refusal(Headers(scope=scope), scope["path"])
        answering: ASGIApp = refused.response() if refused else self._app
        await answering(scope, receive, send_guarded)

    def _refusal(self, headers: Headers, path: str) -> Refused | None:
        name = headers.get("host", "").rsplit("@")[-1]
        if self._hosts is not None and _without_port(name) not in self._hosts:
            sentence = (
                f"this server listens on the loopback address and is asked by its names alone, not {name!r}."
            )
            return Refused(421, "RequestError", sentence)
        if self._token is None or path in OPEN_PATHS or self._is_known(headers.get("authorization", "")):
            return None
        sentence = (
            "a token is needed: send it as Authorization: Bearer TOKEN, or as a password with any user name."
        )
        return Refused(
            401, "RequestError", sentence, {"www-authenticate": 'Basic realm="eddyline", charset="UTF-8"'}
        )

    def _is_known(self, authorization: str) -> bool:
        """Return whether the token was sent; how long that takes does not depend on how much of it was right."""
        assert self._token is not None
        scheme, _, given = authorization.partition(" ")
        if scheme.lower() == "basic":
            try:
                given = base64.b64decode(given.strip(), validate=True).decode().partition(":")[2]
            except ValueError:  # no base64, or no UTF-8 in it
                return False
        elif scheme.lower() != "bearer":
            return False
        return hmac.compare_digest(given.strip().encode(), self._token.encode())


def _without_port(host: str) -> str:
    return (
        host[: host.index("]") + 1]
        if host.startswith("[") and "]" in host
        else host.partition(":")[0].lower()
    )
