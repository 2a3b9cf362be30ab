"""The nodes' controllers: silence that becomes loss, drains, planned maintenance, commands' time-outs."""

import time
from collections.abc import Callable
from functools import partial
from typing import Final, LiteralString

import psycopg

from adapters.controller import Controller
from adapters.postgres.pool import Pool
from commands import health, node_sessions
from commands.controllers import drainer, liveness
from commands.controllers.liveness import Silence
from commands.ports import Store
from domain import pool
from domain.event import Fence
from domain.ids import Mint

LEASE: Final = "singleton:nodes"
TICK_S: Final = 0.25
AT_ONCE: Final = 200

_UNREACHABLE: LiteralString = "SELECT id, session, pool_id FROM nodes WHERE connectivity = 'unreachable'"
_DUE: LiteralString = """
SELECT id FROM nodes WHERE due_at <= (SELECT database_ms()) AND NOT id = ANY(%s) ORDER BY due_at, id LIMIT %s
"""
_COMMANDS: LiteralString = """
SELECT id FROM node_commands WHERE due_at <= (SELECT database_ms()) AND NOT id = ANY(%s) ORDER BY due_at, id LIMIT %s
"""
_STALE: LiteralString = """
SELECT seen.node_id, seen.inventory_at FROM node_sightings AS seen JOIN nodes ON nodes.id = seen.node_id
WHERE seen.inventory_at < database_ms() - %s AND nodes.provision_state <> 'retired'
"""
STALE_LOOK_S: Final = 60.0


class NodeWatch:
    """Looks after nodes every quarter of a second; a second process is a hot standby. `monotonic` in seconds."""

    def __init__(
        self,
        store: Store,
        connections: Pool,
        new_id: Mint,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._new_id = new_id
        self._connections = connections
        self._silence = liveness.Watch(monotonic)
        self._monotonic = monotonic
        self._stale_look = monotonic()
        self._controller = Controller(LEASE, connections, new_id("sess"), self._round, store, TICK_S, monotonic)
        self.start, self.stop, self.tick = self._controller.start, self._controller.stop, self._controller.tick

    def _round(self, fence: Fence, held: bool) -> None:
        for node_id, session in self._lost():
            self._controller.one(partial(liveness.lose, self._store, node_id, session, fence), node_id)
        if not held:
            self._keep_deadlines(fence)

    def _keep_deadlines(self, fence: Fence) -> None:
        for node_id in self._due(_DUE):
            self._controller.one(partial(drainer.step, self._store, node_id, fence), node_id)
        for command_id in self._due(_COMMANDS):
            step = partial(node_sessions.expire, self._store, command_id, fence, self._new_id)
            self._controller.one(step, command_id)
        for node_id, seen_at in self._stale():
            self._controller.one(partial(health.grow_stale, self._store, node_id, seen_at, fence), node_id)

    def _stale(self) -> list[tuple[str, int]]:
        """Once a minute: what is a day old does not need more."""
        if self._monotonic() < self._stale_look:
            return []
        self._stale_look = self._monotonic() + STALE_LOOK_S
        with self._connections.connection() as connection:
            return connection.execute(_STALE, (health.STALE_MS,), prepare=True).fetchall()

    def _lost(self) -> list[tuple[str, int]]:
        try:
            with self._connections.connection() as connection:
                rows = connection.execute(_UNREACHABLE, prepare=True).fetchall()
        except psycopg.Error:
            self._silence.start_over()
            raise
        silent = {id: Silence(session, self._lost_after(pool_id)) for id, session, pool_id in rows}
        return [(id, silent[id].session) for id in self._silence.look(silent)]

    def _lost_after(self, pool_id: str | None) -> int:
        policy: pool.Policy = self._store.load(pool_id).state.policy if pool_id else pool.Policy()
        return policy.lost_after

    def _due(self, sql: LiteralString) -> list[str]:
        with self._connections.connection() as connection:
            rows = connection.execute(sql, (self._controller.resting.ids(), AT_ONCE), prepare=True).fetchall()
        return [row[0] for row in rows]
