"""What holds after every step: of each event as it comes, and of the tables as they are (domain.md §3-5)."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import combinations, pairwise
from typing import Any, Final

from domain import queueing, reservation
from domain.claim import Claim
from domain.event import Recorded
from histories.fleet import ROOT
from histories.model import BOOKED, FOREVER, Booked, Hold, Machine, Model

FAST: Final = "device.attributes.fast"
SELECTORS: Final[Mapping[str | None, Callable[[Any], bool]]] = {
    None: lambda device: True,
    f"{FAST} == true": lambda device: device.attributes["fast"],
    f"{FAST} == false": lambda device: not device.attributes["fast"],
}
"""What a claim may select by, and the same said plainly."""

NO_END: Final = 253_402_300_799_000
"""Where what an instance brought ends, if nothing happens."""

Row = tuple[Any, ...]


def of_event(model: Model, recorded: Recorded, gap_ms: int, latest: int) -> None:
    """What must hold once the append that brought the event is in the log.

    While the wall clock is set back, calendars have forgotten what they are asked of: then promises may be missed,
    and only the database says what is booked.
    """
    of = model.reservations.get(recorded.stream)
    if of is None:
        return
    match recorded.event:
        case reservation.Admitted():
            within_quota(model, of)
        case reservation.Placed(allocations=allocations):
            assert len(allocations) == of.draft.claim.nodes
            has_what_it_claims(model, of, [one.id for one in allocations])
            books_nothing_twice(model, of, gap_ms)
            if recorded.recorded_at >= latest:
                delays_nobody_ahead(model, of, recorded.recorded_at)
        case reservation.ReleaseStarted(reason="LeaseLapsed", at=at):
            assert of.lease_until is not None
            assert of.lease_until <= at, f"{of.id} was renewed until {of.lease_until}"
        case reservation.Extended(former_ends_at=former, ends_at=ends_at) if former < ends_at:
            assert of.claim is not None
            over = over_quota(model, of.claim.scopes, of.claim.amounts, former, ends_at, of.id)
            assert not over, f"{of.id} is extended over {over}"
            books_nothing_twice(model, of, gap_ms)
        case reservation.MemberPlaced(allocation=one):
            has_what_it_claims(model, of, [one.id])
            books_nothing_twice(model, of, gap_ms)


def within_quota(model: Model, of: Booked) -> None:
    """No admission exceeds a quota at any instant: of the offering, the tenant, the project."""
    claim = of.claim
    assert claim is not None
    assert claim.amounts == amounts(of.draft.claim)
    assert set(claim.scopes) == set(scopes(model, of.draft.tenant_id, of.draft.project_id))
    over = over_quota(model, claim.scopes, claim.amounts, claim.start, claim.end, of.id)
    assert not over, f"{of.id} is admitted over {over}"


def scopes(model: Model, tenant_id: str, project_id: str | None) -> list[str | None]:
    found = [None if tenant_id == ROOT else model.offer(tenant_id, ROOT), f"tenant:{tenant_id}", project_id]
    return [scope for number, scope in enumerate(found) if scope is not None or number == 0]


def over_quota(
    model: Model, scopes: Iterable[str], asked: Mapping[str, int], start: int, end: int, but: str = ""
) -> list[str]:
    """The scopes and resources of which, with what is asked, more would be held than granted at any instant."""
    found = []
    for scope in scopes:
        for resource, amount in asked.items():
            limit = model.limit(scope, resource)
            if limit is not None and amount + model.peak(scope, resource, start, end, but) > limit:
                found.append(f"{resource} of {scope}")
    return found


def amounts(claim: Claim) -> dict[str, int]:
    total: Counter[str] = Counter()
    for line in claim.devices:
        total[line.class_] += line.count * claim.nodes
    for scalar, amount in claim.scalars.items():
        total[scalar] += amount * claim.nodes
    return {resource: amount for resource, amount in total.items() if amount}


def has_what_it_claims(model: Model, of: Booked, fresh: Iterable[str]) -> None:
    """Distinct nodes, and on each fresh one so many devices as every line wants, of those that suit it."""
    claim, holds = of.draft.claim, [hold for hold in of.holds.values() if hold.live]
    assert len({hold.node_id for hold in holds}) == len(holds) <= claim.nodes
    if claim.topology is not None:
        key = claim.topology.pack or claim.topology.spread or ""
        values = [model.nodes[hold.node_id].labels[key] for hold in holds]
        assert len(set(values)) == (1 if claim.topology.pack else len(values)), f"{of.id} is on {values}"
    for hold in (of.holds[id] for id in fresh):
        on = model.nodes[hold.node_id]
        assert on.schedulable, f"{of.id} is placed on {hold.node_id}"
        assert seats(claim, [on.devices[atom] for atom in hold.atoms]), f"{of.id} got {hold.atoms}"
        assert len(set(hold.atoms)) == len(hold.atoms)
        assert hold.scalars == {name: n for name, n in claim.scalars.items() if n}


def seats(claim: Claim, devices: list[Any]) -> bool:
    """Whether these devices are just what the lines want; all ways of sharing them out are tried."""

    def seat(lines: tuple[Any, ...], left: list[Any]) -> bool:
        if not lines:
            return not left
        line = lines[0]
        for chosen in combinations(left, line.count):
            numa = {one.numa_node for one in chosen}
            together = line.topology is None or len(numa) <= 1
            if together and all(SELECTORS[line.selector](one) for one in chosen):
                ids = {one.id for one in chosen}
                if seat(lines[1:], [one for one in left if one.id not in ids]):
                    return True
        return False

    return seat(claim.devices, devices)


def books_nothing_twice(model: Model, of: Booked, gap_ms: int) -> None:
    """Its live bookings cross nobody's, and lie so far from those of other reservations as the pool has it."""
    mine = [hold for hold in of.holds.values() if hold.live]
    others = [hold for hold in model.holds() if hold.reservation_id != of.id or not hold.live]
    for hold in mine:
        for atom in hold.atoms:
            rivals = [other for other in others if atom in other.atoms]
            for at in instants_of([hold, *rivals], hold.start, hold.end):
                held = [other for other in rivals if model.held(other, at, [*rivals, hold], atom)]
                assert not held, f"{atom} is booked for {of.id} at {at}, and for {held}"
            for other in rivals:
                apart = other.end + gap_ms <= hold.start or hold.end + gap_ms <= other.start
                assert apart or other.reservation_id is None or not other.live, f"{atom} is not cleaned: {other}"
        for scalar, amount in hold.scalars.items():
            rivals = [o for o in others if o.node_id == hold.node_id and not o.freed and scalar in o.scalars]
            for at in instants_of([hold, *rivals], hold.start, hold.end):
                used = sum(o.scalars[scalar] for o in rivals if o.start <= at and (o.ended or at < o.end))
                assert used + amount <= model.nodes[hold.node_id].scalars[scalar]


def delays_nobody_ahead(model: Model, of: Booked, now: int) -> None:
    """What was promised to whoever waits ahead is kept for it (domain/queueing.py)."""
    rank, waiting = model.rank(of), model.waiting()
    starts = [other.promise.earliest_start or now for other in waiting if other.promise is not None]
    if min(starts, default=now) + queueing.SLACK_MS < now:
        return  # the controllers were away: what slipped too far is promised anew
    for other in waiting:
        promise = other.promise
        if promise is None or promise.earliest_start is None or model.rank(other) > rank:
            continue
        lasts = other.draft.duration_seconds * 1000
        start = promise.earliest_start
        end = other.end or (start if other.draft.starts_at is None else other.draft.starts_at) + lasts
        kept = {atom for seat in promise.place for atom in seat.atoms}
        if any(_takes(o, kept, start, end) for o in model.holds() if o.reservation_id != of.id):
            continue  # whoever has a device already may extend into what was promised
        for hold in of.holds.values():
            crosses = hold.start < end - queueing.SLACK_MS and start + queueing.SLACK_MS < hold.end
            assert not (crosses and kept & set(hold.atoms)), f"{of.id} takes what {other.id} was promised"


def _takes(hold: Hold, atoms: set[str], start: int, end: int) -> bool:
    return not hold.freed and bool(atoms & set(hold.atoms)) and hold.start < end and start < hold.end


def instants_of(holds: Iterable[Hold], start: int, end: int) -> list[int]:
    bounds = {start} | {bound for hold in holds for bound in (hold.start, hold.end)}
    return sorted(at for at in bounds if start <= at < end)


def ends_come_first(round_: Iterable[Recorded]) -> None:
    """Of one round: whatever has come to its end has ended before anything begins."""
    begun = False
    for recorded in round_:
        begun = begun or isinstance(recorded.event, reservation.BindingStarted | reservation.Placed)
        ended = isinstance(recorded.event, reservation.ReleaseStarted) and recorded.event.reason == "Ended"
        assert not (ended and begun), f"{recorded.stream} ends after another began"


def never_overlap(rows: list[Row]) -> None:
    by_device: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in rows:
        by_device[row[0]].append((row[4], FOREVER if row[5] is None else row[5]))
    for device, stretches in by_device.items():
        stretches.sort()
        for (_, end), (start, _) in pairwise(stretches):
            assert end <= start, f"{device}: {stretches}"


def bookings_are_what_the_events_say(model: Model, rows: list[Row], latest: int) -> None:
    """Live bookings to the row; of what ended, when its atoms are taken from now on."""
    live = {
        (atom, id): (hold.bound, hold.start, hold.end)
        for id, hold in _named(model)
        if hold.live
        for atom in hold.atoms or (id,)
    }
    found = {(row[0], row[1]): (row[2], row[4], row[5]) for row in rows if row[3] == "live"}
    assert found == live
    for atom, at, busy in _taken(model, [bound for row in rows for bound in row[4:6] if bound is not None], latest):
        booked = any(row[0] == atom and row[4] <= at and (row[5] is None or at < row[5]) for row in rows)
        assert booked == busy, f"{atom} at {at} is {'busy' if busy else 'free'}: {[r for r in rows if r[0] == atom]}"


def scalars_are_what_the_events_say(model: Model, rows: list[Row]) -> None:
    """To the row: what ended is taken until it is proved free."""
    expected = {
        (id, scalar): (amount, hold.start, None if hold.ended else hold.end)
        for id, hold in _named(model)
        if not hold.freed
        for scalar, amount in hold.scalars.items()
    }
    freed = {id for id, hold in _named(model) if hold.freed}
    assert {row[:2]: row[2:] for row in rows if row[0] not in freed} == expected


def calendar_has_the_scalars(model: Model, used: Mapping[str, list[tuple[int, int]]], latest: int) -> None:
    """By node, from which instant on so much of `vcpu` is taken; planned maintenance takes all there is."""
    for node_id, steps in used.items():
        mine = [hold for hold in model.holds() if hold.node_id == node_id and not hold.freed]
        given = {at for at, _ in steps if latest < at < FOREVER}
        for at in sorted({*given, *instants_of(mine, latest, FOREVER)}):
            held = [hold for hold in mine if hold.start <= at and (hold.ended or at < hold.end)]
            taken = sum(hold.scalars.get("vcpu", 0) for hold in held)
            shown = [amount for since, amount in steps if since <= at][-1]
            if any(hold.reservation_id is None for hold in held):
                assert shown >= model.nodes[node_id].scalars["vcpu"] + taken, f"{node_id} at {at} is maintained"
            else:
                assert shown == taken, f"{node_id} at {at}: {taken} vcpu are taken, the calendar has {shown}"


def calendar_is_what_the_events_say(
    model: Model, stretches: Mapping[str, list[tuple[int, int | None]]], latest: int
) -> None:
    bounds = [bound for line in stretches.values() for pair in line for bound in pair if bound is not None]
    for atom, at, busy in _taken(model, bounds, latest):
        shown = any(start <= at and (end is None or at < end) for start, end in stretches.get(atom, ()))
        assert shown == busy, f"{atom} at {at} is {'busy' if busy else 'free'}, the calendar: {stretches.get(atom)}"


def _named(model: Model) -> list[tuple[str, Hold]]:
    held = [pair for of in model.reservations.values() for pair in of.holds.items()]
    return [*held, *model.plans.items()]


def _taken(model: Model, bounds: Iterable[int], latest: int) -> Iterable[tuple[str, int, bool]]:
    """Each atom at each instant at which anything may change from now on, and whether it is taken then."""
    holds = [hold for hold in model.holds() if not hold.freed]
    given = {bound for bound in bounds if bound > latest}
    for of in model.nodes.values():
        for atom in of.devices:
            mine = [hold for hold in holds if atom in hold.atoms]
            for at in sorted({*given, *instants_of(mine, latest, FOREVER)}):
                yield atom, at, any(model.held(hold, at, mine, atom) for hold in mine)


def claims_are_what_the_states_say(model: Model, rows: list[Row]) -> None:
    """Quota is held by what lives, over what it may still use, and by nothing else (O18)."""
    expected = {}
    for of in model.reservations.values():
        if of.claim is None:
            continue
        start, end = window_of(of)
        for scope in of.claim.scopes:
            for resource, amount in amounts(of.draft.claim).items():
                expected[of.id, scope, resource] = (amount, start, end)
    found = {row[:3]: row[3:] for row in rows}
    assert found == expected, (
        f"held {dict(found.items() - expected.items())}, not {dict(expected.items() - found.items())}"
    )


def window_of(of: Booked) -> tuple[int, int | None]:
    """Over which time a reservation holds quota, by its request and its state."""
    duration_ms = of.draft.duration_seconds * 1000
    if of.start is not None and of.end is not None:
        return of.start, None if of.status == "releasing" else of.end
    if of.draft.starts_at is not None:
        return of.draft.starts_at, of.draft.starts_at + duration_ms
    assert of.claim is not None
    admitted = of.claim.start if "awaiting-confirmation" in of.past else of.draft.at
    if of.draft.instance_id is not None:
        return admitted, NO_END
    return admitted, admitted + of.draft.max_pending_seconds * 1000 + duration_ms


def queue_is_who_waits(model: Model, rows: list[Row]) -> None:
    assert [row[0] for row in rows] == [of.id for of in model.waiting()]


def capacity_adds_up(model: Model, rows: Iterable[Any], now: int, latest: int) -> None:
    """By the sums that the answer must satisfy, and by what is held at this instant.

    Of an instant before the `latest` that was, bookings that are over tell what was held then.
    """
    (row,) = [row for row in rows if row.resource == "gpu"]
    assert row.total == row.allocatable + row.unschedulable
    assert row.allocatable == row.allocated + row.reserved + row.available
    counts: Counter[str] = Counter()
    for node_id, of in model.nodes.items():
        for atom in of.devices:
            counts[_use(model, node_id, of, atom, now)] += 1
    assert row.total == counts.total()
    if now < latest:
        return
    assert (row.allocated, row.reserved, row.available) == (counts["allocated"], counts["reserved"], counts["free"])
    assert row.unschedulable_allocated == counts["idle use"]


def _use(model: Model, node_id: str, of: Machine, atom: str, now: int) -> str:
    mine = [hold for hold in model.holds() if atom in hold.atoms]
    held = [hold for hold in mine if model.held(hold, now, mine, atom)]
    reserved = [hold for hold in held if hold.reservation_id is not None]
    if not of.schedulable:
        return "idle use" if reserved else "idle"
    if held and not reserved:
        return "maintenance"
    if not held:
        return "free"
    return "allocated" if any(hold.bound for hold in reserved) else "reserved"


def ends_come_after_starts(model: Model) -> None:
    for of in model.reservations.values():
        if of.status in BOOKED:
            assert of.start is not None
            assert of.end is not None
            assert of.start < of.end
