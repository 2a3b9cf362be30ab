"""Random histories: whatever tenants, operators, agents, clocks and processes do, every invariant holds after it."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar, Final, Literal

import hypothesis.strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from msgspec.structs import replace

from commands import agents, status_batches
from commands.controllers import timekeeper
from domain import claim, errors
from domain.event import Fence
from domain.node_spec import InstanceStatus
from histories import invariants, launched, room
from histories.fleet import NODES, TENANTS, Terms, offered, session
from histories.history import History
from histories.launching import Launching
from histories.model import BOOKED, FINAL, RUNNING, Booked
from histories.process import ROOT, Process

MINUTE: Final = 60_000
HOUR: Final = 60 * MINUTE
LOOKS: Final = 31
"""So many rounds, and the worker has walked every queue."""

POOLS = st.builds(
    Terms,
    st.sampled_from([0, 60]),
    st.sampled_from(["off", "off", "confirm", "enforce"]),
    st.sampled_from(["metal-host", "metal-host", "vps-host"]),
)
LINES = st.builds(
    claim.DeviceLine,
    st.just("gpu"),
    st.sampled_from([0, 1, 2, 3]),
    st.sampled_from([None, None, *invariants.SELECTORS]),
    st.sampled_from([None, None, claim.Colocation("numa")]),
)
CLAIMS = st.builds(
    claim.Claim,
    st.lists(LINES, min_size=1, max_size=2).map(tuple),
    st.sampled_from([1, 1, 1, 2, 3]),
    st.sampled_from([None, None, claim.Topology(pack="rack"), claim.Topology(spread="rack")]),
    st.sampled_from([{}, {}, {"vcpu": 2}, {"vcpu": 5}]),
)
TERMS: Final[dict[str, Any]] = {
    "spot": st.booleans(),
    "max_pending_seconds": st.sampled_from([0, 1800]),
    "lease_seconds": st.sampled_from([60, 900]),
    "project": st.just("its own"),
}
SMALL = st.integers(0, 3).map(lambda gpus: claim.Claim((claim.DeviceLine("gpu", gpus),)))
PICK = st.integers(0, 1 << 16)
ONE = st.integers(0, 1)
NODE = st.integers(0, NODES - 1)
TENANT = st.sampled_from(TENANTS)
AHEAD = st.sampled_from([None, None, None, 0, 10 * MINUTE, HOUR, 2 * HOUR])
SECONDS = st.sampled_from([600, 1200, 3600, 7200])

SOME = st.lists(st.tuples(TENANT, SMALL, AHEAD, SECONDS), min_size=1, max_size=4)

TAKES: Final = {
    "cancel": frozenset({"draft", "awaiting-confirmation", "pending", "placed", "binding"}),
    "release": RUNNING,
    "renew": frozenset({"active"}),
}
SERVICE: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "cordon": ("nodes.cordon", {"reason": "test"}),
    "uncordon": ("nodes.uncordon", {}),
    "drain": ("nodes.drain", {"reason": "test"}),
    "maintain": ("nodes.maintain", {"on": True, "reason": "test"}),
    "end maintenance": ("nodes.maintain", {"on": False}),
    "fence": ("nodes.fence", {"reason": "test"}),
}


class Agent:
    """What a node's agent knows and holds, which is not always what the plane believes."""

    def __init__(self) -> None:
        self.session = 1
        self.generation = 1
        self.items: dict[str, Any] = {}
        self.instances: dict[str, InstanceStatus] = {}


class Histories(Launching):
    begin: ClassVar[Callable[[Terms], History]]

    @initialize(terms=POOLS, audited=st.sampled_from([True, False, False, False, False]), asked=SOME)
    def start(self, terms: Terms, audited: bool, asked: list[tuple[str, claim.Claim, int | None, int]]) -> None:
        """To compare all tables with the log takes as long as fifty steps: not every history ends with it."""
        self.of = type(self).begin(terms)
        self.audited, self.budget_check, self.hosts = audited, terms.budget_check, terms.class_ == "vps-host"
        self.clock, self.model = self.of.clock, self.of.model
        self.for_instances = terms.class_ == "vps-host"
        self.made: list[str] = []
        self.launched: list[str] = []
        self.agents = {id: Agent() for id in self.of.fleet.nodes}
        self.old_fences: list[Fence] = []
        self.of.note()
        self.create_some(0, asked)

    # tenants

    @rule(
        by=ONE,
        tenant=TENANT,
        asked=CLAIMS,
        ahead=AHEAD,
        seconds=SECONDS,
        terms=st.fixed_dictionaries({}, optional=TERMS),
    )
    def create(
        self, by: int, tenant: str, asked: claim.Claim, ahead: int | None, seconds: int, terms: dict[str, Any]
    ) -> None:
        project = self.of.fleet.project_id if terms.pop("project", tenant) != tenant and tenant == "acme" else None
        self._create(by, tenant, asked, ahead, seconds, project_id=project, **terms)

    @rule(by=ONE, asked=SOME)
    def create_some(self, by: int, asked: list[tuple[str, claim.Claim, int | None, int]]) -> None:
        """What most days are made of."""
        for tenant, one, ahead, seconds in asked:
            self._create(by, tenant, one, ahead, seconds)
            self.of.note()

    create_more = create_some

    def _suited(self, asked: claim.Claim) -> claim.Claim:
        """To the pool: what instances run on is one node, and may be scalars alone; elsewhere it has a device."""
        some = any(line.count for line in asked.devices)
        if self.hosts:
            scalars = asked.scalars if some or any(asked.scalars.values()) else {"vcpu": 3}
            return replace(asked, nodes=1, topology=None, scalars=scalars)
        return asked if some else replace(asked, devices=(replace(asked.devices[0], count=1), *asked.devices[1:]))

    def _create(self, by: int, tenant: str, asked: claim.Claim, ahead: int | None, seconds: int, **terms: Any) -> None:
        process, asked = self.of.processes[by], self._suited(asked)
        start = self.clock.now + (ahead or 0)
        must = (
            not process.behind
            and self.budget_check == "off"
            and not self.model.waiting()
            and room.fits(self.model, asked, start, start + seconds * 1000, self.of.gap_ms)
        )
        try:
            made = process.ask(
                "reservations.create",
                session(tenant),
                f"key-{self.of.new_id('key')}",
                pool_id=self.of.fleet.pool_id,
                devices=asked.devices,
                nodes=asked.nodes,
                topology=asked.topology,
                scalars=asked.scalars,
                starts_at=None if ahead is None else start,
                duration_seconds=seconds,
                binding="instance" if self.hosts else "hold",
                **terms,
            )
        except errors.NotFound:
            assert self.model.offer(tenant, ROOT) is None
        except errors.DoubleBooked:
            assert terms["max_pending_seconds"] == 0, "a full pool is not an error"
            assert not must, "there was room for it"
        except errors.QuotaExceeded:
            scopes = [one for one in invariants.scopes(self.model, tenant, terms.get("project_id")) if one is not None]
            end = start + (seconds + terms.get("max_pending_seconds", 86_400)) * 1000
            assert invariants.over_quota(self.model, scopes, invariants.amounts(asked), start, end)
        except errors.BudgetExceeded:
            assert self.budget_check == "enforce"
        else:
            self.made.append(made.body.id)
            may = ("placed", "pending", *(["awaiting-confirmation"] if self.budget_check == "confirm" else []))
            assert made.body.state in (("placed",) if must else may)

    @precondition(lambda self: self.made)
    @rule(by=ONE, pick=PICK, verb=st.sampled_from(["cancel", "release", "renew"]))
    def act(self, by: int, pick: int, verb: str) -> None:
        """A verb is taken in the states that domain.md §5 names, and said again it changes nothing."""
        of, head = self._picked(pick), self.of.processes[by].head()
        gone = of.status in ("releasing", "released") and (
            verb == "release" or (verb, of.reason) == ("cancel", "Cancelled")
        )
        again = gone or (verb == "cancel" and of.status == "cancelled")
        try:
            self.of.processes[by].ask(f"reservations.{verb}", session(of.draft.tenant_id), id=of.id)
        except errors.IllegalTransition:
            assert of.status not in TAKES[verb]
            assert not again
        except errors.Conflict:
            assert (verb, of.draft.lease_seconds) == ("renew", None)
        else:
            assert of.status in TAKES[verb] or (again and self.of.processes[by].head() == head)

    @precondition(lambda self: self.made)
    @rule(
        by=ONE, pick=PICK, verb=st.sampled_from(["extend", "extend", "confirm", "evict"]), minutes=st.integers(-60, 120)
    )
    def act_once(self, by: int, pick: int, verb: str, minutes: int) -> None:
        match verb:
            case "extend":
                self._extend(by, pick, minutes)
            case "confirm":
                self._confirm(by, pick)
            case _:
                self._evict(by, pick)

    def _extend(self, by: int, pick: int, minutes: int) -> None:
        """Refused, nothing of it changes."""
        of, process = self._picked(pick), self.of.processes[by]
        end = (of.end or self.clock.now) + minutes * MINUTE
        before = process.store.load(of.id).version
        try:
            key = f"key-{self.of.new_id('key')}"
            process.ask("reservations.extend", session(of.draft.tenant_id), key, id=of.id, ends_at=end)
        except errors.IllegalTransition:
            assert of.status not in BOOKED
        except errors.Invalid:
            assert end < self.clock.now or end <= (of.start or 0)
        except errors.Conflict:
            assert of.status in BOOKED
            assert minutes > 0, "a shortening is in nobody's way"
        else:
            self.of.note()
            assert of.end == end
            return
        assert process.store.load(of.id).version == before

    def _confirm(self, by: int, pick: int) -> None:
        of, process = self._picked(pick), self.of.processes[by]
        awaits = of.status == "awaiting-confirmation"
        try:
            process.ask("reservations.confirm", session(of.draft.tenant_id), id=of.id)
        except errors.IllegalTransition:
            assert not awaits
        except (errors.DoubleBooked, errors.QuotaExceeded, errors.NotFound):
            assert awaits

    def _evict(self, by: int, pick: int) -> None:
        of, pool_id = self._picked(pick), self.of.fleet.pool_id
        admitted = of.status not in ("draft", "awaiting-confirmation")
        try:
            self.of.processes[by].ask("pools.evict", session(ROOT), id=pool_id, reservation_id=of.id, reason="test")
        except errors.NotFound:
            assert not admitted or of.claim is None
        else:
            self.of.note()
            assert of.status in FINAL or of.status == "releasing"

    def _picked(self, pick: int) -> Booked:
        return self.model.reservations[self.made[pick % len(self.made)]]

    # the owner and its nodes

    @rule(
        by=ONE,
        of=st.sampled_from(["offer", "tenant", "project", "budget"]),
        tenant=TENANT,
        most=st.none() | st.integers(0, 9),
    )
    def limit(self, by: int, of: str, tenant: str, most: int | None) -> None:
        """Of nothing at all an offer is withdrawn, anything else is no limit any more."""
        ask, id = self.of.processes[by].ask, self.of.fleet.project_id if of == "project" else tenant
        if of == "offer":
            self._offer(by, tenant, most)
        elif of == "budget":
            ask("budgets.set", session(ROOT), kind="tenant", id=id, gpu_hours=most)
        else:
            who, limits = "acme" if of == "project" else ROOT, {} if most is None else {"gpu": most}
            ask("quotas.set", session(who), kind=of, id=id, limits=limits)

    def _offer(self, by: int, tenant: str, gpu: int | None) -> None:
        process, of = self.of.processes[by], {"id": self.of.fleet.pool_id, "tenant_id": tenant}
        if gpu is not None:
            quota = offered(gpu, 2 * gpu)
            process.ask("pools.offer", session(ROOT), **of, quota=quota, priority=gpu % 4, include_descendants=gpu > 3)
            return
        there = any(one.tenant_id == tenant and not one.withdrawn for one in self.model.offers.values())
        try:
            process.ask("pools.withdraw", session(ROOT), **of)
        except errors.NotFound:
            assert not there

    @rule(by=ONE, node=NODE, verb=st.sampled_from([*SERVICE, "plan", "drain until"]), ahead=st.integers(0, 3))
    def serve(self, by: int, node: int, verb: str, ahead: int) -> None:
        at = self.clock.now + ahead * HOUR
        plan = {"on": True, "reason": f"planned {at}", "from_": at, "until": at + 2 * HOUR}
        name, fields = {
            **SERVICE,
            "plan": ("nodes.maintain", plan),
            "drain until": ("nodes.drain", {"reason": "test", "deadline": at}),
        }[verb]
        try:
            self.of.processes[by].ask(name, session(ROOT), id=self._node(node), **fields)
        except errors.Conflict:
            assert verb.startswith(("drain", "plan")), "beyond the disruption budget, or booked already"

    def _node(self, number: int) -> str:
        return self.of.fleet.nodes[number]

    @rule(by=ONE, node=NODE, does=st.sampled_from(["works", "reports", "reports late"]))
    def agent(self, by: int, node: int, does: Literal["works", "reports", "reports late"]) -> None:
        """It does what its NodeSpec says, and tells; a session that was superseded is heard no more."""
        id, store = self._node(node), self.of.processes[by].store
        agent = self.agents[id]
        if does == "works":
            self._works(id)
            return
        try:
            heard = agent.session - (does != "reports")
            agents.report_status(store, id, heard, agent.generation, agent.items, agent.instances)
        except errors.Fenced:
            assert does != "reports", "its session is the last one"
        else:
            assert does == "reports", "its session was superseded"

    def _works(self, id: str) -> None:
        spec, agent = self.of.processes[0].store.load(id).state, self.agents[id]
        agent.generation, agent.items = spec.generation, {a.id: "prepared" for a in spec.allocations}
        agent.instances = {one.id: InstanceStatus(one.desired) for one in spec.instances}

    @rule(by=ONE)
    def agents_report(self, by: int) -> None:
        """Those that are connected, together: what a gateway hears at once is one append."""
        store = self.of.processes[by].store
        there = [id for id in self.of.fleet.nodes if store.load(id).state.connectivity == "connected"]
        said = [(id, self.agents[id]) for id in there]
        reports = [status_batches.Report(id, one.session, one.generation, one.items, one.instances) for id, one in said]
        assert status_batches.report_statuses(store, reports) == [None] * len(reports)

    @rule(by=ONE, node=NODE, lost=st.booleans())
    def agent_comes_or_goes(self, by: int, node: int, lost: bool) -> None:
        """A silence of 350 s is more than the pool's lostAfter."""
        id, store = self._node(node), self.of.processes[by].store
        if store.load(id).state.connectivity != "connected":
            self.agents[id].session = agents.open_session(store, id)
            return
        agents.end_session(store, id, self.agents[id].session, "unreachable")
        for _ in range(7 if lost else 0):
            self.clock.passes(50_000)
            self.of.watch()

    # time and processes

    @rule(
        minutes=st.sampled_from([1, 4, 6, 15, 60, 600]),
        is_set=st.sampled_from([False, False, True, True]),
        back=st.booleans(),
    )
    def time_passes(self, minutes: int, is_set: bool, back: bool) -> None:
        """And nobody does anything: the longest is an outage. Or somebody sets the wall clock."""
        if is_set:
            self.clock.steps(min(minutes, 90) * MINUTE * (-1 if back else 1))
        else:
            self.clock.passes(minutes * MINUTE)

    @rule()
    def controllers_run(self) -> None:
        self.of.watch()
        current = self.of.work()
        self.of.note()
        if current:
            self._nothing_is_overdue()
        if self.for_instances:
            self.of.settle_instances()
            launched.none_outlives_its_reservation(self.model)

    def _nothing_is_overdue(self) -> None:
        now = self.clock.now
        for of in self.model.reservations.values():
            assert of.status not in RUNNING or (of.end or 0) > now, f"{of.id} should have ended"
            assert of.status != "placed" or (of.start or 0) >= now, f"{of.id} should have begun, or expired"
            assert of.status != "pending" or (of.give_up_at or 0) > now, f"{of.id} should wait no more"

    @precondition(lambda self: self.model.waiting())
    @rule()
    def queue_is_walked(self) -> None:
        """Whoever is at its head gets what there is."""
        current = self.of.work(LOOKS)
        self.of.note()
        head = next(iter(self.model.waiting()), None)
        if head is not None and current:
            start, end = self._window(head)
            assert not room.fits(self.model, head.draft.claim, start, end, self.of.gap_ms), f"{head.id} still waits"

    def _window(self, of: Booked) -> tuple[int, int]:
        """A start that comes late keeps its end; none is before what it was admitted for."""
        assert of.claim is not None
        start = of.start or of.draft.starts_at or max(self.clock.now, of.claim.start)
        lasts = of.draft.duration_seconds * 1000 if of.draft.instance_id is None else invariants.NO_END
        return max(self.clock.now, start), of.end or min(start + lasts, invariants.NO_END)

    @rule(minutes=st.sampled_from([0, 1, 10, 60]))
    def all_goes_well(self, minutes: int) -> None:
        """Time passes, the controllers run, every agent does and says what it should, and they run again."""
        self.clock.passes(minutes * MINUTE)
        self.controllers_run()
        for id in self.of.fleet.nodes:
            if self.of.processes[0].store.load(id).state.connectivity == "connected":
                self._works(id)
        self.agents_report(0)
        self.controllers_run()

    more_goes_well = all_goes_well

    @rule(by=ONE, does=st.sampled_from(["stands still", "goes on", "goes on", "restarts", "takes over"]))
    def process(self, by: int, does: str) -> None:
        """Its follower stands still; all that it knew is gone; it takes over from the other, which was not heard of."""
        match does:
            case "restarts":
                self.of.restart(by)
            case "takes over":
                self.old_fences += [former] if (former := self.of.take_over(by)) else []
                self._who_was_overtaken_writes(self.of.processes[1 - by])
            case _:
                self.of.processes[by].behind = does == "stands still"

    def _who_was_overtaken_writes(self, process: Process) -> None:
        self.of.note()
        head = process.head()
        for fence in self.old_fences[-1:]:
            for of in [of for of in self.model.reservations.values() if of.status not in FINAL]:
                with suppress(errors.Fenced):
                    assert timekeeper.step(process.store, of.id, fence) is None
        assert process.head() == head, "a write with an old epoch is refused"

    @invariant()
    def everything_holds(self) -> None:
        if hasattr(self, "of"):
            self.of.check()

    def teardown(self) -> None:
        if hasattr(self, "of"):
            self.of.check_end(audited=self.audited)
