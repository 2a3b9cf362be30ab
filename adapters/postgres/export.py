"""Exports of the audit log, written line by line with bounded memory (decision 22).

Nothing of what they show can change any more: the log only grows, and so does the evidence. So no snapshot is held:
each batch is a statement or two of its own, and a reader that stalls holds nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from hashlib import sha256
from typing import Any, Final, LiteralString, Protocol

import psycopg

from adapters.postgres import evidence
from adapters.postgres.mapper import decode, outline
from domain import admission, audit_event, chain, checkpoint, cover, errors, export, leaf, merkle
from domain.checkpoint import Checkpoint
from domain.event import Recorded
from domain.export import Ask, End, Head, Header, Proof, Row, Since
from domain.tenant import stream

BATCH: Final = 200
"""Events a chunk: some 200 KB, and some 10 ms of work."""

Connect = Callable[[], AbstractContextManager[psycopg.Connection[Any]]]

_KNOWN: LiteralString = """
SELECT EXISTS (SELECT FROM audit_chain WHERE tenant_id = %(tenant)s)
    OR EXISTS (SELECT FROM stored_events WHERE originator_id = %(stream)s)
"""
_LAST: LiteralString = """
SELECT sequence, hash FROM audit_chain WHERE tenant_id = %s AND leaf < %s ORDER BY sequence DESC LIMIT 1
"""
_HASH: LiteralString = "SELECT hash FROM audit_chain WHERE tenant_id = %s AND sequence = %s"
_EVENTS: LiteralString = """
SELECT links.sequence, links.leaf, links.hash,
    originator_id, originator_version, topic, state, notification_id, recorded_at
FROM audit_chain AS links JOIN stored_events ON notification_id = links.position
WHERE links.tenant_id = %s AND links.sequence >= %s AND links.sequence < %s ORDER BY links.sequence
"""
_ROWS: LiteralString = """
SELECT originator_id, originator_version, topic, state, notification_id, recorded_at
FROM stored_events WHERE notification_id = ANY(%s) ORDER BY notification_id
"""
_LINKS: LiteralString = """
SELECT position, tenant_id, sequence, hash FROM audit_chain WHERE position = ANY(%s) ORDER BY position, tenant_id
"""
_ADMITTED: LiteralString = """
SELECT originator_id, originator_version, topic, state, notification_id, recorded_at
FROM stored_events WHERE originator_id = ANY(%s) AND originator_version = 1
"""
_TENANTS: LiteralString = """
WITH RECURSIVE known (tenant_id) AS (
    SELECT min(tenant_id) FROM audit_chain
    UNION ALL
    SELECT (SELECT min(tenant_id) FROM audit_chain AS links WHERE links.tenant_id > known.tenant_id)
    FROM known WHERE known.tenant_id IS NOT NULL
)
SELECT tenant_id FROM known WHERE tenant_id IS NOT NULL ORDER BY tenant_id
"""
_LEAVES: LiteralString = """
SELECT links.tenant_id, links.sequence, links.leaf, links.hash
FROM unnest(%s::text[], %s::bigint[]) AS asked (tenant_id, sequence)
JOIN audit_chain AS links USING (tenant_id, sequence)
"""


class Part(Protocol):
    """What of the log is exported: the header, batches until there is none, the end."""

    def header(self, connection: psycopg.Connection[Any]) -> dict[str, Any]: ...
    def batch(self, connection: psycopg.Connection[Any]) -> bytes: ...
    def end(self, connection: psycopg.Connection[Any]) -> dict[str, Any]: ...


def lines(connect: Connect, ask: Ask, note: str, vkey: str) -> Iterator[bytes]:
    """The export in pieces of whole lines, proved against a checkpoint; the first is the header.

    Raises Invalid before the first piece where the evidence does not have what is asked for, and EvidenceUnsound where
    log or evidence were changed so that nothing can be made of them.
    """
    with evidence.sound():
        yield from _lines(connect, ask, note, vkey)


def _lines(connect: Connect, ask: Ask, note: str, vkey: str) -> Iterator[bytes]:
    current = checkpoint.parse(note)
    part: Part = _Fleet(ask, current) if ask.tenant_id is None else _Tenant(ask.tenant_id, ask, current)
    with connect() as connection:
        said = part.header(connection)
        since = None if ask.since is None else _since(connection, ask.since, current)
    scope: Any = "fleet" if ask.tenant_id is None else "tenant"
    header = Header(
        format=export.FORMAT, scope=scope, tenant_id=ask.tenant_id, vkey=vkey, checkpoint=note, since=since, **said
    )
    digest, count = sha256(), 0
    piece = export.line(header)
    while piece:
        digest.update(piece)
        count += piece.count(b"\n")
        yield piece
        with connect() as connection:
            piece = part.batch(connection)
    with connect() as connection:
        said = part.end(connection)
    yield export.line(End(lines=count, sha256=digest.hexdigest(), **said))


def consistency(connection: psycopg.Connection[Any], old: int, new: int) -> tuple[bytes, list[bytes]]:
    """The root of an earlier size, and the proof that it is the beginning of a later one."""
    tree = evidence.tree(connection)
    return tree.root(old), tree.consistency(old, new)


def known(connection: psycopg.Connection[Any], tenant_id: str) -> bool:
    """Whether the log knows the tenant; of one that it does not, an export is empty."""
    row = connection.execute(_KNOWN, {"tenant": tenant_id, "stream": stream(tenant_id)}).fetchone()
    return row is not None and bool(row[0])


def _since(connection: psycopg.Connection[Any], size: int, current: Checkpoint) -> Since:
    if size > current.size:
        raise errors.Invalid("since", f"is later than this checkpoint, which has {current.size} leaves")
    root, proof = consistency(connection, size, current.size)
    return Since(size=size, root=root.hex(), proof=export.packed(proof))


class _Tree:
    """The subtrees that lines do not show, read with whichever connection is at hand."""

    def __init__(self) -> None:
        self._connection: psycopg.Connection[Any] | None = None
        self._tree = merkle.Tree(self._tile)

    def using(self, connection: psycopg.Connection[Any]) -> "_Tree":
        self._connection = connection
        return self

    def fill(self, begin: int, end: int) -> dict[str, str]:
        if begin == end:
            return {}
        return {"fill": export.packed(self._tree.subtree(height, first) for height, first in cover.gap(begin, end))}

    def _tile(self, level: int, index: int) -> bytes:
        assert self._connection is not None
        return evidence.tile(self._connection, level, index).hashes


class _Tenant:
    """One tenant's chain."""

    def __init__(self, tenant_id: str, ask: Ask, current: Checkpoint) -> None:
        self._tenant_id = tenant_id
        self._ask = ask
        self._size = current.size
        self._tree = _Tree()
        self._next = 1 if ask.first is None else ask.first
        self._upto = self._last = 0
        self._before = chain.ORIGIN
        self._leaf = 0

    def header(self, connection: psycopg.Connection[Any]) -> dict[str, Any]:
        last = connection.execute(_LAST, (self._tenant_id, self._size)).fetchone()
        self._last = last[0] if last else 0
        if self._next > self._last + 1:
            raise errors.Invalid("fromSequence", f"is past the end of the chain: its last sequence is {self._last}")
        if self._next > 1:
            row = connection.execute(_HASH, (self._tenant_id, self._next - 1)).fetchone()
            self._before = bytes(row[0]).hex() if row else chain.ORIGIN
        left = self._last + 1 - self._next
        count = left if self._ask.limit is None else min(left, self._ask.limit)
        self._upto = self._next + count
        return {"first": self._next, "count": count, "heads": (self._head(),)}

    def batch(self, connection: psycopg.Connection[Any]) -> bytes:
        tree = self._tree.using(connection)
        piece = b""
        while not piece and self._next < self._upto:
            upto = min(self._next + BATCH, self._upto)
            asked = (self._tenant_id, self._next, upto)
            rows = connection.execute(_EVENTS, asked, prepare=True, binary=True).fetchall()
            events = [(row, outline(*row[3:])) for row in rows]
            under = _admissions(connection, [recorded for _, recorded in events])
            piece = b"".join(
                self._two(tree, row, recorded, under.get(recorded.meta.admission or "")) for row, recorded in events
            )
            self._next = upto
        return piece

    def end(self, connection: psycopg.Connection[Any]) -> dict[str, Any]:
        rest = self._tree.using(connection).fill(self._leaf, self._size)
        return {**rest, "heads": (self._head(),), "next": self._next if self._next <= self._last else None}

    def _two(self, tree: _Tree, row: Sequence[Any], recorded: Recorded, under: admission.Admitted | None) -> bytes:
        """An event and its proof, as log and evidence have them: whether they agree is the reader's to check."""
        sequence, index, hash, *stored_row = row
        state: bytes = stored_row[3]
        event = audit_event.of(recorded, sha256(state).hexdigest(), self._tenant_id)
        event |= {"sequence": sequence, "previousHash": self._before, "hash": hash.hex()}
        self._before = hash.hex()
        whole = export.wholly_of(_whole(recorded, stored_row), self._tenant_id, under)
        stored = export.stored(state) if whole else {}
        proof = Proof(of=sequence, index=index, **tree.fill(self._leaf, index), **stored)
        self._leaf = index + 1
        return export.event_line(event) + export.line(proof)

    def _head(self) -> Head:
        return Head(tenant_id=self._tenant_id, at=self._next - 1, hash=self._before)


def _admissions(connection: psycopg.Connection[Any], events: Sequence[Recorded]) -> dict[str, admission.Admitted]:
    """What was allowed, by the admissions that events name which no tenant brought about itself."""
    named = {one.meta.admission for one in events if audit_event.acting_tenant(one) is None}
    rows = connection.execute(_ADMITTED, (sorted(filter(None, named)),), prepare=True, binary=True)
    found = {row[0]: outline(*row).event for row in rows}
    return {id: event for id, event in found.items() if isinstance(event, admission.Admitted)}


def _whole(recorded: Recorded, row: Sequence[Any]) -> Recorded:
    """The event itself too, where it may hide something."""
    return decode(*row) if recorded.stored_as.startswith(export.HIDING) else recorded


class _Fleet:
    """The log itself, leaf by leaf."""

    def __init__(self, ask: Ask, current: Checkpoint) -> None:
        self._size = current.size
        self._next = 0 if ask.first is None else ask.first
        if self._next > self._size:
            raise errors.Invalid("fromSize", f"is past the end of the tree, which has {self._size} leaves")
        left = self._size - self._next
        self._upto = self._next + (left if ask.limit is None else min(left, ask.limit))
        self._tree = _Tree()
        self._heads: dict[str, Head] = {}

    def header(self, connection: psycopg.Connection[Any]) -> dict[str, Any]:
        before = self._tree.using(connection).fill(0, self._next)
        self._heads = _heads(connection, self._next)
        return {"first": self._next, "count": self._upto - self._next, "heads": self._ends(), **before}

    def batch(self, connection: psycopg.Connection[Any]) -> bytes:
        piece = b""
        while not piece and self._next < self._upto:
            tile = evidence.tile(connection, 0, self._next // merkle.WIDTH)
            begin = self._next % merkle.WIDTH
            end = min(begin + self._upto - self._next, merkle.WIDTH)
            places = {
                at: (place, tile.hashes[place * merkle.HASH :][: merkle.HASH])
                for place, at in enumerate(tile.positions[begin:end], begin)
            }
            positions = [*places]
            links: dict[int, list[Head]] = {}
            for at, tenant_id, sequence, hash in connection.execute(_LINKS, (positions,), prepare=True, binary=True):
                links.setdefault(at, []).append(Head(tenant_id=tenant_id, at=sequence, hash=bytes(hash).hex()))
            first = self._next - begin
            for row in connection.execute(_ROWS, (positions,), prepare=True, binary=True):
                place, hashed = places[row[4]]
                piece += self._one(first + place, hashed, tuple(links.get(row[4], ())), row)
            self._next = first + end
        return piece

    def end(self, connection: psycopg.Connection[Any]) -> dict[str, Any]:
        rest = self._tree.using(connection).fill(self._next, self._size)
        return {**rest, "heads": self._ends(), "next": self._next if self._next < self._size else None}

    def _one(self, index: int, hashed: bytes, links: tuple[Head, ...], row: Sequence[Any]) -> bytes:
        its = leaf.of(row[4], row[5], row[3], row[0], row[2], row[1])
        self._heads.update((head.tenant_id, head) for head in links)
        return export.line(
            Row(
                index=index,
                position=its.position,
                recorded_at=its.recorded_at,
                sha256=its.sha256,
                stream=its.stream,
                type=its.type,
                version=its.version,
                hash=hashed.hex(),
                chains=links,
                **export.stored(row[3]),
            )
        )

    def _ends(self) -> tuple[Head, ...]:
        return tuple(head for _, head in sorted(self._heads.items()))


def _heads(connection: psycopg.Connection[Any], before: int) -> dict[str, Head]:
    """Where every chain stands before a leaf: all of them are halved at once, for each its last link before it."""
    if before == 0:
        return {}
    tenants = [row[0] for row in connection.execute(_TENANTS)]
    ends = evidence.heads(connection, tenants)
    low, high = dict.fromkeys(ends, 0), {tenant: head.sequence for tenant, head in ends.items()}
    found: dict[str, Head] = {}
    while asked := {tenant: (low[tenant] + high[tenant] + 1) // 2 for tenant in low if low[tenant] < high[tenant]}:
        rows = connection.execute(_LEAVES, ([*asked], [*asked.values()]), prepare=True, binary=True).fetchall()
        for tenant, sequence, at, hash in rows:
            if at < before:
                low[tenant] = sequence
                found[tenant] = Head(tenant_id=tenant, at=sequence, hash=bytes(hash).hex())
            else:
                high[tenant] = sequence - 1
        for tenant in asked.keys() - {row[0] for row in rows}:
            high[tenant] = asked[tenant] - 1  # a link that was removed: the check will say so
    return found
