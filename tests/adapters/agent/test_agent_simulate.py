"""Simulated machines are as good as real ones to the domain; a fleet joins once and comes back."""

import asyncio
import gc
import stat
import weakref

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fake_plane import FakeStore, joined, plane, scenario, until
from litestar import Litestar, Request, Response, post
from msgspec import json

from adapters.agent import simulate
from adapters.agent.session import Backoff
from adapters.cli.agent import agent
from domain import device, fingerprint, mig
from domain.inventory import NodeInventory

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
