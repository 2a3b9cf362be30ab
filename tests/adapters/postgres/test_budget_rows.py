"""What an append makes of budgets: committed while a claim lives, spent by the day when it ends (domain.md §5)."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from adapters.postgres.budgets import Budgets
from domain import budget, errors, reservation, tenant
from domain.budget import DAY_MS, HOUR_MS
from domain.event import Append, Change, Event
from facts import META, Facts, differences, facts, new_id

MIDNIGHT = 40_000 * DAY_MS
SCOPE = "tenant:acme"


class Scene:
    """A pool with a node, and claims of acme on it that budgets are asked for."""

    def __init__(self, given: Facts) -> None:
        self.given = given
        given.append(SCOPE, tenant.Recorded("acme", "active"))
        self.pool_id = given.pool()
        self.node_id, self.atoms = given.node(self.pool_id)

    def grant(self, hours: int | None, from_: int | None = None, until: int | None = None) -> None:
        gpu_ms = None if hours is None else hours * HOUR_MS
        self.given.append("budget:tenant:acme", budget.Set("tenant", "acme", "acme", gpu_ms, 1, from_, until))

    def admit(
        self,
        gpus: int,
        start: int,
        hours: int,
        waits: int = 0,
        *,
        enforced: bool = True,
        placed: reservation.Placed | None = None,
    ) -> str:
        """A placed claim, or one that waits so many hours at most."""
        reservation_id = new_id("rsv")
        end = start + hours * HOUR_MS
        claimed = reservation.Claimed((SCOPE,), {"gpu": gpus}, start, end + waits * HOUR_MS)
        follows = reservation.Queued(self.pool_id, 0, False, start, "NoCapacity", end) if waits else None
        events: tuple[Event, ...] = (
            self.given.drafted(self.pool_id, gpus),
            reservation.Budgeted((SCOPE,), gpus, gpus * hours * HOUR_MS, enforced),
            reservation.Admitted("adm_1", claimed, 0),
            follows or placed or self.placed(start, end),
        )
        self.given.store.append(Append((Change(reservation_id, 0, events),), META))
        return reservation_id

    def placed(self, start: int, end: int, *, queued: bool = False) -> reservation.Placed:
        claimed = reservation.Claimed((SCOPE,), {"gpu": 1}, start, end)
        atoms = [self.atoms.pop()]
        return self.given.placed(self.pool_id, self.node_id, atoms, start, end, claimed=claimed, queued=queued)

    def run(self, reservation_id: str, began: int, *ends: Event) -> None:
        self.given.bind(reservation_id, began)
        self.given.append(reservation_id, reservation.Activated(began), *ends)

    def hours(self) -> tuple[float, float]:
        """Spent and committed, in GPU-hours."""
        (account,) = Budgets(self.given.connections).accounts([SCOPE])
        return account.spent / HOUR_MS, account.committed / HOUR_MS


@pytest.fixture
def scene(database: str) -> Iterator[Scene]:
    with facts(database) as given:
        yield Scene(given)


def release(at: int) -> Event:
    return reservation.ReleaseStarted("Released", at, {})


def test_what_ran_across_midnight_is_spent_on_both_days(scene: Scene, database: str) -> None:
    scene.grant(100)
    made = scene.admit(3, MIDNIGHT - 4 * HOUR_MS, 10)
    scene.run(made, MIDNIGHT - 2 * HOUR_MS)
    assert scene.hours() == (0, 30)
    scene.given.append(made, release(MIDNIGHT + HOUR_MS))
    assert scene.hours() == (9, 0)
    scene.grant(100, until=MIDNIGHT)
    assert scene.hours() == (6, 0)
    scene.grant(100, from_=MIDNIGHT)
    assert scene.hours() == (3, 0)
    assert differences(database) == []


@pytest.mark.parametrize(
    ("end", "spent"),
    [
        (release(MIDNIGHT + HOUR_MS), 1),
        (reservation.Failed("NodeLost", MIDNIGHT + HOUR_MS, True), 1),
        (release(MIDNIGHT), 0),
    ],
)
def test_however_it_ends_it_has_spent_what_it_ran_and_no_teardown(scene: Scene, end: Event, spent: int) -> None:
    scene.grant(5)
    made = scene.admit(1, MIDNIGHT, 4)
    scene.run(made, MIDNIGHT, end)
    if isinstance(end, reservation.ReleaseStarted):
        scene.given.append(made, reservation.Failed("TeardownFailed", MIDNIGHT + 9 * HOUR_MS, True))
    assert scene.hours() == (spent, 0)


@pytest.mark.parametrize(
    "end",
    [
        reservation.Cancelled("Cancelled", MIDNIGHT),
        reservation.Expired("NoCapacity", MIDNIGHT),
        reservation.Failed("OfferWithdrawn", MIDNIGHT, False),
    ],
)
def test_what_never_ran_has_spent_nothing(scene: Scene, end: Event) -> None:
    scene.grant(5)
    scene.given.append(scene.admit(1, MIDNIGHT, 4, waits=2), end)
    assert scene.hours() == (0, 0)


def test_waiting_it_counts_whole_wherever_it_may_run_and_placed_where_it_does(scene: Scene) -> None:
    scene.grant(100, from_=MIDNIGHT)
    made = scene.admit(2, MIDNIGHT - 5 * HOUR_MS, 4, waits=3)
    assert scene.hours() == (0, 8)
    scene.given.append(made, scene.placed(MIDNIGHT - HOUR_MS, MIDNIGHT + 3 * HOUR_MS, queued=True))
    assert scene.hours() == (0, 6)


def test_a_start_that_comes_late_keeps_its_end_and_takes_less(scene: Scene) -> None:
    scene.grant(100)
    made = scene.admit(2, MIDNIGHT, 4, waits=1)
    scene.given.append(made, scene.placed(MIDNIGHT + HOUR_MS, MIDNIGHT + 4 * HOUR_MS, queued=True))
    assert scene.hours() == (0, 6)


def test_an_enforced_claim_is_refused_in_the_append_and_another_only_counted(scene: Scene) -> None:
    scene.grant(5)
    scene.admit(1, MIDNIGHT, 4)
    with pytest.raises(errors.BudgetExceeded) as refusal:
        scene.admit(1, MIDNIGHT, 2)
    figures = {"budgetGpuMs": 5 * HOUR_MS, "neededGpuMs": 2 * HOUR_MS, "leftGpuMs": HOUR_MS}
    assert refusal.value.extra == {"kind": "tenant", **figures}
    scene.admit(1, MIDNIGHT, 2, enforced=False)
    assert scene.hours() == (0, 6)


def extended(scene: Scene, former: int, ends_at: int) -> reservation.Extended:
    claimed = reservation.Claimed((SCOPE,), {"gpu": 1}, MIDNIGHT, ends_at)
    known = {
        "extension_id": "ext_1",
        "admission_id": "adm_2",
        "pool_id": scene.pool_id,
        "gpu_ms": 0,
        "at": MIDNIGHT,
        "allocations": (),
    }
    return reservation.Extended(former_ends_at=former, ends_at=ends_at, claimed=claimed, **known)  # type: ignore[arg-type]


def test_an_extension_takes_what_it_adds_and_a_shortening_gives_back_even_over_budget(scene: Scene) -> None:
    four, six = MIDNIGHT + 4 * HOUR_MS, MIDNIGHT + 6 * HOUR_MS
    scene.grant(6)
    made = scene.admit(1, MIDNIGHT, 4)
    scene.given.append(made, extended(scene, four, six))
    assert scene.hours() == (0, 6)
    with pytest.raises(errors.BudgetExceeded) as refusal:
        scene.given.append(made, extended(scene, six, six + HOUR_MS))
    assert refusal.value.extra["neededGpuMs"] == 7 * HOUR_MS
    scene.grant(1)
    scene.given.append(made, extended(scene, six, four))
    assert scene.hours() == (0, 4)


def test_a_gang_spends_by_the_members_that_it_has(scene: Scene, database: str) -> None:
    scene.grant(100)
    end = MIDNIGHT + 10 * HOUR_MS
    other_id, (other, *_) = scene.given.node(scene.pool_id)
    one, two = scene.placed(MIDNIGHT, end), scene.given.placed(scene.pool_id, other_id, [other], MIDNIGHT, end)
    made = scene.admit(4, MIDNIGHT, 10, placed=replace(one, allocations=(*one.allocations, *two.allocations)))
    assert scene.hours() == (0, 40)
    scene.run(made, MIDNIGHT + HOUR_MS)
    (lost,) = two.allocations
    scene.given.append(made, reservation.MemberLost(lost.id, lost.node_id, "NodeLost", MIDNIGHT + 3 * HOUR_MS))
    assert scene.hours() == (8, 14), "four GPUs for two hours, then two until the end"
    instead = replace(lost, id=new_id("alloc"), node_id=scene.node_id, atoms=(scene.atoms.pop(),))
    again = MIDNIGHT + 4 * HOUR_MS
    scene.given.append(
        made, reservation.MemberPlaced(scene.pool_id, "acme", instead, again, end, generation=2, prepare_by=end)
    )
    assert scene.hours() == (10, 24)
    later = end + HOUR_MS
    claimed = reservation.Claimed((SCOPE,), {"gpu": 4}, MIDNIGHT, later)
    scene.given.append(
        made, reservation.Extended("ext_1", "adm_2", scene.pool_id, end, later, claimed, 0, (), MIDNIGHT)
    )
    assert scene.hours() == (10, 28), "what is spent is not committed again"
    scene.given.append(made, release(MIDNIGHT + 6 * HOUR_MS))
    assert scene.hours() == (18, 0)
    assert differences(database) == []


def test_a_gang_that_loses_members_after_its_end_commits_nothing_for_what_comes(scene: Scene) -> None:
    scene.grant(1000, until=MIDNIGHT + 10 * DAY_MS)
    end = MIDNIGHT + HOUR_MS
    parts = [scene.placed(MIDNIGHT, end).allocations[0]]
    for _ in range(2):
        node_id, (atom, *_) = scene.given.node(scene.pool_id)
        parts += scene.given.placed(scene.pool_id, node_id, [atom], MIDNIGHT, end).allocations
    whole = scene.given.placed(scene.pool_id, scene.node_id, [], MIDNIGHT, end)
    made = scene.admit(3, MIDNIGHT, 1, placed=replace(whole, allocations=tuple(parts)))
    scene.run(made, MIDNIGHT)
    for hours, one in ((1, parts[1]), (2, parts[2])):
        lost = reservation.MemberLost(one.id, one.node_id, "NodeLost", end + hours * HOUR_MS)
        scene.given.append(made, lost)
    assert scene.hours() == (3 * 2 + 2, 0)
