"""The calendars of this process: one a pool, fed by the follower, looked at under a lock (architecture.md §4)."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Final

from domain import calendar, node, pool, reservation
from domain.device import Device, Quantity, Version
from domain.event import Recorded

CATCH_UP_S: Final = 0.2
_CLEANING_MS: Final = 1000


class Calendars:
    """Implements the commands' port. `head` gives the log's last position, `wait` waits until it was read."""

    def __init__(self, head: Callable[[], int], wait: Callable[[int, float], bool]) -> None:
        self._head = head
        self._wait = wait
        self._calendars: dict[str, calendar.Calendar] = {}
        self._locks: dict[str, Lock] = defaultdict(Lock)
        self._nodes: dict[str, node.State] = {}
        self._allocations: dict[str, tuple[str, tuple[reservation.Allocation, ...]]] = {}
        self._changes: dict[str, int] = defaultdict(int)
        self._known = Lock()

    @contextmanager
    def locked(self, pool_id: str) -> Iterator[calendar.Calendar]:
        with self._known:
            found = self._calendars.setdefault(pool_id, calendar.Calendar(pool_id))
            lock = self._locks[pool_id]
        with lock:
            yield found

    def lost(self, pool_id: str, atoms: Sequence[str], window: tuple[int, int]) -> None:
        position = self._head()
        with self.locked(pool_id) as of:
            of.mark_busy(atoms, *window, position)
        self._wait(position, CATCH_UP_S)

    def changes(self, pool_id: str) -> int:
        """A number that grows with everything that may have made room in a pool."""
        return self._changes[pool_id]

    def consume(self, batch: Sequence[Recorded]) -> None:
        """Take a batch of the log; the follower's thread is the only one to call this."""
        for recorded in batch:
            event = recorded.event
            if recorded.stream.startswith("node_"):
                self._of_node(recorded.stream, event)  # type: ignore[arg-type]
            elif recorded.stream.startswith("rsv_"):
                self._of_reservation(recorded.stream, event)  # type: ignore[arg-type]
            elif isinstance(event, pool.Created | pool.PolicyChanged):
                with self.locked(recorded.stream) as of:
                    of.gap_ms = event.policy.cleaning_seconds * _CLEANING_MS
        last = batch[-1]
        for pool_id in list(self._calendars):
            with self.locked(pool_id) as of:
                of.caught_up(last.position)
                of.forget_before(last.recorded_at)

    def _of_node(self, node_id: str, event: node.Events) -> None:
        before = self._nodes.get(node_id, node.State())
        after = self._nodes[node_id] = node.evolve(before, event)
        if isinstance(event, node.Assigned) and event.former_pool_id not in (None, event.pool_id):
            assert event.former_pool_id is not None
            with self.locked(event.former_pool_id) as of:
                of.remove_node(node_id)
        shaping = node.DevicesChanged | node.SchedulabilityChanged | node.Labelled | node.Assigned
        if after.pool_id is not None and isinstance(event, shaping):
            with self.locked(after.pool_id) as of:
                of.put_node(_as_node(node_id, after))
            self._changes[after.pool_id] += 1

    def _of_reservation(self, reservation_id: str, event: reservation.Events) -> None:
        if isinstance(event, reservation.Placed):
            self._allocations[reservation_id] = (event.pool_id, event.allocations)
            with self.locked(event.pool_id) as of:
                for a in event.allocations:
                    of.book(a.id, a.node_id, a.atoms, a.scalars, event.starts_at, event.ends_at)
            return
        known = self._allocations.get(reservation_id)
        if known is not None:
            with self.locked(known[0]) as of:
                self._ended(reservation_id, known[1], event, of)
            self._changes[known[0]] += 1

    def _ended(
        self,
        reservation_id: str,
        allocations: Sequence[reservation.Allocation],
        event: reservation.Events,
        of: calendar.Calendar,
    ) -> None:
        match event:
            case reservation.ReleaseStarted() | reservation.Failed(began=True):
                for allocation in allocations:
                    of.rebound(allocation.id, None)
            case reservation.TornDown(allocation_id=allocation_id, at=at):
                of.rebound(allocation_id, at)
                left = tuple(a for a in allocations if a.id != allocation_id)
                self._allocations[reservation_id] = (of.pool_id, left)
                if not left:
                    del self._allocations[reservation_id]
            case reservation.Cancelled() | reservation.Expired() | reservation.Failed():
                for allocation in allocations:
                    of.unbook(allocation.id)
                del self._allocations[reservation_id]
            case _:
                pass


def _as_node(node_id: str, state: node.State) -> calendar.Node:
    gpus = sum(device.class_ == "gpu" for device in state.devices)
    return calendar.Node(
        id=node_id,
        name=state.name,
        labels=state.labels,
        schedulable=not state.reasons,
        layout=state.layout,
        devices=tuple(_as_atom(device) for device in state.devices),
        scalars=state.scalars,
        gpus=gpus,
    )


def _as_atom(device: Device) -> calendar.Atom:
    attributes: Mapping[str, object] = {
        name: value.value if isinstance(value, Version | Quantity) else value
        for name, value in device.attributes.items()
    }
    return calendar.Atom(
        id=device.id,
        class_=device.class_,
        attributes=attributes,
        gpu_product=device.gpu_product,
        gpu_model=device.gpu_model,
        memory_gb=device.memory_gb,
        numa_node=device.numa_node,
        nvlink_group=None if device.nvlink_group is None else str(device.nvlink_group),
        parent=device.parent,
        bookable=device.bookable,
    )
