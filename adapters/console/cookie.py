"""The console's cookie: the caller's own token, sealed, so that no page's script and no disk of a browser reads it."""

import base64
import binascii
import hmac
import secrets
from hashlib import sha256
from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import Struct

SECONDS: Final = 12 * 3600
"""From signing in to the end; a token that is revoked before is refused by whoever is asked about it."""

LARGEST: Final = 3800
"""Bytes of a cookie's value; browsers drop those that pass 4096 with their name and attributes."""

_NONCE: Final = 12
_BOUND: Final = b"better-compute console 1"


class Ticket(Struct, frozen=True):
    """Who signed in, by the token that they gave; `made` in epoch seconds, `form` is what its forms must bear."""

    token: str
    made: int
    form: str


class Cookies:
    """Seals tickets under a key that all processes of one database share."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)
        self._key = key

    def seal(self, token: str, now: int) -> str:
        nonce = secrets.token_bytes(_NONCE)
        sealed = nonce + self._cipher.encrypt(nonce, msgspec.json.encode((token, now)), _BOUND)
        return base64.urlsafe_b64encode(sealed).decode()

    def open(self, value: str, now: int) -> Ticket | None:
        """None of what was not sealed here, or is too old."""
        try:
            sealed = base64.b64decode(value, altchars=b"-_", validate=True)
            plain = self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], _BOUND)
        except (binascii.Error, ValueError, InvalidTag):
            return None
        token, made = msgspec.json.decode(plain, type=tuple[str, int])
        if not made <= now + 60 or now - made >= SECONDS:
            return None
        return Ticket(token, made, hmac.new(self._key, b"form " + sealed, sha256).hexdigest())


def name(secure: bool) -> str:
    """`__Host-` makes the browser refuse one from another host or path, but wants HTTPS."""
    return "__Host-better-compute" if secure else "better-compute"


def value_of(header: str, secure: bool) -> str | None:
    wanted = name(secure) + "="
    found = [part.strip() for part in header.split(";") if part.strip().startswith(wanted)]
    return found[0].removeprefix(wanted) if len(found) == 1 else None


def header(value: str, secure: bool, seconds: int = SECONDS) -> bytes:
    """Lax: a link in an alert leads to the page; what changes something is a POST, which no other site can make."""
    rest = f"Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax" + ("; Secure" if secure else "")
    return f"{name(secure)}={value}; {rest}".encode()
