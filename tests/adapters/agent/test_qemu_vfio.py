"""GPUs that are lent to machines: which may be, and how they change drivers and come back."""

import asyncio
import os

import pytest
from fake_plane import scenario
from msgspec.structs import replace

from adapters.agent.driver import Failed
from adapters.agent.program import Done
from adapters.agent.qemu import vfio
from fake_driver import Driver, gpu

A, AUDIO, B, PORT = "0000:1b:00.0", "0000:1b:00.1", "0000:1c:00.0", "0000:1a:01.0"


class Kernel:
    """The PCI bus in sysfs: what is written to it does what the kernel does."""

    def __init__(self, driver: Driver) -> None:
        self.root = driver.root
        self.bus = self.root / "sys/bus/pci"
        self.own: dict[str, str] = {}
        self.wrote: list[str] = []
        self.stubborn: set[str] = set()
        self.device(A, group=7, own="nvidia")
        self.device(AUDIO, group=7, own="snd_hda_intel", kind="0x040300")
        self.device(B, group=8, own="nvidia")
        self.device(PORT, group=7, own="pcieport", kind="0x060400")
        self.driver("vfio-pci")

    def driver(self, name):
        (self.bus / "drivers" / name).mkdir(parents=True, exist_ok=True)
        return self.bus / "drivers" / name

    def device(self, address, group, own, kind="0x030200"):
        here, members = self.bus / "devices" / address, self.root / f"sys/kernel/iommu_groups/{group}/devices"
        here.mkdir(parents=True)
        members.mkdir(parents=True, exist_ok=True)
        (members / address).symlink_to(here)
        (here / "iommu_group").symlink_to(members.parent)
        (here / "class").write_text(kind + "\n")
        (here / "driver_override").write_text("\n")
        self.own[address] = own
        (here / "driver").symlink_to(self.driver(own))

    def bound(self, address):
        link = self.bus / "devices" / address / "driver"
        return link.resolve().name if link.is_symlink() else None

    async def write(self, path, text):
        self.wrote.append(f"{path.relative_to(self.bus)}={text.strip()}")
        if path.name == "driver_override":
            path.write_text(text)
        elif path.name == "unbind":
            path.parent.unlink()
        else:
            device = self.bus / "devices" / text
            wanted = (device / "driver_override").read_text().strip() or self.own[text]
            if text not in self.stubborn:
                (device / "driver").symlink_to(self.driver(wanted))


@pytest.fixture
def driver(tmp_path, monkeypatch):
    made = Driver(tmp_path, gpu(0), gpu(1))
    monkeypatch.setenv("PATH", f"{made.bin}:{os.environ['PATH']}")
    return made


@pytest.fixture
def kernel(driver):
    return Kernel(driver)


def names(driver, *numbers):
    return tuple(f"nvidia.com/gpu={driver.gpus[n]['uuid']}" for n in numbers)


async def no_module(command):
    return Done(1, complained=b"modprobe: FATAL: Module vfio-pci not found")


@scenario
async def test_a_gpu_is_lent_with_its_other_functions_and_comes_back(driver, kernel):
    lent = await vfio.find(names(driver, 0), driver.root)
    assert [(one.address, one.group, one.gpu.uuid) for one in lent] == [(A, (A, AUDIO), driver.gpus[0]["uuid"])]
    await vfio.take(lent, driver.root, write=kernel.write)
    assert {address: kernel.bound(address) for address in (A, AUDIO, B, PORT)} == {
        A: "vfio-pci",
        AUDIO: "vfio-pci",
        B: "nvidia",
        PORT: "pcieport",
    }
    assert vfio.is_taken(lent[0], driver.root)
    wrote = len(kernel.wrote)
    await vfio.take(lent, driver.root, write=kernel.write)
    assert len(kernel.wrote) == wrote, "what is taken is not taken again"
    await vfio.give_back(lent, driver.root, kernel.write)
    assert (kernel.bound(A), kernel.bound(AUDIO)) == ("nvidia", "snd_hda_intel")
    wrote = len(kernel.wrote)
    await vfio.give_back(lent, driver.root, kernel.write)
    assert len(kernel.wrote) == wrote


@scenario
async def test_the_order_is_override_unbind_probe(driver, kernel):
    await vfio.take(await vfio.find(names(driver, 1), driver.root), driver.root, write=kernel.write)
    assert kernel.wrote == [
        f"devices/{B}/driver_override=vfio-pci",
        f"devices/{B}/driver/unbind={B}",
        f"drivers_probe={B}",
    ]


@scenario
async def test_two_gpus_of_one_group_go_together_or_not_at_all(driver, kernel):
    (kernel.bus / "devices" / B / "iommu_group").unlink()
    (kernel.bus / "devices" / B / "iommu_group").symlink_to(kernel.root / "sys/kernel/iommu_groups/7")
    (kernel.root / "sys/kernel/iommu_groups/7/devices" / B).symlink_to(kernel.bus / "devices" / B)
    with pytest.raises(Failed, match=f"DeviceShared.*{B}"):
        await vfio.find(names(driver, 0), driver.root)
    assert len(await vfio.find(names(driver, 0, 1), driver.root)) == 2


@scenario
async def test_what_is_no_whole_free_gpu_is_not_lent(driver, kernel):
    with pytest.raises(Failed, match="DeviceMissing"):
        await vfio.find(("nvidia.com/gpu=GPU-unknown",), driver.root)
    with pytest.raises(Failed, match="DeviceMissing"):
        await vfio.find(("amd.com/gpu=0",), driver.root)
    with pytest.raises(Failed, match="DeviceUnsupported"):
        await vfio.find((*names(driver, 0), *(name.lower() for name in names(driver, 0))), driver.root)
    driver.change(0, processes=[{"name": "train"}])
    with pytest.raises(Failed, match="DeviceBusy"):
        await vfio.find(names(driver, 0), driver.root)
    one = {"gi": 7, "profile": "1g.11gb", "start": 0, "uuid": "MIG-00000000-0000-4000-8000-000000000001"}
    driver.change(1, mode="Enabled", pending="Enabled", instances=[one])
    with pytest.raises(Failed, match=r"DeviceUnsupported.*slice"):
        await vfio.find((f"nvidia.com/gpu={one['uuid']}",), driver.root)
    (kernel.bus / "devices" / B / "iommu_group").unlink()
    with pytest.raises(Failed, match="NoIommu"):
        await vfio.find(names(driver, 1), driver.root)


@scenario
async def test_without_the_module_nothing_is_touched(driver, kernel):
    (kernel.bus / "drivers/vfio-pci").rmdir()
    lent = await vfio.find(names(driver, 0), driver.root)
    with pytest.raises(Failed, match="NoVfio"):
        await vfio.take(lent, driver.root, no_module, kernel.write)
    assert kernel.wrote == []


@scenario
async def test_a_device_that_does_not_change_drivers_is_busy(driver, kernel):
    lent = await vfio.find(names(driver, 0), driver.root)
    kernel.stubborn.add(A)
    with pytest.raises(Failed, match="DeviceBusy"):
        await vfio.take(lent, driver.root, write=kernel.write)
    kernel.stubborn.clear()
    await vfio.take(lent, driver.root, write=kernel.write)
    with pytest.raises(Failed, match="DeviceMissing"):
        await vfio.give_back([replace(lent[0], group=("0000:ff:00.0",))], driver.root, kernel.write)


@scenario
async def test_a_write_that_never_ends_is_given_up(tmp_path):
    pipe = tmp_path / "unbind"
    os.mkfifo(pipe)
    with pytest.raises(Failed, match="DeviceBusy"):
        await vfio.write(pipe, "0000:1b:00.0", 0.05)
    reader = os.open(pipe, os.O_RDONLY)
    os.close(reader)
    with pytest.raises(Failed, match="DeviceBusy"):
        await vfio.write(tmp_path / "none" / "unbind", "0000:1b:00.0")
    await asyncio.sleep(0)
