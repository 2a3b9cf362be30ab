"""The agent's side: what is torn down, prepared and reported, in which order; and how it comes back."""

import asyncio
import contextlib

from fake_plane import KEY, NODE, FakeStore, allocation, opened, plane, scenario, spec_changed, until

import scripted
from adapters.agent import machines, protocol
from adapters.agent.reconcile import reconcile
from adapters.agent.session import AgentSession, Backoff, Identity
from domain.inventory import NodeInventory
from domain.node_spec import Sharing, Slice

FOUND = NodeInventory.convert(machines.inventory_for("L4"))


class Recording:
    """A runtime that remembers what it was asked, and fails where it is told to."""

    def __init__(self, *held, failing=()):
        self._held = {one.id: one for one in held}
        self.failing = set(failing)
        self.acts = []

    def held(self):
        return list(self._held.values())

    async def prepare(self, allocation):
        self.acts.append(("prepare", allocation.id))
        if allocation.id in self.failing:
            raise RuntimeError("no")
        self._held[allocation.id] = allocation

    async def tear_down(self, allocation_id):
        self.acts.append(("tear down", allocation_id))
        if allocation_id in self.failing:
            raise RuntimeError("no")
        del self._held[allocation_id]

    async def shape(self, sharing):
        if sharing.mode == "mig":
            self.acts.append(("shape", len(sharing.layout)))


class Pauses:
    """When each pause between two connections began, in the loop's seconds; stands in for chance."""

    def __init__(self):
        self.began = []

    def __call__(self):
        self.began.append(asyncio.get_running_loop().time())
        return 0.0


def reconciled(runtime, *allocations):
    return asyncio.run(reconcile(protocol.Spec(1, tuple(allocations)), runtime)).items


def test_what_is_gone_is_torn_down_before_what_is_new_is_prepared():
    runtime = Recording(allocation("old"), allocation("kept"))
    assert reconciled(runtime, allocation("new"), allocation("kept")) == {"new": "prepared", "kept": "prepared"}
    assert runtime.acts == [("tear down", "old"), ("prepare", "new")]


def test_gpus_are_cut_up_after_what_is_gone_and_before_what_is_new():
    runtime = Recording(allocation("old"))
    spec = protocol.Spec(1, (allocation("new"),), Sharing("mig", layout=(Slice("7g.80gb", 0),)))
    assert asyncio.run(reconcile(spec, runtime)).done
    assert runtime.acts == [("tear down", "old"), ("shape", 1), ("prepare", "new")]


def test_gpus_that_could_not_be_cut_up_are_tried_again_though_nothing_is_allocated():
    class Stubborn(Recording):
        async def shape(self, sharing):
            raise RuntimeError("no")

    reached = asyncio.run(reconcile(protocol.Spec(1, (), Sharing("mig")), Stubborn()))
    assert (reached.items, reached.done) == ({}, False)


def test_reconciling_twice_does_nothing_the_second_time():
    runtime = Recording()
    reconciled(runtime, allocation("a"))
    assert reconciled(runtime, allocation("a")) == {"a": "prepared"}
    assert runtime.acts == [("prepare", "a")]


def test_an_allocation_on_other_devices_is_torn_down_and_prepared_anew():
    runtime = Recording(allocation("a", "gpu=0"))
    assert reconciled(runtime, allocation("a", "gpu=1")) == {"a": "prepared"}
    assert runtime.acts == [("tear down", "a"), ("prepare", "a")]


def test_what_could_not_be_torn_down_is_reported_and_its_devices_are_left_alone():
    runtime = Recording(allocation("old", "gpu=0"), failing=["old"])
    items = reconciled(runtime, allocation("same", "gpu=0"), allocation("other", "gpu=1"))
    assert items == {"old": "failed", "same": "preparing", "other": "prepared"}
    assert ("prepare", "same") not in runtime.acts


def test_one_that_fails_does_not_keep_the_others_from_being_prepared():
    runtime = Recording(failing=["a"])
    assert reconciled(runtime, allocation("a"), allocation("b")) == {"a": "failed", "b": "prepared"}


def test_pauses_double_up_to_a_bound_below_the_ttl():
    backoff = Backoff()
    pauses = [backoff.pause(n, 1.0) for n in range(8)]
    assert pauses == [0.5, 1, 2, 4, 8, 12, 12, 12]
    assert backoff.pause(1_000_000, 0.0) == 6
    assert backoff.most < protocol.TTL_SECONDS


def agent(made, runtime, **more):
    given = {"boot_id": "b", "backoff": Backoff(0.01, 0.02, 0.5), "audience": "plane-a"} | more
    return AgentSession(made.address, Identity(NODE, KEY), runtime, lambda: FOUND, **given)


@contextlib.asynccontextmanager
async def running(session):
    """A session in the background, stopped at the end."""
    task = asyncio.create_task(session.run())
    try:
        yield session
    finally:
        session.stop()
        await task


@scenario
async def test_an_agent_brings_its_inventory_and_follows_the_spec():
    store = FakeStore()
    store.add(spec_changed(1, "a"))
    runtime = Recording()
    async with plane(store) as made, running(agent(made, runtime)):
        await until(lambda: store.state().observed_generation == 1)
        assert store.state().inventory == FOUND
        assert [one.id for one in runtime.held()] == ["a"]
        store.add(spec_changed(2, "b"))
        made.gateway.has_news(NODE)
        await until(lambda: store.state().observed_generation == 2)
        assert {one.id for one in runtime.held()} == {"a", "b"}


@scenario
async def test_an_agent_that_leaves_is_disconnected_and_one_that_dies_is_not_yet():
    store = FakeStore()
    async with plane(store) as made:
        async with running(agent(made, Recording())) as session:
            await until(lambda: session.epoch == 1)
        await until(lambda: store.connectivity() == ["connected", "disconnected"])
        async with running(agent(made, Recording())) as session:
            await until(lambda: session.epoch == 2)
            session.abort()
        await until(lambda: made.gateway._sessions == 0)
        assert store.connectivity()[2:] == ["connected"]


@scenario
async def test_an_agent_beats_and_comes_back_after_the_connection_broke():
    store = FakeStore()
    async with plane(store) as made, running(agent(made, Recording(), heartbeat_seconds=0.01)) as session:
        await until(lambda: session.epoch == 1)
        made.clock.seconds += 5
        await until(lambda: made.gateway._leases._held[NODE].deadline == made.clock.seconds + 40)
        session._socket.transport.abort()
        await until(lambda: session.epoch == 2)


@scenario
async def test_an_agent_retries_what_failed():
    store = FakeStore()
    store.add(spec_changed(1, "a"))
    runtime = Recording(failing=["a"])
    async with plane(store) as made, running(agent(made, runtime, retry_seconds=0.01)):
        await until(lambda: len(runtime.acts) > 1)
        runtime.failing.clear()
        await until(runtime.held)


@scenario
async def test_an_agent_signs_for_no_other_plane():
    store = FakeStore()
    pauses = Pauses()
    async with plane(store) as made, running(agent(made, Recording(), audience="plane-b", draw=pauses)):
        await until(lambda: len(pauses.began) > 1)
    assert store.connectivity() == []


@scenario
async def test_an_agent_does_not_chase_a_rival_with_its_key():
    store = FakeStore()
    pauses = Pauses()
    given = {"backoff": Backoff(0.01, 0.02, rival=0.2), "draw": pauses}
    async with plane(store) as made, running(agent(made, Recording(), **given)) as session:
        await until(lambda: session.epoch == 1)
        async with opened(made):
            await until(lambda: session.epoch == 3)
            assert asyncio.get_running_loop().time() - pauses.began[0] > 0.19


@scenario
async def test_what_changed_beside_the_spec_is_mended_and_told_and_else_nothing_is():
    runtime = Recording()
    async with scripted.plane() as made, running(agent(made, runtime)) as session:
        await made_ready(made, protocol.Spec(1, (allocation("a"),)))
        session.reconsider()
        runtime._held.clear()
        runtime.failing.add("a")
        session.reconsider()
        await until(lambda: made.of(protocol.Status)[-1].items == {"a": "failed"})
        assert len(made.of(protocol.Status)) == 3
        await made.say(protocol.Spec(1, (allocation("a"),)))
        await until(lambda: len(made.of(protocol.Status)) == 4)


async def made_ready(made, spec):
    """The agent's first session, with a spec that it has answered."""
    await until(lambda: made.of(protocol.Status))
    await made.say(spec)
    await until(lambda: made.of(protocol.Status)[-1].observed_generation == spec.generation)
