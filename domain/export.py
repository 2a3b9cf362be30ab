"""An export of the audit log, version 1: what its lines are (decision 22, docs/how-to/audit.md).

JSON Lines, each in its one canonical form. A `header` comes first, an `end` last. A tenant's export has two lines an
event: the audit event as Better IAM writes its own, and what proves it. The fleet's has one line a leaf of the tree.
Hashes are lower-case hex; `fill` holds hashes of 32 bytes one after the other, those of the subtrees that the lines do
not show. `check`, the last field of each line of ours, is the beginning of the SHA-256 of the line without it: what was
damaged is found in its own line, where the root alone would only say that something is.
"""

import base64
import binascii
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from domain import admission, audit_event, canonical, join_token, node, node_view
from domain.event import Recorded
from domain.leaf import Leaf

FORMAT: Final = "better-compute-audit/1"
MEDIA_TYPE: Final = "application/jsonl"
MOST_LINE: Final = 16 << 20
"""Bytes of a line that a reader takes."""


class Line(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """A line that is no audit event says first what it is; it has no `sequence`, so a chain's verifier passes it."""


class Head(Line, frozen=True, kw_only=True):
    """Where a tenant's chain stands. At sequence 0 the hash is 64 zeros."""

    tenant_id: str
    at: int
    hash: str


class Since(Line, frozen=True, kw_only=True):
    """That the tree of `size` leaves, with this root, is the beginning of the checkpoint's (RFC 6962 §2.1.2)."""

    size: int
    root: str
    proof: str = ""


class Header(Line, frozen=True, kw_only=True, tag_field="line", tag="header"):
    """What follows: `count` events of a tenant from sequence `first` on, or leaves of the fleet's tree from index
    `first`. `checkpoint` is the signed note that everything is proved against, `vkey` the key that its maker names,
    `heads` the chains before the first line; a fleet's `fill` covers the leaves before it.
    """

    format: str
    scope: Literal["tenant", "fleet"]
    tenant_id: str | None = None
    first: int
    count: int
    vkey: str
    checkpoint: str
    heads: tuple[Head, ...] = ()
    since: Since | None = None
    fill: str = ""
    check: str = ""


class Proof(Line, frozen=True, kw_only=True, tag_field="line", tag="proof"):
    """Where the event of the line before stands in the tree. `stored` are its stored bytes, where all of it is the
    tenant's own to see; as base64 where they are no UTF-8.
    """

    of: int
    index: int
    fill: str = ""
    stored: str | None = None
    stored_base64: str | None = None
    check: str = ""


class Row(Line, frozen=True, kw_only=True, tag_field="line", tag="leaf"):
    """One leaf of the tree and the stored bytes that it is of; `hash` is the leaf's, `chains` where it stands in those
    of its tenants, after it.
    """

    index: int
    position: int
    recorded_at: int
    sha256: str
    stream: str
    type: str
    version: int
    hash: str
    stored: str | None = None
    stored_base64: str | None = None
    chains: tuple[Head, ...] = ()
    check: str = ""

    @property
    def leaf(self) -> Leaf:
        return Leaf(self.position, self.recorded_at, self.sha256, self.stream, self.type, self.version)


class End(Line, frozen=True, kw_only=True, tag_field="line", tag="end"):
    """What covers the rest of the tree, where the chains stand, and how many lines come before this one, with the
    SHA-256 of all their bytes. `next` is where an export of what follows begins, absent at the end.
    """

    fill: str = ""
    heads: tuple[Head, ...] = ()
    next: int | None = None
    lines: int
    sha256: str
    check: str = ""


Ours = Header | Proof | Row | End

_encode = msgspec.json.Encoder().encode


def line(of: Ours) -> bytes:
    """A line with its check, whatever it says of that itself."""
    body = _encode(replace(of, check="") if of.check else of)
    return b'%s,"check":"%s"}\n' % (body[:-1], sha256(body).hexdigest()[:8].encode())


def event_line(event: dict[str, Any]) -> bytes:
    """A chained audit event: the very bytes that its hash is over, and the hash."""
    return canonical.encode(event) + b"\n"


def packed(hashes: Iterable[bytes]) -> str:
    return b"".join(hashes).hex()


def bytes_of(fill: str) -> bytes | None:
    """What hex says; None where it is not lower-case hex of whole hashes."""
    try:
        raw = bytes.fromhex(fill)
    except ValueError:
        return None
    return raw if raw.hex() == fill and len(raw) % 32 == 0 else None


def stored(state: bytes) -> dict[str, str]:
    """Stored bytes as the fields of a line that hold them."""
    try:
        return {"stored": state.decode()}
    except UnicodeDecodeError:
        return {"stored_base64": base64.b64encode(state).decode()}


def stored_bytes(of: Proof | Row) -> bytes | None:
    """The stored bytes that a line holds. Raises ValueError where it says them twice, or not in their one form."""
    if of.stored is not None:
        if of.stored_base64 is not None:
            raise ValueError("stored bytes are given twice")
        return of.stored.encode()
    if of.stored_base64 is None:
        return None
    try:
        raw = base64.b64decode(of.stored_base64, validate=True)
    except binascii.Error:
        raise ValueError("storedBase64 is not base64") from None
    if stored(raw) != {"stored_base64": of.stored_base64}:
        raise ValueError("storedBase64 is not the form that these bytes have")
    return raw


HIDING: Final = ("node.inventoried.", "node.condition_raised.", "node.duplicate_settled.", "join_token.created.")
"""Stored names, up to their version, of events that may hide something even from their own tenant."""


def wholly_of(recorded: Recorded, tenant_id: str, under: admission.Admitted | None) -> bool:
    """Whether all that was stored of an event is the tenant's to see: it is of no other, and hides nothing of one.

    `under` is the admission that it names, if that is known: of another's, and of a request that was another's, it
    would tell too.
    """
    if recorded.tenants != (tenant_id,) or not audit_event.requested_by(recorded, tenant_id, under):
        return False
    if under is not None and under.caller.tenant_id != tenant_id:
        return False
    match recorded.event:
        case node.Inventoried(shared_with=names):
            return not names
        case node.ConditionRaised(condition=condition):
            return node_view.shown(condition) == condition
        case node.DuplicateSettled(nodes=nodes):
            return not nodes
        case join_token.Created():
            return False
        case _:
            return True


class Ask(Struct, frozen=True, kw_only=True):
    """What to export: of a tenant (None: the fleet), from a sequence or leaf on, `limit` of them (None: all there are).

    `since` is the size of an earlier checkpoint whose consistency with this one is to be proved.
    """

    tenant_id: str | None
    first: int | None = None
    limit: int | None = None
    since: int | None = None
