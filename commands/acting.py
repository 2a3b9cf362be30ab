"""How agents and controllers write: decide on fresh state, append, and again when another came between."""

from collections.abc import Callable, Sequence
from typing import Final

from commands.ports import Loaded, NodeClosed, QueueAhead, Race, Store
from domain.event import Append, Change, Fence, Meta, Seen

ATTEMPTS: Final = 6

Decide = Callable[[], Sequence[Change | Seen]]


def following(actor: str, admission: str | None, cause: Loaded) -> Meta:
    """What acts because of a stream's last event: that event is the cause, its request the correlation."""
    return Meta(actor, admission, cause.event_id, cause.correlation)


def act(store: Store, meta: Meta, decide: Decide, fence: Fence | None = None) -> int | None:
    """Append what `decide` comes to, and return the position; None when there was nothing to do.

    Raises Race when others kept coming between; whoever calls comes again by itself. NodeClosed and QueueAhead are
    raised at once: deciding the same again would not help.
    """
    for attempt in range(ATTEMPTS):
        decided = decide()
        changes = tuple(one for one in decided if isinstance(one, Change) and one.events)
        if not changes:
            return None
        try:
            return store.append(Append(changes, meta, fence, tuple(one for one in decided if isinstance(one, Seen))))
        except (NodeClosed, QueueAhead):
            raise
        except Race:
            if attempt == ATTEMPTS - 1:
                raise
    return None
