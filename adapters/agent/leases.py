"""Session leases: who is connected, and until when, on this process's own monotonic clock (domain.md §5).

They live in memory: a heartbeat is no event. What a lease was granted for is told by its epoch, which the log
has; so a lease lost with the process costs its node one fresh TTL to come back, and nothing else.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

P = TypeVar("P")

MOST_PUT_OFF: Final = 3
"""TTLs by which a lease lasts longer at most because a crowd is in its node's way."""


@dataclass(eq=False)
class Lease(Generic[P]):
    """`deadline` in seconds of the clock, `last` the latest to which a crowd can put it off.

    Without a `peer` the connection is gone and only time is left.
    """

    node_id: str
    epoch: int
    deadline: float
    last: float
    peer: P | None


class Leases(Generic[P]):
    """At most one lease a node; the one of the highest epoch. Not thread-safe: the event loop owns it."""

    def __init__(self, clock: Callable[[], float], ttl: float) -> None:
        self._clock = clock
        self._ttl = ttl
        self._held: dict[str, Lease[P]] = {}
        self._swept: float | None = None

    def __len__(self) -> int:
        return len(self._held)

    def grant(self, node_id: str, epoch: int, peer: P | None) -> tuple[Lease[P] | None, P | None]:
        """The new lease and the peer it supersedes; no lease if a newer epoch was here first."""
        older = self._held.get(node_id)
        if older is not None and older.epoch >= epoch:
            return None, None
        lease = Lease(node_id, epoch, 0.0, 0.0, peer)
        self.renew(lease)
        self._held[node_id] = lease
        return lease, older.peer if older else None

    def renew(self, lease: Lease[P]) -> None:
        lease.deadline = self._clock() + self._ttl
        lease.last = lease.deadline + MOST_PUT_OFF * self._ttl

    def drop(self, lease: Lease[P]) -> bool:
        """End the lease now; says whether it was still the node's."""
        if self._held.get(lease.node_id) is not lease:
            return False
        del self._held[lease.node_id]
        return True

    def peer(self, node_id: str) -> P | None:
        lease = self._held.get(node_id)
        return lease.peer if lease else None

    def peers(self) -> list[P]:
        return [lease.peer for lease in self._held.values() if lease.peer is not None]

    def lapsed(self, crowded: bool = False) -> list[Lease[P]]:
        """Take out and return the leases whose time is over.

        `crowded` says that agents are in each other's way: then those that are not here may be among them, and their
        time starts over, up to a bound.

        A look that comes later than a quarter TTL after the last starts all of them over: it was this process
        that stood still, and what its agents said in that time is unread (domain.md §5).
        """
        now = self._clock()
        late = self._swept is None or now - self._swept > self._ttl / 4
        self._swept = now
        if late:
            for lease in self._held.values():
                self.renew(lease)
            return []
        if crowded:
            for lease in self._held.values():
                if lease.peer is None:
                    lease.deadline = min(now + self._ttl, lease.last)
        over = [lease for lease in self._held.values() if now >= lease.deadline]
        for lease in over:
            del self._held[lease.node_id]
        return over
