"""The instants of a reservation's life: when it gives notice, when its lease lapses, what is due next (domain.md §5).

Instants are epoch ms of the database's clock.
"""

from typing import Final

from domain.reservation import Activated, Ending, Events, State

NOTICE_MS: Final = 60 * 60_000
DRAFT_MS: Final = 15 * 60_000
"""How long a draft that is stored waits to be decided on, a reservation's or an extension's."""
DRAFTS: Final = 100
"""How many of them an identity may have open."""
CONFIRM_MS: Final = 30 * 60_000
OPEN_END: Final = 253_402_300_799_000
"""The end of what has none: the end of the year 9999, beyond every other instant. Bookings, quota and queue reckon with
it as with any other; only where an end is shown, and in budgets, it is told apart."""


def shown_end(ends_at: int | None) -> int | None:
    """An end as it is told: None of what has none, or not yet."""
    return None if ends_at is None or ends_at >= OPEN_END else ends_at


def notice_at(state: State) -> int | None:
    """When its tenant is told of its end; None where that was done, or is not to be done yet."""
    if state.status != "active" or state.ends_at is None or state.ending is not None:
        return None
    return state.ends_at - NOTICE_MS


def activation(state: State, now: int) -> list[Events]:
    """It is active; one that ends within the time of notice is told at once."""
    short = state.ends_at is not None and state.ends_at - NOTICE_MS <= now
    if state.ends_at is None or state.ending is not None or not short:
        return [Activated(now)]
    return [Activated(now), Ending(state.ends_at, "Ended")]


def lapses_at(state: State, back_at: int = 0) -> int | None:
    """When its allocation lease lapses; None where it has none.

    `back_at` is when the controller came back that watches over leases: whoever could not renew meanwhile, because
    the platform was away, has a whole period from then.
    """
    seconds = state.draft.lease_seconds if state.draft else None
    if state.status != "active" or seconds is None or state.lease_until is None:
        return None
    return max(state.lease_until, back_at + seconds * 1000)


def lapses(state: State, now: int, back_at: int = 0) -> bool:
    deadline = lapses_at(state, back_at)
    return deadline is not None and deadline <= now


def end_reason(state: State) -> str:
    """Why it ends at its end: the notice's reason, where it is of this end."""
    told = state.ending
    return told.reason if told is not None and told.at == state.ends_at else "Ended"
