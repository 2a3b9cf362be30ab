"""The whole agent against a plane by hand: what it does with each command, and what it tells without being asked."""

import asyncio
import contextlib
import http.server
import json
import os
import threading
from hashlib import sha256

import pytest
from fake_plane import NODE, scenario
from msgspec import structs

import scripted
from adapters.agent import joining, protocol
from adapters.agent.run import Agent, Settings
from adapters.agent.session import VERSION
from adapters.agent.simulated_driver import SimulatedDriver
from domain.node_spec import Allocation, Image, Instance, Sharing, Slice
from fake_driver import Driver, gpu
from scripted import until

MIG = Sharing("mig", layout=(Slice("1g.10gb", 0), Slice("3g.40gb", 4)))


@pytest.fixture
def driver(tmp_path, monkeypatch):
    made = Driver(tmp_path, gpu(0), gpu(1))
    monkeypatch.setenv("PATH", f"{made.bin}:{os.environ['PATH']}")
    return made


class Machine:
    """An agent that has joined already; started and stopped within the test's own loop."""

    def __init__(self, plane, driver, tmp_path, **more):
        self.state = joining.state_directory(tmp_path / "state")
        keys = joining.Keyring(self.state / "identity.json")
        keys.key("agent")
        keys.put(("agent", NODE))
        self.settings = Settings(server=plane.address, state=self.state, cdi=tmp_path / "cdi", root=driver.root, **more)

    @contextlib.asynccontextmanager
    async def running(self):
        agent = Agent(self.settings)
        task = asyncio.create_task(agent.run())
        try:
            yield task
        finally:
            agent.stop()
            await task


@contextlib.asynccontextmanager
async def working(driver, tmp_path, **more):
    """A plane and an agent in its first session."""
    async with scripted.plane() as plane:
        machine = Machine(plane, driver, tmp_path, **more)
        async with machine.running():
            await until(lambda: plane.of(protocol.Status))
            yield plane


async def done(plane, seq, name, **params):
    await plane.command(seq, name, **params)
    return await until(lambda: plane.result(seq))


@scenario
async def test_an_inspection_tells_the_inventory_before_its_result(driver, tmp_path):
    async with working(driver, tmp_path) as plane:
        driver.change(0, name="NVIDIA H200")
        result = await done(plane, 1, "inspect")
        assert result.outcome == "succeeded"
        kinds = [type(said).__name__ for said in plane.heard if not isinstance(said, protocol.Heartbeat)]
        assert kinds[-3:] == ["Ack", "Inventory", "Result"]
        assert b"NVIDIA H200" in bytes(plane.of(protocol.Inventory)[-1].inventory)
        assert len(result.result["hash"]) == 64


@scenario
async def test_a_change_of_the_hardware_is_told_without_being_asked(driver, tmp_path):
    async with working(driver, tmp_path, inventory_seconds=0.05) as plane:
        driver.change(1, name="NVIDIA H200")
        await until(lambda: len(plane.of(protocol.Inventory)) == 2)


@scenario
async def test_a_layout_is_made_and_the_slices_are_told(driver, tmp_path):
    async with working(driver, tmp_path) as plane:
        await plane.shape(MIG)
        await until(lambda: len(plane.of(protocol.Inventory)) == 2)
        told = json.loads(bytes(plane.of(protocol.Inventory)[-1].inventory))
        assert [[one["start"] for one in card["migInstances"]] for card in told["gpus"]] == [[0, 4], [0, 4]]
        driver.change(0, instances=[])
        result = await done(plane, 1, "apply-mig-layout")
        assert [card["slices"] for card in result.result["gpus"]] == [2, 2]
        await plane.shape(Sharing())
        result = await done(plane, 2, "apply-mig-layout")
        assert [card["slices"] for card in result.result["gpus"]] == [0, 0]
        assert {card["mode"] for card in driver.gpus} == {"Disabled"}


@scenario
async def test_a_gpu_is_reset_unless_it_is_held(driver, tmp_path):
    async with working(driver, tmp_path) as plane:
        uuid = driver.gpus[0]["uuid"]
        assert (await done(plane, 1, "gpu-reset", gpuUuid=uuid)).outcome == "succeeded"
        assert driver.calls() == [f"--gpu-reset -i {uuid}"]
        held = Allocation("alc_1", "rsv_1", (f"nvidia.com/gpu={uuid}",))
        await plane.say(protocol.Spec(5, (held,)))
        await until(lambda: plane.of(protocol.Status)[-1].observed_generation == 5)
        assert (await done(plane, 2, "gpu-reset", gpuUuid=uuid)).reason == "Held"
        missing = "GPU-00000000-0000-4000-8000-00000000dead"
        assert (await done(plane, 3, "gpu-reset", gpuUuid=missing)).reason == "NoSuchGpu"


@scenario
async def test_acceptance_names_the_checks_that_failed(driver, tmp_path):
    async with working(driver, tmp_path) as plane:
        result = await done(plane, 1, "run-acceptance", checks=["gpus-present", "gpu-health"])
        assert (result.outcome, [check["ok"] for check in result.result["checks"]]) == ("succeeded", [True, True])
        driver.change(1, ecc=3)
        result = await done(plane, 2, "run-acceptance", checks=["gpus-present", "gpu-health"])
        assert (result.outcome, result.reason) == ("failed", "ChecksFailed: gpu-health")
        assert "3 dram_uncorrectable" in result.result["checks"][1]["detail"]


@scenario
async def test_diagnostics_are_facts_without_a_secret(driver, tmp_path):
    async with working(driver, tmp_path, token="bcjt_secret") as plane:
        result = await done(plane, 1, "collect-diagnostics")
        assert result.outcome == "succeeded"
        assert [card["uuid"] for card in result.result["gpus"]] == [card["uuid"] for card in driver.gpus]
        assert "bcjt_secret" not in json.dumps(result.result)


@scenario
async def test_a_reboot_is_answered_by_coming_back(driver, tmp_path):
    async with scripted.plane() as plane:
        machine = Machine(plane, driver, tmp_path, reboot=("touch", str(tmp_path / "rebooted")))
        async with machine.running():
            await until(lambda: plane.of(protocol.Status))
            await plane.command(1, "reboot")
            await until((tmp_path / "rebooted").exists)
        assert plane.result(1) is None
        driver.boot("0b5d9f0e-5c2e-4a5b-8f0e-000000000002")
        async with machine.running():
            await until(lambda: plane.epoch == 2)
            assert plane.of(protocol.Hello)[-1].boot_id.endswith("2")
            await plane.command(1, "reboot")
            assert (await until(lambda: plane.result(1))).outcome == "succeeded"
        assert (tmp_path / "rebooted").exists()


@scenario
async def test_a_reboot_that_the_machine_refuses_has_failed(driver, tmp_path):
    async with working(driver, tmp_path, reboot=("false",)) as plane:
        assert (await done(plane, 1, "reboot")).reason == "NotRebooted"


@scenario
async def test_an_upgrade_is_given_the_version_and_the_agent_ends_to_start_anew(driver, tmp_path):
    async with scripted.plane() as plane:
        installer = tmp_path / "install"
        installer.write_text(f"#!/bin/sh\necho $2 > {tmp_path}/installed\n")
        installer.chmod(0o755)
        machine = Machine(plane, driver, tmp_path, upgrade=(str(installer), "--version"))
        async with machine.running() as task:
            await until(lambda: plane.of(protocol.Status))
            await plane.command(1, "agent-upgrade", version="0.2.0")
            assert await asyncio.wait_for(asyncio.shield(task), 20) is True
        assert (await until(lambda: plane.result(1))).result == {"version": "0.2.0"}
        assert (tmp_path / "installed").read_text() == "0.2.0\n"


@scenario
async def test_without_an_upgrade_command_there_is_no_upgrade(driver, tmp_path):
    async with working(driver, tmp_path) as plane:
        assert (await done(plane, 1, "agent-upgrade", version="0.2.0")).reason == "NotConfigured"
        assert (await done(plane, 2, "agent-upgrade", version=VERSION)).outcome == "succeeded"


INSTANCE = Instance(
    id="inst_" + "0" * 52,
    name="web",
    allocation_id="alloc_1",
    kind="vm",
    desired="running",
    vcpu=1,
    memory_mib=512,
    disk_gib=1,
    image=Image("0" * 64, 1, "raw"),
)


@scenario
async def test_an_agent_with_a_driver_runs_instances_and_reboots_one_when_told(driver, tmp_path):
    made = []

    async def make(means):
        assert means.directory.stat().st_mode & 0o077 == 0
        pretending = SimulatedDriver(0)
        pretending.changed = means.changed
        made.append(pretending)
        return pretending

    async with working(driver, tmp_path, make_driver=make) as plane:
        assert (await done(plane, 1, "instance-reboot", instanceId=INSTANCE.id)).reason == "NoSuchInstance"
        await plane.say(protocol.Spec(5, (Allocation("alloc_1", "rsv_1", ()),), instances=(INSTANCE,)))
        await until(lambda: said(plane) == "running")
        assert (await done(plane, 2, "instance-reboot", instanceId=INSTANCE.id)).outcome == "succeeded"
        assert made[0].console(INSTANCE.id).tail.count("simulated") == 2
        await plane.say(protocol.Spec(6, (Allocation("alloc_1", "rsv_1", ()),), instances=(stopped(INSTANCE),)))
        await until(lambda: said(plane) == "stopped")
        result = await done(plane, 3, "instance-reboot", instanceId=INSTANCE.id)
        assert (result.reason, result.result) == ("NotRunning", {"detail": "it is stopped"})


def said(plane):
    """The state of the one instance, in the newest report."""
    told = plane.of(protocol.Status)[-1].instances
    return told[INSTANCE.id].state if told else None


def stopped(instance):
    return structs.replace(instance, desired="stopped")


BYTES = b"an image" * 100_000


@pytest.fixture
def depot():
    """A server of one image, at any path."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(404 if self.path == "/none" else 200)
            self.send_header("content-length", str(len(BYTES)))
            self.end_headers()
            self.wfile.write(BYTES)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


DIGEST = sha256(BYTES).hexdigest()


@scenario
async def test_an_image_is_kept_under_its_digest_and_fetched_once(driver, tmp_path, depot):
    async with working(driver, tmp_path) as plane:
        given = {"url": f"{depot}/image", "sha256": DIGEST, "sizeBytes": len(BYTES)}
        assert (await done(plane, 1, "prefetch-image", **given)).result["fetched"] is True
        assert (await done(plane, 2, "prefetch-image", **given)).result["fetched"] is False
        (kept,) = (tmp_path / "state" / "images").iterdir()
        assert (kept.name, kept.read_bytes()) == (f"sha256-{DIGEST}", BYTES)


@scenario
async def test_an_image_that_is_not_what_was_named_is_not_kept(driver, tmp_path, depot):
    async with working(driver, tmp_path) as plane:
        cases = (
            ({"sha256": "0" * 64}, "WrongDigest"),
            ({"sizeBytes": 7}, "TooBig"),
            ({"sizeBytes": len(BYTES) + 1}, "WrongSize"),
            ({"url": f"{depot}/none"}, "NotFetched"),
            ({"url": "http://127.0.0.1:9/x"}, "NotFetched"),
            ({"sizeBytes": 1 << 50}, "NoSpace"),
        )
        for seq, (wrong, reason) in enumerate(cases, 1):
            given = {"url": f"{depot}/image", "sha256": DIGEST} | wrong
            assert (await done(plane, seq, "prefetch-image", **given)).reason == reason
        assert list((tmp_path / "state" / "images").iterdir()) == []
