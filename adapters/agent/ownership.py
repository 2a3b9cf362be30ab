"""Which gateway's sessions are whose: each gateway holds a lease, rivals wait for it to lapse (domain.md §5)."""

import logging
import time
from collections.abc import Callable
from typing import Final, LiteralString

import psycopg

from adapters.agent.gateway import Gateway
from adapters.postgres.leases import Lease
from adapters.postgres.pool import Pool

_log = logging.getLogger("better_compute.gateway")

NOBODY: Final = ""
"""The gateway of sessions that were recorded before sessions had one."""

_GATEWAYS: LiteralString = "SELECT DISTINCT gateway FROM nodes WHERE connectivity = 'connected'"
_SESSIONS: LiteralString = """
SELECT id, session FROM nodes WHERE connectivity = 'connected' AND gateway = ANY(%s)
"""


class Ownership:
    """Holds the lease of this process's gateway, and takes over those of gateways that are gone.

    A gateway is gone when its lease was handed back or had no beat for a whole TTL; then its nodes get one session
    TTL to come back. Of NOBODY's sessions only those are looked after that are there when this process starts.
    `monotonic` in seconds. Not thread-safe: one thread calls it.
    """

    def __init__(
        self,
        gateway: Gateway,
        pool: Pool,
        new_id: Callable[[str], str],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gateway = gateway
        self._pool = pool
        self._new_id = new_id
        self._monotonic = monotonic
        self._id = self._holder = gateway.id
        self._own = self._lease(self._id)
        self._others = {NOBODY: self._lease(NOBODY)}

    def beat(self) -> None:
        """Keep what is held, watch what is not; call it more often than every quarter of a coordination lease's TTL.

        A gateway whose lease was lost goes on under a new id: its old sessions are judged by whoever took it.
        """
        if not self._own.tick():
            self._id = self._new_id("gw")
            self._own = self._lease(self._id)
            self._own.tick()
        if self._own.fence is not None and self._gateway.id != self._id:
            _log.warning("another process took over this gateway's sessions; it goes on as %s", self._id)
            self._gateway.go_on_as(self._id)
        for lease in self._others.values():
            lease.tick()

    def look(self) -> None:
        """Adopt the sessions of every gateway whose lease was taken over, and watch those that are new."""
        taken = [id for id, lease in self._others.items() if lease.fence is not None]
        with self._pool.connection() as connection:
            known = {id for (id,) in connection.execute(_GATEWAYS, prepare=True).fetchall()}
            left = connection.execute(_SESSIONS, (taken,), prepare=True).fetchall() if taken else []
        if left:
            self._gateway.adopt(dict(left))
        for id in known - self._others.keys() - {self._id, NOBODY}:
            self._others[id] = self._lease(id)
        for id in self._others.keys() - known:
            self._others.pop(id).release()

    def release(self) -> None:
        """Hand everything back, so that others need not wait; call it when the gateway's sessions are closed."""
        for lease in (self._own, *self._others.values()):
            try:
                lease.release()
            except psycopg.OperationalError:
                _log.warning("the lease %s could not be handed back; others wait for it to lapse", lease.name)

    def _lease(self, gateway_id: str) -> Lease:
        return Lease(self._pool, f"gateway:{gateway_id}", self._holder, self._monotonic)
