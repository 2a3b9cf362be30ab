"""What an instance learns of others: its reservation has ended, its node is silent; what it leaves (domain.md §6)."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from commands.acting import act, following
from commands.instance_consoles import Consoles
from commands.ports import Loaded, Store, UserData
from domain import instance, node, reservation, reservation_life
from domain.event import Change, Fence, Seen

JOB: Final = "instances"
SILENT: Final = {"unreachable": "NodeUnreachable", "lost": "NodeLost"}
ORPHAN_MS: Final = 60 * 60_000
"""User data is kept before its instance is recorded: what has none for so long never will have."""


class Kept(Struct, frozen=True):
    """What instances have beside the log."""

    user_data: UserData
    consoles: Consoles


def settle(store: Store, kept: Kept, reservation_id: str, fence: Fence) -> int | None:
    """The instance of a reservation that has ended ends too. Its console is there until it is deleted."""
    before = store.load(reservation_id)

    def decide() -> Sequence[Change]:
        return _settled(store, reservation_id, store.now())

    position = act(store, following(f"controller:{JOB}", before.state.admission_id, before), decide, fence)
    if before.state.instance_id is not None:
        let_go(store, kept, [before.state.instance_id], [before.state.instance_id])
    return position


def _settled(store: Store, reservation_id: str, now: int) -> list[Change]:
    loaded = store.load(reservation_id)
    state: reservation.State = loaded.state
    if state.instance_id is None or state.status not in reservation_life.FINAL:
        return []
    of = store.load(state.instance_id)
    detached = Change(reservation_id, loaded.version, (reservation.InstanceDetached(state.instance_id, now),))
    ended = end(of.state, state, now)
    return [detached] if ended is None else [detached, Change(state.instance_id, of.version, (ended,))]


def end(on: instance.State, of: reservation.State, now: int) -> instance.Events | None:
    """How it ends with its reservation; None where it has ended, or never was.

    What its tenant wants deleted is, and so is what ran on a reservation made before it; else it has failed.
    """
    if on.draft is None or on.ended_at is not None:
        return None
    reason = of.reason or of.status.capitalize()
    if on.desired == "deleted":
        return instance.Deleted(on.reason or reason, now)
    return instance.Failed(reason, now) if on.draft.owned else instance.Deleted(reason, now)


def hush(store: Store, node_id: str, fence: Fence) -> int | None:
    """Nobody knows what the instances of a silent node do."""

    def decide() -> Sequence[Change | Seen]:
        loaded = store.load(node_id)
        state: node.State = loaded.state
        reason = SILENT.get(state.connectivity)
        if reason is None or not state.instances:
            return []
        streams = [one.id for one in state.instances]
        now = store.now()
        unheard = [
            Change(id, of.version, (instance.Unheard(reason, now),))
            for id, of in zip(streams, store.load_all(streams), strict=True)
            if _was_heard(of.state, node_id)
        ]
        return [*unheard, Seen(node_id, loaded.version)]

    cause = store.load(node_id)
    return act(store, following(f"controller:{JOB}", cause.state.admission_id, cause), decide, fence)


def _was_heard(on: instance.State, node_id: str) -> bool:
    return on.node_id == node_id and on.ended_at is None and on.status not in ("unknown", "deleting")


def let_go(store: Store, kept: Kept, with_user_data: Sequence[str], with_console: Sequence[str]) -> None:
    """Delete what instances that are over have left, of those that may be: the log says which are."""
    streams = sorted({*with_user_data, *with_console})
    known = dict(zip(streams, store.load_all(streams), strict=True)) if streams else {}
    for id in with_user_data:
        if _over(known[id]):
            kept.user_data.drop(id)
    gone = [id for id in with_console if not known[id].version or known[id].state.status == "deleted"]
    if gone:
        kept.consoles.drop(gone)


def _over(loaded: Loaded) -> bool:
    """It has ended, or there is no such instance."""
    return loaded.version == 0 or loaded.state.ended_at is not None
