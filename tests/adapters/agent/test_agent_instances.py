"""Instances on a node: brought once their devices are prepared, gone before those are torn down, tried again."""

import asyncio
import contextlib

import pytest
from fake_plane import KEY, NODE, allocation, scenario, until

import scripted
from adapters.agent import consoles, machines, protocol
from adapters.agent.driver import UNKNOWN, Failed, Held, Wanted
from adapters.agent.instances import Instances
from adapters.agent.session import AgentSession, Backoff, Identity
from adapters.agent.simulated_driver import SimulatedDriver
from domain.inventory import NodeInventory
from domain.node_spec import Image, Instance, InstanceStatus

FOUND = NodeInventory.convert(machines.inventory_for("L4"))
IMAGE = Image("0" * 64, 1_000, "qcow2")


def instance(name, on=None, desired="running", **more):
    given = {"kind": "vm", "vcpu": 2, "memory_mib": 2048, "disk_gib": 10, "image": IMAGE} | more
    return Instance(id=f"inst_{name}", name=name, allocation_id=on or f"alloc_{name}", desired=desired, **given)


def spec(generation, *instances, allocations=None, **more):
    needed = {one.allocation_id for one in instances} if allocations is None else allocations
    tokens = {one: f"token of {one}" for one in needed}
    return protocol.Spec(
        generation, tuple(allocation(one) for one in sorted(needed)), instances=instances, tokens=tokens, **more
    )


class Devices:
    """What is prepared; `driver` tells whether an instance is still there when its allocation is torn down."""

    def __init__(self, driver):
        self.driver = driver
        self.failing = set()
        self.acts = []
        self._held = {}

    def held(self):
        return list(self._held.values())

    async def prepare(self, wanted):
        if wanted.id in self.failing:
            raise RuntimeError("no")
        self.acts.append(("prepare", wanted.id))
        self._held[wanted.id] = wanted

    async def tear_down(self, allocation_id):
        under = allocation_id in {one.allocation_id for one in self.driver.held().values()}
        self.acts.append(("tear down under an instance" if under else "tear down", allocation_id))
        del self._held[allocation_id]

    async def shape(self, sharing):
        """There is nothing to cut up."""


class Watched(SimulatedDriver):
    """Remembers what it was asked; a gate that is closed holds up every boot, or every goodbye."""

    def __init__(self, seconds=0.0):
        super().__init__(seconds)
        self.acts = []
        self.tokens = {}
        self.gate = asyncio.Event()
        self.gate.set()
        self.exit = asyncio.Event()
        self.exit.set()

    async def bring(self, wanted):
        self.acts.append((wanted.instance.desired, wanted.instance.id))
        self.tokens[wanted.instance.id] = wanted.token
        await super().bring(wanted)

    async def take_away(self, instance_id):
        self.acts.append(("gone", instance_id))
        await self.exit.wait()
        await super().take_away(instance_id)

    async def reboot(self, instance_id):
        self.acts.append(("reboot", instance_id))
        await super().reboot(instance_id)

    async def _boot(self, one):
        await self.gate.wait()
        await super()._boot(one)


class Node:
    """An agent in its session with a plane by hand."""

    def __init__(self, plane, driver, devices):
        self.plane = plane
        self.driver = driver
        self.devices = devices

    async def told(self, told, *gone):
        """Until its newest report says this of these instances, and nothing of those that are gone."""

        def said():
            reports = self.plane.of(protocol.Status)
            known = {id: status.state for id, status in reports[-1].instances.items()} if reports else {}
            return {f"inst_{id}": state for id, state in told.items()}.items() <= known.items() and not (
                {f"inst_{id}" for id in gone} & known.keys()
            )

        await until(said)
        return self.plane.of(protocol.Status)[-1]


@contextlib.asynccontextmanager
async def node(driver=None, plane=None, retry_seconds=0.02, devices=None):
    async with contextlib.AsyncExitStack() as stack:
        made = plane or await stack.enter_async_context(scripted.plane())
        driver = driver or Watched()
        devices = devices or Devices(driver)
        instances = Instances(driver, retry_seconds)
        driver.changed = instances.changed
        session = AgentSession(
            made.address,
            Identity(NODE, KEY),
            devices,
            lambda: FOUND,
            boot_id="b",
            backoff=Backoff(0.01, 0.02, 0.5),
            instances=instances,
            retry_seconds=retry_seconds,
            console_seconds=0.02,
        )
        task = asyncio.create_task(session.run())
        try:
            await until(lambda: made.of(protocol.Status))
            yield Node(made, driver, devices)
        finally:
            session.stop()
            await task


@scenario
async def test_an_instance_is_brought_once_its_devices_are_prepared_with_the_token_of_its_allocation():
    async with node() as one:
        await one.plane.say(spec(1, instance("a")))
        report = await one.told({"a": "running"})
        assert (report.observed_generation, report.items) == (1, {"alloc_a": "prepared"})
        assert report.instances["inst_a"].addresses
        assert one.driver.tokens == {"inst_a": "token of alloc_a"}
        assert one.devices.acts == [("prepare", "alloc_a")]


@scenario
async def test_every_kind_is_simulated_alike():
    async with node() as one:
        kinds = {"a": "vm", "b": "microvm", "c": "container"}
        await one.plane.say(spec(1, *(instance(name, kind=kind) for name, kind in kinds.items())))
        await one.told(dict.fromkeys(kinds, "running"))


@scenario
async def test_a_boot_takes_its_time_and_is_told_meanwhile():
    async with node() as one:
        one.driver.gate.clear()
        await one.plane.say(spec(1, instance("slow"), instance("off", desired="stopped")))
        await one.told({"slow": "provisioning", "off": "stopped"})
        one.driver.gate.set()
        await one.told({"slow": "running", "off": "stopped"})


@scenario
async def test_a_slow_boot_keeps_no_other_spec_from_being_followed():
    async with node() as one:
        one.driver.gate.clear()
        await one.plane.say(spec(1, instance("slow")))
        await one.told({"slow": "provisioning"})
        await one.plane.say(spec(2, instance("slow"), instance("off", desired="stopped")))
        report = await one.told({"slow": "provisioning", "off": "stopped"})
        assert report.observed_generation == 2


@scenario
async def test_a_spec_that_comes_twice_changes_nothing():
    async with node() as one:
        for _ in range(3):
            await one.plane.say(spec(1, instance("a"), instance("b", desired="stopped")))
        await one.told({"a": "running", "b": "stopped"})
        await one.plane.say(spec(1, instance("a"), instance("b", desired="stopped")))
        count = len(one.plane.of(protocol.Status))
        await until(lambda: len(one.plane.of(protocol.Status)) > count)
        assert sorted(one.driver.acts) == [("running", "inst_a"), ("stopped", "inst_b")]
        assert sorted(one.devices.acts) == [("prepare", "alloc_a"), ("prepare", "alloc_b")]


@scenario
async def test_an_instance_is_stopped_and_started_where_it_is():
    async with node() as one:
        for generation, desired in enumerate(("running", "stopped", "running"), 1):
            await one.plane.say(spec(generation, instance("a", desired=desired)))
            await one.told({"a": desired})
        assert one.driver.acts == [(desired, "inst_a") for desired in ("running", "stopped", "running")]


@scenario
async def test_an_instance_is_gone_before_its_devices_are_taken_back():
    async with node() as one:
        await one.plane.say(spec(1, instance("a"), instance("b")))
        await one.told({"a": "running", "b": "running"})
        await one.plane.say(spec(2, instance("b")))
        await until(lambda: one.plane.of(protocol.Status)[-1].items == {"alloc_b": "prepared"})
        assert one.driver.acts[-1] == ("gone", "inst_a")
        report = await one.told({"b": "running"}, "a")
        assert report.observed_generation == 2


@scenario
async def test_an_instance_can_leave_an_allocation_that_stays():
    async with node() as one:
        await one.plane.say(spec(1, instance("a")))
        await one.told({"a": "running"})
        await one.plane.say(spec(2, allocations=["alloc_a"]))
        report = await one.told({}, "a")
        await until(lambda: one.plane.of(protocol.Status)[-1].observed_generation == 2)
        assert report.items == {"alloc_a": "prepared"}
        assert one.devices.acts == [("prepare", "alloc_a")]


@scenario
async def test_what_does_not_go_keeps_its_allocation_and_says_why_until_it_goes():
    async with node() as one:
        await one.plane.say(spec(1, instance("a")))
        await one.told({"a": "running"})
        one.driver.fail("Stuck", "QEMU does not die", act="take away")
        await one.plane.say(spec(2))
        report = await one.told({"a": "failed"})
        await until(lambda: one.plane.of(protocol.Status)[-1].observed_generation == 2)
        assert report.instances["inst_a"] == InstanceStatus("failed", "Stuck", "QEMU does not die")
        assert one.plane.of(protocol.Status)[-1].items == {"alloc_a": "prepared"}
        one.driver.heal()
        await one.told({}, "a")
        await until(lambda: one.plane.of(protocol.Status)[-1].items == {})


@scenario
async def test_a_slow_goodbye_keeps_nothing_else_waiting():
    async with node() as one:
        await one.plane.say(spec(1, instance("a")))
        await one.told({"a": "running"})
        one.driver.exit.clear()
        await one.plane.say(spec(2, allocations=["alloc_new"]))
        await until(lambda: one.plane.of(protocol.Status)[-1].observed_generation == 2)
        assert one.plane.of(protocol.Status)[-1].items == {"alloc_a": "prepared", "alloc_new": "prepared"}
        one.driver.exit.set()
        await until(lambda: one.plane.of(protocol.Status)[-1].items == {"alloc_new": "prepared"})
        assert ("tear down under an instance", "alloc_a") not in one.devices.acts


@pytest.mark.parametrize("reason", ["ImageCorrupt", "NoSpace"])
def test_what_fails_is_said_and_tried_again(reason):
    @scenario
    async def story():
        async with node() as one:
            one.driver.fail(reason, "because")
            await one.plane.say(spec(1, instance("a"), instance("b")))
            report = await one.told({"a": "failed", "b": "failed"})
            assert report.instances["inst_a"] == InstanceStatus("failed", reason, "because")
            one.driver.heal()
            await one.told({"a": "running", "b": "running"})

    story()


@scenario
async def test_pauses_between_attempts_grow():
    async with node(retry_seconds=0.05) as one:
        began = asyncio.get_running_loop().time()
        one.driver.fail("NoSpace", times=4)
        await one.plane.say(spec(1, instance("a")))
        await one.told({"a": "running"})
        assert asyncio.get_running_loop().time() - began > 0.05 + 0.1 + 0.2 + 0.3
        assert len(one.driver.acts) == 5


@scenario
async def test_another_wish_is_seen_to_at_once_whatever_failed_before():
    async with node(retry_seconds=3600) as one:
        one.driver.fail("NoSpace", times=1)
        await one.plane.say(spec(1, instance("a")))
        await one.told({"a": "failed"})
        await one.plane.say(spec(2, instance("a", desired="stopped")))
        await one.told({"a": "stopped"})


@scenario
async def test_a_driver_that_crashes_is_a_failure_of_the_instance_alone():
    class Broken(Watched):
        async def bring(self, wanted):
            if wanted.instance.name == "a":
                raise ZeroDivisionError("oh" * 500)
            await super().bring(wanted)

    async with node(Broken()) as one:
        await one.plane.say(spec(1, instance("a"), instance("b")))
        report = await one.told({"a": "failed", "b": "running"})
        assert report.instances["inst_a"].reason == "Crashed"
        assert len(report.instances["inst_a"].detail) == 255


@scenario
async def test_what_ends_by_itself_is_told_and_brought_again():
    async with node(retry_seconds=0.2) as one:
        await one.plane.say(spec(1, instance("a")))
        await one.told({"a": "running"})
        await one.driver.crash("inst_a", "QemuDied")
        report = await one.told({"a": "failed"})
        assert report.instances["inst_a"].reason == "QemuDied"
        await one.told({"a": "running"})
        await one.driver.power_off("inst_a")
        await one.told({"a": "stopped"})
        await one.told({"a": "running"})


@scenario
async def test_nothing_is_brought_on_devices_that_cannot_be_prepared():
    async with node() as one:
        one.devices.failing.add("alloc_a")
        await one.plane.say(spec(1, instance("a"), instance("b")))
        report = await one.told({"a": "failed", "b": "running"})
        assert report.instances["inst_a"].reason == "DevicesNotPrepared"
        assert ("running", "inst_a") not in one.driver.acts
        one.devices.failing.clear()
        await one.told({"a": "running", "b": "running"})


@scenario
async def test_an_instance_whose_allocation_is_not_in_the_spec_is_none():
    async with node() as one:
        await one.plane.say(spec(1, instance("a"), allocations=[]))
        await until(lambda: one.plane.of(protocol.Status)[-1].observed_generation == 1)
        assert one.plane.of(protocol.Status)[-1].instances == {}
        assert one.driver.acts == []


@scenario
async def test_an_instance_on_another_allocation_leaves_the_old_one_first():
    async with node() as one:
        await one.plane.say(spec(1, instance("a")))
        await one.told({"a": "running"})
        await one.plane.say(spec(2, instance("a", on="alloc_new")))
        await until(lambda: one.plane.of(protocol.Status)[-1].items == {"alloc_new": "prepared"})
        await one.told({"a": "running"})
        assert one.driver.acts == [("running", "inst_a"), ("gone", "inst_a"), ("running", "inst_a")]
        assert one.driver.held()["inst_a"].allocation_id == "alloc_new"


@scenario
async def test_an_allocation_with_other_devices_is_left_before_it_is_prepared_anew():
    async with node() as one:
        await one.plane.say(spec(1, instance("a")))
        await one.told({"a": "running"})
        other = protocol.Spec(2, (allocation("alloc_a", "gpu=9"),), instances=(instance("a"),))
        await one.plane.say(other)
        await until(lambda: len(one.driver.acts) == 3)
        assert one.driver.acts == [("running", "inst_a"), ("gone", "inst_a"), ("running", "inst_a")]
        assert one.devices.acts == [("prepare", "alloc_a"), ("tear down", "alloc_a"), ("prepare", "alloc_a")]


@scenario
async def test_an_agent_killed_while_creating_goes_on_and_leaks_nothing():
    driver = Watched()
    driver.gate.clear()
    async with scripted.plane() as plane:
        devices = Devices(driver)
        async with node(driver, plane, devices=devices) as one:
            await plane.say(spec(1, instance("a"), instance("b")))
            await one.told({"a": "provisioning", "b": "provisioning"})
            plane.spec = spec(2, instance("a"))
        driver.gate.set()
        plane.heard.clear()
        async with node(driver, plane, devices=devices) as one:
            report = await one.told({"a": "running"}, "b")
            await until(lambda: plane.of(protocol.Status)[-1].items == {"alloc_a": "prepared"})
            assert report.observed_generation == 2
            assert list(driver.held()) == ["inst_a"]


@scenario
async def test_what_is_being_created_is_broken_off_when_it_shall_go():
    async with node() as one:
        one.driver.gate.clear()
        await one.plane.say(spec(1, instance("a")))
        await one.told({"a": "provisioning"})
        await one.plane.say(spec(2))
        await until(lambda: one.plane.of(protocol.Status)[-1].observed_generation == 2)
        await until(lambda: one.plane.of(protocol.Status)[-1].items == {})
        assert one.driver.held() == {}


@scenario
async def test_a_host_that_lost_its_power_has_its_instances_stopped_and_brings_them_back():
    driver = Watched()
    async with scripted.plane() as plane:
        async with node(driver, plane) as one:
            plane.spec = spec(1, instance("a"))
            await plane.say(plane.spec)
            await one.told({"a": "running"})
        driver.switch_off()
        driver.gate.clear()
        plane.heard.clear()
        async with node(driver, plane) as one:
            await one.told({"a": "stopped"})
            driver.gate.set()
            await one.told({"a": "running"})


@scenario
async def test_what_a_driver_has_of_an_allocation_that_is_not_there_is_taken_away_and_told_until_then():
    driver = Watched()
    driver.fail("Stuck", act="take away")
    async with scripted.plane() as plane:
        async with node(driver, plane) as one:
            await plane.say(spec(1, instance("a")))
            await one.told({"a": "running"})
        plane.heard.clear()
        async with node(driver, plane, devices=Devices(driver)) as one:
            await one.told({"a": "failed"})
            assert plane.of(protocol.Status)[-1].items == {"alloc_a": "prepared"}
            driver.heal()
            await until(lambda: plane.of(protocol.Status)[-1].items == {})


@scenario
async def test_reports_that_nobody_heard_are_made_up_for_by_the_next_session():
    async with node() as one:
        one.driver.gate.clear()
        one.plane.spec = spec(1, instance("a"))
        await one.plane.say(one.plane.spec)
        await one.told({"a": "provisioning"})
        await one.plane.sockets[-1].close()
        one.driver.gate.set()
        await until(lambda: one.plane.epoch == 2)
        await one.told({"a": "running"})


@scenario
async def test_a_node_without_a_driver_says_so():
    async with scripted.plane() as plane:
        devices = Devices(SimulatedDriver())
        session = AgentSession(plane.address, Identity(NODE, KEY), devices, lambda: FOUND, boot_id="b")
        task = asyncio.create_task(session.run())
        await until(lambda: plane.of(protocol.Status))
        await plane.say(spec(1, instance("a")))
        await until(lambda: plane.of(protocol.Status)[-1].instances)
        assert plane.of(protocol.Status)[-1].instances["inst_a"].reason == "NoDriver"
        assert plane.of(protocol.Status)[-1].items == {"alloc_a": "prepared"}
        session.stop()
        await task


@scenario
async def test_words_of_a_driver_are_cut_to_what_the_plane_takes():
    class Wordy(Watched):
        def held(self):
            long = InstanceStatus("running", "R" * 99, "D" * 999, tuple("a" * 99 for _ in range(99)))
            return {id: Held(one.allocation_id, long) for id, one in super().held().items()}

    async with node(Wordy()) as one:
        await one.plane.say(spec(1, instance("a")))
        status = (await one.told({"a": "running"})).instances["inst_a"]
        assert (len(status.reason), len(status.detail), len(status.addresses)) == (63, 255, 16)


@scenario
async def test_what_nobody_knows_the_allocation_of_keeps_all_and_is_told_of():
    class Forgetful(Watched):
        forgets = False

        def held(self):
            known = super().held()
            return {id: Held(UNKNOWN, one.status) for id, one in known.items()} if self.forgets else known

    driver = Forgetful()
    async with node(driver) as one:
        await one.plane.say(spec(1, instance("a"), allocations={"alloc_a", "alloc_b"}))
        await one.told({"a": "running"})
        driver.forgets = True
        driver.exit.clear()
        await one.plane.say(spec(2, allocations={"alloc_b"}))
        await until(lambda: one.plane.of(protocol.Status)[-1].observed_generation == 2)
        assert one.plane.of(protocol.Status)[-1].items == {"alloc_a": "failed", "alloc_b": "prepared"}
        driver.exit.set()
        await until(lambda: one.plane.of(protocol.Status)[-1].items == {"alloc_b": "prepared"})


def test_a_status_is_never_too_long_to_be_taken():
    long = {f"inst_{n:048}": InstanceStatus("failed", "NoSpace", "\N{SNOWMAN}" * 255) for n in range(600)}
    status = protocol.fitting(protocol.Status(1, {}, long))
    assert protocol.from_agent(protocol.encode(status)).instances.keys() == long.keys()
    short = protocol.Status(1, {}, {"inst_1": long.popitem()[1]})
    assert protocol.fitting(short) is short


@scenario
async def test_consoles_are_told_when_there_is_more_of_them_and_once_a_session():
    async with node() as one:
        one.plane.spec = spec(1, instance("a"))
        await one.plane.say(one.plane.spec)
        first = await until_console(one)
        assert first.tail == "a: vm with 2 vCPU and 2048 MiB (simulated)\n"
        assert first.total_bytes == len(first.tail)
        await one.driver.reboot("inst_a")
        await until(lambda: one.plane.of(protocol.Console)[-1].total_bytes == 2 * first.total_bytes)
        assert len(one.plane.of(protocol.Console)) == 2
        await one.plane.sockets[-1].close()
        await until(lambda: len(one.plane.of(protocol.Console)) == 3)


@scenario
async def test_more_consoles_than_the_plane_takes_at_once_come_one_after_the_other():
    count = consoles.AT_ONCE + 3
    driver = Watched()
    for number in range(count):
        await driver.bring(Wanted(instance(f"{number:03}"), (), ""))
    told = consoles.Consoles(driver, 1.0)
    heard = []

    async def tell(made):
        heard.append(made(1).instance_id)

    await told.look(tell)
    assert len(set(heard)) == len(heard) == consoles.AT_ONCE
    for id in heard:
        await driver.reboot(id)
    await told.look(tell)
    assert len(set(heard)) == count
    assert len(heard) == 2 * consoles.AT_ONCE


async def until_console(one):
    await until(lambda: one.plane.of(protocol.Console))
    return one.plane.of(protocol.Console)[0]


@scenario
async def test_a_reboot_is_of_what_runs():
    driver = Watched()
    instances = Instances(driver)
    driver.changed = instances.changed
    with pytest.raises(Failed, match="NoSuchInstance"):
        await instances.reboot("inst_a")
    instances.follow(spec(1, instance("a")))
    with pytest.raises(Failed, match="NotRunning"):
        await instances.reboot("inst_a")
    instances.prepared({"alloc_a": "prepared"})
    await until(lambda: instances.statuses()["inst_a"].state == "running")
    await instances.reboot("inst_a")
    assert driver.console("inst_a").tail.count("\n") == 2
    driver.fail("Deaf", act="reboot", times=1)
    with pytest.raises(Failed, match="Deaf"):
        await instances.reboot("inst_a")
    await instances.close()


@scenario
async def test_a_reboot_is_broken_off_by_what_the_instance_shall_be():
    driver = Watched()
    instances = Instances(driver)
    driver.changed = instances.changed
    instances.follow(spec(1, instance("a")))
    instances.prepared({"alloc_a": "prepared"})
    await until(lambda: instances.statuses()["inst_a"].state == "running")
    driver.gate.clear()
    reboot = asyncio.create_task(instances.reboot("inst_a"))
    await until(lambda: driver.acts[-1] == ("reboot", "inst_a"))
    instances.follow(spec(2))
    with pytest.raises(Failed, match="Interrupted"):
        await reboot
    await until(lambda: instances.statuses() == {})
    await instances.close()
