"""A tenant's audit events as a hash chain, exactly as Better IAM links and verifies its own (iam.md §17)."""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Final, Literal

from msgspec import Struct

from domain import canonical

ORIGIN: Final = "0" * 64
"""What the first event of a chain follows."""

Reason = Literal["sequence-gap", "previous-hash-mismatch", "hash-mismatch", "head-mismatch"]


class Head(Struct, frozen=True):
    """Where a chain ends: the last sequence, and the hex hash of the event that has it."""

    sequence: int = 0
    hash: str = ORIGIN


class Link(Struct, frozen=True):
    """Where an event of the log stands in one tenant's chain; `leaf` is its number in the tree, `hash` has 32 bytes."""

    tenant_id: str
    sequence: int
    position: int
    leaf: int
    hash: bytes


class Failure(Struct, frozen=True):
    """The first event that does not fit, and the rule that it breaks."""

    sequence: int
    id: str
    reason: Reason


class Verdict(Struct, frozen=True):
    """How far a run holds. `unchained` events have no sequence: they are counted, nothing is said about them."""

    checked: int
    unchained: int
    first: int | None = None
    last: int | None = None
    last_hash: str | None = None
    failure: Failure | None = None

    @property
    def valid(self) -> bool:
        return self.failure is None


def digest(event: Mapping[str, Any]) -> str:
    """Lower-case hex SHA-256 of the canonical JSON of an event without its `hash`."""
    body = event if "hash" not in event else {name: value for name, value in event.items() if name != "hash"}
    return sha256(canonical.encode(body)).hexdigest()


def link(event: dict[str, Any], head: Head) -> Head:
    """Make `event` the next of the chain that ends at `head`: it gets its sequence and hashes. Returns the new end."""
    event["sequence"] = head.sequence + 1
    event["previousHash"] = head.hash
    event["hash"] = digest(event)
    return Head(head.sequence + 1, event["hash"])


def fault(event: Mapping[str, Any], sequence: float, previous_hash: object) -> Reason | None:
    """Which rule the event breaks as the one after `previous_hash`, None where it fits."""
    if event["sequence"] != sequence:
        return "sequence-gap"
    if event.get("previousHash") != previous_hash:
        return "previous-hash-mismatch"
    return "hash-mismatch" if event.get("hash") != digest(event) else None


def verify(events: Iterable[Mapping[str, Any]], previous_hash: str | None = None, head: Head | None = None) -> Verdict:
    """Check a run of one chain, in any order.

    One that starts in the middle follows `previous_hash`, or else what its own first event says. An empty run is valid.
    """
    taken = list(events)
    run = sorted((event for event in taken if _chained(event)), key=lambda event: float(event["sequence"]))
    unchained = len(taken) - len(run)
    if not run:
        return Verdict(0, unchained)
    first = run[0]["sequence"]
    expected, before = first, previous_hash or (ORIGIN if first == 1 else run[0].get("previousHash"))
    last: Mapping[str, Any] = {}
    for checked, event in enumerate(run):
        if reason := fault(event, expected, before):
            failure = Failure(event["sequence"], event["id"], reason)
            return Verdict(checked, unchained, first, last.get("sequence"), last.get("hash"), failure)
        expected, before, last = expected + 1, event["hash"], event
    failed = head is not None and head != Head(last["sequence"], last["hash"])
    end = Failure(last["sequence"], last["id"], "head-mismatch") if failed else None
    return Verdict(len(run), unchained, first, last["sequence"], last["hash"], end)


def _chained(event: Mapping[str, Any]) -> bool:
    return type(event.get("sequence")) in (int, float)
