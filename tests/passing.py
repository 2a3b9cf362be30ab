"""Time that passes for one reservation, as the clock of a store that is ahead has it."""

from typing import Any

from adapters.postgres.leases import Lease
from commands.controllers import timekeeper
from domain.event import Fence
from given import Plane

MINUTE = 60_000
HOUR = 60 * MINUTE


class Ahead:
    """The plane's store some milliseconds later."""

    def __init__(self, store: Any, by: int) -> None:
        self._store = store
        self._by = by

    def now(self) -> int:
        return int(self._store.now()) + self._by

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def take_over(plane: Plane) -> Fence:
    """The plane's own worker stands still; the test is the controller."""
    plane.wired.worker.stop()
    lease = Lease(plane.wired.reads, "singleton:reservations", "test")
    assert lease.tick()
    assert lease.fence is not None
    return lease.fence


def pass_time(plane: Plane, made: Any, by: int, fence: Fence, back_at: int = 0) -> Any:
    timekeeper.step(Ahead(plane.store, by), made["id"], fence, back_at)
    return plane.acme.ok("GET", f"/v1/reservations/{made['id']}")


def activate(plane: Plane, made: Any, fence: Fence) -> Any:
    """Its start has come, and its nodes have prepared it."""
    bound = pass_time(plane, made, 0, fence)
    for allocation in bound["allocations"]:
        plane.report(allocation["nodeId"])
    shown = plane.acme.ok("GET", f"/v1/reservations/{made['id']}")
    assert shown["state"] == "active"
    return shown
