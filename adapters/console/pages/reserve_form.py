"""What the form of a claim offers, and what stands in it: fields have the API's names, as `devices[0].count`."""

import re
from collections.abc import Mapping
from typing import Any, Final

from adapters.console import render, seen
from adapters.console.ask import Ask
from domain import pool as pool_of

Said = dict[str, str]
"""What stands in the form, by the names of its fields."""

LEAST_ROWS: Final = 3
MOST_ROWS: Final = 16
SCALARS: Final = ("vcpu", "memoryMiB")
FIRST: Final = ("poolId", "nodes", "startsAt", "durationSeconds", "projectId")
MORE: Final = (
    "maxPendingSeconds",
    "binding",
    "spot",
    "leaseSeconds",
    "labels{}",
    "topology.pack",
    "topology.spread",
    *(f"scalars{{{name}}}" for name in SCALARS),
)
_LINE: Final = re.compile(r"devices\[(\d{1,2})\]\.(class|count|selector|topology\.colocate)")


def offer(ask: Ask) -> dict[str, Any]:
    """The pools with what is free of each, the classes that they sell, and the caller's projects."""
    found = ask.if_may("capacity.list")
    capacity = [] if found is None else found["items"]
    pools = [pool | _sold(pool, capacity) for pool in seen.own(ask, "pools.list", retired="false")]
    return {
        "pools": pools,
        "classes": sorted({name for pool in pools for name in pool["classes"]}),
        "projects": [(one["id"], one["name"]) for one in seen.own(ask, "projects.list", archived="false")],
    }


def _sold(pool: Mapping[str, Any], capacity: list[Mapping[str, Any]]) -> dict[str, Any]:
    rows = {row["resource"]: row for row in capacity if row["poolId"] == pool["id"]}
    classes = pool_of.sold(pool["class"], pool["sharing"])
    main = rows.get(classes[0])
    free = f"{main['available']} of {_whole(main)} {classes[0]} free" if main else ""
    return {"classes": classes, "binding": binding(pool), "free": free}


def _whole(row: Mapping[str, Any]) -> int:
    whole: int = row["total"] if "total" in row else row["limit"]
    return whole


def binding(pool: Mapping[str, Any]) -> str | None:
    """None of a pool that nothing can reserve yet."""
    return {"vps-host": "instance", "metal-dedicated": None}.get(pool["class"], "hold")


def typed(ask: Ask) -> Said:
    """The form's fields that the address has; whatever else stands there is none of it."""
    known = {*FIRST, *MORE}
    return {name: text for name, text in ask.query.items() if text.strip() and (name in known or _LINE.fullmatch(name))}


def filled(ask: Ask, offered: Mapping[str, Any]) -> tuple[Said, str]:
    """As the address says, beside that as the reservation that it names, and what most people want.

    And that reservation's id, if it is none that the caller may see.
    """
    said, like, unseen = typed(ask), ask.query.get("like", ""), ""
    if like:
        found = ask.if_may("reservations.get", id=like)
        unseen = like if found is None else ""
        said = ({} if found is None else same(found)) | said
    pools = [pool for pool in offered["pools"] if pool["binding"]]
    if "poolId" not in said and pools:
        said["poolId"] = pools[0]["id"]
    pool = next((pool for pool in pools if pool["id"] == said.get("poolId")), None)
    if pool is not None and not any(_LINE.fullmatch(name) for name in said):
        said |= {"devices[0].class": pool["classes"][0], "devices[0].count": "1"}
    if pool is not None:
        said.setdefault("binding", pool["binding"])
        if like and said.get("maxPendingSeconds") == str(pool["policy"]["maxPending"]):
            del said["maxPendingSeconds"]
    said.setdefault("durationSeconds", "8h")
    said.setdefault("nodes", "1")
    return {name: _shown(name, text) for name, text in said.items()}, unseen


def same(of: Mapping[str, Any]) -> Said:
    """The fields that ask for such a reservation again, from now on."""
    said = {"poolId": of["poolId"], "nodes": of["nodes"], "durationSeconds": of["durationSeconds"]}
    for index, line in enumerate(of["devices"]):
        said |= {f"devices[{index}].{name}": line.get(name) for name in ("class", "count", "selector")}
        said[f"devices[{index}].topology.colocate"] = (line.get("topology") or {}).get("colocate")
    said |= {f"scalars{{{name}}}": amount for name, amount in of["scalars"].items() if amount}
    said |= {f"topology.{name}": label for name, label in (of.get("topology") or {}).items()}
    said |= {name: of.get(name) for name in ("binding", "leaseSeconds", "projectId", "maxPendingSeconds")}
    said |= {"spot": "true" if of["spot"] else None}
    said["labels{}"] = "\n".join(f"{name}={value}" for name, value in of["labels"].items())
    return {name: str(value) for name, value in said.items() if value not in (None, "")}


def _shown(name: str, text: str) -> str:
    """Instants and spans that came as numbers, as the form's fields have them."""
    if name == "startsAt" and text.isdecimal() and len(text) < 15:
        return render.iso(-(-int(text) // 1000) * 1000)
    if name.endswith("Seconds") and text.isdecimal() and len(text) < 10:
        return exact(int(text))
    return text


def exact(seconds: int) -> str:
    """As one would type it: 1d12h."""
    pieces = []
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        if seconds >= size:
            pieces.append(f"{seconds // size}{unit}")
            seconds %= size
    return "".join(pieces) or "0s"


def rows(said: Mapping[str, str]) -> list[int]:
    """The numbers of the rows of devices: those that are there, and empty ones."""
    there = [int(match[1]) for name in said if (match := _LINE.fullmatch(name))]
    return list(range(min(MOST_ROWS, max(LEAST_ROWS, max(there, default=0) + 2))))


def has_more(said: Mapping[str, str]) -> bool:
    """Whether something of what is folded away is said, beside what every claim says."""
    return any(name in said for name in MORE if name != "binding")
