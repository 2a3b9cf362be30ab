"""Who of a pool's queue is placed now, and who waits until when: backfill that starves nobody (domain.md §5).

The rule. Claims are looked at in their order. One that cannot be placed now is promised an instant and a place, its
guard, and everybody behind is placed around the guards of those ahead: whoever passes delays none of them. A guard
that was promised stays until its claim begins or a better one is found, so that no promise gets worse by planning
anew. Only what comes ahead in the order may take a guard's place: a claim of higher priority that is new to the queue.

What ended and is not given back counts, for guards alone, as free in a moment: its node is about to say so.
A claim that fits nowhere within a year gets no guard and is in nobody's way.

A claim that is not spot and would begin later than with a notice's delay may preempt spot (domain/preemption.py);
it does so around the guards of those ahead, as it is placed around them.

Pure: the calendar is left as it was found. The cost is bounded: a claim is tried at most three times, and a few more
where nodes owe scalars, at most GUARDS claims are guarded, at most SEARCHES times an earliest start is looked for, and
at most PREEMPTIONS times victims.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from msgspec import Struct

from domain import calendar, claim, placement, preemption, selector

GUARDS: Final = 16
SEARCHES: Final = 32
PREEMPTIONS: Final = 4
SLACK_MS: Final = 60_000
"""A promise moves only for more than this, and slips by no more before another place is looked for."""

GIVEN_BACK_MS: Final = 600_000
"""A device that its node has not given back for so long is not reckoned with."""

OWING: Final = 8
"""So many nodes that have to give back something are left out one by one, and then all of them."""

WITHIN_MS: Final = 366 * 86_400_000

Reason = Literal["NoCapacity", "QueueAhead"]


class Guard(Struct, frozen=True):
    """A place that is kept for a claim over `[start, until)` in epoch ms."""

    start: int
    until: int
    members: tuple[placement.Member, ...]


class Waiter(Struct, frozen=True):
    """A claim in the queue; `window` is `[start, until)` in epoch ms, were it placed now.

    A `movable` one keeps its duration when it starts later, another keeps its end. `planned` says that it was looked
    at before, and `guard` what it was promised then. `latest` is the last start (epoch ms) that its claim on quota
    covers.
    """

    id: str
    claim: claim.Claim
    window: tuple[int, int]
    movable: bool = True
    planned: bool = False
    guard: Guard | None = None
    spot: bool = False
    latest: int = calendar.FOREVER


class Verdict(Struct, frozen=True):
    """Placed now over `window`, past `ahead` who wait on; or it waits, and why.

    Where it preempts, `preempts` says whom. Where it was not `looked` for an earliest start, nothing is said of one.
    """

    id: str
    placed: placement.Placement | None
    ahead: int
    window: tuple[int, int]
    preempts: preemption.Preemption | None = None
    reason: Reason = "NoCapacity"
    detail: str = ""
    guard: Guard | None = None
    looked: bool = True


def plan(
    pool: calendar.Calendar,
    queue: Sequence[Waiter],
    now: int,
    selectors: selector.Selectors,
    *,
    seek: bool = True,
    notice_ms: int | None = None,
) -> list[Verdict]:
    """Decide for each claim of a queue that is given in its order.

    With `seek`, better starts are looked for where one was promised, and any where none was found before. `notice_ms`
    is what whoever is preempted has left; without it nobody is.
    """
    walk = _Walk(pool, now, selectors, seek, notice_ms)
    try:
        walk.give_back()
        alone = [walk.attempt(waiter) for waiter in queue]
        walk.keep(queue)
        pairs = enumerate(zip(queue, alone, strict=True))
        return [walk.decide(waiter, found, queue[place + 1 :]) for place, (waiter, found) in pairs]
    finally:
        walk.undo()


class _Walk:
    """One look at a queue: what it does to the calendar is undone at its end."""

    def __init__(
        self,
        pool: calendar.Calendar,
        now: int,
        selectors: selector.Selectors,
        seek: bool,
        notice_ms: int | None,
    ) -> None:
        self._pool = pool
        self._now = now
        self._selectors = selectors
        self._seek = seek
        self._notice = notice_ms
        self._shortened: list[calendar.Booking] = []
        self._owed: defaultdict[str, list[calendar.Booking]] = defaultdict(list)
        self._guards: dict[str, Guard] = {}
        self._placed: list[str] = []
        self._waiting = 0
        self._guarded = 0
        self._searches = SEARCHES
        self._preemptions = PREEMPTIONS

    def give_back(self) -> None:
        """What has ended is held for this moment only; nodes that take nothing are in nobody's way anyhow."""
        soon = self._now + 1
        for held in [self._pool.bookings[key] for key in self._pool.ended]:
            entry = self._pool.entries.get(held.node_id)
            lately = held.ended is not None and self._now - held.ended <= GIVEN_BACK_MS
            if lately and held.start < soon < held.until and entry is not None and entry.node.schedulable:
                self._pool.rebound(held.key, soon)
                self._shortened.append(held)
                self._owed[held.node_id].append(held)

    def attempt(self, waiter: Waiter) -> placement.Placement | placement.Refusal:
        """Place it in its window; it gets nothing that is not given back yet."""
        without: set[str] = set()
        while True:
            found = placement.place(self._pool, waiter.claim, waiter.window, waiter.id, self._selectors, without)
            if isinstance(found, placement.Refusal):
                return found
            owing = self._owing(found.members, waiter.window)
            if not owing:
                return found
            without |= owing if len(without) < OWING else set(self._owed)

    def _owing(self, members: Iterable[placement.Member], window: tuple[int, int]) -> set[str]:
        """The nodes on which it would have what has ended and is not given back: where it takes a device ahead of time
        all that owe anything, else those that owe scalars which it needs at some instant.
        """
        owing: set[str] = set()
        for member in members:
            held = self._owed.get(member.node_id, ())
            if window[0] > self._now and any(set(booking.atoms).intersection(member.atoms) for booking in held):
                return set(self._owed)
            for name, amount in member.scalars.items():
                owed = sum(booking.scalars.get(name, 0) for booking in held)
                if owed and amount + owed > self._left(member.node_id, name, window):
                    owing.add(member.node_id)
        return owing

    def _left(self, node_id: str, scalar: str, window: tuple[int, int]) -> int:
        """What is left of a scalar all through the window, from when all that has ended is reckoned as given back."""
        entry, gap = self._pool.entries[node_id], self._pool.gap_ms
        return self._pool.spare(entry, scalar, max(window[0], self._now + 1 + gap), window[1])

    def keep(self, queue: Iterable[Waiter]) -> None:
        """Hold what was promised before, in the order of the queue, as far as it still can be."""
        promised = [waiter for waiter in queue if waiter.guard is not None]
        for waiter in promised[:GUARDS]:
            assert waiter.guard is not None
            self._hold(waiter.id, self._settled(waiter, waiter.guard))

    def decide(
        self, waiter: Waiter, alone: placement.Placement | placement.Refusal, behind: Sequence[Waiter]
    ) -> Verdict:
        own = self._lift(waiter.id)
        found = self._around(waiter, alone, own)
        passed: list[tuple[Waiter, Guard]] = []
        if isinstance(found, placement.Refusal) and not waiter.planned:
            passed = [(other, guard) for other in behind if (guard := self._lift(other.id)) is not None]
            if passed:
                found = self._around(waiter, alone, own)
        verdict = self._waits(waiter, alone, own) if isinstance(found, placement.Refusal) else self._go(waiter, found)
        for other, guard in passed:
            self._hold(other.id, self._settled(other, guard))
        return verdict

    def undo(self) -> None:
        for key in [*self._placed, *(key for id, guard in self._guards.items() for key in _keys(id, guard))]:
            self._pool.unbook(key)
        for held in self._shortened:
            self._pool.unbook(held.key)
            self._pool.restore(held)

    def _around(
        self, waiter: Waiter, alone: placement.Placement | placement.Refusal, own: Guard | None
    ) -> placement.Placement | placement.Refusal:
        """Its place between all others: its own where that is due, and whom an empty queue leaves out gets none."""
        due = own is not None and own.start == waiter.window[0] <= self._now
        if own is not None and due and not self._owing(own.members, waiter.window):
            return placement.Placement(own.members)
        if isinstance(alone, placement.Refusal) or not (self._guards or self._placed):
            return alone
        return self.attempt(waiter)

    def _go(self, waiter: Waiter, found: placement.Placement) -> Verdict:
        self._placed += self._book("placed", waiter.id, Guard(*waiter.window, found.members))
        return Verdict(waiter.id, found, self._waiting, waiter.window)

    def _waits(self, waiter: Waiter, alone: placement.Placement | placement.Refusal, own: Guard | None) -> Verdict:
        looked, guard = self._promise(waiter, own)
        if (taken := self._preempt(waiter, guard, looked)) is not None:
            self._placed += self._book("placed", waiter.id, Guard(*taken.window, taken.placed.members))
            return Verdict(waiter.id, taken.placed, self._waiting, taken.window, taken)
        self._hold(waiter.id, guard)
        self._guarded += guard is not None
        ahead = self._waiting
        self._waiting += 1
        reason: Reason = "QueueAhead"
        said = "it would fit, but for those who are ahead of it or were promised that place"
        if isinstance(alone, placement.Refusal):
            reason, said = alone.reason, alone.message
        return Verdict(waiter.id, None, ahead, waiter.window, None, reason, said, guard, looked)

    def _preempt(self, waiter: Waiter, guard: Guard | None, looked: bool) -> preemption.Preemption | None:
        """Only where it would begin later otherwise, and not in every walk for one that is known to wait.

        One that fits nowhere even when all has ended is not helped by ending some.
        """
        tried = waiter.planned and not self._seek
        vain = guard is None and (waiter.movable or not looked)
        if self._notice is None or waiter.spot or tried or vain or not self._preemptions or not self._pool.spots:
            return None
        start, until = waiter.window
        soonest = max(start, self._now + self._notice + self._pool.gap_ms)
        if waiter.movable:
            until += soonest - start
        if soonest >= until or soonest > waiter.latest or (guard is not None and guard.start <= soonest):
            return None
        self._preemptions -= 1
        return preemption.find(self._pool, waiter.claim, (soonest, until), waiter.id, self._selectors)

    def _promise(self, waiter: Waiter, own: Guard | None) -> tuple[bool, Guard | None]:
        """Whether a start was looked for or is known, and the guard: the one that it has unless a better is found."""
        if self._guarded >= GUARDS:
            return False, None
        hopeless = waiter.planned and waiter.guard is None
        if (own is not None or hopeless) and not self._seek:
            return own is not None, own
        if not self._searches:
            return own is not None, own
        self._searches -= 1
        return True, self._sought(waiter, own) or own

    def _sought(self, waiter: Waiter, own: Guard | None) -> Guard | None:
        start, until = waiter.window
        duration = until - start if waiter.movable else None
        ends_at = calendar.FOREVER if waiter.movable else until
        latest = start + WITHIN_MS if own is None else own.start - SLACK_MS
        if latest < start:
            return None
        found = placement.earliest_start(
            self._pool, waiter.claim, duration, start, latest, self._selectors, ends_at=ends_at
        )
        if found is None:
            return None
        window = (found, found + duration if duration is not None else until)
        placed = placement.place(self._pool, waiter.claim, window, waiter.id, self._selectors)
        return None if isinstance(placed, placement.Refusal) else Guard(*window, placed.members)

    def _settled(self, waiter: Waiter, guard: Guard) -> Guard | None:
        """The guard where it was promised, as soon after its start as it can be; None where that is no place now."""
        known = ((member, self._pool.entries.get(member.node_id)) for member in guard.members)
        parts = [(member, entry) for member, entry in known if entry is not None and _stands(member, entry)]
        if len(parts) < len(guard.members):
            return None
        start = max(guard.start, waiter.window[0])
        latest, gap = start + SLACK_MS, self._pool.gap_ms
        duration = waiter.window[1] - waiter.window[0]
        while start <= latest:
            until = start + duration if waiter.movable else waiter.window[1]
            if start >= until:
                return None
            if all(self._free(member, entry, start, until) for member, entry in parts):
                return Guard(start, until, guard.members)
            start = min(entry.timeline.next_change(start - gap) for _, entry in parts) + gap
        return None

    def _free(self, member: placement.Member, entry: calendar.Entry, start: int, until: int) -> bool:
        mask = entry.mask(member.atoms)
        if self._pool.free(entry, start, until) & mask != mask:
            return False
        return all(self._pool.spare(entry, name, start, until) >= n for name, n in member.scalars.items())

    def _hold(self, id: str, guard: Guard | None) -> None:
        if guard is not None:
            self._guards[id] = guard
            self._book("guard", id, guard)

    def _lift(self, id: str) -> Guard | None:
        guard = self._guards.pop(id, None)
        for key in _keys(id, guard) if guard is not None else ():
            self._pool.unbook(key)
        return guard

    def _book(self, kind: str, id: str, guard: Guard) -> list[str]:
        keys = _keys(id, guard, kind)
        for key, member in zip(keys, guard.members, strict=True):
            self._pool.book(key, member.node_id, member.atoms, member.scalars, guard.start, guard.until)
        return keys


def _keys(id: str, guard: Guard, kind: str = "guard") -> list[str]:
    return [f"{kind}_{id}/{n}" for n in range(len(guard.members))]


def _stands(member: placement.Member, entry: calendar.Entry) -> bool:
    """Whether the node takes bookings, in the layout that the place was chosen in."""
    same = entry.node.schedulable and entry.node.layout == member.layout
    return same and entry.mask(member.atoms).bit_count() == len(member.atoms)
