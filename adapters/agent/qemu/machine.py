"""QEMU's command line for one instance; nothing of it comes from a tenant as text."""

import hashlib
import json
import uuid
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from adapters.agent.driver import Failed
from adapters.agent.qemu.settings import QEMU, Accelerator
from domain.node_spec import Instance

DISK: Final = "disk.qcow2"
SEED: Final = "seed.iso"
SOCKET: Final = "qmp.sock"
CONSOLE: Final = "console.log"
LOG: Final = "qemu.log"
GIB: Final = 1 << 30
_FIRMWARE: Final = ("usr/share/seabios/bios-microvm.bin", "usr/share/qemu/bios-microvm.bin")
_ID_SPACE: Final = uuid.UUID("6c5ae7cf-3d1c-5b5e-9a4e-6f0a3c1d2b47")
_HOLE_GIB_A_GPU: Final = 256
"""Address space for the BARs of one GPU, those of 141 GB among them, as a power of two."""


class Parts(Struct, frozen=True, kw_only=True):
    """What an instance is put together from. `tap` is its interface on the host's bridge, None without one.

    `gpus` are PCI addresses on the host.
    """

    directory: Path
    image: Path
    accelerator: Accelerator
    tap: str | None = None
    gpus: tuple[str, ...] = ()
    user: str | None = None
    firmware: Path | None = None


def mac(instance_id: str) -> str:
    """Locally administered, and the same for as long as the instance is."""
    digest = hashlib.sha256(instance_id.encode()).digest()
    return ":".join(f"{byte:02x}" for byte in (0x02, 0xBC, *digest[:4]))


def firmware(root: Path) -> Path | None:
    """SeaBIOS for microVMs: QEMU's own default there boots no disk."""
    return next((root / path for path in _FIRMWARE if (root / path).is_file()), None)


def check(instance: Instance, gpus: int) -> None:
    """Raises Failed for what this driver cannot run at all."""
    if instance.kind == "container":
        raise Failed("KindUnsupported", "this node runs virtual machines: vm or microvm")
    if instance.kind == "microvm" and instance.image.format == "iso":
        raise Failed("FormatUnsupported", "a microvm has no CD drive: use a raw or qcow2 image, or kind vm")
    if instance.kind == "microvm" and gpus:
        raise Failed("KindUnsupported", "a microvm has no PCI bus for a GPU: use kind vm")


def command(instance: Instance, parts: Parts) -> tuple[str, ...]:
    """Relative names are in the instance's directory, in which QEMU runs."""
    virtio = "pci" if instance.kind == "vm" else "device"
    words = [
        *(QEMU, "-name", f"guest={instance.id}", "-uuid", str(uuid.uuid5(_ID_SPACE, instance.id))),
        *("-no-user-config", "-nodefaults", "-display", "none", "-vga", "none"),
        *("-machine", _machine(instance, parts), "-accel", parts.accelerator),
        *("-cpu", "host" if parts.accelerator == "kvm" else "max"),
        *("-smp", str(instance.vcpu), "-m", f"{instance.memory_mib}M"),
        *("-chardev", f"file,id=console,path={CONSOLE},append=on", "-serial", "chardev:console"),
        *("-chardev", f"socket,id=qmp,path={SOCKET},server=on,wait=off", "-mon", "chardev=qmp,mode=control"),
        *_disks(instance, parts, virtio),
        *_network(instance, parts, virtio),
        *("-device", f"virtio-rng-{virtio}"),
        *_gpus(parts),
        *("-sandbox", _sandbox(parts)),
    ]
    if parts.firmware is not None:
        words += ["-bios", str(parts.firmware)]
    if parts.user is not None:
        words += ["-runas", parts.user]
    if parts.gpus:
        words = ["prlimit", "--memlock=unlimited:unlimited", *words]
    return tuple(words)


def _machine(instance: Instance, parts: Parts) -> str:
    """Without a display the firmware says on the serial line what it boots."""
    if instance.kind == "vm":
        return "q35,graphics=off"
    irqchip = ",kernel-irqchip=on" if parts.accelerator == "kvm" else ""
    return f"microvm,graphics=off,rtc=on{irqchip}"


def _sandbox(parts: Parts) -> str:
    """Without `elevateprivileges` it could not become another user, which then has none to elevate to."""
    elevate = "allow" if parts.user else "deny"
    return f"on,obsolete=deny,elevateprivileges={elevate},spawn=deny,resourcecontrol=deny"


def _disks(instance: Instance, parts: Parts, virtio: str) -> list[str]:
    overlay: dict[str, Any] = {
        "driver": "qcow2",
        "node-name": "disk",
        "discard": "unmap",
        "file": {"driver": "file", "filename": str(parts.directory / DISK)},
    }
    image = {"driver": "file", "filename": str(parts.image)}
    iso = instance.image.format == "iso"
    if not iso:
        overlay["backing"] = {"driver": instance.image.format, "read-only": True, "file": image}
    seed = {"driver": "file", "filename": str(parts.directory / SEED)}
    words = [
        *("-blockdev", json.dumps(overlay), "-device", f"virtio-blk-{virtio},drive=disk,bootindex=1"),
        *("-blockdev", json.dumps({"driver": "raw", "node-name": "seed", "read-only": True, "file": seed})),
        *("-device", f"virtio-blk-{virtio},drive=seed"),
    ]
    if iso:
        cd = {"driver": "raw", "node-name": "cd", "read-only": True, "file": image}
        words += ["-blockdev", json.dumps(cd), "-device", "ide-cd,drive=cd,bootindex=2"]
    return words


def _network(instance: Instance, parts: Parts, virtio: str) -> list[str]:
    """Without its ROM a machine does not look for something to boot on the network."""
    back = "user,id=net" if parts.tap is None else f"tap,id=net,ifname={parts.tap},script=no,downscript=no"
    rom = ",romfile=" if virtio == "pci" else ""
    return ["-netdev", back, "-device", f"virtio-net-{virtio},netdev=net,mac={mac(instance.id)}{rom}"]


def _gpus(parts: Parts) -> list[str]:
    if not parts.gpus:
        return []
    hole = _HOLE_GIB_A_GPU * (1 << (len(parts.gpus) - 1).bit_length())
    words = ["-global", f"q35-pcihost.pci-hole64-size={hole}G"]
    for number, address in enumerate(parts.gpus):
        words += ["-device", f"pcie-root-port,id=gpu{number},chassis={number + 1},slot={number + 1}"]
        words += ["-device", f"vfio-pci,host={address},bus=gpu{number}"]
    return words
