"""Redfish resources, one per file: ComputerSystem, EthernetInterface, Processor, Drive (DMTF DSP0268)."""

import re
from collections.abc import Mapping
from typing import Any, Final

from adapters.inventory.fragment import (
    Fragment,
    InventoryError,
    identifier,
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

_WANTED: Final = "give a ComputerSystem, EthernetInterface, Processor or Drive"
_ARCHITECTURES: Final = {"x86-64": "x86_64", "ARM-A64": "aarch64"}

Node = Mapping[str, Any]


def parse(content: bytes, file: str) -> Fragment:
    """What one resource tells; an absent one (`Status.State`) tells nothing."""
    resource = json_object(content, file, "GET /redfish/v1/Systems/{id}")
    kind = re.match(r"#(\w+)\.", str(resource.get("@odata.type"))) if isinstance(resource, Mapping) else None
    if kind is None:
        raise InventoryError(file, "has no @odata.type", _WANTED)
    match kind[1]:
        case "ComputerSystem":
            return _system(resource)
        case "EthernetInterface":
            return {"nics": [_nic(resource, file)]}
        case "Processor":
            return _processor(resource)
        case "Drive":
            return {"disks": [_drive(resource)]} if _present(resource) else {}
        case other:
            raise InventoryError(file, f"is a {other}, which holds no inventory", _WANTED)


def _system(system: Node) -> Fragment:
    processors, memory = part(system, "ProcessorSummary"), part(system, "MemorySummary")
    gib = memory.get("TotalSystemMemoryGiB")
    mib = gib * 1024 if isinstance(gib, int | float) else None
    return {
        "system": known(
            productUuid=verbatim(system.get("UUID")),
            serialNumber=verbatim(system.get("SerialNumber")),
            manufacturer=text(system.get("Manufacturer")),
            productName=text(system.get("Model")),
            hostname=text(system.get("HostName")),
            biosVersion=text(system.get("BiosVersion")),
        ),
        "cpu": known(
            model=text(processors.get("Model")),
            sockets=whole(processors.get("Count")),
            cores=whole(processors.get("CoreCount")),
            threads=whole(processors.get("LogicalProcessorCount")),
        ),
        "memory": known(totalMiB=whole(mib) or None),
    }


def _nic(nic: Node, file: str) -> Fragment:
    """`PermanentMACAddress` wins: `MACAddress` is the effective one. Links.HostInterface leads to the BMC."""
    mac = nic.get("PermanentMACAddress") or nic.get("MACAddress")
    return known(
        mac=identifier(file, "PermanentMACAddress", hardware_id.mac, mac),
        name=text(nic.get("Id")),
        bmcLink="HostInterface" in part(nic, "Links") or None,
    )


def _processor(processor: Node) -> Fragment:
    if not _present(processor) or (processor.get("ProcessorType") or "CPU") != "CPU":
        return {}
    return {
        "cpu": known(
            architecture=_ARCHITECTURES.get(str(processor.get("InstructionSet"))),
            vendor=text(processor.get("Manufacturer")),
            model=text(processor.get("Model")),
        )
    }


def _drive(drive: Node) -> Fragment:
    names = [optional(hardware_id.wwn, one.get("DurableName")) for one in mappings(drive.get("Identifiers"))]
    protocol = text(drive.get("Protocol"))
    return known(
        name=text(drive.get("Id")),
        wwn=next((name for name in names if name), None),
        serial=verbatim(drive.get("SerialNumber")),
        sizeBytes=whole(drive.get("CapacityBytes")),
        vendor=text(drive.get("Manufacturer")),
        model=text(drive.get("Model")),
        rotational={"HDD": True, "SSD": False}.get(str(drive.get("MediaType"))),
        transport=protocol.lower() if protocol else None,
    )


def _present(resource: Node) -> bool:
    return part(resource, "Status").get("State") != "Absent"
