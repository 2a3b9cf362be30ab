"""LXD's (and MAAS's) machine resources: system, CPU, memory, NICs with SR-IOV, disks."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from adapters.inventory.fragment import (
    BMC_DRIVERS,
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

_COMMAND: Final = "lxc query /1.0/resources"
_MIB: Final = 1_048_576

Node = Mapping[str, Any]


def parse(content: bytes, file: str) -> Fragment:
    """Reads the whole document or one of its sections."""
    document = json_object(content, file, _COMMAND)
    if not isinstance(document, Mapping) or not {"network", "storage", "cpu", "system"} & set(document):
        raise InventoryError(
            file, "has none of the sections network, storage, cpu, system", f"give the output of `{_COMMAND}`"
        )
    disks = [_disk(d) for d in mappings(part(document, "storage").get("disks")) if d.get("type") != "cdrom"]
    return {
        "system": _system(part(document, "system")),
        "cpu": _cpu(part(document, "cpu")),
        "memory": known(totalMiB=(whole(part(document, "memory").get("total")) or 0) // _MIB or None),
        "nics": [nic for card in mappings(part(document, "network").get("cards")) for nic in _nics(card)],
        "disks": first_of_each(disks, "wwn"),
        "topology": {"numaNodes": list(_numa_nodes(part(document, "memory")))},
    }


def _system(system: Node) -> Fragment:
    return known(
        productUuid=verbatim(system.get("uuid")),
        serialNumber=verbatim(system.get("serial")),
        manufacturer=text(system.get("vendor")),
        productName=text(system.get("product")),
        biosVersion=text(part(system, "firmware").get("version")),
    )


def _cpu(cpu: Node) -> Fragment:
    sockets = mappings(cpu.get("sockets"))
    cores = [core for socket in sockets for core in mappings(socket.get("cores"))]
    return known(
        architecture=text(cpu.get("architecture")),
        vendor=text(sockets[0].get("vendor")) if sockets else None,
        model=text(sockets[0].get("name")) if sockets else None,
        sockets=len(sockets) or None,
        cores=len(cores) or None,
        threads=whole(cpu.get("total")),
    )


def _numa_nodes(memory: Node) -> Iterator[Fragment]:
    """A node without a number cannot be told from another: it is left out."""
    for node in mappings(memory.get("nodes")):
        number = whole(node.get("numa_node"))
        if number is not None:
            yield known(id=number, memoryMiB=(whole(node.get("total")) or 0) // _MIB or None)


def _nics(card: Node) -> Iterator[Fragment]:
    """A port each; the card's virtual functions go to its first port, as LXD tells no other.

    A card without ports (ThunderX) is used through its functions alone: then they are the node's own ports.
    """
    sriov, driver = part(card, "sriov"), text(card.get("driver"))
    vfs = [
        known(index=index, pciBusId=optional(hardware_id.pci, vf.get("pci_address")))
        for index, vf in enumerate(mappings(sriov.get("vfs")))
    ]
    ports = mappings(card.get("ports"))
    for place, port in enumerate(ports):
        mac = optional(hardware_id.mac, port.get("address"))
        if mac is None:
            continue
        yield known(
            mac=mac,
            name=text(port.get("id")),
            driver=driver,
            vendor=text(card.get("vendor")),
            model=text(card.get("product")),
            pciBusId=optional(hardware_id.pci, card.get("pci_address")),
            numaNode=whole(card.get("numa_node")),
            bmcLink=driver in BMC_DRIVERS or None,
            maxVfs=whole(sriov.get("maximum_vfs")) if place == 0 else None,
            vfs=vfs if place == 0 else [],
        )
    if not ports:
        for function in mappings(sriov.get("vfs")):
            yield from _nics(function)


def _disk(disk: Node) -> Fragment:
    return known(
        name=text(disk.get("id")),
        wwn=optional(hardware_id.wwn, disk.get("wwn")) or _wwn_of_link(disk.get("device_id")),
        serial=verbatim(disk.get("serial")),
        sizeBytes=whole(disk.get("size")) or 0,
        model=text(disk.get("model")),
        rotational=bool(disk["rpm"]) if whole(disk.get("rpm")) is not None else None,
        removable=disk.get("removable") is True or None,
        transport=text(disk.get("type")),
        numaNode=whole(disk.get("numa_node")),
    )


def _wwn_of_link(device_id: object) -> str | None:
    """udev names its link after the WWN where it knows one: `wwn-0x5002538e0026cccb`."""
    if not isinstance(device_id, str) or not device_id.startswith("wwn-"):
        return None
    return optional(hardware_id.wwn, device_id.removeprefix("wwn-"))
