"""What a client asked for and what it was told: the evidence that the log is held against."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple


class Asked(NamedTuple):
    """A mutation that may be sent again as it is; `key` is the Idempotency-Key of a create, "" for what needs none."""

    key: str
    path: str
    body: bytes
    token: str


class Acknowledged(NamedTuple):
    """A yes: `position` of X-Position, `request` the X-Request-Id of the attempt that got it, `digest` of the body."""

    request: str
    key: str
    stream: str
    version: int
    position: int
    replayed: bool
    digest: bytes


def acknowledged(request: str, key: str, headers: Mapping[str, str], body: bytes) -> Acknowledged:
    """What a successful answer says."""
    shown = json.loads(body)
    position, replayed = int(headers["x-position"]), "idempotency-replayed" in headers
    return Acknowledged(request, key, shown["id"], shown["version"], position, replayed, digest(body))


def digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=16).digest()


class Journal:
    """One client's. `keys` has the Idempotency-Key of every attempt, by request id, whatever came of it.

    `made` has the token of its maker by reservation.
    `unanswered` are attempts after which nobody knew what became of them, `wrong` the answers that must not be.
    """

    def __init__(self) -> None:
        self.acknowledged: list[Acknowledged] = []
        self.keys: dict[str, str] = {}
        self.made: dict[str, str] = {}
        self.outcomes: Counter[str] = Counter()
        self.unanswered: list[str] = []
        self.wrong: list[str] = []
