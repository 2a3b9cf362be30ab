"""How bookings follow from events: the rules that the append runs in SQL (`projections.bookings`), in memory.

They are told of allocations, whose devices change together but for their ends. `tests/projections/test_past.py` holds
the two together. A device stays on its node while something is booked on it (decisions/0026).
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence, Set
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from domain import node, reservation
from domain.event import Event, Recorded
from projections.versions import Versions

FOR_EVER: Final = (1 << 63) - 1

Span = tuple[int, int | None]


class Held(Struct, frozen=True):
    """An allocation's devices and scalars, by when they are booked (epoch ms)."""

    reservation_id: str | None
    node_id: str
    pool_id: str
    tenant_id: str
    bound: bool
    ended: bool
    freed: bool
    atoms: dict[str, Span]
    scalars: dict[str, tuple[int, int, int | None]]

    @property
    def unproved(self) -> bool:
        return self.ended and not self.freed

    @property
    def starts_at(self) -> int:
        return min((start for start, _ in self.atoms.values()), default=FOR_EVER)

    @property
    def matters_until(self) -> int:
        """From when on it is in no other's way, and will not be again."""
        if not self.freed:
            return FOR_EVER
        ends = [until for *_, until in (*self.atoms.values(), *self.scalars.values())]
        return max((FOR_EVER if until is None else until for until in ends), default=0)


def devices(id: str, atoms: Sequence[str]) -> Sequence[str]:
    """What is booked for an allocation or a plan: its devices, or where it takes none its own id in their place."""
    return atoms or (id,)


def is_booked(planned: node.MaintenancePlanned) -> bool:
    """On a node without a pool there is nothing to keep from anybody."""
    return bool(planned.plan.atoms) or planned.pool_id is not None


class Books:
    """What is booked on the nodes of a batch."""

    def __init__(self) -> None:
        self.versions: Versions[Held] = Versions()
        self._of: dict[str, set[str]] = defaultdict(set)
        self._on: dict[str, set[str]] = defaultdict(set)
        self._indexed: set[str] = set()

    def know(self, id: str, since: int, held: Held) -> None:
        self.versions.know(id, since, held)
        self._index(id, held)

    def _index(self, id: str, held: Held) -> None:
        """Once: whose it is and what it has never changes."""
        if id in self._indexed:
            return
        self._indexed.add(id)
        if held.reservation_id is not None:
            self._of[held.reservation_id].add(id)
        self._on[held.node_id].add(id)

    def put(self, id: str, held: Held | None, position: int) -> None:
        self.versions.put(id, held, position)
        if held is not None:
            self._index(id, held)

    def of(self, reservation_id: str) -> list[tuple[str, Held]]:
        return self._there(self._of[reservation_id])

    def beside(self, node_id: str, without: Collection[str]) -> list[tuple[str, Held]]:
        """What else is booked on the node."""
        return self._there(self._on[node_id].difference(without))

    def _there(self, ids: Collection[str]) -> list[tuple[str, Held]]:
        return [(id, held) for id in sorted(ids) if (held := self.versions.get(id)) is not None]


def following(others: Collection[tuple[str, Held]], device: str, after: int) -> int | None:
    """When the next of these bookings of the device begins."""
    starts = (held.atoms[device][0] for _, held in others if device in held.atoms)
    return min((start for start in starts if start > after), default=None)


def fold(books: Books, recorded: Recorded) -> None:
    stream, position = recorded.stream, recorded.position
    match recorded.event:
        case node.MaintenancePlanned(plan=plan) as event if is_booked(event):
            during: dict[str, Span] = dict.fromkeys(devices(plan.id, plan.atoms), (plan.from_, plan.until))
            made = Held(None, stream, event.pool_id or "", event.owner_tenant_id, False, False, False, during, {})
            books.put(plan.id, made, position)
        case node.PlanEnded(id=id, at=at):
            _end_plan(books, id, at, position)
        case reservation.Placed() as event:
            for taken in event.allocations:
                _place(books, recorded, event, taken, bound=False)
        case reservation.MemberPlaced() as event:
            _place(books, recorded, event, event.allocation, bound=True)
        case reservation.Extended() as event:
            _move_end(books, stream, event, position)
        case reservation.Preempted(ends_at=ends_at):
            for id, held in books.of(stream):
                books.put(id, _cut(held, ends_at), position)
        case reservation.MemberLost(allocation_id=lost):
            _hold(books, stream, position, lost)
        case reservation.BindingStarted():
            for id, held in books.of(stream):
                books.put(id, replace(held, bound=True), position)
        case reservation.ReleaseStarted() | reservation.Failed(began=True):
            _hold(books, stream, position)
        case reservation.TornDown(allocation_id=id, at=at):
            _tear_down(books, id, at, position)
        case reservation.Queued() | reservation.Failed() | reservation.Cancelled() | reservation.Expired():
            _drop(books, [id for id, _ in books.of(stream)], position)
        case _:
            pass


def _place(
    books: Books,
    recorded: Recorded,
    event: reservation.Placed | reservation.MemberPlaced,
    taken: reservation.Allocation,
    *,
    bound: bool,
) -> None:
    during = (event.starts_at, event.ends_at)
    made = Held(
        recorded.stream,
        taken.node_id,
        event.pool_id,
        event.tenant_id,
        bound,
        False,
        False,
        dict.fromkeys(devices(taken.id, taken.atoms), during),
        {resource: (amount, *during) for resource, amount in taken.scalars.items() if amount},
    )
    books.put(taken.id, made, recorded.position)


Ends = Callable[[int, int | None], int | None]
"""Where a booking ends, by where it begins and ended."""


def _ending(held: Held, atoms: Ends | None, scalars: Ends | None) -> Held:
    if atoms is not None:
        held = replace(held, atoms={d: (start, atoms(start, end)) for d, (start, end) in held.atoms.items()})
    if scalars is not None:
        moved = {of: (amount, start, scalars(start, end)) for of, (amount, start, end) in held.scalars.items()}
        held = replace(held, scalars=moved)
    return held


def _move_end(books: Books, stream: str, event: reservation.Extended, position: int) -> None:
    def moved(start: int, end: int | None) -> int:
        return max(start + 1, event.ends_at)

    mine = dict(books.of(stream))
    for id in {*mine, *event.allocations}:
        held = books.versions.get(id)
        if held is not None:
            atoms = moved if id in mine and not held.ended else None
            books.put(id, _ending(held, atoms, moved if id in event.allocations else None), position)


def _cut(held: Held, ends_at: int) -> Held:
    """What is preempted ends early, if it would have ended later."""

    def cut(start: int, end: int | None) -> int | None:
        return max(start + 1, ends_at) if end is not None and end > ends_at else end

    return _ending(held, None if held.ended else cut, cut)


def _hold(books: Books, stream: str, position: int, lost: str | None = None) -> None:
    """Until proved free a device is held: to its next booking, else for ever."""
    for id, held in books.of(stream):
        if held.freed or held.ended or id != (lost or id):
            continue
        others = books.beside(held.node_id, (id,))
        until = {device: (start, following(others, device, start)) for device, (start, _) in held.atoms.items()}
        books.put(id, replace(held, ended=True, atoms=until), position)
    for id, held in books.of(stream):
        if held.unproved and held.atoms:
            books.put(id, _ending(held, None, lambda start, end: None), position)


def _tear_down(books: Books, id: str, at: int, position: int) -> None:
    """What ended before and is not proved free goes on holding a device from here."""
    held = books.versions.get(id)
    if held is None:
        return

    def torn(start: int, end: int | None) -> int:
        return max(start + 1, at if end is None else min(end, at))

    gone = _ending(replace(held, freed=True), torn, torn)
    books.put(id, gone, position)
    resumed: dict[str, Held] = {}
    others = books.beside(gone.node_id, (id,))
    unproved = [(other, one) for other, one in others if one.unproved]
    for device, (start, end) in gone.atoms.items() if unproved else ():
        until = following(others, device, start)
        earlier = [
            (one.atoms[device][0], other)
            for other, one in unproved
            if device in one.atoms and one.atoms[device][0] < (end or 0)
        ]
        if earlier and end is not None and (until is None or until > end):
            other = max(earlier)[1]
            before = resumed.get(other) or books.versions.get(other)
            assert before is not None
            resumed[other] = replace(before, atoms=before.atoms | {device: (end, until)})
    for other, one in resumed.items():
        books.put(other, one, position)


def _drop(books: Books, ids: Collection[str], position: int) -> None:
    """Bookings go; what ended before them and is not proved free holds the devices on."""
    moved: dict[str, Held] = {}
    for held in filter(None, map(books.versions.get, ids)):
        others = books.beside(held.node_id, ids)
        for other, one in others:
            if one.unproved and not one.atoms.keys().isdisjoint(held.atoms):
                before = moved.get(other, one)
                shared = {d: (s, following(others, d, s)) for d, (s, _) in one.atoms.items() if d in held.atoms}
                moved[other] = replace(before, atoms=before.atoms | shared)
    for id in ids:
        books.put(id, None, position)
    for other, one in moved.items():
        books.put(other, one, position)


def _end_plan(books: Books, id: str, at: int, position: int) -> None:
    """One that has not begun leaves no trace."""
    held = books.versions.get(id)
    if held is not None and held.starts_at >= at:
        _drop(books, [id], position)
    else:
        _tear_down(books, id, at, position)


MOVES_OTHERS: Final[Set[type[Event]]] = {
    node.PlanEnded,
    reservation.MemberLost,
    reservation.ReleaseStarted,
    reservation.Failed,
    reservation.TornDown,
    reservation.Queued,
    reservation.Cancelled,
    reservation.Expired,
}
TOLD: Final[Set[type[Event]]] = MOVES_OTHERS | {
    node.MaintenancePlanned,
    reservation.Placed,
    reservation.MemberPlaced,
    reservation.Extended,
    reservation.Preempted,
    reservation.BindingStarted,
}
