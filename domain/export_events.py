"""A tenant's lines: audit events that form a chain, each with its place in the log's tree (iam.md §17)."""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

import msgspec

from domain import audit_event, chain, export, leaf
from domain.export import End, Proof
from domain.export_walk import UNREADABLE, Walk, printable
from domain.leaf import Leaf

_PROOF: Final = b'{"line":"proof"'
_CHAINED: Final = ("sequence", "previousHash", "hash")

Event = dict[str, Any]


class Events:
    """Takes the lines between header and end. Each event waits for the proof that follows it."""

    def __init__(self, walk: Walk) -> None:
        header = walk.header
        self._walk = walk
        self._next = header.first
        self._before: object = header.heads[0].hash if header.heads else None
        self._waiting: Event | None = None
        self._position = 0
        self._seen = 0

    def line(self, raw: bytes) -> None:
        if raw.startswith(_PROOF):
            self._proof(raw)
        else:
            self._unproved()
            self._event(raw)

    def end(self, end: End) -> None:
        """The chain ends where the header and the last line say."""
        self._unproved()
        walk, header = self._walk, self._walk.header
        walk.verdict.checked = self._seen
        if isinstance(self._before, str):
            walk.verdict.head = chain.Head(self._next - 1, self._before)
        if self._seen != header.count:
            walk.verdict.faults.add(1, "header", "count", f"is {header.count}, and {self._seen} events came")
        heads = [(head.tenant_id, head.at, head.hash) for head in end.heads]
        if heads != [(header.tenant_id, self._next - 1, self._before)]:
            says = f"does not say where the chain ended: sequence {self._next - 1}, hash {printable(self._before)}"
            walk.fault("end", "heads", says)
        if end.next is not None and end.next != self._next:
            walk.fault("end", "next", f"is {end.next}, what follows begins at {self._next}")

    def _event(self, raw: bytes) -> None:
        walk = self._walk
        try:
            event = msgspec.json.decode(raw)
            if not isinstance(event, dict):
                raise msgspec.DecodeError("it is no JSON object")
            written = export.event_line(event)
        except (*UNREADABLE, ValueError, TypeError) as wrong:
            walk.fault(f"sequence {self._next} is due", "line", f"is no audit event: {printable(str(wrong))}")
            self._skip()
            return
        where = _where(event)
        if lacking := _lacking(event):
            walk.fault(where, "line", f"lacks {', '.join(lacking)} of an audit event, or has them of another type")
            self._skip()
            return
        if written != raw:
            walk.fault(where, "line", "is not in its one canonical form")
        self._linked(event, where)
        if event["tenantId"] != walk.header.tenant_id:
            says = f"is {printable(event['tenantId'])}, the export is of {printable(walk.header.tenant_id)}"
            walk.fault(where, "tenantId", says)
        self._seen += 1
        self._next, self._before = event["sequence"] + 1, event["hash"]
        self._waiting = event

    def _linked(self, event: Event, where: str) -> None:
        """Each rule of the chain on its own: one that is broken does not hide the next."""
        fault = self._walk.fault
        if event["sequence"] != self._next:
            fault(where, "sequence", f"is {event['sequence']} where {self._next} is due")
        elif self._before is not None and event["previousHash"] != self._before:
            says = f"is {printable(event['previousHash'])}, the event before has hash {printable(self._before)}"
            fault(where, "previousHash", says)
        if event["hash"] != (made := chain.digest(event)):
            fault(where, "hash", f"is {printable(event['hash'])}, the event as it stands here has {made}")

    def _skip(self) -> None:
        """A line that cannot be read: the next says itself what it follows."""
        self._seen += 1
        self._next, self._before = self._next + 1, None
        self._waiting = None
        self._walk.whole = False

    def _unproved(self) -> None:
        if self._waiting is not None:
            self._walk.fault(_where(self._waiting), "line", "the line that proves this event does not follow it")
            self._walk.whole = False
            self._waiting = None

    def _proof(self, raw: bytes) -> None:
        walk, event, self._waiting = self._walk, self._waiting, None
        where = _where(event) if event else f"sequence {self._next - 1}"
        proof = walk.typed(raw, Proof, where)
        if proof is None or event is None:
            if proof is not None and walk.whole:
                walk.fault(where, "line", "proves no event: the line before is none")
            walk.whole = False
            return
        if proof.of != event["sequence"]:
            walk.fault(where, "of", f"is {proof.of}, the event before has sequence {event['sequence']}")
        self._place(proof, event, where)
        self._bytes(proof, event, where)

    def _place(self, proof: Proof, event: Event, where: str) -> None:
        walk, metadata = self._walk, event["metadata"]
        if metadata["position"] <= self._position:
            walk.fault(where, "metadata.position", f"is {metadata['position']}, behind {self._position}")
        self._position = metadata["position"]
        if walk.place(proof.index, where):
            walk.fill(proof.index, proof.fill, where)
            walk.leaf(leaf.hashed(_leaf(event)))

    def _bytes(self, proof: Proof, event: Event, where: str) -> None:
        """The event must say what was stored, where that is there to compare."""
        walk, metadata = self._walk, event["metadata"]
        try:
            state = export.stored_bytes(proof)
        except ValueError as wrong:
            walk.fault(where, "stored", str(wrong))
            return
        if state is None:
            return
        walk.verdict.stored += 1
        digest = sha256(state).hexdigest()
        if digest != metadata["digest"]:
            walk.fault(where, "stored", f"has SHA-256 {digest}, the event says {printable(metadata['digest'])}")
            return
        named = metadata["stream"], metadata["version"], metadata["type"]
        recorded = walk.decoded((*named, state, metadata["position"], event["timestamp"]), where)
        if recorded is None:
            return
        if walk.header.tenant_id not in recorded.tenants:
            walk.fault(where, "tenantId", f"the stored bytes are of {printable(recorded.tenants)}")
        said = {name: value for name, value in event.items() if name not in _CHAINED}
        stored = audit_event.of(recorded, digest, event["tenantId"])
        for field, shown, meant in _differences(said, stored):
            walk.fault(where, field, f"is {printable(shown)}, the stored bytes say {printable(meant)}")


def _lacking(event: Event) -> list[str]:
    """The fields that the checks read, where they lack or are of another type."""
    metadata = event.get("metadata")
    inner = metadata if isinstance(metadata, dict) else {}
    texts = [name for name in ("id", "tenantId", "previousHash", "hash") if type(event.get(name)) is not str]
    numbers = [name for name in ("sequence", "timestamp") if type(event.get(name)) is not int]
    texts += [f"metadata.{name}" for name in ("stream", "type", "digest") if type(inner.get(name)) is not str]
    numbers += [f"metadata.{name}" for name in ("position", "version") if type(inner.get(name)) is not int]
    return texts + numbers


def _leaf(event: Event) -> Leaf:
    its = event["metadata"]
    return Leaf(its["position"], event["timestamp"], its["digest"], its["stream"], its["type"], its["version"])


def _where(event: Event) -> str:
    if _lacking(event):
        return f"sequence {printable(event.get('sequence'))}"
    return f"sequence {event['sequence']}, position {event['metadata']['position']}"


def _differences(said: Mapping[str, Any], meant: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The fields in which two events differ; null where one lacks it."""
    for name in sorted({*said, *meant}):
        left, right = said.get(name), meant.get(name)
        if isinstance(left, dict) and isinstance(right, dict):
            yield from _differences(left, right, f"{path}{name}.")
        elif left != right or type(left) is not type(right):
            yield path + printable(name), left, right
