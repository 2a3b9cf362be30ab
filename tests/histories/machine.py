"""Random histories: whatever tenants, operators, agents, clocks and processes do, every invariant holds after it."""

from collections.abc import Callable
from itertools import combinations
from typing import Any, ClassVar, Final

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from commands import agents
from commands.controllers import timekeeper
from domain import claim, errors
from domain.event import Fence
from histories import invariants
from histories.fleet import NODES, TENANTS, session
from histories.history import History
from histories.model import FINAL, RUNNING, Booked
from histories.process import ROOT, Process

MINUTE: Final = 60_000
HOUR: Final = 60 * MINUTE
REST_MS: Final = 31_000
"""Longer than anything rests that a controller leaves alone for a while."""

LINES = st.builds(
    claim.DeviceLine,
    st.just("gpu"),
    st.integers(1, 3),
    st.sampled_from([None, None, *invariants.SELECTORS]),
    st.sampled_from([None, None, claim.Colocation("numa")]),
)
TOPOLOGY = st.sampled_from([None, None, claim.Topology(pack="rack"), claim.Topology(spread="rack")])
SCALARS = st.sampled_from([{}, {}, {"vcpu": 2}, {"vcpu": 5}])
PICK = st.integers(0, 1 << 16)
ONE = st.integers(0, 1)
NODE = st.integers(0, NODES - 1)
TENANT = st.sampled_from(TENANTS)
AHEAD = st.sampled_from([None, None, None, 0, 10 * MINUTE, HOUR, 2 * HOUR])
SECONDS = st.sampled_from([600, 1200, 3600, 7200])

CANCELS: Final = frozenset({"draft", "awaiting-confirmation", "pending", "placed", "binding"})


class Agent:
    """What a node's agent knows and holds, which is not always what the plane believes."""

    def __init__(self) -> None:
        self.session = 1
        self.generation = 1
        self.items: dict[str, Any] = {}


class Histories(RuleBasedStateMachine):
    begin: ClassVar[Callable[[int], History]]

    @initialize(cleaning_s=st.sampled_from([0, 60]))
    def start(self, cleaning_s: int) -> None:
        self.of = type(self).begin(cleaning_s)
        self.model = self.of.model
        self.made: list[str] = []
        self.agents = {id: Agent() for id in self.of.fleet.nodes}
        self.old_fences: list[Fence] = []
        self.of.check()

    # tenants

    @rule(
        by=ONE,
        tenant=TENANT,
        lines=st.lists(LINES, min_size=1, max_size=2),
        nodes=st.sampled_from([1, 1, 1, 2, 3]),
        topology=TOPOLOGY,
        scalars=SCALARS,
        ahead=AHEAD,
        seconds=SECONDS,
        spot=st.booleans(),
        waits=st.sampled_from([None, None, 0, 1800]),
    )
    def create(
        self,
        by: int,
        tenant: str,
        lines: list[claim.DeviceLine],
        nodes: int,
        topology: claim.Topology | None,
        scalars: dict[claim.Scalar, int],
        ahead: int | None,
        seconds: int,
        spot: bool,
        waits: int | None,
    ) -> None:
        process = self.of.processes[by]
        asked = claim.Claim(tuple(lines), nodes, topology, scalars)
        start = None if ahead is None else self.of.clock.now + ahead
        from_ = self.of.clock.now if start is None else start
        alone = not self.model.waiting()
        room = self._room(asked, from_, from_ + seconds * 1000)
        try:
            made = process.ask(
                "reservations.create",
                session(tenant),
                f"key-{self.of.new_id('key')}",
                pool_id=self.of.fleet.pool_id,
                devices=asked.devices,
                nodes=nodes,
                topology=topology,
                scalars=scalars,
                starts_at=start,
                duration_seconds=seconds,
                spot=spot,
                max_pending_seconds=waits,
            )
        except errors.NotFound:
            assert self.model.offer(tenant, ROOT) is None
            return
        except errors.DoubleBooked:
            assert waits == 0, "a full pool is not an error"
            assert process.behind or not (alone and room), "there was room for it"
            return
        except errors.QuotaExceeded as refusal:
            self._over(asked, tenant, from_, seconds, waits, refusal)
            return
        self.made.append(made.body.id)
        assert made.body.state in ("placed", "pending")
        if alone and room and not process.behind:
            assert made.body.state == "placed", "there was room for it, and nobody waited"

    def _over(
        self,
        asked: claim.Claim,
        tenant: str,
        start: int,
        seconds: int,
        waits: int | None,
        refusal: errors.QuotaExceeded,
    ) -> None:
        """Refused for a quota is only what would pass it, placed or waiting."""
        scope = self.model.offer(tenant, ROOT)
        assert scope is not None
        end = start + seconds * 1000 + (86_400 if waits is None else waits) * 1000
        assert any(
            amount + self.model.peak(scope, resource, start, end, "") > invariants.limit(self.model, scope, resource)
            for resource, amount in invariants.amounts(asked).items()
        ), f"it would have been within its quota: {refusal.detail}"

    def _room(self, asked: claim.Claim, start: int, end: int) -> bool:
        """Whether the claim fits somewhere, trying all nodes and all devices."""
        fit = [id for id in self.of.fleet.nodes if self._fits(asked, id, start, end)]
        for team in combinations(fit, asked.nodes):
            if asked.topology is None:
                return True
            values = {self.model.nodes[id].labels[asked.topology.pack or asked.topology.spread or ""] for id in team}
            if len(values) == (1 if asked.topology.pack else len(team)):
                return True
        return False

    def _fits(self, asked: claim.Claim, node_id: str, start: int, end: int) -> bool:
        on = self.model.nodes[node_id]
        if not on.schedulable:
            return False
        start, end = start - self.of.gap_ms, end + self.of.gap_ms
        mine = [hold for hold in self.model.holds() if hold.node_id == node_id]
        for scalar, amount in asked.scalars.items():
            for at in invariants.instants_of(mine, start, end):
                holding = [hold for hold in mine if hold.start <= at and (at < hold.end or hold.ended > hold.freed)]
                if amount + sum(hold.scalars.get(scalar, 0) for hold in holding) > on.scalars[scalar]:
                    return False
        free = [device for atom, device in on.devices.items() if not self._busy(atom, mine, start, end)]
        size = sum(line.count for line in asked.devices)
        return any(invariants.seats(asked, list(chosen)) for chosen in combinations(free, size))

    def _busy(self, atom: str, mine: list[Any], start: int, end: int) -> bool:
        holds = [hold for hold in mine if atom in hold.atoms]
        was = any(hold.freed and hold.start < end and start < hold.end for hold in holds)
        instants = invariants.instants_of(holds, start, end)
        return was or any(self.model.held(hold, at, holds, atom) for hold in holds for at in instants)

    @precondition(lambda self: self.made)
    @rule(by=ONE, pick=PICK, verb=st.sampled_from(["cancel", "release"]))
    def end_it(self, by: int, pick: int, verb: str) -> None:
        of = self._picked(pick)
        legal = of.status in (CANCELS if verb == "cancel" else RUNNING)
        again = of.status in ("releasing", "released") and (verb == "release" or of.reason == "Cancelled")
        try:
            self.of.processes[by].ask(f"reservations.{verb}", session(of.draft.tenant_id), id=of.id)
        except errors.IllegalTransition:
            assert not legal
            assert not again
            return
        assert legal or again or (verb == "cancel" and of.status == "cancelled")

    def _picked(self, pick: int) -> Booked:
        return self.model.reservations[self.made[pick % len(self.made)]]

    # the owner

    @rule(
        by=ONE, tenant=st.sampled_from(TENANTS), gpu=st.integers(0, 9), priority=st.integers(-1, 6), below=st.booleans()
    )
    def offer(self, by: int, tenant: str, gpu: int, priority: int, below: bool) -> None:
        self.of.processes[by].ask(
            "pools.offer",
            session(ROOT),
            id=self.of.fleet.pool_id,
            tenant_id=tenant,
            quota={"gpu": gpu, "vcpu": 2 * gpu},
            priority=priority,
            include_descendants=below,
        )

    @rule(by=ONE, tenant=st.sampled_from(TENANTS))
    def withdraw(self, by: int, tenant: str) -> None:
        offered = any(one.tenant_id == tenant and not one.withdrawn for one in self.model.offers.values())
        try:
            self.of.processes[by].ask("pools.withdraw", session(ROOT), id=self.of.fleet.pool_id, tenant_id=tenant)
        except errors.NotFound:
            assert not offered

    # operators and agents

    @rule(by=ONE, node=NODE, verb=st.sampled_from(["cordon", "uncordon", "drain", "maintain", "unmaintain", "fence"]))
    def serve(self, by: int, node: int, verb: str) -> None:
        fields: dict[str, Any] = {
            "cordon": {"reason": "test"},
            "uncordon": {},
            "drain": {"reason": "test", "deadline": self.of.clock.now + HOUR},
            "maintain": {"on": True, "reason": "test"},
            "unmaintain": {"on": False},
            "fence": {"reason": "test"},
        }[verb]
        name = "nodes.maintain" if verb == "unmaintain" else f"nodes.{verb}"
        try:
            self.of.processes[by].ask(name, session(ROOT), id=self._node(node), **fields)
        except errors.Conflict:
            assert verb == "drain", "beyond the pool's disruption budget"

    @rule(by=ONE, node=NODE, ahead=st.sampled_from([0, HOUR, 3 * HOUR]), lasts=st.sampled_from([HOUR, 4 * HOUR]))
    def plan(self, by: int, node: int, ahead: int, lasts: int) -> None:
        from_ = self.of.clock.now + ahead
        try:
            self.of.processes[by].ask(
                "nodes.maintain",
                session(ROOT),
                id=self._node(node),
                on=True,
                reason=f"plan {from_}",
                from_=from_,
                until=from_ + lasts,
            )
        except errors.Conflict:
            return

    @rule(node=NODE)
    def agent_works(self, node: int) -> None:
        """It does what its NodeSpec says; that the plane hears of it is another thing."""
        spec = self.of.processes[0].store.load(self._node(node)).state
        agent = self.agents[self._node(node)]
        agent.generation = spec.generation
        agent.items = {a.id: "prepared" for a in spec.allocations}

    @rule(by=ONE, node=NODE, former=st.booleans())
    def agent_reports(self, by: int, node: int, former: bool) -> None:
        id, agent = self._node(node), self.agents[self._node(node)]
        session_, store = agent.session - former, self.of.processes[by].store
        try:
            agents.report_status(store, id, session_, agent.generation, agent.items)
        except errors.Fenced:
            assert former, "its session is the last one"
            return
        assert not former, "an older session is heard no more"

    @rule(by=ONE, node=NODE, lost=st.booleans())
    def agent_falls_silent(self, by: int, node: int, lost: bool) -> None:
        process, id = self.of.processes[by], self._node(node)
        agents.end_session(process.store, id, self.agents[id].session, "unreachable")
        if lost:
            for _ in range(7):
                self.of.clock.passes(50_000)
                self._watch(process)

    @rule(by=ONE, node=NODE)
    def agent_returns(self, by: int, node: int) -> None:
        id = self._node(node)
        self.agents[id].session = agents.open_session(self.of.processes[by].store, id)

    def _node(self, number: int) -> str:
        return self.of.fleet.nodes[number]

    # time and processes

    @rule(minutes=st.sampled_from([1, 4, 6, 15, 60, 600]))
    def time_passes(self, minutes: int) -> None:
        self.of.clock.passes(minutes * MINUTE)

    @rule(minutes=st.sampled_from([-90, -5, 5, 90]))
    def clock_is_set(self, minutes: int) -> None:
        self.of.clock.steps(minutes * MINUTE)

    @rule(by=ONE)
    def controllers_run(self, by: int) -> None:
        process = self.of.processes[by]
        self._watch(process)
        for _ in range(4):
            self.of.clock.beats(REST_MS)
            if not self._tick(process):
                return
        self.of.note()
        if not process.behind:
            self._nothing_is_overdue()

    @rule(by=ONE)
    def controllers_run_for_a_second(self, by: int) -> None:
        """Long enough for every queue to be walked; whoever is at its head gets what there is."""
        process = self.of.processes[by]
        for _ in range(31):
            self.of.clock.beats(REST_MS)
            if not self._tick(process):
                return
        self.of.note()
        head = next(iter(self.model.waiting()), None)
        if head is None or process.behind:
            return
        start = max(self.of.clock.now, head.draft.starts_at or 0)
        assert not self._room(head.draft.claim, start, self._until(head, start)), f"{head.id} waits although it fits"

    def _until(self, of: Booked, start: int) -> int:
        lasts = of.draft.duration_seconds * 1000
        return of.end or (start if of.draft.starts_at is None else of.draft.starts_at) + lasts

    def _tick(self, process: Process) -> bool:
        if not process.behind:
            process.follow()
        self.of.project()
        return process.worker.tick()

    def _watch(self, process: Process) -> None:
        self.of.project()
        self.of.clock.beats(REST_MS)
        process.watch.tick()

    def _nothing_is_overdue(self) -> None:
        now = self.of.clock.now
        for of in self.model.reservations.values():
            assert of.status not in RUNNING or (of.end or 0) > now, f"{of.id} should have ended"
            assert of.status != "placed" or (of.start or 0) > now, f"{of.id} should have begun, or expired"
            assert of.status != "pending" or (of.give_up_at or 0) > now, f"{of.id} should wait no more"

    @rule(by=ONE)
    def another_takes_over(self, by: int) -> None:
        """The other process was not heard of for as long as it takes; it may come back and try to write."""
        former = self.of.processes[1 - by].worker.fence
        self.of.project()
        for _ in range(9):
            self.of.clock.beats(1000)
            self.of.processes[by].worker.tick()
        assert self.of.processes[by].worker.fence is not None
        if former is not None and self.of.processes[by].worker.fence != former:
            self.old_fences.append(former)

    @precondition(lambda self: self.old_fences)
    @rule(by=ONE)
    def who_was_overtaken_writes(self, by: int) -> None:
        process = self.of.processes[by]
        head = process.head()
        for of in self.model.reservations.values():
            if of.status in FINAL:
                continue
            try:
                assert timekeeper.step(process.store, of.id, self.old_fences[-1]) is None
            except errors.Fenced:
                pass
        assert process.head() == head, "a write with an old epoch is refused"

    @rule(by=ONE, behind=st.booleans())
    def follower_stands_still(self, by: int, behind: bool) -> None:
        self.of.processes[by].behind = behind

    @rule(by=ONE)
    def process_restarts(self, by: int) -> None:
        self.of.restart(by)

    @invariant()
    def everything_holds(self) -> None:
        if hasattr(self, "of"):
            self.of.check()
            self.of.check_capacity()

    def teardown(self) -> None:
        if hasattr(self, "of"):
            self.of.check_end()
