"""The checks that decide whether a machine may be used (node_command.Check), each on what the machine shows now.

They judge whether what is there is whole and well. Whether it is what a pool wants, the plane knows: it has the
inventory. A machine without GPUs passes the GPU checks, and its pool counts none.
"""

import ctypes
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, get_args
from xml.etree.ElementTree import Element

from msgspec import Struct

from adapters.agent import program
from adapters.agent.commander import Failure
from adapters.inventory import nvidia_text, nvidia_xml, sysfs
from adapters.inventory.fragment import InventoryError
from domain import node_command
from domain.inventory import NodeInventory

_UNSYNCHRONIZED: Final = 5
_DISPLAY: Final = "0x03"
_NVIDIA: Final = "0x10de"
_UNCORRECTABLE: Final = ("dram_uncorrectable", "sram_uncorrectable", "sram_uncorrectable_parity")
_UNCORRECTABLE_SECDED: Final = "sram_uncorrectable_secded"
_WANTS_RESET: Final = (
    ("remapped_rows/remapped_row_pending", "has rows to remap at its next reset"),
    ("remapped_rows/remapped_row_failure", "could not remap a row"),
    ("retired_pages/pending_retirement", "has pages to retire at its next reset"),
    ("gpu_reset_status/reset_required", "needs a reset"),
)
_MEMORY_SHOWN: Final = 0.9
"""The part of the modules' memory that the kernel shows at least; firmware and kernel take some."""


def kernel_clock() -> bool:
    """Whether the kernel holds its clock for synchronized (adjtimex(2))."""
    answer = ctypes.create_string_buffer(512)
    return ctypes.CDLL(None, use_errno=True).adjtimex(answer) not in (-1, _UNSYNCHRONIZED)


class Machine(Struct, frozen=True):
    """What the checks look at: the newest inventory, the host's files, its programs, and its clock."""

    found: NodeInventory
    root: Path = Path("/")
    run: program.Run = program.run
    clock: Callable[[], bool] = kernel_clock


Verdict = tuple[bool, str]


async def accept(checks: Sequence[node_command.Check], machine: Machine) -> dict[str, Any]:
    """Each check's verdict; raises commander.Failure with them when one is bad. No checks named means all."""
    rows = []
    for name in checks or get_args(node_command.Check):
        ok, detail = await _CHECKS[name](machine)
        rows.append({"name": name, "ok": ok, "detail": detail[:1_000]})
    failed = [str(row["name"]) for row in rows if not row["ok"]]
    if failed:
        raise Failure(f"ChecksFailed: {', '.join(failed)}", checks=rows)
    return {"checks": rows}


async def _gpus_present(machine: Machine) -> Verdict:
    """Every GPU that is on the bus is also one of the driver's."""
    plugged = _on_bus(machine.root)
    shown = {card.pci_bus_id for card in machine.found.gpus}
    missing = sorted(plugged - shown)
    if missing:
        return False, f"on the bus and not with the driver: {', '.join(missing)}"
    return True, f"{len(shown)} GPUs"


async def _gpu_health(machine: Machine) -> Verdict:
    done = await machine.run(("nvidia-smi", "-q", "-x"))
    if done.code == 127 and not _on_bus(machine.root):
        return True, "no GPUs"
    if done.code != 0:
        return False, f"nvidia-smi: {done.why()}"
    try:
        cards = nvidia_xml.tree(done.printed, "nvidia-smi -q -x").findall("gpu")
    except InventoryError as wrong:
        return False, str(wrong)
    ill = [f"{(card.findtext('uuid') or '?').strip()} {fault}" for card in cards for fault in _faults(card)]
    return not ill, "; ".join(ill) or f"{len(cards)} GPUs without faults"


def _faults(card: Element) -> list[str]:
    counts = {name: _count(card, name) for name in (*_UNCORRECTABLE, _UNCORRECTABLE_SECDED)}
    faults = [f"has {count} {name} errors since it was started" for name, count in counts.items() if count]
    return faults + [said for path, said in _WANTS_RESET if (card.findtext(path) or "").strip().lower() == "yes"]


def _count(card: Element, name: str) -> int:
    text = (card.findtext(f"ecc_errors/volatile/{name}") or "").strip()
    return int(text) if text.isdigit() else 0


async def _nvlink_up(machine: Machine) -> Verdict:
    """Where GPUs are linked, all of one board have the same links, and on a switch fabric all links are up."""
    done = await machine.run(("nvidia-smi", "nvlink", "--status"))
    if done.code == 127 and not _on_bus(machine.root):
        return True, "no GPUs"
    if done.code != 0:
        return False, f"nvidia-smi: {done.why()}"
    blocks = re.split(r"^(?=GPU \d+:)", done.printed.decode(errors="replace"), flags=re.MULTILINE)
    links = {block.partition(" (")[0]: re.findall(r"Link \d+: (.*)", block) for block in blocks if block.strip()}
    up = {card: sum("inactive" not in one for one in states) for card, states in links.items()}
    fabric = {card for card in links if nvidia_text.on_fabric(card)}
    down = [f"{card}: {up[card]} of {len(links[card])} links" for card in fabric if up[card] < len(links[card])]
    if down:
        return False, "; ".join(down)
    if len(set(up.values())) > 1:
        return False, "not all GPUs have the same links: " + "; ".join(f"{card}: {n}" for card, n in up.items())
    return True, f"{sum(up.values())} links"


async def _memory(machine: Machine) -> Verdict:
    """No error that could not be corrected, and no module that the kernel does not see."""
    counters = sorted((machine.root / "sys/devices/system/edac/mc").glob("mc*/ue_count"))
    bad = [path.parent.name for path in counters if (sysfs.read(path) or "0") != "0"]
    if bad:
        return False, f"uncorrectable errors at {', '.join(bad)}"
    total = machine.found.memory.total_mib
    modules = sum(module.size_mib for module in machine.found.memory.dimms)
    if total is None:
        return False, "the kernel does not say how much there is"
    if total < modules * _MEMORY_SHOWN:
        return False, f"{total} MiB of {modules} MiB in modules"
    return True, f"{total} MiB, {len(counters)} controllers count errors"


async def _disks(machine: Machine) -> Verdict:
    block, states = machine.root / "sys/block", []
    for disk in machine.found.disks:
        state = sysfs.read(block / (disk.name or "-") / "device/state")
        if state not in (None, "running", "live"):
            states.append(f"{disk.name} is {state}")
        if disk.size_bytes == 0 and not disk.removable:
            states.append(f"{disk.name} has no size")
    for array in sorted(block.glob("md*/md/degraded")):
        if (sysfs.read(array) or "0") != "0":
            states.append(f"{array.parent.parent.name} is degraded")
    return not states, "; ".join(states) or f"{len(machine.found.disks)} disks"


async def _network(machine: Machine) -> Verdict:
    """One port has a carrier, and there is a way out."""
    ports = machine.root / "sys/class/net"
    up = [port.name for port in sorted(ports.glob("*")) if port.name != "lo" and sysfs.read(port / "carrier") == "1"]
    if not up:
        return False, "no port has a carrier"
    host = machine.root / "proc/1/net"
    routes = (sysfs.read(host / "route") or "").splitlines()[1:]
    sixes = (sysfs.read(host / "ipv6_route") or "").splitlines()
    four = any(line.split()[1:2] == ["00000000"] for line in routes)
    six = any(line.split()[:2] == ["0" * 32, "00"] and line.split()[-1] != "lo" for line in sixes)
    return four or six, f"up: {', '.join(up)}" + ("" if four or six else "; no default route")


async def _clock_synchronized(machine: Machine) -> Verdict:
    synchronized = machine.found.clock.synchronized or machine.clock()
    return synchronized, "synchronized" if synchronized else "the kernel's clock is not synchronized"


def _on_bus(root: Path) -> set[str]:
    """The PCI addresses of NVIDIA's display and 3D controllers."""
    devices = sorted((root / "sys/bus/pci/devices").glob("*"))
    return {
        device.name.lower()
        for device in devices
        if sysfs.read(device / "vendor") == _NVIDIA and (sysfs.read(device / "class") or "").startswith(_DISPLAY)
    }


_CHECKS: Final[Mapping[node_command.Check, Callable[[Machine], Awaitable[Verdict]]]] = {
    "gpus-present": _gpus_present,
    "gpu-health": _gpu_health,
    "nvlink-up": _nvlink_up,
    "memory": _memory,
    "disks": _disks,
    "network": _network,
    "clock-synchronized": _clock_synchronized,
}
