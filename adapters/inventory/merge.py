"""From fragments to one checked NodeInventory.

What an earlier fragment says of a thing wins over a later one; things are the same when their identifiers
are, never when their names are.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from adapters.inventory import dmi, ip_link, ironic, lsblk, lshw, lxd, nvidia_text, nvidia_xml, redfish
from adapters.inventory.fragment import Fragment, InventoryError
from domain import errors, inventory

_SECTIONS: Final = ("system", "cpu", "memory", "software", "clock")


def nvidia_smi(content: bytes, file: str) -> Fragment:
    """Any of nvidia-smi's outputs, told apart by how it begins."""
    head = content.lstrip()[:4096]
    if head.startswith(b"<"):
        return nvidia_xml.parse(content, file)
    if b"GPU instances:" in head:
        return nvidia_text.parse_placements(content, file)
    if b"\tGPU0" in content[:4096]:
        return nvidia_text.parse_matrix(content, file)
    if b" Link 0:" in head:
        return nvidia_text.parse_nvlink(content, file)
    if head.startswith(b"GPU "):
        return nvidia_text.parse_list(content, file)
    raise InventoryError(file, "is none of nvidia-smi's outputs", "give that of `nvidia-smi -q -x` or `nvidia-smi -L`")


#: Which parser reads the file of which option of `inventory from`.
PARSERS: Final[dict[str, Callable[[bytes, str], Fragment]]] = {
    "nvidia-smi": nvidia_smi,
    "dmidecode": dmi.parse,
    "lsblk": lsblk.parse,
    "lshw": lshw.parse,
    "lxd": lxd.parse,
    "ip-link": ip_link.parse,
    "redfish": redfish.parse,
    "ironic": ironic.parse,
}


def build(fragments: Iterable[Fragment]) -> inventory.NodeInventory:
    """Joins and checks; raises InventoryError naming the field that cannot be."""
    parts = list(fragments)
    gpus = _joined(parts, "gpus", lambda gpu: gpu["uuid"], _join_gpu)
    _place(gpus, [row for part in parts for row in part.get("migPlacements", ())])
    document: Fragment = {
        "schema": inventory.SCHEMA,
        **{section: _first(parts, section) for section in _SECTIONS},
        "nics": _joined(parts, "nics", lambda nic: nic["mac"], _fill),
        "disks": _joined(parts, "disks", _disk_key, _fill),
        "topology": {
            "numaNodes": _joined([p.get("topology", {}) for p in parts], "numaNodes", lambda n: n["id"], _fill),
            "nvlinks": _grouped(parts, gpus),
        },
    }
    document["gpus"] = [_without_index(gpu) for gpu in gpus]
    try:
        return inventory.NodeInventory.convert(document)
    except errors.Invalid as wrong:
        raise InventoryError("inventory", str(wrong), "the files must be of one machine") from None


def _first(parts: Sequence[Fragment], section: str) -> Fragment:
    joined: Fragment = {}
    for part in parts:
        _fill(joined, part.get(section, {}))
    return joined


def _joined(
    parts: Sequence[Fragment],
    name: str,
    key: Callable[[Fragment], Any],
    join: Callable[[Fragment, Fragment], None],
) -> list[Fragment]:
    """Repeats within a fragment stay, so that the domain refuses them; across fragments they are one."""
    joined: list[Fragment] = []
    for part in parts:
        before = {key(thing): thing for thing in joined}
        for thing in part.get(name, ()):
            if key(thing) in before:
                join(before[key(thing)], thing)
            else:
                joined.append(dict(thing))
    return joined


def _fill(into: Fragment, more: Fragment) -> None:
    for name, value in more.items():
        into.setdefault(name, value)


def _join_gpu(into: Fragment, more: Fragment) -> None:
    """MIG devices are joined by their index on the GPU: `-L` has their names, the XML their numbers."""
    instances = _joined([into, more], "migInstances", lambda mig: mig["index"], _fill)
    _fill(into, more)
    if instances:
        into["migInstances"] = instances


def _disk_key(disk: Fragment) -> str:
    return str(disk.get("serial") or disk.get("wwn") or disk.get("name"))


def _place(gpus: Sequence[Fragment], placements: Iterable[Fragment]) -> None:
    """`mig -lgi` names GPUs by index and has no UUIDs; it alone knows where an instance starts."""
    by_place = {(row["gpu"], row["gi"]): row for row in placements}
    for gpu in gpus:
        for mig in gpu.get("migInstances", ()):
            if row := by_place.get((gpu.get("index"), mig.get("gi"))):
                mig["start"] = row["start"]
                mig.setdefault("profile", row["profile"])


def _grouped(parts: Sequence[Fragment], gpus: Sequence[Fragment]) -> list[Fragment]:
    """The link counts, with the groups of `topo -m` where it was read: it knows which GPU reaches which."""
    links = _joined([p.get("topology", {}) for p in parts], "nvlinks", lambda n: n["gpuUuid"], _fill)
    uuids = {gpu.get("index"): gpu["uuid"] for gpu in gpus}
    groups = [group for part in parts for group in part.get("nvlinkGroups", ())]
    group_of = {uuids.get(index): number for number, group in enumerate(groups) for index in group}
    return [{**link, "group": group_of[link["gpuUuid"]]} if link["gpuUuid"] in group_of else link for link in links]


def _without_index(gpu: Fragment) -> Fragment:
    bare = {name: value for name, value in gpu.items() if name != "index"}
    bare["migInstances"] = [
        {name: value for name, value in mig.items() if name != "index"} for mig in gpu.get("migInstances", ())
    ]
    return bare
