"""When silence becomes loss: unreachable nodes, and what a lost node takes with it (domain.md §3, §5)."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from commands import evacuating, reconciling
from commands.acting import act, following
from commands.gathering import Gathered
from commands.ports import Store
from domain import node, schedulability
from domain.event import Change, Fence

JOB: Final = "liveness"


class Silence(NamedTuple):
    """A node that is unreachable: the epoch of the session that fell silent, and its pool's `lostAfter` in seconds."""

    session: int
    lost_after: float


class Watch:
    """Who has been silent for how long, on this watcher's own monotonic clock; no other clock is asked.

    A node is lost when every look for a whole `lostAfter` saw the same session silent. Looks must come at least
    every quarter of that time: after a late one, or a `start_over`, the time begins anew, for it was the watcher
    that was not there.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._since: dict[str, tuple[int, float]] = {}
        self._looked: float | None = None

    def start_over(self) -> None:
        self._since.clear()
        self._looked = None

    def look(self, silent: Mapping[str, Silence]) -> list[str]:
        """The nodes whose time is over, of those that are silent now."""
        now = self._monotonic()
        gap = 0.0 if self._looked is None else now - self._looked
        self._looked = now
        since: dict[str, tuple[int, float]] = {}
        for node_id, silence in silent.items():
            known = self._since.get(node_id)
            goes_on = known is not None and known[0] == silence.session and gap <= silence.lost_after / 4
            since[node_id] = known if known is not None and goes_on else (silence.session, now)
        self._since = since
        return [id for id, (_, began) in since.items() if now - began >= silent[id].lost_after]


def lose(store: Store, node_id: str, session: int, fence: Fence) -> int | None:
    """Record that a node is lost, unless it came back.

    What has a place there is placed again; a reservation of this node alone fails as NodeLost, its atoms stay taken
    until the node tears down, is fenced or retired (O33). A gang that is bound loses this one member.
    """

    def decide() -> Sequence[Change]:
        gathered, now = Gathered(store), store.now()
        loaded = gathered.load(node_id)
        state: node.State = loaded.state
        if (state.session, state.connectivity) != (session, "unreachable"):
            return []
        lost: list[node.Events] = [
            node.ConnectivityChanged("lost", session, now),
            *reconciling.broken(state, "NodeLost", now),
        ]
        gathered.add([Change(node_id, loaded.version, tuple(schedulability.settle(state, lost, now)))])
        evacuating.leave(store.carried(node_id), node_id, gathered, "NodeLost", now)
        return gathered.changes()

    cause = store.load(node_id)
    return act(store, following(f"controller:{JOB}", cause.state.admission_id, cause), decide, fence)
