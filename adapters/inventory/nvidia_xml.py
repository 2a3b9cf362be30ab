"""`nvidia-smi -q -x`: the GPUs and their MIG instances.

Real files name a DTD they never need; entity declarations, the only way to make XML explode, are refused.
"""

import re
from typing import Final
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from adapters.inventory.fragment import (
    Fragment,
    InventoryError,
    identifier,
    known,
    optional,
    text,
    verbatim,
    whole,
)
from domain import hardware_id

_COMMAND: Final = "give the output of `nvidia-smi -q -x`"
_MIG_MODES: Final = {"enabled": "enabled", "disabled": "disabled"}


def parse(content: bytes, file: str) -> Fragment:
    """The GPUs of a log in driver order, each with its `index`, and the driver's version."""
    root = tree(content, file)
    if root.tag != "nvidia_smi_log":
        raise InventoryError(file, f"is XML of <{root.tag[:40]}>, not of <nvidia_smi_log>", _COMMAND)
    return {
        "gpus": [_gpu(node, index, file) for index, node in enumerate(root.findall("gpu"))],
        "software": known(nvidiaDriver=_text(root, "driver_version"), cuda=_text(root, "cuda_version")),
    }


def tree(content: bytes, file: str) -> Element:
    """The log as it stands; raises InventoryError for what is no XML, or could explode."""
    builder = TreeBuilder()
    parser = expat.ParserCreate()
    parser.buffer_text = True

    def refuse_entity(name: str, *_: object) -> None:
        raise InventoryError(file, f"declares the XML entity {name!r}", "entities are never expanded here")

    parser.EntityDeclHandler = refuse_entity
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(content, True)
    except (expat.ExpatError, ValueError, LookupError) as broken:
        raise InventoryError(file, f"is not complete XML ({broken})", _COMMAND) from None
    return builder.close()


def _gpu(node: Element, index: int, file: str) -> Fragment:
    uuid = node.findtext("uuid")
    if uuid is None:
        raise InventoryError(file, f"gpu {index} has no <uuid>", _COMMAND)
    return known(
        index=index,
        uuid=identifier(file, f"gpu {index}: uuid", hardware_id.gpu_uuid, uuid),
        name=_text(node, "product_name") or "",
        architecture=_text(node, "product_architecture"),
        pciBusId=optional(hardware_id.pci, node.findtext("pci/pci_bus_id")),
        pciDeviceId=_text(node, "pci/pci_device_id"),
        serial=verbatim(_text(node, "serial")),
        memoryMiB=_mib(node),
        vbios=_text(node, "vbios_version"),
        migMode=_MIG_MODES.get((node.findtext("mig_mode/current_mig") or "").strip().lower()),
        migInstances=[_instance(one, place) for place, one in enumerate(node.findall("mig_devices/mig_device"))],
    )


def _instance(node: Element, place: int) -> Fragment:
    index = whole(node.findtext("index"))
    return known(
        index=place if index is None else index,
        gi=whole(node.findtext("gpu_instance_id")),
        ci=whole(node.findtext("compute_instance_id")),
        memoryMiB=_mib(node),
        multiprocessors=whole(node.findtext("device_attributes/shared/multiprocessor_count")),
    )


def _mib(node: Element) -> int | None:
    found = re.match(r"\s*(\d{1,12}) MiB", node.findtext("fb_memory_usage/total") or "")
    return int(found[1]) if found else None


def _text(node: Element, path: str) -> str | None:
    return text(node.findtext(path))
