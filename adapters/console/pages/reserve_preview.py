"""What would come of the claim in the form, in words; and for each thing in its way what would help."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from adapters.console import forms, render
from adapters.console.ask import Ask
from adapters.console.pages.reserve_form import Said, exact
from domain import errors

MOST_NODES: Final = 8
MOST_OBSTACLES: Final = 6
LATER_TRIED: Final = 3
SPREAD_OVER: Final = (2, 4, 8, 16)
LOOKED_AT: Final = 100
HOLDING: Final = ("placed", "binding", "active")
"""In the order of their life: what moves on between two questions is found by the second."""
HEADLINES: Final = {
    "placed": ("It fits", "good"),
    "pending": ("It would wait", "warn"),
    "awaiting-confirmation": ("It would wait to be confirmed", "warn"),
    "denied": ("It would be refused", "bad"),
    "expired": ("It does not fit", "bad"),
}
MISSING: Final = {
    "poolId": "of which pool",
    "devices[0].count": "how many devices of which class",
    "durationSeconds": "for how long",
}


Help = dict[str, str]
"""A link to the form as it should rather be, and what it says."""


def look(ask: Ask, said: Said) -> dict[str, Any]:
    """What the template of the preview shows: what is not said yet, what was wrong, or what was found."""
    shown: dict[str, Any] = {"missing": [], "problem": None, "found": None}
    missing = [what for name, what in MISSING.items() if name not in said]
    if missing:
        return shown | {"missing": missing}
    try:
        asked = forms.document(said.items())
        if not str(asked["poolId"]).isprintable():
            raise errors.NotFound("pool", str(asked["poolId"]).encode("unicode_escape").decode()[:80], "poolId")
        if not ask.may("reservations.preview", poolId=asked["poolId"]) and ask.may("pools.get", id=asked["poolId"]):
            return shown
        found = ask("reservations.preview", **asked)
    except errors.Refusal as refusal:
        return shown | {"problem": _problem(refusal, said)}
    others = [_later(ask, found, said, asked), _spread(ask, found, said, asked)]
    return shown | {"found": found, **told(found, said, asked), "others": [one for one in others if one]}


def told(found: Mapping[str, Any], said: Said, asked: Mapping[str, Any]) -> dict[str, Any]:
    headline, tone = HEADLINES[found["state"]]
    placed = found["placement"]
    return {
        "headline": headline,
        "tone": tone,
        "names": [one["nodeName"] for one in placed][:MOST_NODES],
        "more_nodes": max(0, len(placed) - MOST_NODES),
        "endless": _endless(found),
        "seconds": (seconds := _number(asked["durationSeconds"])),
        "gpu_hours": found["gpuCount"] * seconds / 3600,
        "obstacles": [{"of": one, "help": _help(one, found, said)} for one in _obstacles(found)],
        "more_obstacles": max(0, len(found["obstacles"]) - MOST_OBSTACLES),
        "instead": _instead(found, said),
        "limits": [peak for peak in found["quota"] if peak["limit"] is not None],
    }


def _endless(found: Mapping[str, Any]) -> bool:
    """It fits nowhere within a year. Who has more ahead than the server reckons with is promised no start either."""
    queued = any(one["kind"] == "queue" for one in found["obstacles"])
    return not found["placement"] and found["earliestStart"] is None and not queued


def _obstacles(found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(found["obstacles"][:MOST_OBSTACLES])


def _number(text: Any) -> int:
    """0 of what is written as the API reads it and people do not."""
    return int(text) if str(text).strip().isdecimal() else 0


def _instead(found: Mapping[str, Any], said: Said) -> list[Help]:
    """Claims that would come to more, each as the same form with one thing changed."""
    can = []
    start, state = found["earliestStart"], found["state"]
    late = state == "expired" or (state == "pending" and "startsAt" in said)
    if late and start is not None and not found["placement"]:
        can.append(_from(said, start))
    if found["state"] == "expired":
        can.append(with_(said, "Wait for room", maxPendingSeconds=""))
    return can


def _from(said: Said, start: int, why: str = "") -> Help:
    at = render.iso(-(-start // 1000) * 1000)
    label = f"Start at {at.replace('T', ' ')} UTC{why}"
    return with_(said, label, startsAt=at, maxPendingSeconds="")


def _later(ask: Ask, found: Mapping[str, Any], said: Said, asked: Mapping[str, Any]) -> Help | None:
    """From when the caller's own reservations have given back enough of the quota, where that alone is in the way."""
    over = [peak for peak in found["quota"] if peak["limit"] is not None and peak["after"] > peak["limit"]]
    if found["stateReason"] != "QuotaExceeded" or any(p["after"] - p["before"] > p["limit"] for p in over):
        return None
    held = [ask.if_may("reservations.list", state=state, limit=LOOKED_AT) or {"items": []} for state in HOLDING]
    ends = sorted({one["endsAt"] for some in held for one in some["items"] if one["endsAt"] is not None})
    for end in ends[:LATER_TRIED]:
        if ask("reservations.preview", **{**asked, "startsAt": end})["state"] == "placed":
            return _from(said, end, ", when yours have given back the quota")
    return None


def _spread(ask: Ask, found: Mapping[str, Any], said: Said, asked: Mapping[str, Any]) -> Help | None:
    """The same on more nodes, where no node is as large as one line of it."""
    lines, nodes = asked["devices"], _number(asked.get("nodes", 1))
    if not _endless(found) or len(lines) != 1 or nodes != 1 or "topology" in asked:
        return None
    whole = _number(lines[0].get("count", ""))
    for many in SPREAD_OVER:
        each = {**asked, "devices": [{**lines[0], "count": whole // many}], "nodes": many}
        if whole % many or not whole:
            break
        if not _endless(ask("reservations.preview", **each)):
            field = next(name for name in said if name.endswith("].count"))
            return with_(
                said, f"Take {whole // many} on each of {many} nodes", **{field: str(whole // many), "nodes": str(many)}
            )
    return None


def _help(one: Mapping[str, Any], found: Mapping[str, Any], said: Said) -> list[Help]:
    """What would take it out of the way."""
    match one["kind"]:
        case "quota":
            return _fewer(one, found, said)
        case "budget":
            return _shorter(found, said)
        case "capacity":
            return _freer(said)
    return []


def _fewer(one: Mapping[str, Any], found: Mapping[str, Any], said: Said) -> list[Help]:
    """As many as the quota still has; where one line alone asks for them."""
    before = max(peak["before"] for peak in found["quota"] if peak["resource"] == one["resource"])
    nodes = _number(said.get("nodes", "1")) or 1
    lines = [name for name, text in said.items() if name.endswith("].class") and text == one["resource"]]
    field = lines[0].replace("].class", "].count") if len(lines) == 1 else f"scalars{{{one['resource']}}}"
    left = (one["limit"] - before) // nodes
    if field not in said or left < 1:
        return []
    return [with_(said, f"Take {left:,}" + (" on each node" if nodes > 1 else ""), **{field: str(left)})]


def _shorter(found: Mapping[str, Any], said: Said) -> list[Help]:
    left = min((one["leftGpuHours"] for one in found["budget"]), default=0.0)
    seconds = int(left * 3600 / max(1, found["gpuCount"])) // 60 * 60
    return [with_(said, f"Take {exact(seconds)}", durationSeconds=exact(seconds))] if seconds >= 60 else []


def _freer(said: Said) -> list[Help]:
    """What narrows it beyond its devices."""
    can = []
    narrow = [name for name in said if name.endswith((".selector", ".colocate")) or name.startswith("topology.")]
    if narrow:
        can.append(with_(said, "Without selectors and topology", **dict.fromkeys(narrow, "")))
    return can


def with_(said: Said, label: str, **changed: str) -> Help:
    """The form again with other fields; an empty one is taken out."""
    return {"said": label, "href": f"/reserve?{urlencode({k: v for k, v in (said | changed).items() if v})}"}


def _problem(refusal: errors.Refusal, said: Said) -> dict[str, Any]:
    wrong = [
        {"field": one.field, "label": label(one.field), "message": one.message, "hint": hint(one.field)}
        for one in refusal.errors
    ]
    return {"code": refusal.code, "detail": refusal.detail, "errors": wrong, "help": _corrected(refusal.errors, said)}


def _corrected(wrong: Sequence[errors.FieldError], said: Said) -> list[Help]:
    """What is no matter of taste."""
    fields = {one.field for one in wrong}
    can = []
    if "startsAt" in fields:
        can.append(with_(said, "Start now", startsAt=""))
    if "maxPendingSeconds" in fields:
        can.append(with_(said, "Wait as long as the pool lets it", maxPendingSeconds=""))
    if "binding" in fields:
        other = "hold" if said.get("binding") == "instance" else "instance"
        can.append(with_(said, f"With binding {other}", binding=other))
    return can


def label(field: str) -> str:
    """A field of the request as the form calls it."""
    if field.startswith("devices["):
        row, _, name = field.removeprefix("devices[").partition("].")
        if row.isdecimal():
            return f"{LABELS.get(name, name)} of row {int(row) + 1}"
    return LABELS.get(field, field)


def hint(field: str) -> str:
    return SELECTOR_HINT if field.endswith(".selector") else HINTS.get(field, "")


SELECTOR_HINT: Final = 'It is CEL over one device, as device.memoryGb >= 80 && node.labels.rack == "north-1".'
LABELS: Final = {
    "poolId": "Pool",
    "devices": "Devices",
    "class": "Class",
    "count": "Count",
    "selector": "Selector",
    "topology.colocate": "Close together",
    "nodes": "Nodes",
    "startsAt": "Starts",
    "durationSeconds": "For how long",
    "maxPendingSeconds": "Waits at most",
    "leaseSeconds": "Lease",
    "projectId": "Project",
    "labels": "Labels",
    "topology": "Topology",
    "binding": "Binding",
}
HINTS: Final = {
    "durationSeconds": "Write 90m, 8h or 2d: a minute at least, 366 days at most.",
    "maxPendingSeconds": "Write 30m, 8h or 1d, or 0s for now or never.",
    "leaseSeconds": "Write 30s, 10m or 1h: 30 seconds at least, a day at most.",
    "startsAt": "Leave it empty to start now.",
    "topology": "Name one of the two labels.",
}
