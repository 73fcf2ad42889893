"""Who may send requests, and what a browser may do with the answers.

On the loopback address anyone on the machine may send requests, but only under a name of the loopback: a page of
another site whose name is made to point here is refused. On any other address a token is required, as
`Authorization: Bearer TOKEN`, or as the password of Basic authentication, which browsers ask for by themselves.
"""

import base64
import hmac
import ipaddress
import os
import re
import stat
from pathlib import Path

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eddyline.errors import PipelineError
from eddyline.serve.requests import Refused

SHORTEST_TOKEN = 16
_LONGEST_TOKEN = 4096  # bytes; far longer than any token, and read without waiting
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?", re.ASCII)
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


def read_token(path: Path | None, host: str, option: str = "--host") -> str | None:
    """Return the token in a file, None if no token is needed; PipelineError if it is missing or too short.

    option: the option that names the host.
    """
    if path is None:
        if is_loopback(host):
            return None
        raise PipelineError(
            f"{option} {host} can be reached from other machines: give --token-file FILE, a file with a secret of "
            f"{SHORTEST_TOKEN} characters or more, or listen on 127.0.0.1."
        )
    try:
        _check_mode(path)
        with path.open("rb") as file:
            token = file.read(_LONGEST_TOKEN + 1).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"the token file {str(path)!r} cannot be read: {error}.") from error
    if len(token) > _LONGEST_TOKEN:
        raise PipelineError(
            f"the token file {str(path)!r} is longer than {_LONGEST_TOKEN} bytes: it is not a token."
        )
    if len(token) < SHORTEST_TOKEN or not token.isascii() or any(c.isspace() for c in token):
        raise PipelineError(
            f"the token in {str(path)!r} must be {SHORTEST_TOKEN} ASCII characters or more without spaces: make one "
            "with `openssl rand -hex 32`."
        )
    return token


def _check_mode(path: Path) -> None:
    """Raise PipelineError if others may read or change a token file that is ours.

    Secrets that an orchestrator mounts belong to another user, often with mode 0444: there, that user decides.
    """
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):
        raise PipelineError(f"the token file {str(path)!r} is not a regular file.")
    if about.st_uid == os.getuid() and about.st_mode & 0o037:
        raise PipelineError(
            f"the token file {str(path)!r} has mode {stat.S_IMODE(about.st_mode):04o}, so that others can read it: "
            f"chmod 600 {path}"
        )


class AccessGuard:
    """Middleware that passes allowed requests on and adds security headers for browsers to every response."""

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
        if "transfer-encoding" in headers and "content-length" in headers:
            sentence = (
                "a request has Content-Length or Transfer-Encoding, not both: its end would be ambiguous."
            )
            return Refused(400, "RequestError", sentence, {"connection": "close"})
        names = headers.getlist("host")
        if self._hosts is not None and (len(names) != 1 or _host_of(names[0]) not in self._hosts):
            asked = ", ".join(names)[:100]
            sentence = f"this server listens on the loopback address and answers under its names only, not {asked!r}."
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
        """Return whether the token was sent; the time this takes does not depend on how much of it was right."""
        assert self._token is not None
        scheme, _, given = authorization.partition(" ")
        if scheme.lower() == "basic":
            try:
                given = base64.b64decode(given.strip(), validate=True).decode().partition(":")[2]
            except ValueError:  # not base64, or not UTF-8 in it
                return False
        elif scheme.lower() != "bearer":
            return False
        return hmac.compare_digest(given.strip().encode(), self._token.encode())


def _host_of(header: str) -> str | None:
    """Return the host of a Host header, None unless it is exactly a host with or without a port."""
    match = _HOST.fullmatch(header)
    return match[1].lower() if match else None
