"""Random lives of a node: whatever happens in whichever order, its axes stay what they say (domain.md §3)."""

import itertools
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from commands import node_provision, node_service, reconciling
from domain import errors, node, node_fold, provision, schedulability

REASONS = st.sampled_from(["bios", "fan", "cpu"])
CONDITIONS = st.sampled_from(["DuplicateHardware", "AcceptanceFailed", "ClockSkew", "SpecDrift"])
JOINED = node.Joined("n1", "site_1", "platform", "eu", "host", "platform", "key", "jt_1", {}, 1)


class Life(RuleBasedStateMachine):
    """Every decision goes through `settle`, as in the handlers; a refused one changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 10
        self.log: list[node.Events] = []
        self.state = node.State()

    def record(self, events: list[node.Events]) -> None:
        for event in schedulability.settle(self.state, events, self.now):
            self.log.append(event)
            self.state = node_fold.evolve(self.state, event)

    def decided(self, decide: Any, *given: Any) -> None:
        try:
            events = decide(self.state, *given, self.now)
        except errors.Refusal:
            return
        self.record(events)
        try:
            again = decide(self.state, *given, self.now)
        except errors.IllegalTransition:
            return
        assert again == [], "asking twice changes nothing"

    @initialize()
    def join(self) -> None:
        self.record([JOINED, node.Assigned("host", "pool_1", "platform")])

    @rule(ms=st.integers(1, 5_000))
    def wait(self, ms: int) -> None:
        self.now += ms

    @rule(reason=REASONS)
    def cordon(self, reason: str) -> None:
        self.decided(node_service.cordon, reason)

    @rule()
    def uncordon(self) -> None:
        self.decided(node_service.uncordon)

    @rule(reason=REASONS)
    def enter(self, reason: str) -> None:
        self.decided(node_service.enter, reason)

    @rule(reason=st.none() | REASONS)
    def leave(self, reason: str | None) -> None:
        self.decided(node_service.leave, reason)

    @rule(reason=REASONS, after=st.none() | st.integers(0, 10_000))
    def drain(self, reason: str, after: int | None) -> None:
        command = node_service.Drain(id="n", reason=reason, deadline=None if after is None else self.now + after)
        self.decided(node_service.start_drain, command, 0.05)

    @rule(verb=st.sampled_from(["deploy", "release", "rescue", "retire"]))
    def move(self, verb: str) -> None:
        self.decided(getattr(node_provision, verb))

    @rule(to=st.sampled_from(sorted(provision.MOVES)))
    def workflow(self, to: provision.Provision) -> None:
        if to in provision.MOVES[self.state.provision_state] and to not in ("retiring", "retired"):
            self.record([node.Moved(to, "workflow", self.now)])

    @rule(connectivity=st.sampled_from(["connected", "disconnected", "unreachable", "lost"]))
    def connect(self, connectivity: node.Connectivity) -> None:
        self.record([node.ConnectivityChanged(connectivity, self.state.session + 1, self.now)])

    @rule(type_=CONDITIONS, holds=st.booleans())
    def condition(self, type_: str, holds: bool) -> None:
        condition = node.Condition(type_, "", "", self.now)
        self.record([node.ConditionRaised(condition) if holds else node.ConditionCleared(type_, self.now)])

    @rule(behind=st.integers(0, 1), items=st.dictionaries(st.sampled_from(["a1", "a2"]), st.just("prepared")))
    def report(self, behind: int, items: Any) -> None:
        self.decided(reconciling.report, max(0, self.state.generation - behind), items)

    @invariant()
    def schedulable_is_what_the_axes_say(self) -> None:
        if not self.state.created_at:
            return
        assert tuple(sorted(self.state.reasons)) == tuple(sorted(schedulability.unschedulable(self.state)))
        assert all(since <= self.now for since in self.state.reasons.values())
        open_ = (
            self.state.provision_state in ("adopted", "deployed")
            and not self.state.maintenance
            and self.state.cordoned is None
            and self.state.connectivity == "connected"
            and self.state.observed_generation >= 1
            and not {"DuplicateHardware", "AcceptanceFailed"} & {one.type for one in self.state.conditions}
        )
        assert open_ == (not self.state.reasons)

    @invariant()
    def a_drain_is_a_cordon_too(self) -> None:
        assert self.state.drain is None or self.state.cordoned is not None

    @invariant()
    def maintenance_has_each_reason_once(self) -> None:
        reasons = [stay.reason for stay in self.state.maintenance]
        assert len(reasons) == len(set(reasons))

    @invariant()
    def a_reason_stays_dated_while_it_holds(self) -> None:
        told = [event.reasons for event in self.log if isinstance(event, node.SchedulabilityChanged)]
        for before, after in itertools.pairwise(told):
            assert all(after[name] == since for name, since in before.items() if name in after)

    @invariant()
    def every_move_was_legal(self) -> None:
        at: provision.Provision = "adopting"
        for event in self.log:
            if isinstance(event, node.Moved):
                assert event.provision in provision.MOVES[at]
                at = event.provision

    @invariant()
    def the_log_folds_to_what_is(self) -> None:
        state = node.State()
        for event in self.log:
            state = node_fold.evolve(state, event)
        assert state == self.state


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
