"""What nvidia-smi prints as text: `-L`, `nvlink --status`, `mig -lgi`, `topo -m`."""

import re
from collections.abc import Iterator
from typing import Final

from adapters.inventory.fragment import Fragment, InventoryError, identifier, known
from domain import hardware_id

_GPU = re.compile(r"GPU (\d+): (.*?) ?\(UUID: ([^()\s]+)\)\s*")
_MIG = re.compile(r"\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: ([^()\s]+)\)\s*")
_LINK = re.compile(r"\s+Link (\d+): (.+?)\s*")
_PLACEMENT = re.compile(r"\|\s*(\d+)\s+MIG (\S+)\s+\d+\s+(\d+)\s+(\d+):\d+\s*\|")
_COMMAND: Final = "give the output of `nvidia-smi -L` or `nvidia-smi nvlink --status`"


def parse_list(content: bytes, file: str) -> Fragment:
    """`nvidia-smi -L`: names, UUIDs and the profile of every MIG device, which the XML does not have."""
    gpus: list[Fragment] = []
    for number, line in _lines(content, file):
        if gpu := _GPU.fullmatch(line):
            gpus.append({"index": int(gpu[1]), "uuid": _uuid(file, gpu[3]), "name": gpu[2], "migInstances": []})
        elif (mig := _MIG.fullmatch(line)) and gpus:
            gpus[-1]["migInstances"].append(_instance(mig, file))
        else:
            raise InventoryError(file, f"line {number} names no GPU: {line.strip()[:60]!r}", _COMMAND)
    if not gpus:
        raise InventoryError(file, "lists no GPU", _COMMAND)
    for partitioned in (one for one in gpus if one["migInstances"]):
        partitioned["migMode"] = "enabled"
    return {"gpus": gpus}


def parse_nvlink(content: bytes, file: str) -> Fragment:
    """`nvidia-smi nvlink --status`: how many links of each GPU are up.

    The output does not say where a link leads. Two linked GPUs can only be linked to each other, and GPUs on
    an SXM board meet in one switch fabric; in any other case the group is left out.
    """
    gpus: list[Fragment] = []
    links: list[Fragment] = []
    for number, line in _lines(content, file):
        if gpu := _GPU.fullmatch(line):
            uuid = _uuid(file, gpu[3])
            gpus.append({"index": int(gpu[1]), "uuid": uuid, "name": gpu[2]})
            links.append({"gpuUuid": uuid, "links": 0})
        elif (link := _LINK.fullmatch(line)) and links:
            links[-1]["links"] += "inactive" not in link[2]
        elif "inactive" in line.lower():
            continue
        else:
            raise InventoryError(file, f"line {number} is no link: {line.strip()[:60]!r}", _COMMAND)
    linked = [one for one in links if one["links"]]
    if len(linked) == 2 or (len(linked) > 2 and all(on_fabric(gpu["name"]) for gpu in gpus)):
        for one in linked:
            one["group"] = 0
    return {"gpus": gpus, "topology": {"nvlinks": linked}}


def parse_placements(content: bytes, file: str) -> Fragment:
    """`nvidia-smi mig -lgi`: profile and start of each GPU instance, by the GPU's index."""
    rows = [
        {"gpu": int(gpu), "profile": profile, "gi": int(gi), "start": int(start)}
        for gpu, profile, gi, start in _PLACEMENT.findall(content.decode(errors="replace"))
    ]
    return {"migPlacements": rows}


def parse_matrix(content: bytes, file: str) -> Fragment:
    """`nvidia-smi topo -m`: GPUs that reach each other over NVLink, as lists of indexes, transitively."""
    rows = [line.split() for line in content.decode(errors="replace").splitlines() if re.match(r"GPU\d", line)]
    groups: list[set[int]] = []
    for row in rows:
        cells = row[1 : len(rows) + 1]
        peers = {int(row[0][3:])} | {column for column, cell in enumerate(cells) if re.fullmatch(r"NV\d+", cell)}
        touching = [group for group in groups if group & peers]
        groups = [group for group in groups if not group & peers] + [peers.union(*touching)]
    return {"nvlinkGroups": [sorted(group) for group in groups if len(group) > 1]}


def on_fabric(name: str) -> bool:
    return bool(re.search(r"SXM|HBM3\b|H200$|B200|B300|GB300", name))


def _instance(mig: re.Match[str], file: str) -> Fragment:
    """A name from before driver 470 carries the instance ids itself: `MIG-GPU-<uuid>/<gi>/<ci>`."""
    uuid = identifier(file, f"MIG device {mig[2]}", hardware_id.mig_uuid, mig[3])
    ids = [int(part) for part in uuid.split("/")[1:]]
    gi, ci = ids if ids else (None, None)
    return known(index=int(mig[2]), uuid=uuid, profile=mig[1][:24], gi=gi, ci=ci)


def _uuid(file: str, value: str) -> str:
    return identifier(file, "UUID", hardware_id.gpu_uuid, value)


def _lines(content: bytes, file: str) -> Iterator[tuple[int, str]]:
    try:
        decoded = content.decode()
    except UnicodeDecodeError:
        raise InventoryError(file, "is not text", _COMMAND) from None
    return ((n, line) for n, line in enumerate(decoded.splitlines(), 1) if line.strip())
