"""Webhooks of Better IAM: verified over the bytes as they came, acted on once (iam.md §18)."""

import hmac
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import sha256
from threading import Lock
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from adapters.iam.better.identity import Id

TOLERANCE_S: Final = 300
MOST_KNOWN: Final = 10_000
MAX_BODY: Final = 256 * 1024

_TIMESTAMP: Final = re.compile(r"0{0,8}([1-9][0-9]{0,11})(?:\.0{1,8})?")
"""Seconds; Better IAM signs over the number itself, however a header spells it."""

_HEX: Final = re.compile(r"[0-9a-f]{64}")

TENANT_EVENTS: Final = ("tenant:", "iam:tenants:")
CALLER_EVENTS: Final = ("identity:", "iam:identities:", "agent:", "delegation:", "iam:delegations:", "session:")


class Delivered(Struct, frozen=True, rename="camel"):
    """What is read of an event; `type` is the audited action."""

    id: Id
    type: Id
    tenant_id: Id
    sequence: Annotated[int, Meta(ge=1)] | None = None


def verified(
    secrets: Sequence[str], body: bytes, timestamp: str, signature: str, now_ms: int, tolerance_s: float = TOLERANCE_S
) -> bool:
    """Whether one of the secrets signed it just now. Every secret is tried, so that time tells nothing."""
    spelled = _TIMESTAMP.fullmatch(timestamp)
    if spelled is None or abs(now_ms - int(spelled[1]) * 1000) > tolerance_s * 1000:
        return False
    parts = (part.strip() for part in signature.split(","))
    given = next((part.removeprefix("v1=") for part in parts if part.startswith("v1=")), "")
    if not _HEX.fullmatch(given):
        return False
    message = spelled[1].encode() + b"." + body
    signed = [hmac.new(secret.encode(), message, sha256).hexdigest() for secret in secrets if secret]
    return [hmac.compare_digest(one, given) for one in signed].count(True) > 0


class Receiver:
    """Acts on events: of tenants `resync`, of callers `distrust` what was issued before now (epoch ms).

    Deliveries come at least once and in any order: what came before is nothing new, and a gap in a tenant's
    sequence means that something was not heard of, whatever it was.
    """

    def __init__(self, resync: Callable[[], None], distrust: Callable[[int], None]) -> None:
        self._resync = resync
        self._distrust = distrust
        self._known: OrderedDict[str, None] = OrderedDict()
        self._last: OrderedDict[str, int] = OrderedDict()
        self._lock = Lock()

    def receive(self, body: bytes, now_ms: int) -> bool:
        """Whether it is an event that was not known; raises msgspec's error for what is no event."""
        event = msgspec.json.decode(body, type=Delivered)
        with self._lock:
            if event.id in self._known:
                return False
            _remember(self._known, event.id, None)
            gap = self._is_behind_a_gap(event)
        if gap or event.type.startswith(TENANT_EVENTS):
            self._resync()
        if gap or event.type.startswith(CALLER_EVENTS):
            self._distrust(now_ms)
        return True

    def _is_behind_a_gap(self, event: Delivered) -> bool:
        if event.sequence is None:
            return False
        last = self._last.get(event.tenant_id)
        _remember(self._last, event.tenant_id, max(last or 0, event.sequence))
        return last is not None and event.sequence > last + 1


def _remember(known: "OrderedDict[str, Any]", key: str, value: Any) -> None:
    known[key] = value
    known.move_to_end(key)
    if len(known) > MOST_KNOWN:
        known.popitem(last=False)
