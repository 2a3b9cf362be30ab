"""The fleet's lines: every leaf of the tree with its stored bytes, from which every tenant's chain is made again."""

from hashlib import sha256

from domain import audit_event, chain, export, leaf
from domain.event import Recorded
from domain.export import End, Head, Row
from domain.export_walk import Walk, printable


class Leaves:
    """Takes the lines between header and end. Of each tenant it holds where the chain stands."""

    def __init__(self, walk: Walk) -> None:
        header = walk.header
        self._walk = walk
        self._heads = {head.tenant_id: chain.Head(head.at, head.hash) for head in header.heads}
        self._lost: set[str] = set()
        self._next = header.first
        self._position = 0
        self._seen = 0
        if walk.whole:
            walk.fill(header.first, header.fill, "header")

    def line(self, raw: bytes) -> None:
        walk, due = self._walk, f"leaf {self._next} is due"
        row = walk.typed(raw, Row, due)
        self._seen += 1
        if row is None:
            walk.whole = False
            self._next += 1
            self._lost.update(self._heads)
            return
        where = f"leaf {row.index}, position {row.position}"
        if row.index != self._next:
            walk.whole = False
            walk.fault(where, "index", f"is {row.index} where {self._next} is due")
        self._next = row.index + 1
        if row.position <= self._position:
            walk.fault(where, "position", f"is {row.position}, behind {self._position}")
        self._position = row.position
        hashed = leaf.hashed(row.leaf)
        if hashed.hex() != row.hash:
            says = f"is {printable(row.hash)}, the leaf as it stands here has {hashed.hex()}"
            walk.fault(where, "hash", says)
        if walk.place(row.index, where):
            walk.leaf(hashed)
        self._chained(row, self._event(row, where), where)

    def end(self, end: End) -> None:
        walk, header = self._walk, self._walk.header
        walk.verdict.checked = self._seen
        if self._seen != header.count:
            walk.verdict.faults.add(1, "header", "count", f"is {header.count}, and {self._seen} leaves came")
        ends = tuple(Head(tenant_id=id, at=at.sequence, hash=at.hash) for id, at in sorted(self._heads.items()))
        if end.heads != ends:
            known = {head.tenant_id: head for head in end.heads}
            for made in ends:
                if known.get(made.tenant_id) != made:
                    says = (
                        f"does not say that the chain of {printable(made.tenant_id)} ends at {made.at} with {made.hash}"
                    )
                    walk.fault("end", "heads", says)
            if len(known) != len(end.heads) or len(known) != len(ends):
                walk.fault("end", "heads", "does not name each tenant of the chains once, in order")
        if end.next is not None and end.next != self._next:
            walk.fault("end", "next", f"is {end.next}, what follows begins at {self._next}")

    def _event(self, row: Row, where: str) -> Recorded | None:
        """The event that the bytes of this leaf say."""
        walk = self._walk
        try:
            state = export.stored_bytes(row)
        except ValueError as wrong:
            walk.fault(where, "stored", str(wrong))
            return None
        if state is None:
            walk.fault(where, "stored", "is missing")
            return None
        walk.verdict.stored += 1
        if (digest := sha256(state).hexdigest()) != row.sha256:
            walk.fault(where, "stored", f"has SHA-256 {digest}, the leaf says {printable(row.sha256)}")
            return None
        return walk.decoded((row.stream, row.version, row.type, state, row.position, row.recorded_at), where)

    def _chained(self, row: Row, recorded: Recorded | None, where: str) -> None:
        """The event as the next of each of its tenants' chains."""
        walk = self._walk
        said = {head.tenant_id: head for head in row.chains}
        tenants = [*said] if recorded is None else sorted(recorded.tenants)
        if [head.tenant_id for head in row.chains] != sorted(tenants):
            says = f"are of {printable([head.tenant_id for head in row.chains])}, the event is of {printable(tenants)}"
            walk.fault(where, "chains", says)
        for tenant_id in tenants:
            before = self._heads.get(tenant_id, chain.Head())
            made = None
            if recorded is not None:
                made = chain.link(audit_event.of(recorded, row.sha256, tenant_id), before)
            told = said.get(tenant_id)
            if told is None:
                self._heads[tenant_id] = made or before
                continue
            self._heads[tenant_id] = chain.Head(told.at, told.hash)
            self._compare(told, before, made, where)

    def _compare(self, told: Head, before: chain.Head, made: chain.Head | None, where: str) -> None:
        """What the line says of a chain, and what the chain comes to; behind a line that was lost nothing is known."""
        lost = told.tenant_id in self._lost
        self._lost.discard(told.tenant_id)
        tenant = printable(told.tenant_id)
        if lost:
            return
        if told.at != before.sequence + 1:
            says = f"of {tenant} is {told.at} where {before.sequence + 1} is due"
            self._walk.fault(where, "chains.at", says)
        elif made is not None and told.hash != made.hash:
            self._walk.fault(
                where, "chains.hash", f"of {tenant} is {printable(told.hash)}, the chain comes to {made.hash}"
            )
