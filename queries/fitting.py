"""Where a claim would go in a pool's calendar as it is, by the rule of the pool's queue; nothing is held."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct

from domain import asking, calendar, placement, pool, queueing, reservation, waiting
from queries.reading import Reader


class Member(Struct, frozen=True, rename="camel"):
    """One node of the gang and what the claim would have there."""

    node_id: str
    node_name: str
    atoms: tuple[str, ...]
    scalars: dict[str, int]


class Fit(Struct, frozen=True, kw_only=True):
    """`members` over `window` (epoch ms), or the `reason` to wait, said in words.

    `ahead` are those of the queue who come before it, `preempts` how many spot reservations would give way.
    """

    members: tuple[Member, ...] = ()
    window: asking.Window
    earliest: int | None
    reason: queueing.Reason | None = None
    said: str = ""
    ahead: int = 0
    preempts: int = 0


class Place(Struct, frozen=True, kw_only=True):
    """A claim that is to be fitted: the draft, the seed of its choices, the nodes that are left out.

    `ahead` is how many come before it in the queue, which is not read where they are more than the rule looks at.
    """

    draft: reservation.Drafted
    seed: str
    ahead: int
    queue: Sequence[queueing.Waiter]
    without: Sequence[str]


def ahead(read: Reader, pool_id: str, *, spot: bool, priority: int) -> tuple[int, list[queueing.Waiter]]:
    """Those of the pool's queue that a create would find before it; counted to one more than the rule looks at."""
    found = read.ahead.queue(pool_id, (spot, priority, read.now), waiting.AHEAD + 1)
    if len(found) > waiting.AHEAD:
        return len(found), []
    return len(found), waiting.line([(id, read.load(id).state) for id in found], read.now)


def fit(read: Reader, known: calendar.Calendar, place: Place, of: pool.State) -> Fit:
    """As a create finds out: at once where nobody is ahead, else by the rule, which may preempt spot."""
    draft, selectors = place.draft, read.ahead.selectors
    window = asking.at_once(draft, read.now)
    with _left_out(known, place.without):
        found = placement.place(known, draft.claim, window, place.seed, selectors)
        if isinstance(found, placement.Placement) and not place.ahead:
            return Fit(members=_members(known, found), window=window, earliest=window[0])
        if place.ahead > waiting.AHEAD:
            fits = isinstance(found, placement.Placement)
            said = "" if isinstance(found, placement.Placement) else found.message
            reason: queueing.Reason = "QueueAhead" if fits else "NoCapacity"
            return Fit(window=window, earliest=None, reason=reason, said=said, ahead=place.ahead)
        own = queueing.Waiter(place.seed, draft.claim, window, draft.starts_at is None, spot=draft.spot)
        notice_ms = of.policy.spot_notice_seconds * 1000
        told = queueing.plan(known, [*place.queue, own], read.now, selectors, seek=False, notice_ms=notice_ms)[-1]
        return _by_rule(read, known, draft, told, place.ahead)


def _by_rule(
    read: Reader, known: calendar.Calendar, draft: reservation.Drafted, told: queueing.Verdict, ahead: int
) -> Fit:
    if told.placed is None:
        earliest = told.guard.start if told.guard is not None else None
        if draft.starts_at is not None:
            earliest = _moved(read, known, draft)
        return Fit(window=told.window, earliest=earliest, reason=told.reason, said=told.detail, ahead=ahead)
    victims = told.preempts.victims if told.preempts is not None else ()
    return Fit(
        members=_members(known, told.placed),
        window=told.window,
        earliest=told.window[0],
        ahead=ahead,
        preempts=len(victims),
    )


def _moved(read: Reader, known: calendar.Calendar, draft: reservation.Drafted) -> int | None:
    """When a claim with a start of its own would have room for all of its duration."""
    start, until = asking.at_once(draft, read.now)
    latest = start + queueing.WITHIN_MS
    return placement.earliest_start(known, draft.claim, until - start, start, latest, read.ahead.selectors)


def _members(known: calendar.Calendar, found: placement.Placement) -> tuple[Member, ...]:
    return tuple(
        Member(one.node_id, known.entries[one.node_id].node.name, one.atoms, dict(one.scalars)) for one in found.members
    )


@contextmanager
def _left_out(known: calendar.Calendar, without: Sequence[str]) -> Iterator[None]:
    """The nodes are gone from the pool while its calendar is held still; their bookings stay known."""
    nodes = [known.entries[id].node for id in dict.fromkeys(without) if id in known.entries]
    for node in nodes:
        known.remove_node(node.id)
    try:
        yield
    finally:
        for node in nodes:
            known.put_node(node)
