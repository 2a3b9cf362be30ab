"""The one writer of the evidence: chains, tree and checkpoints, behind the follower (api.md §6, architecture.md §2)."""

import logging
import time
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

import psycopg

from adapters.audit_key import Signer
from adapters.controller import Controller
from adapters.postgres import evidence
from adapters.postgres.mapper import outline
from adapters.postgres.pool import Pool
from commands.ports import Store
from domain import audit_event, chain, checkpoint, errors, leaf, merkle
from domain.event import Fence, Recorded

log = logging.getLogger(__name__)

LEASE: Final = "singleton:audit"
EVERY_S: Final = 0.25
BATCH: Final = 250
"""Events a transaction: some 15 ms of work, for which others of the process wait in turns."""

ROUND_S: Final = 0.5
"""How long a round may go on before the lease is looked at again."""

CHECKPOINT_S: Final = 60.0


class Evidence:
    """Takes each event that the follower has passed into the chains of its tenants and into the tree.

    It works half of the time at most, so that a log that was never taken in is no burden to those who ask meanwhile.
    """

    def __init__(
        self,
        pool: Pool,
        store: Store,
        passed: Callable[[], int],
        signer: Signer,
        holder: str,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = pool
        self._passed = passed
        self._signer = signer
        self._monotonic = monotonic
        self._writer: Writer | None = None
        self._signed: tuple[int, float] | None = None
        self._seen = 0
        self._controller = Controller(LEASE, pool, holder, self._round, store, EVERY_S, monotonic)
        self.start, self.stop, self.tick = self._controller.start, self._controller.stop, self._controller.tick

    @property
    def key(self) -> str:
        """What verifies its checkpoints, as the C2SP tools take it."""
        return self._signer.key.vkey

    @property
    def fence(self) -> Fence | None:
        """What it writes under; None while it stands by."""
        return self._controller.fence

    @property
    def position(self) -> int:
        """Everything up to here is taken in, as far as this process knows."""
        return self._seen

    @property
    def lag(self) -> int:
        """How many positions that the follower has passed are yet to be taken in; 0 on a standby."""
        return max(0, self._passed() - self._seen) if self.fence is not None else 0

    def sign(self) -> str:
        """A checkpoint of what is taken in now, signed and kept; any process of the same key may."""
        with self._pool.connection() as connection:
            return checkpoint_of(connection, self._signer)

    def _round(self, fence: Fence, held: bool) -> None:
        """Times may be wrong while the clock is doubted: they are evidence all the same."""
        until = self._monotonic() + ROUND_S
        writer, self._writer = self._writer, None  # one whose batch failed is not used again
        if writer is None or writer.fence != fence:
            writer = Writer(self._pool, fence)
        while self._step(writer) and self._monotonic() < until:
            pass
        self._writer = writer
        self._sign_now_and_then(writer.progress.size)

    def _step(self, writer: "Writer") -> bool:
        """Take a batch in, and rest as long as that took if there is more: says whether there is."""
        began = self._monotonic()
        passed = self._passed()
        more = writer.step(passed) == BATCH
        self._seen = writer.progress.position if more else max(passed, writer.progress.position)
        if more:
            time.sleep(self._monotonic() - began)
        return more

    def _sign_now_and_then(self, size: int) -> None:
        now = self._monotonic()
        if self._signed is None or (size != self._signed[0] and now - self._signed[1] >= CHECKPOINT_S):
            if size:
                self._sign()
            self._signed = (size, now)

    def _sign(self) -> None:
        """What cannot be signed is taken in all the same: of the evidence nothing is to be missing besides."""
        try:
            self.sign()
        except errors.EvidenceUnsound as fault:
            log.error("no checkpoint is signed: %s", fault.detail)


class Writer:
    """What the holder of the lease knows of the evidence's edge; good for as long as nobody else writes."""

    def __init__(self, pool: Pool, fence: Fence) -> None:
        self._pool = pool
        self.fence = fence
        self._heads: dict[str, chain.Head] = {}
        with pool.connection() as connection:
            self.progress = evidence.progress(connection)
            self._tree = merkle.Growing(
                self.progress.size, lambda level, index: evidence.tile(connection, level, index).hashes
            )
            last = evidence.tile(connection, 0, self.progress.size // merkle.WIDTH)
        self._positions = list(last.positions[: self.progress.size % merkle.WIDTH])

    def step(self, upto: int, limit: int = BATCH) -> int:
        """Take in the next events up to this position, in one transaction; returns how many."""
        with self._pool.connection() as connection:
            rows = evidence.batch(connection, self.progress.position, upto, limit)
            taken = [(outline(*row), row[3]) for row in rows]
            unknown = {tenant for one, _ in taken for tenant in one.tenants} - self._heads.keys()
            if unknown:
                self._heads |= dict.fromkeys(unknown, chain.Head()) | evidence.heads(connection, sorted(unknown))
        if not rows:
            return 0
        before = self.progress.size
        positions: dict[int, list[int]] = {before // merkle.WIDTH: self._positions}
        links = [link for one, state in taken for link in self._take(one, state, positions)]
        after = evidence.Progress(taken[-1][0].position, self._tree.size)
        tiles = [(tile, () if tile.level else positions[tile.index]) for tile in self._tree.changed()]
        evidence.write(self._pool, self.fence, before, after, links, tiles)
        self._positions = positions.get(after.size // merkle.WIDTH, [])
        self.progress = after
        return len(rows)

    def _take(self, one: Recorded, state: bytes, positions: dict[int, list[int]]) -> list[chain.Link]:
        digest = sha256(state).hexdigest()
        number = self._tree.size
        assert one.stored_as
        said = leaf.Leaf(one.position, one.recorded_at, digest, one.stream, one.stored_as, one.version)
        self._tree.append(leaf.hashed(said))
        positions.setdefault(number // merkle.WIDTH, []).append(one.position)
        links = []
        for tenant in one.tenants:
            event = audit_event.of(one, digest, tenant)
            head = self._heads[tenant] = chain.link(event, self._heads[tenant])
            links.append(chain.Link(tenant, head.sequence, one.position, number, bytes.fromhex(head.hash)))
        return links


def checkpoint_of(connection: psycopg.Connection[Any], signer: Signer) -> str:
    """What this key has signed of this size already is given again: a note says no time, there is nothing to renew.

    Raises EvidenceUnsound where the tree does not begin with the one that was signed last: a key that signed that too
    would vouch for whatever became of the database.
    """
    with evidence.sound(), connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        size, tree = evidence.progress(connection).size, evidence.tree(connection)
        last = evidence.note(connection)
        if last is not None:
            _check_begins(tree, size, last, signer.key.name)
        kept = evidence.note(connection, size)
        if kept is not None and signer.signed(kept):
            return kept
        root = tree.root(size)
    note = signer.note(size, root)
    evidence.keep(connection, size, note)
    return note


def _check_begins(tree: merkle.Tree, size: int, last: str, origin: str) -> None:
    """Of another origin is what a log had signed before it was restored under a new name."""
    try:
        said = checkpoint.parse(last)
    except checkpoint.Unsound as fault:
        raise errors.EvidenceUnsound(f"its last checkpoint cannot be read: {fault}") from fault
    if said.origin != origin:
        return
    if said.size > size:
        raise errors.EvidenceUnsound(f"it goes to {size} leaves, and {said.size} were signed")
    if said.root != tree.root(said.size):
        raise errors.EvidenceUnsound(f"its first {said.size} leaves are not those that were signed")
