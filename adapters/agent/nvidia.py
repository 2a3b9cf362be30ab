"""The NVIDIA driver as the agent uses it: which device nodes a GPU or slice has, and who computes on it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Element

from msgspec import Struct

from adapters.agent import program
from adapters.inventory import merge, nvidia_xml, sysfs
from adapters.inventory.fragment import InventoryError
from domain import inventory

CONTROL: Final = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
_MINORS: Final = "proc/driver/nvidia-caps/mig-minors"
_QUERIES: Final = (("nvidia-smi", "-L"), ("nvidia-smi", "-q", "-x"), ("nvidia-smi", "mig", "-lgi"))
_SHARER: Final = "nvidia-cuda-mps-server"
"""It keeps its GPU whether anybody computes or not."""


class DriverError(Exception):
    """The driver could not do what it was asked, and how it put that."""


class Place(Struct, frozen=True):
    """Where something runs: a GPU, and on it a slice by the driver's numbers."""

    gpu: str
    gi: int | None = None
    ci: int | None = None


class Found(Struct, frozen=True):
    """What the driver shows now. `minors` are of /dev/nvidia<minor>; `pending` awaits a reset for its MIG mode."""

    gpus: tuple[inventory.Gpu, ...] = ()
    minors: dict[str, int] = {}
    pending: frozenset[str] = frozenset()
    computing: frozenset[Place] = frozenset()

    def gpu(self, uuid: str) -> inventory.Gpu | None:
        return next((card for card in self.gpus if card.uuid == uuid), None)

    def place(self, name: str) -> Place | None:
        """Where the GPU or slice of this UUID is; None when the driver has none of that name."""
        for card in self.gpus:
            if card.uuid.lower() == name.lower():
                return Place(card.uuid)
            for one in card.mig_instances:
                if one.uuid is not None and one.uuid.lower() == name.lower():
                    return Place(card.uuid, one.gi, one.ci)
        return None


async def look(run: program.Run = program.run) -> Found:
    """Ask the driver; a machine without one has nothing. Raises DriverError when it does not answer."""
    fragments, log = [], b""
    for query in _QUERIES:
        done = await run(query)
        if done.code == 127:
            return Found()
        if "-x" in query:
            log = done.printed
        if done.code != 0 and "mig" not in query:
            raise DriverError(f"{' '.join(query)}: {done.why()}")
        try:
            fragments.append(merge.nvidia_smi(done.printed, " ".join(query)))
        except InventoryError as wrong:
            if "mig" not in query:
                raise DriverError(str(wrong)) from None
    try:
        gpus = merge.build(fragments).gpus
        root = nvidia_xml.tree(log, "nvidia-smi -q -x")
    except InventoryError as wrong:
        raise DriverError(str(wrong)) from None
    cards = {(card.findtext("uuid") or "").strip().lower(): card for card in root.findall("gpu")}
    known = {gpu.uuid: cards[gpu.uuid.lower()] for gpu in gpus if gpu.uuid.lower() in cards}
    return Found(
        gpus=gpus,
        minors={uuid: int(minor) for uuid, card in known.items() if (minor := _text(card, "minor_number")).isdigit()},
        pending=frozenset(uuid for uuid, card in known.items() if _pends(card)),
        computing=frozenset(place for uuid, card in known.items() for place in _computing(uuid, card)),
    )


def nodes(found: Found, place: Place, root: Path) -> tuple[str, ...]:
    """The device nodes that give access to exactly this place; raises DriverError when they are not known."""
    minor = found.minors.get(place.gpu)
    if minor is None:
        raise DriverError(f"the driver gives no minor number for {place.gpu}")
    own = (f"/dev/nvidia{minor}",)
    if place.gi is None:
        return own
    table = dict(re.findall(r"^(\S+) (\d+)$", sysfs.read(root / _MINORS) or "", re.MULTILINE))
    wanted = (f"gpu{minor}/gi{place.gi}/access", f"gpu{minor}/gi{place.gi}/ci{place.ci}/access")
    missing = [name for name in wanted if name not in table]
    if missing:
        raise DriverError(f"/{_MINORS} has no {missing[0]}")
    return (*own, *(f"/dev/nvidia-caps/nvidia-cap{table[name]}" for name in wanted))


def _text(card: Element, path: str) -> str:
    return (card.findtext(path) or "").strip()


def _pends(card: Element) -> bool:
    return _text(card, "mig_mode/current_mig") != _text(card, "mig_mode/pending_mig")


def _computing(uuid: str, card: Element) -> Iterator[Place]:
    for process in card.findall("processes/process_info"):
        if "C" in _text(process, "type") and not _text(process, "process_name").endswith(_SHARER):
            gi, ci = _text(process, "gpu_instance_id"), _text(process, "compute_instance_id")
            yield Place(uuid, int(gi), int(ci)) if gi.isdigit() and ci.isdigit() else Place(uuid)
