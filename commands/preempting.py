"""Spot gives way to a claim: the victims' part of the append that books what they have (domain.md §5, Spot).

Neither stream names the other: the victims' changes say who caused them, for the auditor alone.
"""

from collections.abc import Callable

from commands.ports import Loaded, Race
from domain import preemption, reservation
from domain.event import Change, Meta

ACTOR = "controller:scheduler"


def changes(
    load: Callable[[str], Loaded], taken: preemption.Preemption, now: int, admission: str | None, causation: str | None
) -> list[Change]:
    """A victim that has begun, or begins before its new end, ends there; one that would begin later waits again.

    One that ends early enough by now is left as it is. Raises Race where one holds on in another way than it did.
    """
    meta = Meta(ACTOR, admission, causation)
    changed = [_change(victim, load(victim), taken.ends_at, now, meta) for victim in sorted(taken.victims)]
    return [change for change in changed if change.events]


def _change(victim: str, loaded: Loaded, ends_at: int, now: int, meta: Meta) -> Change:
    state: reservation.State = loaded.state
    if state.draft is None or state.starts_at is None or state.ends_at is None or not state.draft.spot:
        raise Race(f"{victim} is not what it was")
    events: tuple[reservation.Events, ...] = ()
    if state.status not in ("placed", "binding", "active"):
        return Change(victim, loaded.version, events, meta)
    if state.status == "placed" and state.starts_at >= ends_at:
        events = (_again(state, state.draft),)
    elif state.ends_at > ends_at:
        events = (reservation.Preempted(state.draft.pool_id, now, ends_at),)
    return Change(victim, loaded.version, events, meta)


def _again(state: reservation.State, draft: reservation.Drafted) -> reservation.Queued:
    """With its priority, age, quota and window: it may find another place (docs/decisions/0017)."""
    assert state.ends_at is not None
    return reservation.Queued(
        pool_id=draft.pool_id,
        priority=state.priority,
        spot=True,
        since=state.since,
        reason="Preempted",
        give_up_at=state.ends_at,
    )
