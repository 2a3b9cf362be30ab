"""A node's devices, slices under their GPU, with what is booked on each now and next."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

Json = Mapping[str, Any]
MOST_NEXT: Final = 3
PARTS: Final = ("gpu.mig", "gpu.slot", "nic.vf")


class Line(Struct, frozen=True):
    """A device in its place; `now` is the booking that holds it, `next` those that follow, `more` how many beyond.

    `count` is of how many alike, `of` the device that it is a part of. `missing` is one that is booked, or was there,
    and that the node has no more.
    """

    id: str
    shown: str
    depth: int
    what: str
    facts: tuple[str, ...]
    bookable: bool
    missing: bool
    now: Json | None
    next: tuple[Json, ...]
    more: int
    why: str
    of: str = ""
    count: int = 1


def lines(devices: Iterable[Json], bookings: Iterable[Json], node: Json, now: int) -> list[Line]:
    known = list(devices)
    held: dict[str, list[Json]] = {}
    for one in bookings:
        if one.get("deviceId"):
            held.setdefault(one["deviceId"], []).append(one)
    made = _folded([_line(one, depth, held.get(one["id"], []), now) for one, depth in _nested(known)])
    there = {one["id"] for one in known}
    gone = {*held, *_named_missing(node)} - there
    return made + [_gone(id, held.get(id, []), now) for id in sorted(gone)]


def _folded(every: list[Line]) -> list[Line]:
    """Parts of one device that stand side by side and are free are one line: a GPU has seven, a node many GPUs."""
    made: list[Line] = []
    for line in every:
        before = made[-1] if made else None
        alike = before is not None and _idle(before) and _idle(line)
        if before is not None and alike and (before.what, before.depth, before.of) == (line.what, line.depth, line.of):
            made[-1] = replace(before, shown=f"{before.shown}, {_rest(before, line)}", id="", count=before.count + 1)
        else:
            made.append(line)
    return made


def _idle(line: Line) -> bool:
    return line.what in PARTS and line.bookable and line.now is None and not line.next


def _rest(before: Line, line: Line) -> str:
    """A part's name behind others': without the words that it begins with as they do."""
    words, _, last = line.shown.rpartition(" ")
    return last if before.shown.startswith(f"{words} ") and f", {words} " not in before.shown else line.shown


def scalars(bookings: Iterable[Json]) -> list[Json]:
    """Bookings of no device: vCPUs and memory alone."""
    return [one for one in bookings if not one.get("deviceId")]


def _nested(devices: list[Json]) -> Iterable[tuple[Json, int]]:
    there = {one["id"] for one in devices}
    below: dict[str, list[Json]] = {}
    for one in devices:
        if one.get("parent") in there:
            below.setdefault(one["parent"], []).append(one)
    for one in devices:
        if one.get("parent") in there:
            continue
        yield one, 0
        for child in below.get(one["id"], ()):
            yield child, 1


def _line(device: Json, depth: int, held: list[Json], now: int) -> Line:
    current, following = _split(held, now)
    return Line(
        id=device["id"],
        shown=_shown(device),
        depth=depth,
        what=device["class"],
        facts=tuple(_facts(device)),
        bookable=device["bookable"],
        missing=False,
        now=current,
        next=tuple(following[:MOST_NEXT]),
        more=max(0, len(following) - MOST_NEXT),
        why=_why_not(device),
        of=device.get("parent") or "",
    )


def _gone(id: str, held: list[Json], now: int) -> Line:
    current, following = _split(held, now)
    return Line(id, id, 0, "", (), False, True, current, tuple(following[:MOST_NEXT]), 0, "it is not there any more")


def _split(held: list[Json], now: int) -> tuple[Json | None, list[Json]]:
    ordered = sorted(held, key=lambda one: one["from"])
    current = next((one for one in ordered if one["from"] <= now), None)
    return current, [one for one in ordered if one is not current]


def _named_missing(node: Json) -> set[str]:
    named = ("GpuCountMismatch", "BookedDeviceMissing")
    return {name for one in node["conditions"] if one["type"] in named for name in one.get("names", ())}


def _shown(device: Json) -> str:
    match device["class"]:
        case "gpu.mig":
            return f"{device['attributes'].get('profile', '')} at {device['attributes'].get('start', '?')}"
        case "gpu.slot":
            return f"slot {device['id'].rpartition('/s')[2]}"
        case _:
            return str(device["id"])


def _facts(device: Json) -> Iterable[str]:
    attributes = device["attributes"]
    for name in ("productName", "model", "cpuModel"):
        if name in attributes and device["class"] not in ("gpu.mig", "gpu.slot"):
            yield str(attributes[name])
            break
    if device.get("memoryGb") and device["class"] not in PARTS:
        yield f"{device['memoryGb']} GB"
    size = attributes.get("size")
    if isinstance(size, Mapping):
        yield f"{int(size['value']) / 1e9:,.0f} GB"
    if "pciBusId" in attributes and device["class"] not in ("gpu.mig", "gpu.slot"):
        yield f"PCI {attributes['pciBusId']}"
    if device.get("numaNode") is not None and device["class"] not in ("gpu.mig", "gpu.slot"):
        yield f"NUMA {device['numaNode']}"


def _why_not(device: Json) -> str:
    """Why a device is no atom, as far as its class tells."""
    if device["bookable"]:
        return ""
    match device["class"]:
        case "gpu":
            return "sold in parts, or MIG is on"
        case "gpu.mig":
            return "the slice does not stand yet"
        case "gpu.slot":
            return "MIG is on"
        case "disk":
            return "the host runs from it, or it has no identity of its own"
        case "nic.vf":
            return "the link to the node's own controller"
        case _:
            return "sold in parts"
