"""The nodes of the fleet, as a gateway process beside the serves would keep them: connected, and doing what they are
told.

Without them a reservation never gets active and its atoms never get free. They write through a store of their own,
so that their appends meet the kills of PostgreSQL as well; nobody kills them, or the fleet would be gone for 40 s.
"""

import threading
from collections.abc import Callable
from typing import Final

import psycopg

from adapters.ids import Mint
from adapters.postgres.leases import Lease
from adapters.postgres.pool import Pool, pool
from adapters.postgres.store import EventStore
from commands import agents
from commands.ports import Race
from domain import errors, node, node_spec
from projections import table
from tests.bench import fleet

ROUND_S: Final = 0.1
AWAY: Final = (psycopg.OperationalError, errors.Unavailable, errors.Locked, Race)
"""What an agent comes again after."""


class Agents:
    """A thread that holds the lease of its gateway and answers for its nodes; `failure` is why it stopped."""

    def __init__(self, dsn: str) -> None:
        self._mint = Mint()
        self._pool: Pool = pool(dsn, 2, application_name="torture agents")
        self._store = EventStore(self._pool, table.INLINE, fleet.ROOT, self._mint)
        self._lease = self._new_lease()
        self._sessions: dict[str, int | None] = {}
        self._told: dict[str, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="torture-agents", daemon=True)
        self.failure: BaseException | None = None

    def start(self, pool_id: str) -> None:
        """Connect all nodes of a pool, and return once they are."""
        self._pool.open()
        self._sessions = dict.fromkeys(self._store.nodes_of(pool_id))
        self._round()
        if None in self._sessions.values():
            raise RuntimeError("the nodes could not be connected")
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._pool.close()

    def _new_lease(self) -> Lease:
        return Lease(self._pool, f"gateway:{self._mint('gw')}", self._mint("torture"))

    def _run(self) -> None:
        while not self._stop.wait(ROUND_S):
            try:
                self._round()
            except BaseException as problem:
                self.failure = problem
                return

    def _round(self) -> None:
        if not _tried(self._beat):
            return
        for node_id, session in self._sessions.items():
            if self._stop.is_set() or not _tried(lambda id=node_id, of=session: self._attend(id, of)):  # type: ignore[misc]
                return

    def _beat(self) -> None:
        """Whoever has lost the lease goes on as another gateway: the sessions of the old one are others' to judge."""
        if self._lease.tick():
            return
        self._lease = self._new_lease()
        self._lease.tick()
        self._sessions = dict.fromkeys(self._sessions)

    def _attend(self, node_id: str, session: int | None) -> None:
        """Open the node's session, or report once that it has done what its NodeSpec says by now."""
        if session is None:
            gateway = self._lease.name.partition(":")[2]
            self._sessions[node_id] = agents.open_session(self._store, node_id, gateway)
            return
        state: node.State = self._store.load(node_id).state
        if self._told.get(node_id) != state.generation:
            items: dict[str, node_spec.Status] = {a.id: "prepared" for a in state.allocations}
            agents.report_status(self._store, node_id, session, state.generation, items)
            self._told[node_id] = state.generation


def _tried(act: Callable[[], None]) -> bool:
    """Whether it went well; what an outage or a rival stopped is done again in the next round."""
    try:
        act()
    except AWAY:
        return False
    return True
