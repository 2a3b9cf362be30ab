"""Where a claim would go in a pool's calendar as it is, by the rule of the pool's queue; nothing is held."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Literal

from msgspec import Struct

from domain import asking, calendar, placement, pool, queueing, reservation, waiting
from queries.reading import Reader

EARLIEST_WITHIN_MS: Final = 366 * 86_400_000


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
    reason: Literal["NoCapacity", "QueueAhead"] | None = None
    said: str = ""
    ahead: int = 0
    preempts: int = 0


_AHEAD: Final = """
SELECT reservation_id FROM pool_queue WHERE pool_id = %s AND (spot, -priority, since) < (%s, %s, %s)
ORDER BY spot, priority DESC, since, reservation_id LIMIT %s
"""


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
    wanted = (pool_id, spot, -priority, read.now, waiting.AHEAD + 1)
    found = [id for (id,) in read.connection.execute(_AHEAD, wanted).fetchall()]
    if len(found) > waiting.AHEAD:
        return len(found), []
    return len(found), waiting.line([(id, read.load(id).state) for id in found], read.now)


def fit(read: Reader, known: calendar.Calendar, place: Place, of: pool.State) -> Fit:
    """As a create finds out: at once where nobody is ahead, else by the rule, which may preempt spot."""
    draft = place.draft
    window = asking.at_once(draft, read.now)
    with _left_out(known, place.without):
        found = placement.place(known, draft.claim, window, place.seed, read.ahead.selectors)
        fits = isinstance(found, placement.Placement)
        if isinstance(found, placement.Placement) and not place.ahead:
            return Fit(members=_members(known, found), window=window, earliest=window[0])
        ruled = place.ahead or (known.spots and not draft.spot)
        if ruled and place.ahead <= waiting.AHEAD:
            own = queueing.Waiter(place.seed, draft.claim, window, draft.starts_at is None, spot=draft.spot)
            notice_ms = of.policy.spot_notice_seconds * 1000
            told = queueing.plan(
                known, [*place.queue, own], read.now, read.ahead.selectors, seek=False, notice_ms=notice_ms
            )
            return _by_rule(known, told[-1], place.ahead)
        said = "" if isinstance(found, placement.Placement) else found.message
        earliest = None if fits else _earliest(read, known, draft, window)
    return Fit(
        window=window,
        earliest=earliest,
        reason="QueueAhead" if fits else "NoCapacity",
        said=said,
        ahead=place.ahead,
    )


def _by_rule(known: calendar.Calendar, told: queueing.Verdict, ahead: int) -> Fit:
    if told.placed is None:
        earliest = told.guard.start if told.guard is not None else None
        return Fit(window=told.window, earliest=earliest, reason=told.reason, said=told.detail, ahead=ahead)
    victims = told.preempts.victims if told.preempts is not None else ()
    return Fit(
        members=_members(known, told.placed),
        window=told.window,
        earliest=told.window[0],
        ahead=ahead,
        preempts=len(victims),
    )


def _earliest(read: Reader, known: calendar.Calendar, draft: reservation.Drafted, window: asking.Window) -> int | None:
    latest = window[0] + EARLIEST_WITHIN_MS
    return placement.earliest_start(known, draft.claim, window[1] - window[0], window[0], latest, read.ahead.selectors)


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
