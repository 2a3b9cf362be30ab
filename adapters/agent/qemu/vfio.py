"""GPUs that are given to a machine whole: bound to vfio-pci while it has them, and given back after.

After the kernel's Documentation/driver-api/vfio.rst: a machine gets all of an IOMMU group or nothing of it, bridges
apart; a driver is chosen with `driver_override`, and `drivers_probe` binds it.
"""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from adapters.agent import cdi, nvidia, program
from adapters.agent.driver import Failed
from domain import inventory

DRIVER: Final = "vfio-pci"
_DEVICES: Final = "sys/bus/pci/devices"
_BRIDGE: Final = "0x06"
_WRITE_SECONDS: Final = 30.0


Write = Callable[[Path, str], Awaitable[None]]
"""To a file of sysfs."""


class Lent(Struct, frozen=True, rename="camel"):
    """A GPU as the driver showed it, and every PCI address that goes with it."""

    gpu: inventory.Gpu
    address: str
    group: tuple[str, ...]


async def write(path: Path, text: str, seconds: float = _WRITE_SECONDS) -> None:
    """A driver that is in use makes who unbinds it wait, perhaps for ever; raises Failed after so long."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def settle(problem: OSError | None) -> None:
        if done.done():
            return
        if problem is None:
            done.set_result(None)
        else:
            done.set_exception(problem)

    def work() -> None:
        problem = None
        try:
            path.write_text(text)
        except OSError as why:
            problem = why
        with contextlib.suppress(RuntimeError):  # nobody waits any more
            loop.call_soon_threadsafe(settle, problem)

    threading.Thread(target=work, daemon=True).start()
    try:
        await asyncio.wait_for(done, seconds)
    except TimeoutError:
        raise Failed("DeviceBusy", f"{path}: not written in {seconds:g} s, its driver is in use") from None
    except OSError as why:
        raise Failed("DeviceBusy", f"{path}: {why.strerror}") from None


async def find(cdi_devices: Sequence[str], root: Path, run: program.Run = program.run) -> tuple[Lent, ...]:
    """The GPUs of these names, whole ones in IOMMU groups of their own; raises Failed."""
    if not cdi_devices:
        return ()
    try:
        found = await nvidia.look(run)
        uuids = [cdi.uuid_of(name) for name in dict.fromkeys(cdi_devices)]
    except (nvidia.DriverError, ValueError) as why:
        raise Failed("DeviceMissing", str(why)[:200]) from None
    lent = []
    for uuid in uuids:
        place = found.place(uuid)
        card = found.gpu(place.gpu) if place else None
        if place is None or card is None:
            raise Failed("DeviceMissing", f"the driver has no {uuid}")
        if place.gi is not None:
            raise Failed("DeviceUnsupported", f"{uuid} is a slice: a virtual machine gets whole GPUs")
        if place in found.computing or any(busy.gpu == card.uuid for busy in found.computing):
            raise Failed("DeviceBusy", f"somebody computes on {uuid}")
        address = _address(card)
        lent.append(Lent(card, address, _group(address, root)))
    if len({one.address for one in lent}) != len(lent):
        raise Failed("DeviceUnsupported", "the same GPU twice: time slices of a GPU cannot be given to a machine")
    _must_be_alone(lent, root)
    return tuple(lent)


async def take(lent: Sequence[Lent], root: Path, run: program.Run = program.run, write: Write = write) -> None:
    """Bind them all to vfio-pci; one that is already stays so. Raises Failed."""
    if not lent:
        return
    if not (root / f"sys/bus/pci/drivers/{DRIVER}").exists():
        done = await run(("modprobe", DRIVER))
        if done.code != 0:
            raise Failed("NoVfio", f"the module {DRIVER} cannot be loaded: {done.why(150)}")
    for one in lent:
        if _driver(one.address, root) == "nvidia":
            await run(("nvidia-smi", "-i", one.address, "-pm", "0"))
        for address in one.group:
            await _bind(address, DRIVER, root, write)


async def give_back(lent: Sequence[Lent], root: Path, write: Write = write) -> None:
    """To whatever driver the host has for them; raises Failed while vfio-pci keeps one."""
    for one in lent:
        for address in one.group:
            await _bind(address, "", root, write)


def is_taken(one: Lent, root: Path) -> bool:
    return _driver(one.address, root) == DRIVER


def _address(card: inventory.Gpu) -> str:
    """As sysfs has it: the driver writes the domain with eight digits."""
    if card.pci_bus_id is None:
        raise Failed("DeviceMissing", f"the driver gives no PCI address of {card.uuid}")
    domain, _, rest = card.pci_bus_id.lower().partition(":")
    return f"{domain[-4:].zfill(4)}:{rest}"


def _group(address: str, root: Path) -> tuple[str, ...]:
    """All that shares its IOMMU group, itself first; without one the IOMMU is off."""
    members = root / _DEVICES / address / "iommu_group/devices"
    if not members.is_dir():
        raise Failed("NoIommu", f"{address} is in no IOMMU group: turn the IOMMU on (intel_iommu=on or BIOS)")
    names = sorted(path.name for path in members.iterdir())
    others = [name for name in names if name != address and not _class(name, root).startswith(_BRIDGE)]
    return (address, *others)


def _must_be_alone(lent: Sequence[Lent], root: Path) -> None:
    """Other functions of the same card may go along; another card may not, unless it is lent to the same machine."""
    slots = {one.address.rpartition(".")[0] for one in lent}
    for one in lent:
        stray = [address for address in one.group if address.rpartition(".")[0] not in slots]
        if stray:
            raise Failed("DeviceShared", f"{one.address} cannot be parted from {stray[0]}: they share an IOMMU group")


def _class(address: str, root: Path) -> str:
    try:
        return (root / _DEVICES / address / "class").read_text().strip()
    except OSError:
        return ""


def _driver(address: str, root: Path) -> str | None:
    link = root / _DEVICES / address / "driver"
    return link.resolve().name if link.exists() else None


async def _bind(address: str, driver: str, root: Path, write: Write) -> None:
    """To the driver of this name, or with none to the one that the kernel finds."""
    device = root / _DEVICES / address
    now = _driver(address, root)
    if not device.exists():
        raise Failed("DeviceMissing", f"no PCI device {address}")
    if now == driver or (not driver and now not in (DRIVER, None)):
        return
    await write(device / "driver_override", driver + "\n")
    if now is not None:
        await write(device / "driver/unbind", address)
    await write(root / "sys/bus/pci/drivers_probe", address)
    now = _driver(address, root)
    if (driver and now != driver) or now == DRIVER != driver:
        raise Failed("DeviceBusy", f"{address} is with {now or 'no driver'}, not {driver or 'its own'}")
