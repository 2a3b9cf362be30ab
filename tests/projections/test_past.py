"""What inline tables were is what their past says: random histories, cut into batches of any size."""

import contextlib
import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from test_histories import HOUR, MOVES, bring, empty
from test_versions import Told

import pasts
from adapters.postgres import rebuild
from adapters.postgres.pool import Pool, pool
from adapters.postgres.runner import Runner
from commands.ports import NodeClosed, QueueAhead
from domain import errors, node, reservation
from domain.event import Event, Fence
from facts import TENANT, Facts, differences, new_id
from naive import feed
from projections import table

SCOPES = (f"tenant:{TENANT}", "prj_1")


class Spending(Facts):
    """Facts whose reservations take of budgets."""

    def append(self, stream: str, *events: Event, fence: Fence | None = None, expected: int | None = None) -> int:
        if isinstance(events[0], reservation.Drafted):
            events = (events[0], reservation.Budgeted(SCOPES, 2, 9 * HOUR, False), *events[1:])
        return super().append(stream, *events, fence=fence, expected=expected)


class Kept(Told):
    """A history with maintenance, and with spot that gives way."""

    def __init__(self, facts: Facts, pick: Callable[[], int]) -> None:
        super().__init__(facts, pick)
        self.plans: list[tuple[str, node.Plan]] = []

    def go_on(self, dice: random.Random, moves: int) -> Iterator[None]:
        for _ in range(moves):
            with contextlib.suppress(NodeClosed, QueueAhead, errors.Conflict, errors.DoubleBooked):
                getattr(self, dice.choice((*MOVES, "plan", "end_plan", "preempt", "take_scalars")))()
            self.position = feed(self.calendars, self.facts, self.position)
            yield

    def plan(self) -> None:
        node_id = list(self.nodes)[self.pick() % len(self.nodes)]
        plan = node.Plan(new_id("plan"), "fan", *self.window(), tuple(self.nodes[node_id]))
        self.facts.append(node_id, node.MaintenancePlanned(self.pool_id, "root", plan))
        self.plans.append((node_id, plan))

    def end_plan(self) -> None:
        if self.plans:
            node_id, plan = self.plans.pop(self.pick() % len(self.plans))
            self.facts.append(node_id, node.PlanEnded(plan.id, min(self.now, plan.until)))

    def preempt(self) -> None:
        if (id := self.one("placed", "binding", "active")) is not None:
            ends_at = self.now + self.pick() % 3 * HOUR
            self.facts.append(id, reservation.Preempted(self.pool_id, self.now, ends_at))

    def take_scalars(self) -> None:
        window = self.window()
        found = self.choose(1, window)
        if found is not None:
            placed = self._placed(found, window, priority=9)
            (one,) = placed.allocations
            taken = replace(placed, allocations=(replace(one, scalars={"vcpu": 2}),))
            self._try(lambda id: self.facts.place(taken, id), errors.QuotaExceeded, errors.DoubleBooked)


def tell(connections: Pool, seed: int, moves: int) -> dict[int, pasts.Rows]:
    """What the inline tables held after each move; the read models have read all of it, in pieces."""
    empty(connections)
    dice = random.Random(seed)
    told = Kept(Spending(connections), lambda: dice.randrange(2**16))
    running = Runner(connections, table.ASYNC)
    held: dict[int, pasts.Rows] = {}
    for _ in told.go_on(dice, moves):
        held[told.position] = pasts.now(connections)
        if not dice.randrange(4):
            bring(running)
    bring(running)
    return held


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), moves=st.integers(10, 60))
def test_the_past_of_bookings_and_claims_is_what_they_were(migrated: str, seed: int, moves: int) -> None:
    with pool(migrated, 3) as connections:
        for position, held in tell(connections, seed, moves).items():
            assert pasts.then(connections, position) == held, position
        assert differences(migrated) == []


@pytest.mark.parametrize("of", [one for one in table.ASYNC if one.name.endswith("_past")], ids=lambda of: of.name)
def test_it_can_be_made_anew(database: str, of: rebuild.Async) -> None:
    with pool(database, 3) as connections:
        held = tell(connections, 7, 40)
        rebuild.rebuild(database, of)
        for position, before in held.items():
            assert pasts.then(connections, position) == before, position
