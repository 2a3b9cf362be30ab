"""Simulated machines are as good as real ones to the domain; a fleet joins once and comes back."""

import asyncio
import contextlib
import gc
import resource
import stat
import weakref

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fake_plane import NODE, FakeStore, allocation, joined, plane, scenario, until
from litestar import Litestar, Request, Response, post
from msgspec import json

import scripted
from adapters.agent import durable, joining, protocol, simulate
from adapters.agent import executors as real
from adapters.agent.instances import Instances
from adapters.agent.session import Backoff
from adapters.agent.simulated import Host, executors
from adapters.cli.agent import agent
from domain import device, fingerprint, inventory, mig
from domain.inventory import NodeInventory
from domain.node_command import TYPES
from domain.node_spec import Image, Instance, Sharing, Slice

MODELS = ("H100", "A100", "L4")


def machine(model, index=0, **more):
    return NodeInventory.convert(simulate.inventory_for(model, index=index, **more))


def identities(found):
    """Everything in an inventory that no other machine may have."""
    return {
        *fingerprint.fingerprint(found).identifiers,
        *(disk.wwn for disk in found.disks),
        *(disk.serial for disk in found.disks),
        *(one.uuid for card in found.gpus for one in card.mig_instances),
        *(card.serial for card in found.gpus),
    }


@pytest.mark.parametrize("model", MODELS)
def test_a_machine_is_valid_and_its_fingerprint_trusted(model):
    found = machine(model)
    identity = fingerprint.fingerprint(found)
    assert identity.trusted
    assert {tag.partition(":")[0] for tag in identity.identifiers} == {"uuid", "serial", "mac", "gpu"}
    assert all(fingerprint.is_hardware_mac(nic.mac) for nic in found.nics)


def test_the_same_machine_is_the_same_and_no_two_share_anything():
    assert machine("H100", 3) == machine("H100", 3)
    fleet = [identities(machine(m, i, seed=s)) for m in MODELS for i in range(40) for s in ("a", "b")]
    assert len(set().union(*fleet)) == sum(map(len, fleet))


@pytest.mark.parametrize(("model", "gpus", "product"), [("H100", 8, "H100-SXM5-80GB"), ("L4", 4, "L4-PCIE-24GB")])
def test_whole_gpus_are_bookable(model, gpus, product):
    derived = device.devices(machine(model), node_id="n", pool_class="hosts")
    cards = [one for one in derived.devices if one.class_ == "gpu"]
    assert [(card.gpu_product, card.bookable) for card in cards] == [(product, True)] * gpus
    assert {card.numa_node for card in cards} == {0, 1}
    assert derived.partition_pending == ()
    assert derived.scalars["vcpu"] > 0


def test_an_h100_machine_is_one_nvlink_group():
    derived = device.devices(machine("H100"), node_id="n", pool_class="hosts")
    assert {one.nvlink_group for one in derived.devices if one.class_ == "gpu"} == {0}


MIXED = (mig.Slice("3g.40gb", 0), mig.Slice("2g.20gb", 4), mig.Slice("1g.20gb", 6))


@pytest.mark.parametrize("layout", [simulate.SEVEN, MIXED], ids=["seven", "mixed"])
def test_every_slice_of_the_layout_is_bookable(layout):
    given = None if layout is simulate.SEVEN else layout
    found = machine("A100", mig_layout=given)
    derived = device.devices(found, node_id="n", pool_class="hosts", sharing="mig", mig_layout=layout)
    slices = [one for one in derived.devices if one.class_ == "gpu.mig"]
    assert len(slices) == 8 * len(layout)
    assert all(one.bookable and one.cdi for one in slices)
    assert derived.partition_pending == ()


def test_without_a_layout_an_a100_is_sold_whole():
    derived = device.devices(machine("A100", mig_layout=()), node_id="n", pool_class="hosts")
    assert all(one.bookable for one in derived.devices if one.class_ == "gpu")


def test_a_layout_that_no_gpu_can_hold_is_refused():
    with pytest.raises(mig.IllegalLayout):
        simulate.inventory_for("A100", mig_layout=[mig.Slice("7g.80gb", 1)])


class Joins:
    """A join endpoint that makes nodes in the fake store; `busy` answers 503 that often before."""

    def __init__(self, store, busy=0):
        self.store, self.busy, self.names = store, busy, []

    def route(self):
        @post("/v1/nodes/join")
        async def join(request: Request) -> Response:
            if request.headers.get("authorization") != "Bearer good":
                return Response({"title": "no", "detail": "the join token admits nobody"}, status_code=401)
            if self.busy:
                self.busy -= 1
                return Response({"detail": "later"}, status_code=503)
            body = await request.json()
            node_id = f"node_{len(self.names):026}"
            self.names.append(body["name"])
            event = joined(_FLEET_KEY)
            self.store.streams[node_id] = [type(event)(**_fields(event) | {"public_key": body["publicKey"]})]
            return Response({"id": node_id}, status_code=201)

        return join


def _fields(event):
    return {name: getattr(event, name) for name in event.__struct_fields__}


_FLEET_KEY = Ed25519PrivateKey.generate()


def plane_with(joins):
    def app(made):
        return Litestar([made.gateway.route, joins.route()], openapi_config=None, lifespan=[made.gateway.running])

    return plane(joins.store, app=app)


def fleet(made, path, token="good", count=3):
    members = [
        simulate.Member(name=f"sim-{n}", join_token=token, inventory=simulate.inventory_for("L4", index=n))
        for n in range(count)
    ]
    return simulate.Fleet(made.address, members, path, prepare_seconds=0, backoff=Backoff(0.01, 0.02))


async def stopped(task):
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@scenario
async def test_a_fleet_joins_once_and_comes_back_with_the_same_nodes(tmp_path):
    joins, path = Joins(FakeStore()), tmp_path / "fleet.json"
    async with plane_with(joins) as made:
        for _ in range(2):
            nodes = fleet(made, path)
            task = asyncio.create_task(nodes.run())
            await until(lambda nodes=nodes: len(nodes.connected) == 3)
            await stopped(task)
        assert sorted(joins.names) == ["sim-0", "sim-1", "sim-2"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(json.decode(path.read_bytes())) == 3
    assert list(tmp_path.iterdir()) == [path]


@scenario
async def test_a_fleet_whose_task_nobody_keeps_is_not_collected(tmp_path):
    joins = Joins(FakeStore())
    async with plane_with(joins) as made:
        nodes = fleet(made, tmp_path / "fleet.json")
        lost = weakref.ref(asyncio.create_task(nodes.run()))
        await until(lambda: len(nodes.connected) == 3)
        gc.collect()
        assert lost() is not None
        await stopped(lost())


@scenario
async def test_a_killed_node_says_nothing_and_can_be_switched_on_again(tmp_path):
    joins = Joins(FakeStore())
    async with plane_with(joins) as made:
        nodes = fleet(made, tmp_path / "fleet.json")
        task = asyncio.create_task(nodes.run())
        await until(lambda: len(nodes.connected) == 3)
        node_id = nodes.node_ids["sim-1"]
        await nodes.stop("sim-1")
        await until(lambda: made.gateway._sessions == 2)
        assert joins.store.connectivity(node_id) == ["connected"]
        nodes.start("sim-1")
        await until(lambda: len(nodes.connected) == 3)
        await nodes.stop("sim-1", clean=True)
        await until(lambda: joins.store.connectivity(node_id)[-1] == "disconnected")
        await stopped(task)


@scenario
async def test_a_busy_plane_is_asked_again_and_a_refusal_is_told(tmp_path):
    joins = Joins(FakeStore(), busy=1)
    async with plane_with(joins) as made:
        await fleet(made, tmp_path / "a.json", count=1).join()
        with pytest.raises(simulate.JoinRefused, match="sim-0 could not join: the join token admits nobody"):
            await fleet(made, tmp_path / "b.json", token="bad", count=1).join()


def test_the_command_names_what_is_wrong_with_the_server(tmp_path):
    state = str(tmp_path / "s.json")
    done = CliRunner().invoke(agent, ["simulate", "2", "--server", "ftp://x", "--join-token", "t", "--state", state])
    assert done.exit_code == 2
    assert "--server" in done.output


class ByHand:
    """A fleet of one in its first session with a plane by hand."""

    def __init__(self, made, tmp_path, model="A100", **more):
        self.made = made
        keys = joining.Keyring(tmp_path / "fleet.json")
        keys.key("sim")
        keys.put(("sim", NODE))
        member = simulate.Member(
            name="sim", join_token="t", inventory=lambda: simulate.inventory_for(model, index=1), **more
        )
        self.fleet = simulate.Fleet(
            made.address,
            [member],
            tmp_path / "fleet.json",
            prepare_seconds=0,
            boot_seconds=0,
            backoff=Backoff(0.01, 0.02),
        )

    def state(self):
        """What it said last of the one instance that it has."""
        told = self.made.of(protocol.Status)
        return told[-1].instances[INSTANCE.id].state if told and told[-1].instances else None

    async def done(self, seq, name, **params):
        await self.made.command(seq, name, **params)
        return await scripted.until(lambda: self.made.result(seq))


@contextlib.asynccontextmanager
async def by_hand(tmp_path, **more):
    async with scripted.plane() as made:
        node = ByHand(made, tmp_path, **more)
        task = asyncio.create_task(node.fleet.run())
        await until(lambda: made.of(protocol.Status))
        yield node
        await stopped(task)


@scenario
async def test_a_simulated_reboot_forgets_what_was_held_and_comes_back(tmp_path):
    async with by_hand(tmp_path) as node:
        await node.made.say(protocol.Spec(1, (allocation("a"),)))
        await until(lambda: node.made.of(protocol.Status)[-1].items == {"a": "prepared"})
        await node.made.command(1, "reboot")
        await until(lambda: node.made.epoch == 2)
        assert node.made.result(1) is None
        assert len({hello.boot_id for hello in node.made.of(protocol.Hello)}) == 2
        await until(lambda: node.made.of(protocol.Status)[-1].items == {})
        assert (await node.done(1, "reboot")).outcome == "succeeded"


@scenario
async def test_simulated_acceptance_fails_where_the_member_says_so(tmp_path):
    async with by_hand(tmp_path, failing=("gpu-health",)) as node:
        assert (await node.done(1, "run-acceptance", checks=["disks"])).outcome == "succeeded"
        result = await node.done(2, "run-acceptance")
        assert (result.outcome, result.reason) == ("failed", "ChecksFailed: gpu-health")
        assert [check["name"] for check in result.result["checks"] if not check["ok"]] == ["gpu-health"]


@scenario
async def test_a_simulated_layout_is_told_as_inventory(tmp_path):
    async with by_hand(tmp_path) as node:
        assert len(node.made.of(protocol.Inventory)) == 1
        await node.made.shape(Sharing("mig", layout=(Slice("3g.40gb", 0), Slice("3g.40gb", 4))))
        await until(lambda: len(node.made.of(protocol.Inventory)) == 2)
        told = NodeInventory.parse(bytes(node.made.of(protocol.Inventory)[-1].inventory))
        assert [[one.start for one in card.mig_instances] for card in told.gpus] == [[0, 4]] * 8
        result = await node.done(1, "apply-mig-layout")
        assert {card["slices"] for card in result.result["gpus"]} == {2}
        await node.made.shape(Sharing("mig", layout=(Slice("3g.40gb", 3),)))
        assert (await node.done(2, "apply-mig-layout")).reason == "NotPartitioned"


@scenario
async def test_a_simulated_node_does_whatever_else_it_is_told(tmp_path):
    async with by_hand(tmp_path) as node:
        hardware = node.fleet.machine("sim").found()
        assert (await node.done(1, "inspect")).result == {"hash": inventory.document_hash(hardware)}
        given = {
            "collect-diagnostics": {},
            "gpu-reset": {"gpuUuid": hardware.gpus[0].uuid},
            "prefetch-image": {"url": "https://x/y", "sha256": "0" * 64},
            "agent-upgrade": {"version": "9"},
        }
        for seq, (name, params) in enumerate(given.items(), 2):
            assert (await node.done(seq, name, **params)).outcome == "succeeded"


INSTANCE = Instance(
    id="inst_" + "0" * 52,
    name="web",
    allocation_id="a",
    kind="microvm",
    desired="running",
    vcpu=1,
    memory_mib=512,
    disk_gib=1,
    image=Image("0" * 64, 1, "raw"),
)


@scenario
async def test_a_simulated_node_has_instances_which_its_reboot_ends_and_its_spec_brings_back(tmp_path):
    async with by_hand(tmp_path) as node:
        node.made.spec = protocol.Spec(1, (allocation("a"),), instances=(INSTANCE,))
        await node.made.say(node.made.spec)
        await until(lambda: node.state() == "running")
        assert (await node.done(1, "instance-reboot", instanceId=INSTANCE.id)).outcome == "succeeded"
        console = node.fleet.machine("sim").driver.console(INSTANCE.id)
        assert console.tail == 2 * "web: microvm with 1 vCPU and 512 MiB (simulated)\n"
        node.made.heard.clear()
        await node.made.command(2, "reboot")
        await until(lambda: node.made.epoch == 2)
        await until(lambda: node.state() == "running")
        assert node.fleet.machine("sim").driver.console(INSTANCE.id).tail.count("\n") == 3


@scenario
async def test_a_simulated_node_fails_with_instances_as_it_is_told(tmp_path):
    async with by_hand(tmp_path) as node:
        node.fleet.machine("sim").driver.fail("NoSpace", "the disk is full", instance_id=INSTANCE.id)
        await node.made.say(protocol.Spec(1, (allocation("a"),), instances=(INSTANCE,)))
        await until(lambda: node.state() == "failed")
        assert node.made.of(protocol.Status)[-1].instances[INSTANCE.id].detail == "the disk is full"
        await node.made.say(protocol.Spec(2, ()))
        await until(lambda: node.made.of(protocol.Status)[-1].observed_generation == 2)
        assert node.state() is None


def test_every_command_has_an_executor_real_and_simulated():
    member = simulate.Member(name="n", join_token="t", inventory={})
    simulated = executors(Host(simulate.Machine(member), member, Instances(), lambda: None, lambda: None))
    assert set(simulated) == set(real.executors(None)) == set(TYPES)


def test_keys_are_kept_with_one_write_for_all(tmp_path, monkeypatch):
    writes = []
    monkeypatch.setattr(durable, "write", lambda path, content: writes.append(content))
    keys = joining.Keyring(tmp_path / "k.json")
    keys.make(f"n{n}" for n in range(50))
    keys.put(*((f"n{n}", f"node_{n}") for n in range(50)))
    assert len(writes) == 2
    assert keys.get("n7").node_id == "node_7"


def test_more_nodes_than_open_files_are_refused_by_name(monkeypatch, tmp_path):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (100, 100))
    given = ["simulate", "9", "--join-token", "t", "--state", str(tmp_path / "s.json")]
    done = CliRunner().invoke(agent, given)
    assert done.exit_code == 2
    assert "this process may have 100" in done.output
