"""`lsblk -J -b`: the whole disks of a machine."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from adapters.inventory.fragment import (
    Fragment,
    InventoryError,
    first_of_each,
    json_object,
    known,
    mappings,
    optional,
    text,
    verbatim,
    whole,
)
from domain import hardware_id

COLUMNS: Final = "NAME,TYPE,SIZE,ROTA,RM,TRAN,SERIAL,WWN,VENDOR,MODEL,MOUNTPOINT"
_COMMAND: Final = f"lsblk -J -b -o {COLUMNS}"
_NOT_HARDWARE = re.compile(r"(?:zram|ram|loop|nbd|rbd|drbd|dm-|md|zd|fd)\d")
_HOST_MOUNTS: Final = frozenset({"/", "/boot", "/boot/efi", "/usr", "/var", "[SWAP]"})


def parse(content: bytes, file: str) -> Fragment:
    """One entry per disk: md devices and volumes that lsblk repeats under several disks are none.

    A disk reached over two paths (one WWN, two names) is one disk.
    """
    document = json_object(content, file, _COMMAND)
    devices = document.get("blockdevices") if isinstance(document, Mapping) else None
    if not isinstance(devices, list):
        raise InventoryError(file, "has no list `blockdevices`", f"give the output of `{_COMMAND}`")
    disks = [_disk(device, file) for device in mappings(devices) if _is_disk(device)]
    return {"disks": first_of_each(disks, "wwn")}


def _is_disk(device: Mapping[str, Any]) -> bool:
    return device.get("type") == "disk" and not _NOT_HARDWARE.match(_name(device))


def _disk(device: Mapping[str, Any], file: str) -> Fragment:
    name = _name(device)
    size = whole(device.get("size"))
    if size is None:
        raise InventoryError(
            file, f"{name or 'a disk'} has the size {device.get('size')!r}", f"bytes are needed: `{_COMMAND}`"
        )
    return known(
        name=text(name),
        wwn=optional(hardware_id.wwn, device.get("wwn")),
        serial=verbatim(device.get("serial")),
        sizeBytes=size,
        vendor=text(device.get("vendor")),
        model=text(device.get("model")),
        rotational=_flag(device.get("rota")),
        removable=_flag(device.get("rm")) or None,
        transport=text(device.get("tran")),
        system=any(mount in _HOST_MOUNTS for mount in _mounts(device)) or None,
    )


def _mounts(device: Mapping[str, Any]) -> Iterator[str]:
    """Where the disk and all that lies on it is mounted."""
    pending = [device]
    while pending:
        one = pending.pop()
        several = one.get("mountpoints")
        found = (one.get("mountpoint"), *(several if isinstance(several, list) else ()))
        yield from (mount for mount in found if isinstance(mount, str) and mount)
        pending.extend(mappings(one.get("children")))


def _name(device: Mapping[str, Any]) -> str:
    return str(device.get("name") or "").removeprefix("/dev/")


def _flag(value: object) -> bool | None:
    """util-linux before 2.33 printed flags as "0" and "1"."""
    return {True: True, False: False, "1": True, "0": False}.get(value) if isinstance(value, bool | str) else None
