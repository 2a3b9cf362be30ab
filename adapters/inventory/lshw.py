"""`lshw -json`: system, memory, processors, NICs and disks from its tree."""

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

_COMMAND: Final = "lshw -json"
_VIRTUAL: Final = frozenset({"bonding", "bridge", "802.1Q VLAN Support", "tun", "veth", "dummy", "team", "macvlan"})
_MIB: Final = 1_048_576

Node = Mapping[str, Any]


def parse(content: bytes, file: str) -> Fragment:
    """Reads one machine; newer releases wrap it in a list of one."""
    document = json_object(content, file, _COMMAND)
    root = document[0] if isinstance(document, list) and document else document
    if not isinstance(root, Mapping) or root.get("class") != "system":
        raise InventoryError(file, "has no root of class `system`", f"give the output of `{_COMMAND}`")
    nodes = list(_walk(root))
    configuration = part(root, "configuration")
    return {
        "system": known(
            productUuid=verbatim(configuration.get("uuid")),
            serialNumber=verbatim(root.get("serial")),
            manufacturer=text(root.get("vendor")),
            productName=text(root.get("product")),
            hostname=text(root.get("id")),
        ),
        "cpu": _cpu([n for n in nodes if n.get("class") == "processor" and not n.get("disabled")]),
        "memory": _memory([n for n in nodes if n.get("class") == "memory"]),
        "nics": first_of_each((nic for n in nodes if n.get("class") == "network" if (nic := _nic(n))), "mac"),
        "disks": [_disk(n) for n in nodes if _is_disk(n)],
    }


def _walk(node: Node) -> Iterator[Node]:
    pending = [node]
    while pending:
        one = pending.pop()
        yield one
        pending.extend(reversed(mappings(one.get("children"))))


def _cpu(processors: list[Node]) -> Fragment:
    if not processors:
        return {}
    first = processors[0]
    cores = [whole(part(p, "configuration").get("cores")) for p in processors]
    threads = [whole(part(p, "configuration").get("threads")) for p in processors]
    return known(
        vendor=text(first.get("vendor")),
        model=text(first.get("product")),
        sockets=len(processors),
        cores=sum(c for c in cores if c is not None) if all(cores) else None,
        threads=sum(t for t in threads if t is not None) if all(threads) else None,
    )


def _memory(nodes: list[Node]) -> Fragment:
    banks = [n for n in nodes if str(n.get("id", "")).startswith("bank") and whole(n.get("size"))]
    totals = [
        size
        for n in nodes
        if str(n.get("description", "")).lower() == "system memory" and (size := whole(n.get("size")))
    ]
    total = sum(totals) or sum(whole(bank.get("size")) or 0 for bank in banks)
    return known(totalMiB=total // _MIB or None, dimms=[_dimm(bank) for bank in banks])


def _dimm(bank: Node) -> Fragment:
    return known(
        sizeMiB=(whole(bank.get("size")) or 0) // _MIB,
        locator=text(bank.get("slot")),
        manufacturer=text(bank.get("vendor")),
        partNumber=text(bank.get("product")),
        serial=verbatim(bank.get("serial")),
    )


def _nic(node: Node) -> Fragment | None:
    """A physical port whose own address is known: in a bond, lshw prints the bond's."""
    configuration = part(node, "configuration")
    driver = text(configuration.get("driver"))
    mac = optional(hardware_id.mac, node.get("serial"))
    if mac is None or configuration.get("slave") == "yes" or driver in _VIRTUAL:
        return None
    names = node.get("logicalname")
    return known(
        mac=mac,
        name=text(names[0] if isinstance(names, list) and names else names),
        driver=driver,
        vendor=text(node.get("vendor")),
        model=text(node.get("product")),
        pciBusId=optional(hardware_id.pci, str(node.get("businfo", "")).removeprefix("pci@")),
        bmcLink=driver in BMC_DRIVERS or None,
    )


def _is_disk(node: Node) -> bool:
    return node.get("class") == "disk" and bool(whole(node.get("size")))


def _disk(node: Node) -> Fragment:
    names = node.get("logicalname")
    name = text(names[0] if isinstance(names, list) and names else names)
    return known(
        name=name.removeprefix("/dev/") if name else None,
        serial=verbatim(node.get("serial")),
        sizeBytes=whole(node.get("size")),
        vendor=text(node.get("vendor")),
        model=text(node.get("product")),
        transport="usb" if str(node.get("businfo", "")).startswith("usb@") else None,
        removable=("removable" in part(node, "capabilities")) or None,
    )
