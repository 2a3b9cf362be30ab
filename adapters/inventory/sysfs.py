"""What the kernel shows of a machine in /sys, /proc and /etc, below a root that tests can choose."""

import platform
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from adapters.inventory.fragment import (
    BMC_DRIVERS,
    Fragment,
    first_of_each,
    known,
    optional,
    text,
    verbatim,
    whole,
)
from domain import hardware_id

Permanent = Callable[[str], str | None]
_DMI: Final = {
    "productUuid": "product_uuid",
    "serialNumber": "product_serial",
    "manufacturer": "sys_vendor",
    "productName": "product_name",
    "biosVersion": "bios_version",
}
_SET_BY_MAKER: Final = "0"


def read(path: Path) -> str | None:
    """The file's text, None when it is missing, empty or not ours to read (serials are root's)."""
    try:
        return path.read_text(errors="replace").strip() or None
    except OSError:
        return None


def system(root: Path) -> Fragment:
    dmi = root / "sys/class/dmi/id"
    clean = {"productUuid": verbatim, "serialNumber": verbatim}
    fields = {name: clean.get(name, text)(read(dmi / file)) for name, file in _DMI.items()}
    return {"system": known(**fields, hostname=text(read(root / "proc/sys/kernel/hostname")))}


def cpu(root: Path) -> Fragment:
    """Counts from /proc/cpuinfo; a kernel that lists no `core id` (arm64) gives threads only."""
    blocks = [dict(_pairs(block)) for block in (read(root / "proc/cpuinfo") or "").split("\n\n")]
    processors = [block for block in blocks if "processor" in block]
    first = processors[0] if processors else {}
    cores = {(p.get("physical id"), p["core id"]) for p in processors if "core id" in p}
    return {
        "cpu": known(
            architecture=platform.machine() or None,
            vendor=text(first.get("vendor_id")),
            model=text(first.get("model name")),
            sockets=len({p["physical id"] for p in processors if "physical id" in p}) or None,
            cores=len(cores) or None,
            threads=len(processors) or None,
        )
    }


def memory(root: Path) -> Fragment:
    return {"memory": known(totalMiB=_mem_total(read(root / "proc/meminfo")))}


def topology(root: Path) -> Fragment:
    nodes = sorted((root / "sys/devices/system/node").glob("node[0-9]*"))
    return {
        "topology": {
            "numaNodes": [
                known(
                    id=int(node.name.removeprefix("node")),
                    cpus=text(read(node / "cpulist")),
                    memoryMiB=_mem_total(read(node / "meminfo")),
                )
                for node in nodes
            ]
        }
    }


def software(root: Path) -> Fragment:
    release = dict(_pairs(read(root / "etc/os-release") or "", "="))
    return {
        "software": known(
            os=text(release.get("PRETTY_NAME", "").strip('"')),
            kernel=text(read(root / "proc/sys/kernel/osrelease")),
        )
    }


def clock(root: Path) -> Fragment:
    source = root / "sys/devices/system/clocksource/clocksource0/current_clocksource"
    return {"clock": known(source=text(read(source)))}


def nics(root: Path, permanent: Permanent) -> Fragment:
    """Physical ports only: bonds, VLANs and bridges have no device, virtual functions are their port's."""
    ports = sorted((root / "sys/class/net").glob("*"))
    found = [nic for port in ports if (nic := _nic(port, permanent))]
    return {"nics": first_of_each(found, "mac")}


def numa_of_pci(root: Path, pci_bus_id: str) -> int | None:
    return whole(read(root / "sys/bus/pci/devices" / pci_bus_id / "numa_node"))


def _nic(port: Path, permanent: Permanent) -> Fragment | None:
    device = port / "device"
    if not device.exists() or (device / "physfn").exists():
        return None
    mac = optional(hardware_id.mac, permanent(port.name) or _own_address(port))
    if mac is None:
        return None
    driver = (device / "driver").resolve().name if (device / "driver").exists() else None
    return known(
        mac=mac,
        name=text(port.name),
        driver=driver,
        pciBusId=_pci(device),
        numaNode=whole(read(device / "numa_node")),
        bmcLink=driver in BMC_DRIVERS or None,
        maxVfs=whole(read(device / "sriov_totalvfs")),
        vfs=sorted(_vfs(device), key=lambda vf: int(vf["index"])),
    )


def _own_address(port: Path) -> str | None:
    """Where the driver tells no permanent address, the current one serves unless a bond may have set it."""
    in_bond = (port / "master").exists() and read(port / "addr_assign_type") != _SET_BY_MAKER
    return None if in_bond else read(port / "address")


def _vfs(device: Path) -> Iterator[Fragment]:
    for link in device.glob("virtfn[0-9]*"):
        yield known(index=int(link.name.removeprefix("virtfn")), pciBusId=_pci(link))


def _pci(device: Path) -> str | None:
    """A port's own PCI function, or the one that its virtio or USB device hangs on."""
    resolved = device.resolve()
    addresses = [optional(hardware_id.pci, part.name) for part in (resolved, *resolved.parents)]
    return next((address for address in addresses if address), None)


def _pairs(block: str, separator: str = ":") -> Iterator[tuple[str, str]]:
    for line in block.splitlines():
        name, found, value = line.partition(separator)
        if found:
            yield name.strip(), value.strip()


def _mem_total(meminfo: str | None) -> int | None:
    found = re.search(r"MemTotal:\s+(\d+) kB", meminfo or "")
    return int(found[1]) // 1024 if found else None
