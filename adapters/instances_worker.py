"""The instances' controller: ends, silence, and what is left of what is over (domain.md §6)."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, LiteralString

from adapters.controller import Controller
from adapters.postgres.pool import Pool
from commands.controllers import instances
from commands.ports import Store
from domain.event import Fence

LEASE: Final = "singleton:instances"
TICK_S: Final = 0.1
SWEEP_S: Final = 5.0
AT_ONCE: Final = 200

_LEAVING: LiteralString = """
SELECT id FROM reservations WHERE leaves IS NOT NULL AND NOT id = ANY(%s) ORDER BY id LIMIT %s
"""
_SILENT: LiteralString = """
SELECT id, version FROM nodes WHERE connectivity IN ('unreachable', 'lost') AND NOT id = ANY(%s) ORDER BY id
"""
_USER_DATA: LiteralString = """
SELECT kept.instance_id FROM instance_user_data AS kept LEFT JOIN instances ON instances.id = kept.instance_id
WHERE instances.ended OR (instances.id IS NULL AND kept.kept_at < database_ms() - %s) ORDER BY 1 LIMIT %s
"""
_CONSOLES: LiteralString = """
SELECT kept.instance_id FROM instance_consoles AS kept LEFT JOIN instances ON instances.id = kept.instance_id
WHERE instances.id IS NULL OR instances.state_name = 'deleted' ORDER BY 1 LIMIT %s
"""


class InstancesWorker:
    """Looks ten times a second; a second process is a hot standby. `monotonic` in seconds."""

    def __init__(
        self,
        store: Store,
        kept: instances.Kept,
        connections: Pool,
        holder: str,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._kept = kept
        self._connections = connections
        self._monotonic = monotonic
        self._swept = monotonic()
        self._looked: dict[str, int] = {}
        self._controller = Controller(LEASE, connections, holder, self._round, store, TICK_S, monotonic)
        self.start, self.stop, self.tick = self._controller.start, self._controller.stop, self._controller.tick

    def _round(self, fence: Fence, held: bool) -> None:
        """Nothing here waits for an instant: a clock that stepped holds nothing up."""
        resting = self._controller.resting.ids()
        for (id,) in self._rows(_LEAVING, resting, AT_ONCE):
            self._controller.one(partial(instances.settle, self._store, self._kept, id, fence), id)
        self._listen(fence, self._rows(_SILENT, resting))
        if self._monotonic() - self._swept >= SWEEP_S:
            self._swept = self._monotonic()
            self._sweep()

    def _listen(self, fence: Fence, silent: list[tuple[Any, ...]]) -> None:
        """A silent node is looked at again when its stream has gone on."""
        self._looked = {id: self._looked[id] for id, _ in silent if id in self._looked}
        for id, version in silent:
            if self._looked.get(id) != version:
                self._controller.one(partial(self._hush, id, version, fence), id)

    def _hush(self, id: str, version: int, fence: Fence) -> int:
        position = instances.hush(self._store, id, fence)
        self._looked[id] = version
        return position or 0

    def _sweep(self) -> None:
        user_data = [id for (id,) in self._rows(_USER_DATA, instances.ORPHAN_MS, AT_ONCE)]
        consoles = [id for (id,) in self._rows(_CONSOLES, AT_ONCE)]
        instances.let_go(self._store, self._kept, user_data, consoles)

    def _rows(self, sql: LiteralString, *params: Any) -> list[tuple[Any, ...]]:
        with self._connections.connection() as connection:
            return connection.execute(sql, params, prepare=True).fetchall()
