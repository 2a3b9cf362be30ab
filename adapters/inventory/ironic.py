"""An Ironic inventory (`GET /v1/nodes/{id}/inventory`), or its list of disks alone."""

from collections.abc import Mapping
from typing import Any, Final

from adapters.inventory.fragment import (
    Fragment,
    InventoryError,
    first_of_each,
    json_object,
    known,
    mappings,
    optional,
    part,
    text,
    verbatim,
    whole,
)
from domain import hardware_id

_COMMAND: Final = "GET /v1/nodes/{id}/inventory"

Node = Mapping[str, Any]


def parse(content: bytes, file: str) -> Fragment:
    """Disks are identified by WWN or serial: `/dev/sda` may be the installer's stick (O32)."""
    document = json_object(content, file, _COMMAND)
    if isinstance(document, list) and document and all("name" in disk for disk in mappings(document)):
        return {"disks": _disks(document)}
    inventory = document.get("inventory") if isinstance(document, Mapping) else None
    if not isinstance(inventory, Mapping):
        raise InventoryError(file, "has neither `inventory` nor a list of disks", f"give the answer to `{_COMMAND}`")
    cpu, vendor = part(inventory, "cpu"), part(inventory, "system_vendor")
    memory = whole(part(inventory, "memory").get("physical_mb"))
    memory = memory or whole(part(document, "plugin_data").get("memory_mb"))
    return {
        "system": known(
            serialNumber=verbatim(vendor.get("serial_number")),
            manufacturer=text(vendor.get("manufacturer")),
            productName=text(vendor.get("product_name")),
            hostname=text(inventory.get("hostname")),
        ),
        "cpu": known(
            architecture=text(cpu.get("architecture")),
            model=text(cpu.get("model_name")),
            threads=whole(cpu.get("count")),
        ),
        "memory": known(totalMiB=memory),
        "nics": [nic for one in mappings(inventory.get("interfaces")) if (nic := _nic(one))],
        "disks": _disks(inventory.get("disks")),
    }


def _disks(disks: object) -> list[Fragment]:
    return first_of_each((_disk(disk) for disk in mappings(disks)), "wwn")


def _disk(disk: Node) -> Fragment:
    return known(
        name=text(str(disk.get("name") or "").removeprefix("/dev/")),
        wwn=optional(hardware_id.wwn, disk.get("wwn_with_extension") or disk.get("wwn")),
        serial=verbatim(disk.get("serial")),
        sizeBytes=whole(disk.get("size")) or 0,
        vendor=text(disk.get("vendor")),
        model=text(disk.get("model")),
        rotational=disk.get("rotational") if isinstance(disk.get("rotational"), bool) else None,
    )


def _nic(interface: Node) -> Fragment | None:
    mac = optional(hardware_id.mac, interface.get("mac_address"))
    return known(mac=mac, name=text(interface.get("name"))) if mac else None
