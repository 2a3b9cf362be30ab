"""A node's inventory as people read it: a table for each kind of hardware, and what changed."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from adapters.console import render

Json = Mapping[str, Any]
LONGEST: Final = 240


class Table(Struct, frozen=True):
    """`columns` are (name, whether a number); rows have a cell for each."""

    title: str
    columns: tuple[tuple[str, bool], ...]
    rows: tuple[tuple[str, ...], ...]


class Facts(Struct, frozen=True):
    title: str
    facts: tuple[tuple[str, str], ...]


_FACTS: Final[Mapping[str, tuple[str, tuple[tuple[str, str], ...]]]] = {
    "system": (
        "Machine",
        (
            ("manufacturer", "Maker"),
            ("productName", "Product"),
            ("serialNumber", "Serial"),
            ("productUuid", "UUID"),
            ("hostname", "Host name"),
            ("biosVersion", "BIOS"),
        ),
    ),
    "cpu": (
        "Processors",
        (
            ("model", "Model"),
            ("vendor", "Vendor"),
            ("architecture", "Architecture"),
            ("sockets", "Sockets"),
            ("cores", "Cores"),
            ("threads", "Threads"),
        ),
    ),
    "software": (
        "Software",
        (
            ("os", "System"),
            ("kernel", "Kernel"),
            ("nvidiaDriver", "NVIDIA driver"),
            ("cuda", "CUDA"),
            ("agent", "Agent"),
        ),
    ),
    "clock": (
        "Clock",
        (("synchronized", "Synchronized"), ("service", "Service"), ("source", "Source"), ("timezone", "Time zone")),
    ),
}


def told(found: Json) -> list[Facts | Table]:
    """In the order in which one looks for a fault; what the node did not report is left out."""
    sections: list[Facts | Table] = [
        _facts("system", found),
        _facts("cpu", found),
        _gpus(found.get("gpus", ())),
        _memory(found.get("memory", {})),
        _nics(found.get("nics", ())),
        _disks(found.get("disks", ())),
        _numa(found.get("topology", {})),
        _facts("software", found),
        _facts("clock", found),
    ]
    return [one for one in sections if (one.facts if isinstance(one, Facts) else one.rows)]


def _facts(section: str, found: Json) -> Facts:
    title, fields = _FACTS[section]
    of = found.get(section, {})
    return Facts(title, tuple((said, _text(of[name])) for name, said in fields if name in of))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return render.amount(value) if isinstance(value, int | float) else str(value)


def mebibytes(amount: int | None) -> str:
    if amount is None:
        return "–"
    return f"{amount / 1024:,.0f} GiB" if amount >= 1024 else f"{amount} MiB"


def _gpus(gpus: Iterable[Json]) -> Table:
    columns = ("GPU", "Model", "Memory", "PCI", "NUMA", "MIG", "VBIOS", "Serial")
    rows = tuple(
        (
            one["uuid"],
            one.get("name", ""),
            mebibytes(one.get("memoryMiB")),
            one.get("pciBusId", "–"),
            str(one.get("numaNode", "–")),
            _mig(one),
            one.get("vbios", "–"),
            one.get("serial", "–"),
        )
        for one in gpus
    )
    return Table("GPUs", _columns(columns, "Memory", "NUMA"), rows)


def _mig(gpu: Json) -> str:
    slices = gpu.get("migInstances", ())
    mode = gpu.get("migMode", "–")
    return f"{mode}: {len(slices)} slices" if slices else mode


def _memory(memory: Json) -> Table:
    kinds: dict[tuple[str, ...], list[str]] = {}
    for one in memory.get("dimms", ()):
        kind = (mebibytes(one["sizeMiB"]), one.get("manufacturer", "–"), one.get("partNumber", "–"))
        kinds.setdefault(kind, []).append(one.get("locator", "?"))
    rows = [(*kind, str(len(places)), ", ".join(places)) for kind, places in kinds.items()]
    title = f"Memory: {mebibytes(memory['totalMiB'])}" if "totalMiB" in memory else "Memory"
    if not rows and "totalMiB" in memory:
        rows = [(mebibytes(memory["totalMiB"]), "–", "–", "–", "–")]
    return Table(title, _columns(("Size", "Maker", "Part", "Count", "Places"), "Size", "Count"), tuple(rows))


def _nics(nics: Iterable[Json]) -> Table:
    columns = ("Port", "Name", "Card", "Driver", "PCI", "NUMA", "Functions")
    rows = tuple(
        (
            one["mac"],
            one.get("name", "–") + (" (to its own controller)" if one.get("bmcLink") else ""),
            " ".join(filter(None, (one.get("vendor"), one.get("model")))) or "–",
            one.get("driver", "–"),
            one.get("pciBusId", "–"),
            str(one.get("numaNode", "–")),
            f"{len(one.get('vfs', ()))} of {one['maxVfs']}" if "maxVfs" in one else str(len(one.get("vfs", ()))),
        )
        for one in nics
    )
    return Table("Network ports", _columns(columns, "NUMA", "Functions"), rows)


def _disks(disks: Iterable[Json]) -> Table:
    columns = ("Disk", "Name", "Size", "Model", "Serial", "How", "NUMA")
    rows = tuple(
        (
            one.get("wwn", "–"),
            one.get("name", "–"),
            f"{one.get('sizeBytes', 0) / 1e9:,.0f} GB",
            " ".join(filter(None, (one.get("vendor"), one.get("model")))) or "–",
            one.get("serial", "–"),
            ", ".join(_how(one)) or "–",
            str(one.get("numaNode", "–")),
        )
        for one in disks
    )
    return Table("Disks", _columns(columns, "Size", "NUMA"), rows)


def _how(disk: Json) -> Iterable[str]:
    if disk.get("transport"):
        yield disk["transport"]
    if "rotational" in disk:
        yield "spins" if disk["rotational"] else "flash"
    if disk.get("removable"):
        yield "removable"
    if disk.get("system"):
        yield "the host runs from it"


def _numa(topology: Json) -> Table:
    rows = tuple(
        (str(one["id"]), one.get("cpus", "–"), mebibytes(one.get("memoryMiB"))) for one in topology.get("numaNodes", ())
    )
    return Table("NUMA nodes", _columns(("Node", "CPUs", "Memory"), "Node", "Memory"), rows)


def _columns(names: tuple[str, ...], *numbers: str) -> tuple[tuple[str, bool], ...]:
    return tuple((name, name in numbers) for name in names)


def change(one: Json) -> dict[str, str]:
    """A change with its two sides as short text."""
    return {
        "section": one["section"],
        "path": one["path"],
        "kind": "gone" if one["after"] is None else "new" if one["before"] is None else "other",
        "before": side(one["before"]),
        "after": side(one["after"]),
    }


def side(value: Any) -> str:
    """What stood or stands there, as much as has room: of a whole card or disk its fields."""
    said = _side(value)
    return said if len(said) <= LONGEST else f"{said[:LONGEST]}…"


def _side(value: Any) -> str:
    match value:
        case None:
            return "–"
        case dict():
            plain = {name: inner for name, inner in value.items() if not isinstance(inner, dict | list)}
            return ", ".join(f"{name} {_text(inner)}" for name, inner in plain.items())
        case list():
            return "; ".join(_side(inner) for inner in value)
        case _:
            return _text(value)
