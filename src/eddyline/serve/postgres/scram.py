"""SCRAM-SHA-256 on the server's side (RFC 5802, RFC 7677), as PostgreSQL's clients speak it.

The password is never sent over the network, and what is sent cannot be replayed. Channel binding is not offered.
"""

import base64
import hashlib
import hmac
import secrets

from eddyline.serve.postgres.refusals import Refusal

MECHANISM = "SCRAM-SHA-256"
_ROUNDS = 4096
"""Rounds of the hash: PostgreSQL's default. The secret is a random token, so more would not protect it better."""
_WRONG = "password authentication failed"


class Secret:
    """A password as a server keeps it: salted and hashed once, when the server starts."""

    def __init__(self, password: str) -> None:
        self.salt = secrets.token_bytes(16)
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), self.salt, _ROUNDS)
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        self.stored_key = hashlib.sha256(client_key).digest()
        self.server_key = hmac.digest(salted, b"Server Key", "sha256")


class Exchange:
    """One client's authentication: its first message, our challenge, its proof, our signature."""

    def __init__(self, secret: Secret) -> None:
        self._secret = secret
        self._header = self._first = self._challenge = self._nonce = ""

    def challenge(self, given: bytes) -> bytes:
        """Return the answer to the client's first message."""
        text = _ascii(given)
        header, _, bare = text.partition(",")
        if header not in ("n", "y"):
            raise Refusal("08P01", "channel binding is not supported", fatal=True)
        name, _, bare = bare.partition(",")
        fields = _fields(bare)
        if name or "m" in fields or not fields.get("r"):
            raise Refusal("08P01", "the first message of SCRAM is malformed", fatal=True)
        self._header, self._first = f"{header},,", bare
        self._nonce = fields["r"] + secrets.token_urlsafe(18)
        salt = base64.b64encode(self._secret.salt).decode()
        self._challenge = f"r={self._nonce},s={salt},i={_ROUNDS}"
        return self._challenge.encode()

    def final(self, given: bytes) -> bytes:
        """Return our signature, or raise Refusal 28P01 if the password was wrong."""
        text = _ascii(given)
        without_proof, _, _ = text.rpartition(",p=")
        fields = _fields(text)
        try:
            proof = base64.b64decode(fields.get("p", ""), validate=True)
            binding = base64.b64decode(fields.get("c", ""), validate=True).decode()
        except ValueError as error:
            raise Refusal("08P01", "the last message of SCRAM is malformed", fatal=True) from error
        if binding != self._header or fields.get("r") != self._nonce or len(proof) != 32:
            raise Refusal("28P01", _WRONG, fatal=True)
        signed = f"{self._first},{self._challenge},{without_proof}".encode()
        signature = hmac.digest(self._secret.stored_key, signed, "sha256")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.sha256(client_key).digest(), self._secret.stored_key):
            raise Refusal("28P01", _WRONG, fatal=True)
        own = base64.b64encode(hmac.digest(self._secret.server_key, signed, "sha256")).decode()
        return f"v={own}".encode()


def _ascii(given: bytes) -> str:
    try:
        return given.decode("ascii")
    except UnicodeDecodeError as error:
        raise Refusal("08P01", "a message of SCRAM is not ASCII", fatal=True) from error


def _fields(text: str) -> dict[str, str]:
    """Return the fields of a message by their letters."""
    return {part[0]: part[2:] for part in text.split(",") if part[1:2] == "="}
