"""The messages of bcd/v1 and the signature that opens a session (api.md §4).

Every message is one JSON text frame, an object whose `type` says which it is. Fields that a side does not know
are ignored, so that an agent may be a version ahead of the plane or behind it.
"""

import base64
import binascii
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from msgspec import Meta, Struct
from msgspec.structs import replace

from domain import inventory, node_command, node_spec

TTL_SECONDS: Final = 40
"""A session's lease: an agent that says nothing for so long is unreachable (domain.md §3)."""

MAX_HELLO: Final = 8_192
MAX_MESSAGE: Final = 262_144
MAX_CONSOLE: Final = 16_384
"""Characters of a console that an agent sends, the last ones."""
MAX_INVENTORY: Final = inventory.MAX_BYTES + 1_024
"""Bytes of one message: before it is known who speaks, then any, then one that bears an inventory."""

GOING_AWAY: Final = 1001
TOO_BIG: Final = 1009
INTERNAL: Final = 1011
TRY_LATER: Final = 1013
MALFORMED: Final = 4400
UNAUTHENTICATED: Final = 4401
TOO_SLOW: Final = 4408
SUPERSEDED: Final = 4409
"""Close codes: below 4000 as RFC 6455 §7.4.1 and its registry have them, from 4400 like the HTTP status."""

Outcome = Literal["succeeded", "failed", "expired"]
_Word = Annotated[str, Meta(min_length=1, max_length=128)]
_Clock = Annotated[int, Meta(ge=0, lt=1 << 53)]


class Hello(Struct, frozen=True, rename="camel", tag="hello"):
    """`clock` is the agent's own, in epoch ms: reported, never judged. `bootId` is new with every boot."""

    node_id: _Word
    boot_id: _Word
    agent_version: _Word
    clock: _Clock
    signature: _Word


class Heartbeat(Struct, frozen=True, tag="heartbeat", omit_defaults=True):
    """Says that the agent lives, as every other message does too, and what its clock shows (epoch ms)."""

    clock: _Clock | None = None


class Inventory(Struct, frozen=True, tag="inventory"):
    """A NodeInventory/v1 document as it stands: domain/inventory.py checks it and names what is wrong."""

    inventory: msgspec.Raw


class Status(Struct, frozen=True, rename="camel", tag="status", omit_defaults=True):
    """All that the node holds, by allocation id; what it leaves out it has torn down (domain.md §8).

    `instances` are all that it has anything of, by instance id. An allocation is held for as long as its instance is.
    """

    observed_generation: Annotated[int, Meta(ge=0, lt=1 << 53)]
    items: dict[_Word, node_spec.Status]
    instances: dict[_Word, node_spec.InstanceStatus] = {}


class Console(Struct, frozen=True, rename="camel", tag="console"):
    """The end of what an instance wrote to its console, as text; `total_bytes` is all that it ever wrote."""

    instance_id: _Word
    total_bytes: Annotated[int, Meta(ge=0, lt=1 << 53)]
    tail: Annotated[str, Meta(max_length=MAX_CONSOLE)]


class Ack(Struct, frozen=True, rename="camel", tag="ack"):
    """The agent has the command in its journal: it runs now, or has run before. `epoch` is the session's."""

    command_id: _Word
    epoch: int


class Result(Struct, frozen=True, rename="camel", tag="result"):
    """What became of a command, in this session or an earlier one; `result` is its type's, 64 KiB of JSON at most.

    `expired`: it was too late to begin.
    """

    command_id: _Word
    epoch: int
    outcome: Outcome
    result: dict[str, Any] = {}
    reason: Annotated[str, Meta(max_length=255)] = ""


class Challenge(Struct, frozen=True, tag="challenge"):
    """`nonce` serves one connection; `audience` names the plane, so that no other can use the answer."""

    nonce: str
    audience: str


class Welcome(Struct, frozen=True, rename="camel", tag="welcome"):
    session_id: str
    epoch: int
    ttl_seconds: int = TTL_SECONDS


class Spec(Struct, frozen=True, tag="spec", omit_defaults=True):
    """The whole NodeSpec; the newest one counts, whatever its number (after a restore it may be lower)."""

    generation: int
    allocations: tuple[node_spec.Allocation, ...]
    sharing: node_spec.Sharing = node_spec.Sharing()
    instances: tuple[node_spec.Instance, ...] = ()
    tokens: dict[str, str] = {}
    """By allocation id: with what the agent fetches image and seed of its instance. They are never stored."""


class Command(Struct, frozen=True, rename="camel", tag="command"):
    """A command to run once. It comes again in a later session until there is a result.

    `remaining_seconds` is what is left of the time in which it may begin, from now on by any clock; where nothing
    is left, an agent that has not begun answers `expired`.
    """

    id: str
    seq: int
    name: node_command.Name
    params: dict[str, Any]
    flags: node_command.Flags
    timeout_seconds: int
    remaining_seconds: int


class Superseded(Struct, frozen=True, tag="superseded"):
    """A newer session of this node took over; the connection is closed after it."""

    reason: str


FromAgent = Hello | Heartbeat | Inventory | Status | Console | Ack | Result
FromPlane = Challenge | Welcome | Spec | Command | Superseded

Tell = Callable[[Callable[[int], FromAgent]], Awaitable[None]]
"""Says to the plane what it makes of the present session's epoch; without a session nothing is said."""

_M = TypeVar("_M")
_encoder = msgspec.json.Encoder()
_from_agent = msgspec.json.Decoder(FromAgent)
_from_plane = msgspec.json.Decoder(FromPlane)


class Broken(Exception):
    """What a peer may not send; `code` and `reason` close the connection."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


def encode(message: FromAgent | FromPlane) -> str:
    return _encoder.encode(message).decode()


def fitting(status: Status) -> Status:
    """The status without what is for people alone, where a message would else be too long to be taken."""
    if len(encode(status).encode()) <= MAX_MESSAGE:
        return status
    return replace(status, instances={id: replace(one, detail=None) for id, one in status.instances.items()})


def from_agent(text: str, limit: int = MAX_INVENTORY) -> FromAgent:
    """Read what an agent said; raises Broken for what is too long, not JSON, or no message of bcd/v1."""
    if len(text) > limit:
        raise Broken(TOO_BIG, f"a message is at most {limit} bytes here")
    message, size = _decode(_from_agent, text)
    if size > (limit if isinstance(message, Inventory) else min(limit, MAX_MESSAGE)):
        raise Broken(TOO_BIG, f"a message is at most {min(limit, MAX_MESSAGE)} bytes here")
    return message


def from_plane(text: str) -> FromPlane:
    return _decode(_from_plane, text)[0]


def _decode(decoder: "msgspec.json.Decoder[_M]", text: str) -> tuple[_M, int]:
    try:
        raw = text.encode()
        return decoder.decode(raw), len(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as wrong:
        raise Broken(MALFORMED, f"no message of bcd/v1: {wrong}") from None


def signed(nonce: str, node_id: str, audience: str) -> bytes:
    """The bytes under a hello's signature.

    The line `better-compute bcd/v1 session` with its LF, then nonce, node id and audience in UTF-8, each after
    its length in bytes as four octets, big-endian: no two triples give the same bytes, and no other use of the
    key begins with that line.
    """
    parts = (part.encode() for part in (nonce, node_id, audience))
    return b"better-compute bcd/v1 session\n" + b"".join(len(p).to_bytes(4, "big") + p for p in parts)


def sign(key: Ed25519PrivateKey, challenge: Challenge, node_id: str) -> str:
    """The signature in base64."""
    return base64.b64encode(key.sign(signed(challenge.nonce, node_id, challenge.audience))).decode()


def verify(public_key: str, challenge: Challenge, hello: Hello) -> bool:
    """Whether the holder of `public_key` (32 bytes in base64, as joined) said this hello to this challenge."""
    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key, validate=True))
        signature = base64.b64decode(hello.signature, validate=True)
        key.verify(signature, signed(challenge.nonce, hello.node_id, challenge.audience))
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True


def public_key(key: Ed25519PrivateKey) -> str:
    """What a join sends as `publicKey`."""
    raw = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return base64.b64encode(raw).decode()
