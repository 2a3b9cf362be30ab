"""What a node found in itself: the `NodeInventory/v1` document (domain.md §4, "Inventory").

Nothing here changes from one look to the next on an idle machine: no temperature, no link state, no clock
reading. That is why an unchanged report has an unchanged hash and writes nothing. Names the kernel gives
(`eth0`, `sda`) are kept for people but are no identity: NICs and disks that have one hash without their names
(O30, O32).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Annotated, Any, Final, Literal, Self

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from domain import errors, hardware_id

SCHEMA: Final = "NodeInventory/v1"
MAX_BYTES: Final = 1_048_576
SECTIONS: Final = ("system", "cpu", "memory", "gpus", "nics", "disks", "topology", "software", "clock")

_PRINTABLE: Final = r"^[^\x00-\x1f\x7f]*$(?!\n)"
Text = Annotated[str, Meta(min_length=1, max_length=255, pattern=_PRINTABLE)]
Identifier = Annotated[str, Meta(min_length=1, max_length=128, pattern=_PRINTABLE)]
Count = Annotated[int, Meta(ge=0, le=1_048_576)]
MiB = Annotated[int, Meta(ge=0, le=1 << 40)]
Bytes = Annotated[int, Meta(ge=0, le=(1 << 53) - 1)]
NumaNode = Annotated[int, Meta(ge=0, le=1023)]


class _Part(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    pass


def _normalize(part: Struct, field: str, normal: Callable[[str], str]) -> None:
    value = getattr(part, field)
    if value is None:
        return
    try:
        force_setattr(part, field, normal(value))
    except ValueError as wrong:
        raise ValueError(f"{_camel(field)}: {wrong}") from None


def _sort(part: Struct, field: str, key: Callable[[Any], Any]) -> None:
    force_setattr(part, field, tuple(sorted(getattr(part, field), key=key)))


def _camel(field: str) -> str:
    head, *tail = field.split("_")
    return head + "".join(part.capitalize() for part in tail)


class System(_Part, frozen=True):
    """DMI type 1 as the machine prints it, placeholders included: fingerprint.py judges them."""

    product_uuid: Identifier | None = None
    serial_number: Identifier | None = None
    manufacturer: Text | None = None
    product_name: Text | None = None
    hostname: Text | None = None
    bios_version: Text | None = None

    def __post_init__(self) -> None:
        _normalize(self, "product_uuid", hardware_id.system_uuid)


class Cpu(_Part, frozen=True):
    """`threads` is what the node can sell as vcpu."""

    architecture: Text | None = None
    vendor: Text | None = None
    model: Text | None = None
    sockets: Count | None = None
    cores: Count | None = None
    threads: Count | None = None


class Dimm(_Part, frozen=True):
    size_mib: MiB = msgspec.field(name="sizeMiB")
    locator: Text | None = None
    manufacturer: Text | None = None
    part_number: Text | None = None
    serial: Identifier | None = None


class Memory(_Part, frozen=True):
    total_mib: MiB | None = msgspec.field(default=None, name="totalMiB")
    dimms: Annotated[tuple[Dimm, ...], Meta(max_length=1024)] = ()

    def __post_init__(self) -> None:
        _sort(self, "dimms", lambda d: (d.locator or "", d.serial or "", d.size_mib))


class MigInstance(_Part, frozen=True):
    """A slice as the driver runs it now; `gi` and `ci` are the driver's numbers and end with the boot."""

    gi: Count | None = None
    ci: Count | None = None
    uuid: Identifier | None = None
    profile: Annotated[str, Meta(max_length=24)] | None = None
    start: Annotated[int, Meta(ge=0, le=15)] | None = None
    memory_mib: MiB | None = msgspec.field(default=None, name="memoryMiB")
    multiprocessors: Count | None = None

    def __post_init__(self) -> None:
        _normalize(self, "uuid", hardware_id.mig_uuid)


class Gpu(_Part, frozen=True):
    """`name` is the raw NVML product string; gpu.py says what it means."""

    uuid: Identifier
    name: Annotated[str, Meta(max_length=255, pattern=_PRINTABLE)] = ""
    architecture: Text | None = None
    pci_bus_id: Identifier | None = None
    pci_device_id: Identifier | None = None
    serial: Identifier | None = None
    memory_mib: MiB | None = msgspec.field(default=None, name="memoryMiB")
    numa_node: NumaNode | None = None
    vbios: Text | None = None
    mig_mode: Literal["enabled", "disabled"] | None = None
    mig_instances: Annotated[tuple[MigInstance, ...], Meta(max_length=64)] = ()

    def __post_init__(self) -> None:
        _normalize(self, "uuid", hardware_id.gpu_uuid)
        _normalize(self, "pci_bus_id", hardware_id.pci)
        _sort(self, "mig_instances", lambda m: (m.gi is None, m.gi or 0, m.ci or 0, m.uuid or ""))


class Vf(_Part, frozen=True):
    """A virtual function; its own MAC is drawn at random on many cards, so only its index identifies it."""

    index: Annotated[int, Meta(ge=0, le=4095)]
    pci_bus_id: Identifier | None = None

    def __post_init__(self) -> None:
        _normalize(self, "pci_bus_id", hardware_id.pci)


class Nic(_Part, frozen=True):
    """A physical port: `mac` is its permanent address, `bmc_link` marks the link to the node's own BMC."""

    mac: Identifier
    name: Text | None = None
    driver: Text | None = None
    vendor: Text | None = None
    model: Text | None = None
    pci_bus_id: Identifier | None = None
    numa_node: NumaNode | None = None
    bmc_link: bool = False
    max_vfs: Count | None = None
    vfs: Annotated[tuple[Vf, ...], Meta(max_length=1024)] = ()

    def __post_init__(self) -> None:
        _normalize(self, "mac", hardware_id.mac)
        _normalize(self, "pci_bus_id", hardware_id.pci)
        _sort(self, "vfs", lambda v: v.index)


class Disk(_Part, frozen=True):
    """A whole disk; `system` says that the host runs from it, so that it is never sold."""

    name: Text | None = None
    wwn: Identifier | None = None
    serial: Identifier | None = None
    size_bytes: Bytes = 0
    vendor: Text | None = None
    model: Text | None = None
    rotational: bool | None = None
    removable: bool = False
    transport: Text | None = None
    numa_node: NumaNode | None = None
    system: bool = False

    def __post_init__(self) -> None:
        _normalize(self, "wwn", hardware_id.wwn)


class Numa(_Part, frozen=True):
    id: NumaNode
    cpus: Text | None = None
    memory_mib: MiB | None = msgspec.field(default=None, name="memoryMiB")


class Nvlink(_Part, frozen=True):
    """`group` is shared by GPUs that reach each other over NVLink; absent where that is not known."""

    gpu_uuid: Identifier
    links: Count
    group: Count | None = None

    def __post_init__(self) -> None:
        _normalize(self, "gpu_uuid", hardware_id.gpu_uuid)


class Topology(_Part, frozen=True):
    numa_nodes: Annotated[tuple[Numa, ...], Meta(max_length=1024)] = ()
    nvlinks: Annotated[tuple[Nvlink, ...], Meta(max_length=256)] = ()

    def __post_init__(self) -> None:
        _sort(self, "numa_nodes", lambda n: n.id)
        _sort(self, "nvlinks", lambda n: n.gpu_uuid)


class Software(_Part, frozen=True):
    os: Text | None = None
    kernel: Text | None = None
    nvidia_driver: Text | None = None
    cuda: Text | None = None
    agent: Text | None = None


class Clock(_Part, frozen=True):
    """How time is kept, never what time it is: the offset travels with each heartbeat instead."""

    synchronized: bool | None = None
    service: Text | None = None
    source: Text | None = None
    timezone: Text | None = None


class NodeInventory(Struct, frozen=True, forbid_unknown_fields=True, tag_field="schema", tag=SCHEMA):
    """One node's hardware. Lists are held in their stable order, whatever order they came in."""

    system: System = System()
    cpu: Cpu = Cpu()
    memory: Memory = Memory()
    gpus: Annotated[tuple[Gpu, ...], Meta(max_length=256)] = ()
    nics: Annotated[tuple[Nic, ...], Meta(max_length=512)] = ()
    disks: Annotated[tuple[Disk, ...], Meta(max_length=2048)] = ()
    topology: Topology = Topology()
    software: Software = Software()
    clock: Clock = Clock()

    def __post_init__(self) -> None:
        _refuse_repeats("gpus[{}].uuid", [g.uuid for g in self.gpus])
        _refuse_repeats("nics[{}].mac", [n.mac for n in self.nics])
        _refuse_repeats("disks[{}].wwn", [d.wwn for d in self.disks])
        _refuse_repeats("topology.nvlinks[{}].gpuUuid", [n.gpu_uuid for n in self.topology.nvlinks])
        for index, gpu in enumerate(self.gpus):
            _refuse_repeats(f"gpus[{index}].migInstances[{{}}].uuid", [m.uuid for m in gpu.mig_instances])
        _sort(self, "gpus", lambda g: g.uuid)
        _sort(self, "nics", lambda n: n.mac)
        _sort(self, "disks", lambda d: (d.wwn or "", d.serial or "", d.name or ""))

    @classmethod
    def parse(cls, document: bytes | str) -> Self:
        """Reads a document of at most 1 MiB; raises errors.Malformed, or errors.Invalid naming the field."""
        if len(document) > MAX_BYTES:
            raise errors.Invalid("inventory", f"is {len(document)} bytes; at most {MAX_BYTES} are read")
        try:
            return cls.convert(msgspec.json.decode(document))
        except (msgspec.DecodeError, RecursionError) as broken:
            raise errors.Malformed(f"the inventory is not JSON: {broken}") from None

    @classmethod
    def convert(cls, document: object) -> Self:
        """Checks a decoded document; raises errors.Invalid naming the field."""
        if not isinstance(document, Mapping) or document.get("schema") != SCHEMA:
            raise errors.Invalid("schema", f"must be {SCHEMA!r}")
        _refuse_null("", document)
        try:
            return msgspec.convert(document, cls)
        except msgspec.ValidationError as wrong:
            raise _invalid(str(wrong)) from None


def section_hashes(inventory: NodeInventory) -> dict[str, str]:
    """SHA-256 in hex of each section's RFC 8785 JSON, lists in their stable order."""
    return {name: _digest(comparable(getattr(inventory, name))) for name in SECTIONS}


def document_hash(inventory: NodeInventory) -> str:
    """SHA-256 in hex over the section hashes: equal means that nothing worth a snapshot changed."""
    return _digest(section_hashes(inventory))


def canonical(value: object) -> bytes:
    """RFC 8785 JSON of what this module holds: ASCII keys and integers, so sorted keys are all it takes."""
    return msgspec.json.encode(value, order="sorted")


def encode(inventory: NodeInventory) -> bytes:
    """The document with its sections in order, for storing and sending."""
    return msgspec.json.encode(inventory)


def _digest(value: object) -> str:
    return sha256(canonical(value)).hexdigest()


def comparable(section: object) -> object:
    """A section as it is hashed and compared: without the names that the kernel gave."""
    if not isinstance(section, tuple):
        return section
    return [_unnamed(item) for item in section]


def _unnamed(item: Struct) -> object:
    match item:
        case Nic():
            return msgspec.structs.replace(item, name=None)
        case Disk() if item.wwn or item.serial:
            return msgspec.structs.replace(item, name=None)
        case _:
            return item


def _refuse_repeats(path: str, values: Iterable[str | None]) -> None:
    first: dict[str, int] = {}
    for index, value in enumerate(values):
        if value is None:
            continue
        if value in first:
            raise ValueError(f"{path.format(index)}: {value} is already {path.format(first[value])}")
        first[value] = index


def _refuse_null(path: str, value: object) -> None:
    match value:
        case None:
            raise errors.Invalid(path, "is null; what is not known is left out")
        case Mapping():
            for key, inner in value.items():
                _refuse_null(f"{path}.{key}" if path else str(key), inner)
        case list():
            for index, inner in enumerate(value):
                _refuse_null(f"{path}[{index}]", inner)


_PLACED = re.compile(r"(?s)(?P<message>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?")
_FIELD = re.compile(r"(?s)(?P<field>[a-zA-Z]+(?:[.\[][\w.\[\]]*)?): (?P<message>.*)")


def _invalid(text: str) -> errors.Invalid:
    """Turns msgspec's `… - at `$.gpus[3]`` into the field path and the message."""
    placed = _PLACED.fullmatch(text)
    message, path = (placed["message"], placed["path"] or "") if placed else (text, "")
    if inner := _FIELD.fullmatch(message):
        return errors.Invalid(f"{path}.{inner['field']}" if path else inner["field"], inner["message"])
    return errors.Invalid(path or "inventory", message)
