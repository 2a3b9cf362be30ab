"""The life of a reservation: its states, the legal moves, and which verbs each state takes (domain.md §5)."""

from collections.abc import Mapping
from typing import Final

from domain import errors
from domain.reservation import State, Status

MOVES: Final[Mapping[Status, tuple[Status, ...]]] = {
    "draft": ("denied", "awaiting-confirmation", "pending", "placed", "cancelled", "expired"),
    "awaiting-confirmation": ("pending", "placed", "denied", "cancelled", "expired"),
    "pending": ("placed", "cancelled", "expired", "failed"),
    "placed": ("binding", "pending", "cancelled", "expired", "failed"),
    "binding": ("active", "releasing", "failed"),
    "active": ("releasing", "failed"),
    "releasing": ("released", "failed"),
    "denied": (),
    "released": (),
    "failed": (),
    "cancelled": (),
    "expired": (),
}
VERBS: Final[Mapping[str, tuple[Status, ...]]] = {
    "confirm": ("awaiting-confirmation",),
    "cancel": ("draft", "awaiting-confirmation", "pending", "placed", "binding"),
    "release": ("binding", "active"),
    "extend": ("placed", "binding", "active"),
    "renew": ("active",),
}
"""The states in which each verb is legal (domain.md §5)."""
FINAL: Final = frozenset(state for state, following in MOVES.items() if not following)


def must_be_its_own(state: State) -> None:
    """What came with an instance is the instance's: no verb of a tenant ends or moves it."""
    if state.draft is not None and state.draft.instance_id is not None and state.status not in FINAL:
        raise errors.Conflict(
            "it came with an instance, and ends with it: delete the instance",
            extra={"instanceId": state.draft.instance_id},
        )


def must_take(state: State, verb: str) -> None:
    """Refuse a verb that the state does not take, naming those that it does."""
    if state.status not in VERBS[verb]:
        legal = [name for name, states in VERBS.items() if state.status in states]
        raise errors.IllegalTransition(state.status, verb, legal, final=state.status in FINAL)


def lacking(state: State) -> int:
    """How many members of a bound gang were lost and are not placed again."""
    if state.draft is None or state.status not in ("binding", "active"):
        return 0
    return state.draft.claim.nodes - len(state.allocations)


def prepared(state: State) -> bool:
    """Whether every node has prepared its part, and none is lacking."""
    return bool(state.allocations) and not lacking(state) and all(a.prepared for a in state.allocations)
