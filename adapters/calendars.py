"""The calendars of this process: one a pool, fed by the follower, looked at under a lock (architecture.md §4)."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Final, get_args

from msgspec import Struct
from msgspec.structs import replace

from domain import calendar, claim, node, node_fold, pool, reservation
from domain.device import Device, Quantity, Version
from domain.event import Recorded

CATCH_UP_S: Final = 0.2
HELD_S: Final = 10.0
_CLEANING_MS: Final = 1000
_MARK: Final = "mark_"
_ALL_SCALARS: Final = dict.fromkeys(get_args(claim.Scalar), 1 << 62)
"""What planned maintenance takes of a node, whatever that comes to have: a claim of scalars alone finds no room."""
_FREEING: Final = (
    reservation.MemberLost,
    reservation.ReleaseStarted,
    reservation.TornDown,
    reservation.Queued,
    reservation.Failed,
    reservation.Cancelled,
    reservation.Expired,
)
_UNSEEN: Final = node.Inventoried | node.Booted | node.Desired
"""Placement asks nothing of these, and an inventory or a report is large."""


class Calendars:
    """Implements the commands' port. `head` gives the log's last position, `wait` waits until it was read.

    `_choices` are bookings made by this process that the log has not confirmed yet. `_held` has, by atom,
    the keys and starts of bookings that ended and are not torn down yet.
    """

    def __init__(
        self,
        head: Callable[[], int],
        wait: Callable[[int, float], bool],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._choices: dict[str, tuple[str, float]] = {}
        self._head = head
        self._wait = wait
        self._calendars: dict[str, calendar.Calendar] = {}
        self._locks: dict[str, Lock] = defaultdict(Lock)
        self._nodes: dict[str, node.State] = {}
        self._placed: dict[str, _Placed] = {}
        self._held: dict[str, dict[str, int]] = defaultdict(dict)
        self._changes: dict[str, int] = defaultdict(int)
        self._known = Lock()

    @contextmanager
    def locked(self, pool_id: str) -> Iterator[calendar.Calendar]:
        with self._known:
            found = self._calendars.setdefault(pool_id, calendar.Calendar(pool_id))
            lock = self._locks[pool_id]
        with lock:
            yield found

    def lost(self, pool_id: str, atoms: Sequence[str], window: tuple[int, int]) -> None:
        position = self._head()
        with self.locked(pool_id) as of:
            of.mark_busy(atoms, *window, position)
        self._wait(position, CATCH_UP_S)

    def hold(self, pool_id: str, allocation_ids: Sequence[str]) -> None:
        """Choices of this process; a choice that the log does not confirm in time is given back."""
        deadline = self._monotonic() + HELD_S
        for allocation_id in allocation_ids:
            self._choices[allocation_id] = (pool_id, deadline)

    def drop(self, allocation_ids: Sequence[str]) -> None:
        for allocation_id in allocation_ids:
            chosen = self._choices.pop(allocation_id, None)
            if chosen is not None:
                with self.locked(chosen[0]) as of:
                    of.unbook(allocation_id)
                self._changes[chosen[0]] += 1

    def changes(self, pool_id: str) -> int:
        """A number that grows with everything that may have made room in a pool."""
        return self._changes[pool_id]

    def look_ahead(self) -> None:
        """The log has been read to its end: be ready to place."""
        for pool_id in list(self._calendars):
            with self.locked(pool_id) as of:
                of.look_ahead()

    def consume(self, batch: Sequence[Recorded]) -> None:
        """Take a batch of the log; the follower's thread is the only one to call this."""
        for recorded in batch:
            event = recorded.event
            if recorded.stream.startswith("node_"):
                self._of_node(recorded.stream, event)  # type: ignore[arg-type]
            elif recorded.stream.startswith("rsv_"):
                self._of_reservation(recorded.stream, event)  # type: ignore[arg-type]
            elif isinstance(event, pool.Created | pool.PolicyChanged):
                with self.locked(recorded.stream) as of:
                    of.gap_ms = event.policy.cleaning_seconds * _CLEANING_MS
                self._changes[recorded.stream] += 1
        now = self._monotonic()
        self.drop([id for id, (_, deadline) in list(self._choices.items()) if deadline < now])
        last = batch[-1]
        for pool_id in list(self._calendars):
            with self.locked(pool_id) as of:
                of.caught_up(last.position)
                of.forget_before(last.recorded_at)

    def _of_node(self, node_id: str, event: node.Events) -> None:
        if isinstance(event, _UNSEEN):
            return
        before = self._nodes.get(node_id, node.State())
        after = self._nodes[node_id] = node_fold.evolve(before, event)
        if isinstance(event, node.Assigned) and event.former_pool_id not in (None, event.pool_id):
            assert event.former_pool_id is not None
            with self.locked(event.former_pool_id) as of:
                of.remove_node(node_id)
        if after.pool_id is not None:
            self._of_plan(after.pool_id, node_id, before, event)
        shaping = node.DevicesChanged | node.SchedulabilityChanged | node.Labelled | node.Assigned
        if after.pool_id is not None and isinstance(event, shaping):
            with self.locked(after.pool_id) as of:
                of.put_node(_as_node(node_id, after))
            self._changes[after.pool_id] += 1

    def _of_plan(self, pool_id: str, node_id: str, before: node.State, event: node.Events) -> None:
        """Planned maintenance keeps its atoms from everybody; at its end, early or late, they are as they would be."""
        match event:
            case node.MaintenancePlanned(plan=plan):
                with self.locked(pool_id) as of:
                    of.book(plan.id, node_id, plan.atoms, _ALL_SCALARS, plan.from_, plan.until)
            case node.PlanEnded(id=id):
                atoms = next((plan.atoms for plan in before.plans if plan.id == id), ())
                with self.locked(pool_id) as of:
                    of.unbook(id)
                    self._hold_further(node_id, atoms, of)
                self._changes[pool_id] += 1
            case _:
                pass

    def _of_reservation(self, reservation_id: str, event: reservation.Events) -> None:
        if isinstance(event, reservation.Placed):
            spot = calendar.Spot(reservation_id, event.priority, event.since) if event.spot else None
            with self.locked(event.pool_id) as of:
                placed = tuple(self._book(one, event, of, spot) for one in event.allocations)
            self._placed[reservation_id] = _Placed(event.pool_id, placed, spot=spot)
            return
        if isinstance(event, reservation.Extended | reservation.Preempted):
            if (running := self._placed.get(reservation_id)) is not None:
                self._placed[reservation_id] = self._rebound(running, event)
            return
        if isinstance(event, reservation.Queued):
            self._changes[event.pool_id] += 1
        known = self._placed.get(reservation_id)
        if isinstance(event, reservation.MemberPlaced):
            self._placed[reservation_id] = self._joined(known, event)
        elif known is not None and isinstance(event, _FREEING):
            with self.locked(known.pool_id) as of:
                left = self._ended(known, event, of)
            if left.running or left.ended:
                self._placed[reservation_id] = left
            else:
                del self._placed[reservation_id]
            self._changes[known.pool_id] += 1

    def _book(
        self,
        one: reservation.Allocation,
        event: reservation.Placed | reservation.MemberPlaced,
        of: calendar.Calendar,
        spot: calendar.Spot | None,
    ) -> calendar.Booking:
        self._choices.pop(one.id, None)
        return of.book(one.id, one.node_id, one.atoms, one.scalars, event.starts_at, event.ends_at, spot=spot)

    def _rebound(self, placed: "_Placed", event: reservation.Extended | reservation.Preempted) -> "_Placed":
        """Also of one that ended so long ago that the calendar has forgotten it: nobody was there to end it."""
        running = []
        with self.locked(event.pool_id) as of:
            for one in placed.running:
                until = max(one.start + 1, event.ends_at)
                running.append(of.book(one.key, one.node_id, one.atoms, one.scalars, one.start, until, spot=one.spot))
        self._changes[event.pool_id] += 1
        return replace(placed, running=tuple(running))

    def _joined(self, placed: "_Placed | None", event: reservation.MemberPlaced) -> "_Placed":
        """A member that takes the place of a lost one."""
        before = placed or _Placed(event.pool_id, ())
        with self.locked(event.pool_id) as of:
            one = self._book(event.allocation, event, of, before.spot)
        return replace(before, running=(*before.running, one))

    def _ended(self, placed: "_Placed", event: reservation.Events, of: calendar.Calendar) -> "_Placed":
        """The same as `device_bookings` does: what ended holds on until torn down or until the next booking.

        Returns what holds anything from now on.
        """
        match event:
            case reservation.ReleaseStarted() | reservation.Failed(began=True) | reservation.MemberLost():
                lost = event.allocation_id if isinstance(event, reservation.MemberLost) else None
                ending = tuple(one for one in placed.running if lost in (None, one.key))
                for one in ending:
                    self._hold(one, event.at, of)
                running = tuple(one for one in placed.running if one not in ending)
                return replace(placed, running=running, ended=(*placed.ended, *ending))
            case reservation.TornDown(allocation_id=allocation_id, at=at):
                for one in (*placed.running, *placed.ended):
                    if one.key == allocation_id:
                        self._free(one, at, of)
                return replace(
                    placed,
                    running=tuple(one for one in placed.running if one.key != allocation_id),
                    ended=tuple(one for one in placed.ended if one.key != allocation_id),
                )
            case _:
                for one in (*placed.running, *placed.ended):
                    of.unbook(one.key)
                for one in (*placed.running, *placed.ended):
                    self._hold_further(one.node_id, one.atoms, of)
                return _Placed(placed.pool_id, ())

    def _hold(self, one: calendar.Booking, at: int, of: calendar.Calendar) -> None:
        """From here on each atom ends for itself; the scalars stay under the allocation's own id."""
        of.book(one.key, one.node_id, (), one.scalars, one.start, None, at)
        for atom in one.atoms:
            key = f"{one.key}/{atom}"
            self._held[atom][key] = one.start
            of.book(key, one.node_id, (atom,), {}, one.start, self._next(of, one.node_id, atom, one.start), at)

    def _hold_further(self, node_id: str, atoms: Sequence[str], of: calendar.Calendar) -> None:
        """A booking that followed is gone: what held its atoms before goes on holding them."""
        for atom in atoms:
            for key, start in self._held.get(atom, {}).items():
                of.book(key, node_id, (atom,), {}, start, self._next(of, node_id, atom, start), _ended(of, key))

    def _next(self, of: calendar.Calendar, node_id: str, atom: str, start: int) -> int | None:
        """When the next booking of an atom starts, None if none is known; marks and choices are not bookings."""
        entry = of.entries.get(node_id)
        if entry is None:
            return None
        bit = entry.bits.get(atom, 0)
        booked = (
            key
            for key, mask in entry.held.items()
            if mask & bit and not key.startswith(_MARK) and key not in self._choices
        )
        return min((s for key in booked if (s := of.bookings[key].start) > start), default=None)

    def _free(self, one: calendar.Booking, at: int, of: calendar.Calendar) -> None:
        of.rebound(one.key, at)
        for atom in one.atoms:
            key = f"{one.key}/{atom}"
            if (booking := of.bookings.get(key)) is not None:
                of.rebound(key, max(booking.start + 1, min(booking.until, at)))
                self._resume(one.node_id, atom, of, of.bookings[key])
            self._held[atom].pop(key, None)
            if not self._held[atom]:
                del self._held[atom]

    def _resume(self, node_id: str, atom: str, of: calendar.Calendar, gone: calendar.Booking) -> None:
        """What ended before and is not proved free goes on holding the atom: it was never given back."""
        earlier = {key: start for key, start in self._held[atom].items() if key != gone.key and start < gone.until}
        if not earlier:
            return
        key = max(earlier, key=lambda held: earlier[held])
        until = self._next(of, node_id, atom, gone.start)
        if until is None or until > gone.until:
            self._held[atom][key] = gone.until
            of.book(key, node_id, (atom,), {}, gone.until, until, _ended(of, key))


class _Placed(Struct, frozen=True, gc=False):
    """What a reservation holds in a pool's calendar, as it was booked: what goes on, and what is not torn down yet."""

    pool_id: str
    running: tuple[calendar.Booking, ...]
    ended: tuple[calendar.Booking, ...] = ()
    spot: calendar.Spot | None = None


def _ended(of: calendar.Calendar, key: str) -> int:
    """When what is held ended (epoch ms); where that is forgotten, it is long ago."""
    booking = of.bookings.get(key)
    return 0 if booking is None or booking.ended is None else booking.ended


def _as_node(node_id: str, state: node.State) -> calendar.Node:
    gpus = sum(device.class_ == "gpu" for device in state.devices)
    return calendar.Node(
        id=node_id,
        name=state.name,
        labels=state.labels,
        schedulable=not state.reasons,
        layout=state.layout,
        devices=tuple(_as_atom(device) for device in state.devices),
        scalars=state.scalars,
        gpus=gpus,
    )


def _as_atom(device: Device) -> calendar.Atom:
    attributes: Mapping[str, object] = {
        name: value.value if isinstance(value, Version | Quantity) else value
        for name, value in device.attributes.items()
    }
    return calendar.Atom(
        id=device.id,
        class_=device.class_,
        attributes=attributes,
        gpu_product=device.gpu_product,
        gpu_model=device.gpu_model,
        memory_gb=device.memory_gb,
        numa_node=device.numa_node,
        nvlink_group=None if device.nvlink_group is None else str(device.nvlink_group),
        parent=device.parent,
        bookable=device.bookable,
    )
