"""Nodes that fall silent, by a clock that the test moves."""

from adapters.watch import NodeWatch
from commands import agents
from given import Plane


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Watched:
    """The plane with a watch whose clock the test moves."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        plane.wired.watch.stop()
        self.clock = Clock()
        self.watch = NodeWatch(plane.store, plane.wired.reads, plane.wired.mint, self.clock)

    def silence(self, node_id: str) -> None:
        session = self.plane.store.load(node_id).state.session
        agents.end_session(self.plane.store, node_id, session, "unreachable")
        self.plane.settle()

    def age(self, node_id: str, ms: int) -> None:
        """Nobody reported for so long."""
        self.plane.rows(
            "UPDATE node_sightings SET inventory_at = inventory_at - %s WHERE node_id = %s RETURNING 1", ms, node_id
        )

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.now += 1
            self.watch.tick()
        self.plane.settle()
