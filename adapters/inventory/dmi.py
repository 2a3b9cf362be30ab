"""`dmidecode`: who made the machine, its serial and UUID, processors and memory modules."""

import re
from typing import Final

from adapters.inventory.fragment import Fragment, InventoryError, known, text, verbatim, whole

_HANDLE = re.compile(r"Handle 0x[0-9A-Fa-f]+, DMI type (\d+)")
_SIZE = re.compile(r"(\d{1,9}) (kB|MB|GB|TB)")
_MIB: Final = {"MB": 1, "GB": 1024, "TB": 1024 * 1024}
_COMMAND: Final = "give the output of `dmidecode`, run as root"

Structure = dict[str, str]


def parse(content: bytes, file: str) -> Fragment:
    """System, processors and memory; a placeholder stays what it is, the fingerprint judges it."""
    structures = _structures(content.decode(errors="replace"))
    if not structures:
        raise InventoryError(file, "holds no DMI structure (no line `Handle 0x…, DMI type …`)", _COMMAND)
    if not any(kind == 1 for kind, _ in structures):
        raise InventoryError(file, "holds no System Information (DMI type 1)", _COMMAND)
    of_kind = {kind: [fields for k, fields in structures if k == kind] for kind in (0, 1, 4, 17)}
    system, bios = of_kind[1][0], of_kind[0][0] if of_kind[0] else {}
    return {
        "system": known(
            productUuid=verbatim(system.get("UUID")),
            serialNumber=verbatim(system.get("Serial Number")),
            manufacturer=text(system.get("Manufacturer")),
            productName=text(system.get("Product Name")),
            biosVersion=text(bios.get("Version")),
        ),
        "cpu": _cpu(of_kind[4]),
        "memory": known(dimms=[dimm for fields in of_kind[17] if (dimm := _dimm(fields))]),
    }


def _structures(content: str) -> list[tuple[int, Structure]]:
    found: list[tuple[int, Structure]] = []
    for line in content.splitlines():
        if handle := _HANDLE.match(line):
            found.append((int(handle[1]), {}))
        elif found and (line.startswith("\t") and not line.startswith("\t\t")) and ":" in line:
            name, _, value = line.partition(":")
            found[-1][1].setdefault(name.strip(), value.strip())
    return found


def _cpu(sockets: list[Structure]) -> Fragment:
    filled = [fields for fields in sockets if "Unpopulated" not in fields.get("Status", "")]
    if not filled:
        return {}
    return known(
        sockets=len(filled),
        vendor=text(filled[0].get("Manufacturer")),
        model=text(filled[0].get("Version")),
        cores=_sum(filled, "Core Count"),
        threads=_sum(filled, "Thread Count"),
    )


def _sum(structures: list[Structure], field: str) -> int | None:
    counts = [whole(fields.get(field)) for fields in structures]
    return sum(c for c in counts if c is not None) if all(c is not None for c in counts) else None


def _dimm(fields: Structure) -> Fragment | None:
    """A filled slot; an empty one prints `No Module Installed` for its size."""
    size = _SIZE.fullmatch(fields.get("Size", ""))
    if size is None or size[2] not in _MIB:
        return None
    return known(
        sizeMiB=int(size[1]) * _MIB[size[2]],
        locator=text(fields.get("Locator")),
        manufacturer=text(fields.get("Manufacturer")),
        partNumber=text(fields.get("Part Number")),
        serial=verbatim(fields.get("Serial Number")),
    )
