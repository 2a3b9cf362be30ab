"""A signed statement of how far the log goes and what its tree's root is: C2SP tlog-checkpoint in a signed note.

What signs and what verifies comes as a function: the domain knows no cryptography. Keys are Ed25519 (type 0x01).
"""

import base64
import binascii
import re
from collections.abc import Callable
from hashlib import sha256
from typing import Final

from msgspec import Struct

ED25519: Final = b"\x01"
_DASH: Final = "— "
_LINES: Final = 16
_SIZE = re.compile(r"0|[1-9][0-9]{0,18}")
_NAME = re.compile(r"[^\s+]+")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")

Sign = Callable[[bytes], bytes]
"""Signs a text: 64 bytes of Ed25519 (RFC 8032)."""
Verify = Callable[[bytes, bytes, bytes], bool]
"""Whether a signature is good: public key, signature, text."""


class Unsound(Exception):
    """A note, a checkpoint or a key that is not what it should be, and what is wrong with it."""


class Checkpoint(Struct, frozen=True):
    """`origin` names the log, `size` counts its leaves, `root` is the hash of the tree of that size."""

    origin: str
    size: int
    root: bytes


class Key(Struct, frozen=True):
    """Who signs: its name, which is the log's origin, and its public key of 32 bytes."""

    name: str
    public: bytes

    @property
    def id(self) -> bytes:
        """The four bytes that a signature line begins with."""
        return sha256(self.name.encode() + b"\n" + ED25519 + self.public).digest()[:4]

    @property
    def vkey(self) -> str:
        """As the C2SP tools take it: `<name>+<hex id>+<base64 of type and public key>`."""
        return f"{self.name}+{self.id.hex()}+{_base64(ED25519 + self.public)}"


def origin(incarnation: str) -> str:
    """The name under which a log signs: another database is another log, whatever it was copied from."""
    return f"better-compute/{incarnation}"


def key(vkey: str) -> Key:
    """Read a verifier key. Raises Unsound where it is none, or not one of Ed25519."""
    name, _, rest = vkey.strip().partition("+")
    id, _, encoded = rest.partition("+")
    raw = _unbase64(encoded, "the verifier key")
    if not _NAME.fullmatch(name) or raw[:1] != ED25519 or len(raw) != 33:
        raise Unsound("a verifier key reads <name>+<8 hex digits>+<base64 of 0x01 and 32 bytes of Ed25519>")
    found = Key(name, raw[1:])
    if id != found.id.hex():
        raise Unsound(f"the verifier key says its id is {id}, which is {found.id.hex()} of that name and key")
    return found


def text(checkpoint: Checkpoint) -> str:
    """What is signed: three lines, each with its newline."""
    return f"{checkpoint.origin}\n{checkpoint.size}\n{_base64(checkpoint.root)}\n"


def signed(checkpoint: Checkpoint, by: Key, sign: Sign) -> str:
    """The whole note."""
    body = text(checkpoint)
    return f"{body}\n{_DASH}{by.name} {_base64(by.id + sign(body.encode()))}\n"


def parse(note: str) -> Checkpoint:
    """What a note says, whoever signed it. Raises Unsound where it is no checkpoint."""
    return _checkpoint(_divided(note)[0])


def by(note: str, key: Key) -> bool:
    """Whether a signature line names this key, good or not."""
    return any((name, id) == (key.name, key.id) for name, id, _ in map(_signature, _divided(note)[1]))


def opened(note: str, by: Key, verify: Verify) -> Checkpoint:
    """What a note says once its signature by this key is found good; those of keys that are not known are passed over.

    Raises Unsound.
    """
    body, lines = _divided(note)
    signatures = [signature for name, id, signature in map(_signature, lines) if (name, id) == (by.name, by.id)]
    if not signatures:
        raise Unsound(f"the checkpoint is not signed by {by.name}+{by.id.hex()}")
    if not all(len(one) == 64 and verify(by.public, one, body.encode()) for one in signatures):
        raise Unsound(f"the signature of {by.name}+{by.id.hex()} on the checkpoint is not good")
    return _checkpoint(body)


def _divided(note: str) -> tuple[str, list[str]]:
    """The text, with its last newline, and the signature lines."""
    body, blank, below = note.rpartition("\n\n")
    if not blank or not below.endswith("\n"):
        raise Unsound("a signed note is a text, a blank line and signature lines, each ending in a newline")
    if _CONTROL.search(note):
        raise Unsound("a signed note holds no control characters but newlines")
    lines = below[:-1].split("\n")
    if len(lines) > _LINES:
        raise Unsound(f"the note has {len(lines)} signatures, {_LINES} at most are read")
    return body + "\n", lines


def _signature(line: str) -> tuple[str, bytes, bytes]:
    name, _, encoded = line.removeprefix(_DASH).partition(" ")
    if not line.startswith(_DASH) or not _NAME.fullmatch(name):
        raise Unsound(f"{line[:80]!r} is no signature line")
    raw = _unbase64(encoded, "a signature")
    if len(raw) < 5:
        raise Unsound(f"the signature of {name} is too short")
    return name, raw[:4], raw[4:]


def _checkpoint(body: str) -> Checkpoint:
    lines = body[:-1].split("\n")
    if len(lines) < 3 or "" in lines or not _SIZE.fullmatch(lines[1]):
        raise Unsound("a checkpoint reads: its origin, the size in decimal, the root in base64")
    root = _unbase64(lines[2], "the root")
    if len(root) != 32:
        raise Unsound(f"the root has {len(root)} bytes where SHA-256 has 32")
    return Checkpoint(lines[0], int(lines[1]), root)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _unbase64(encoded: str, what: str) -> bytes:
    """Only the one text that says these bytes: a lax reader would pass over bits that nothing vouches for."""
    try:
        raw = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if _base64(raw) != encoded:
        raise Unsound(f"{what} is not base64: {encoded[:80]!r}")
    return raw
