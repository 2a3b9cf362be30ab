"""The driver with real machines of QEMU: they begin, outlive the agent, stop, come back, and leave nothing behind."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import time

import pytest
from fake_plane import scenario
from msgspec.structs import replace
from qemu_node import SETTINGS, image, needs_qemu, node, wanted

import tiny_guest
from adapters.agent.driver import Failed, Means
from adapters.agent.qemu import driver, machine, processes
from adapters.agent.qemu.host import Host
from adapters.agent.qemu.life import Life
from adapters.agent.qemu.settings import Settings
from domain.node_spec import InstanceStatus

pytestmark = needs_qemu


def alive(here, id="inst_1"):
    found = processes.find(here.directory / id)
    if found is not None:
        found.let_go()
    return found is not None


@scenario
async def test_a_machine_runs_prints_and_is_taken_away_with_all_that_it_had(tmp_path):
    async with node(tmp_path) as here:
        await here.driver.bring(wanted(here.image))
        held = here.driver.held()["inst_1"]
        assert (held.allocation_id, held.status.state, held.status.addresses) == ("alc_1", "running", ("10.0.2.15",))
        await here.until_printed(tiny_guest.UP)
        await here.until_printed(tiny_guest.SEED)
        assert here.sources.asked == ["the-token", "the-token"]
        assert "the-token" not in (here.directory / "inst_1" / "instance.json").read_text()
        await here.driver.take_away("inst_1")
        assert not alive(here)
        assert here.driver.held() == {}
        assert list(here.directory.iterdir()) == []
        await here.driver.take_away("inst_1")


@scenario
async def test_bringing_twice_is_one_machine(tmp_path):
    async with node(tmp_path) as here:
        await here.driver.bring(wanted(here.image))
        pid = processes.find(here.directory / "inst_1").pid
        await here.driver.bring(wanted(here.image))
        assert processes.find(here.directory / "inst_1").pid == pid


@scenario
async def test_a_machine_stops_as_its_guest_wants_and_starts_on_the_same_disk(tmp_path):
    async with node(tmp_path) as here:
        await here.driver.bring(wanted(here.image))
        await here.until_printed(tiny_guest.SEED)
        disk = here.directory / "inst_1" / "disk.qcow2"
        made = disk.stat().st_ino
        await here.driver.bring(wanted(here.image, desired="stopped"))
        assert here.status().state == "stopped"
        assert tiny_guest.OFF in here.driver.console("inst_1").tail
        assert not alive(here)
        await here.driver.bring(wanted(here.image, desired="stopped"))
        await here.driver.bring(wanted(here.image))
        await here.until_printed(tiny_guest.UP, 2)
        assert disk.stat().st_ino == made
        assert here.status().state == "running"


@scenario
async def test_what_shall_be_stopped_from_the_beginning_needs_nothing(tmp_path):
    async with node(tmp_path) as here:
        await here.driver.bring(wanted(here.image, desired="stopped"))
        assert here.status().state == "stopped"
        assert here.sources.asked == []
        await here.driver.take_away("inst_1")


@scenario
async def test_a_guest_that_ignores_its_power_button_loses_its_power(tmp_path):
    settings = replace(SETTINGS, stop_seconds=0.2)
    async with node(tmp_path, settings=settings) as here:
        tiny_guest.raw(here.image, fills=True)
        await here.driver.bring(wanted(here.image))
        await here.driver.bring(wanted(here.image, desired="stopped"))
        assert here.status().state == "stopped"
        assert not alive(here)


@scenario
async def test_machines_outlive_the_agent(tmp_path):
    async with node(tmp_path) as here:
        await here.driver.bring(wanted(here.image))
        await here.until_printed(tiny_guest.SEED)
        pid = processes.find(here.directory / "inst_1").pid
        await here.driver.close()
        await here.start()
        assert here.status().state == "running"
        assert here.driver.held()["inst_1"].allocation_id == "alc_1"
        await here.driver.bring(wanted(here.image))
        assert processes.find(here.directory / "inst_1").pid == pid
        await here.driver.bring(wanted(here.image, desired="stopped"))
        assert tiny_guest.OFF in here.driver.console("inst_1").tail


@scenario
async def test_what_ended_while_no_agent_ran_is_stopped_and_comes_back(tmp_path):
    async with node(tmp_path) as here:
        await here.driver.bring(wanted(here.image))
        await here.driver.close()
        process = processes.find(here.directory / "inst_1")
        await process.kill()
        process.let_go()
        await here.start()
        assert here.status().state == "stopped"
        await here.driver.bring(wanted(here.image))
        assert here.status().state == "running"


@scenario
async def test_an_agent_that_is_killed_while_creating_goes_on_from_there(tmp_path):
    async with node(tmp_path) as here:
        gone = asyncio.Event()

        async def never(image, token):
            gone.set()
            await asyncio.Event().wait()

        kept, here.sources.image = here.sources.image, never
        begun = asyncio.create_task(here.driver.bring(wanted(here.image)))
        await gone.wait()
        assert here.status().state == "provisioning"
        begun.cancel()
        await asyncio.gather(begun, return_exceptions=True)
        await here.driver.close()
        here.sources.image = kept
        await here.start()
        assert here.status().state == "provisioning"
        await here.driver.bring(wanted(here.image))
        assert here.status().state == "running"


@scenario
async def test_a_guest_that_shuts_down_by_itself_is_stopped_and_a_machine_that_dies_has_failed(tmp_path):
    async with node(tmp_path) as here:
        await here.driver.bring(wanted(here.image))
        await here.until_printed(tiny_guest.SEED)
        await here.driver._lives["inst_1"]._qmp.ask("system_powerdown")
        await here.until(lambda: here.status().state == "stopped")
        assert here.status().reason == "PoweredOff"
        await here.driver.bring(wanted(here.image))
        os.kill(processes.find(here.directory / "inst_1").pid, signal.SIGKILL)
        await here.until(lambda: here.status().state == "failed")
        assert here.status().reason == "QemuEnded"
        await here.driver.bring(wanted(here.image))
        assert here.status().state == "running"


@scenario
async def test_a_reboot_shuts_the_guest_down_and_boots_it_in_the_same_machine(tmp_path):
    async with node(tmp_path) as here:
        await here.driver.bring(wanted(here.image))
        await here.until_printed(tiny_guest.SEED)
        pid = processes.find(here.directory / "inst_1").pid
        await here.driver.reboot("inst_1")
        await here.until_printed(tiny_guest.UP, 2)
        assert tiny_guest.OFF in here.driver.console("inst_1").tail
        assert processes.find(here.directory / "inst_1").pid == pid
        await here.until_printed(tiny_guest.SEED, 2)
        await here.driver.bring(wanted(here.image, desired="stopped"))
        assert not alive(here)


@scenario
async def test_a_reboot_that_was_cut_short_is_made_up_for(tmp_path):
    async with node(tmp_path) as here:
        await here.driver.bring(wanted(here.image))
        await here.until_printed(tiny_guest.SEED)
        line = here.driver._lives["inst_1"]._qmp
        await line.ask("set-action", shutdown="pause")
        await line.ask("system_powerdown")
        await here.until_printed(tiny_guest.OFF)
        await here.driver.close()
        await here.start()
        await here.until(lambda: here.status().state in ("stopped", "running"))
        await here.driver.bring(wanted(here.image))
        await here.until_printed(tiny_guest.UP, 2)
        assert here.status().state == "running"
        begun = asyncio.create_task(here.driver.reboot("inst_1"))
        await here.until_printed(tiny_guest.OFF, 2)
        begun.cancel()
        await asyncio.gather(begun, return_exceptions=True)
        await here.driver.bring(wanted(here.image))
        await here.until_printed(tiny_guest.UP, 3)
        await here.until_printed(tiny_guest.SEED, 3)
        await here.driver.bring(wanted(here.image, desired="stopped"))
        assert not alive(here)


@scenario
async def test_what_does_not_run_is_not_rebooted(tmp_path):
    async with node(tmp_path) as here:
        with pytest.raises(Failed, match="NotRunning"):
            await here.driver.reboot("inst_1")
        await here.driver.bring(wanted(here.image, desired="stopped"))
        with pytest.raises(Failed, match="NotRunning"):
            await here.driver.reboot("inst_1")


@scenario
async def test_a_microvm_boots_its_disk_too(tmp_path):
    async with node(tmp_path, settings=replace(SETTINGS, stop_seconds=0.2)) as here:
        await here.driver.bring(wanted(here.image, kind="microvm"))
        await here.until_printed(tiny_guest.UP)
        await here.driver.take_away("inst_1")
        assert not alive(here)


@scenario
async def test_an_iso_is_a_cd_beside_a_blank_disk(tmp_path):
    async with node(tmp_path) as here:
        await here.driver.bring(wanted(here.image, image=image(here.image, "iso")))
        await here.until_printed("Booting from DVD/CD")
        printed = subprocess.run(
            ["qemu-img", "info", "-U", "--output=json", here.directory / "inst_1" / "disk.qcow2"],
            capture_output=True,
            check=True,
        )
        about = json.loads(printed.stdout)
        assert about["virtual-size"] == 1 << 30
        assert "backing-filename" not in about


@scenario
async def test_a_qcow2_image_is_begun_from_and_never_written_to(tmp_path):
    async with node(tmp_path) as here:
        raw, made = tiny_guest.raw(tmp_path / "raw.img"), tmp_path / "image.qcow2"
        subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, made], check=True)
        before = made.read_bytes()
        here.sources.path = made
        for id in ("inst_1", "inst_2"):
            await here.driver.bring(wanted(made, id, image=image(made, "qcow2")))
            await here.until_printed(tiny_guest.SEED, id=id)
        assert made.read_bytes() == before


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"kind": "container"}, "KindUnsupported"),
        ({"kind": "microvm", "devices": ("nvidia.com/gpu=GPU-1",)}, "KindUnsupported"),
        ({"devices": ("nvidia.com/gpu=GPU-1",)}, "DeviceMissing"),
    ],
)
@scenario
async def test_what_cannot_be_run_says_why_and_leaves_nothing(tmp_path, fields, reason):
    async with node(tmp_path) as here:
        with pytest.raises(Failed) as refused:
            await here.driver.bring(wanted(here.image, **fields))
        assert refused.value.reason == reason
        assert (here.status().state, here.status().reason) == ("failed", reason)
        assert not alive(here)
        await here.driver.take_away("inst_1")
        assert list(here.directory.iterdir()) == []


@scenario
async def test_an_image_that_names_another_file_is_refused(tmp_path):
    async with node(tmp_path) as here:
        made = tmp_path / "image.qcow2"
        words = ["qemu-img", "create", "-q", "-f", "qcow2", "-b", "/etc/passwd", "-F", "raw", made]
        subprocess.run(words, check=True)
        here.sources.path = made
        with pytest.raises(Failed, match="ImageRefused"):
            await here.driver.bring(wanted(made, image=image(made, "qcow2")))


@scenario
async def test_an_image_that_is_larger_than_the_disk_is_refused(tmp_path):
    async with node(tmp_path) as here:
        made = tmp_path / "image.qcow2"
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", made, "2G"], check=True)
        here.sources.path = made
        with pytest.raises(Failed, match="ImageTooBig"):
            await here.driver.bring(wanted(made, image=image(made, "qcow2")))


@scenario
async def test_an_image_that_cannot_be_had_is_the_reason(tmp_path):
    async with node(tmp_path) as here:
        here.sources.refuses = Failed("ImageCorrupt", "it has another digest")
        with pytest.raises(Failed):
            await here.driver.bring(wanted(here.image))
        assert (here.status().state, here.status().reason) == ("failed", "ImageCorrupt")
        here.sources.refuses = None
        await here.driver.bring(wanted(here.image))
        assert here.status().state == "running"


@scenario
async def test_on_another_allocation_it_is_another_machine(tmp_path):
    async with node(tmp_path) as here:
        await here.driver.bring(wanted(here.image))
        pid = processes.find(here.directory / "inst_1").pid
        await here.driver.bring(wanted(here.image, allocation_id="alc_2"))
        assert here.driver.held()["inst_1"].allocation_id == "alc_2"
        assert processes.find(here.directory / "inst_1").pid != pid


@scenario
async def test_a_damaged_record_is_held_and_can_be_taken_away(tmp_path):
    async with node(tmp_path) as here:
        await here.driver.bring(wanted(here.image))
        await here.driver.close()
        (here.directory / "inst_1" / "instance.json").write_text("{")
        await here.start()
        assert here.status().reason == "RecordDamaged"
        await here.driver.take_away("inst_1")
        assert not alive(here)
        assert list(here.directory.iterdir()) == []


def fill(directory):
    with contextlib.suppress(OSError), (directory / "full").open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass


@scenario
async def test_when_the_nodes_disk_is_full_the_machine_waits_can_be_stopped_and_goes_on_when_there_is_room(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", small], capture_output=True)
    if mount.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {mount.stderr.decode().strip()}")
    try:
        async with node(small) as here:
            tiny_guest.raw(here.image, fills=True)
            await here.driver.bring(wanted(here.image))
            await here.until(lambda: here.status().state == "failed")
            assert here.status().reason == "NoSpace"
            fill(small)
            with pytest.raises(Failed) as refused:
                await here.driver.bring(wanted(here.image, "inst_2"))
            assert (refused.value.reason, list(here.driver.held())) == ("NoSpace", ["inst_1"])
            await here.driver.bring(wanted(here.image, desired="stopped"))
            assert (here.status().state, alive(here)) == ("stopped", False)
            subprocess.run(["mount", "-o", "remount,size=1g", small], check=True)
            await here.driver.bring(wanted(here.image))
            assert here.status().state == "running"
    finally:
        subprocess.run(["umount", small], check=True)


@scenario
async def test_a_disk_that_cannot_be_made_says_that_the_node_is_full(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1100k", "tmpfs", small], capture_output=True)
    if mount.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {mount.stderr.decode().strip()}")
    try:
        async with node(small) as here:
            with pytest.raises(Failed) as refused:
                await here.driver.bring(wanted(here.image))
            assert refused.value.reason == "NoSpace"
    finally:
        subprocess.run(["umount", small], check=True)


@scenario
async def test_what_qemu_complains_of_without_end_is_bounded_and_its_end_read_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "_UPKEEP_SECONDS", 0.01)
    async with node(tmp_path) as here:
        await here.driver.bring(wanted(here.image))
        log = here.directory / "inst_1" / machine.LOG
        with log.open("r+b") as file:
            file.write(b"a guest made a mistake\n" * 200_000)
        await here.until(lambda: log.stat().st_blocks * 512 < 1_000_000)
        with log.open("r+b") as file:
            file.seek(1 << 40)
            file.write(b"first\nlast\n")
        assert processes.complaint(log.parent) == "last"


@scenario
async def test_what_is_no_instances_directory_is_left_alone(tmp_path):
    async with node(tmp_path) as here:
        await here.driver.close()
        (here.directory / "lost+found").mkdir()
        await here.start()
        assert here.driver.held() == {}


@scenario
async def test_no_process_of_its_name_is_left_when_it_is_taken_away(tmp_path):
    async with node(tmp_path) as here:
        await here.driver.bring(wanted(here.image, desired="stopped"))
        command = ("sh", "-c", "read line", "sh", "-name", "guest=inst_1")
        there, elsewhere = here.directory / "inst_1", tmp_path
        *doubles, other = [
            subprocess.Popen(command, stdin=subprocess.PIPE, cwd=where) for where in (there, there, elsewhere)
        ]
        await here.driver.take_away("inst_1")
        for one in doubles:
            one.wait(10)
            one.stdin.close()
        assert other.poll() is None, "an instance of this name in another directory is another agent's"
        other.communicate()


@scenario
async def test_a_machine_that_an_upgraded_agent_finds_leaves_no_zombie(tmp_path):
    async with node(tmp_path) as here:
        await here.driver.bring(wanted(here.image))
        pid = processes.find(here.directory / "inst_1").pid
        await here.driver.close()
        await here.start()
        await here.driver.take_away("inst_1")
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


@scenario
async def test_what_one_asks_of_itself_is_not_looked_up_for_all(tmp_path):
    """Each of N keepers asks at each spec: where an answer read N times, 300 machines kept the agent from its beat."""
    (tmp_path / "sys/class/net/br0/bridge").mkdir(parents=True)
    (tmp_path / "proc/net").mkdir(parents=True)
    host = Host(Means(directory=tmp_path, root=tmp_path, sources=None, changed=None), Settings(bridge="br0"), "tcg")
    lives = {f"inst_{n}": Life(f"inst_{n}", host) for n in range(300)}
    for life in lives.values():
        life._status = InstanceStatus("running")
    rows = [f"10.0.{n // 250}.{n % 250} 0x1 0x2 {machine.mac(f'inst_{n}')} * br0" for n in range(300)]
    (tmp_path / "proc/net/arp").write_text("\n".join(["IP address", *rows]))
    made = driver.Qemu(host)
    made._lives = lives
    began = time.process_time()
    for id in lives:
        assert made.held()[id].status.addresses
    assert len({held.status.addresses for held in made.held().values()}) == 300
    assert time.process_time() - began < 3
