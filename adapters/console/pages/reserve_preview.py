"""What would come of the claim in the form, in words; and for each thing in its way what would help."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from adapters.console import forms, render
from adapters.console.ask import Ask
from adapters.console.pages.reserve_form import Said, exact
from domain import errors

MOST_NODES: Final = 8
HEADLINES: Final = {
    "placed": ("It can be had", "good"),
    "pending": ("It would wait", "warn"),
    "awaiting-confirmation": ("It would wait to be confirmed", "warn"),
    "denied": ("It would be refused", "bad"),
    "expired": ("It cannot be had", "bad"),
}
COMES: Final = ("placed", "pending", "awaiting-confirmation")
"""States in which a create comes to something."""

MISSING: Final = {
    "poolId": "of which pool",
    "devices[0].count": "how many devices of which class",
    "durationSeconds": "for how long",
}


def look(ask: Ask, said: Said) -> dict[str, Any]:
    """What the template of the preview shows: what is not said yet, what was wrong, or what was found."""
    shown: dict[str, Any] = {"missing": [], "problem": None, "found": None, "seen_at": int(time.time() * 1000)}
    missing = [what for name, what in MISSING.items() if name not in said]
    if missing:
        return shown | {"missing": missing}
    try:
        asked = forms.document(said.items())
        if not ask.may("reservations.preview", poolId=str(asked.get("poolId", ""))):
            return shown | {"blind": True}
        found = ask("reservations.preview", **asked)
    except errors.Refusal as refusal:
        return shown | {"problem": _problem(refusal, said)}
    return shown | {"found": found, **told(found, said, asked)}


def told(found: Mapping[str, Any], said: Said, asked: Mapping[str, Any]) -> dict[str, Any]:
    headline, tone = HEADLINES[found["state"]]
    return {
        "headline": headline,
        "tone": tone,
        "comes": found["state"] in COMES,
        "names": [one["nodeName"] for one in found["placement"]][:MOST_NODES],
        "more_nodes": max(0, len(found["placement"]) - MOST_NODES),
        "in_vain": in_vain(found),
        "gpu_hours": _hours(found, said),
        "obstacles": [{"of": one, "help": _help(one, found, said)} for one in found["obstacles"]],
        "instead": _instead(found, said),
    }


def in_vain(found: Mapping[str, Any]) -> bool:
    """Who has more ahead than the server reckons with is promised no start either, but not for ever."""
    queued = any(one["kind"] == "queue" for one in found["obstacles"])
    return found["state"] == "pending" and found["earliestStart"] is None and not queued


def _hours(found: Mapping[str, Any], said: Said) -> float | None:
    seconds = forms.document([("durationSeconds", said["durationSeconds"])])["durationSeconds"]
    return found["gpuCount"] * int(seconds) / 3600 or None


def _instead(found: Mapping[str, Any], said: Said) -> list[dict[str, str]]:
    """Claims that would come to more, each as the same form with one thing changed."""
    can = []
    start = found["earliestStart"]
    if start is not None and not found["placement"] and ("startsAt" in said or found["state"] == "expired"):
        at = render.iso(-(-start // 1000) * 1000)
        can.append(_with(said, f"Start at {at.replace('T', ' ')} UTC", startsAt=at, maxPendingSeconds=""))
    if found["state"] == "expired":
        can.append(_with(said, "Wait for room", maxPendingSeconds=""))
    return can


def _help(one: Mapping[str, Any], found: Mapping[str, Any], said: Said) -> list[dict[str, str]]:
    """What would take it out of the way."""
    match one["kind"]:
        case "quota":
            return _fewer(one, found, said)
        case "budget":
            return _shorter(found, said)
        case "capacity":
            return _freer(said)
    return []


def _fewer(one: Mapping[str, Any], found: Mapping[str, Any], said: Said) -> list[dict[str, str]]:
    """As many as the quota still has; where one line alone asks for them."""
    before = max(peak["before"] for peak in found["quota"] if peak["resource"] == one["resource"])
    nodes = int(said.get("nodes", "1"))
    lines = [name for name, text in said.items() if name.endswith("].class") and text == one["resource"]]
    field = lines[0].replace("].class", "].count") if len(lines) == 1 else f"scalars{{{one['resource']}}}"
    left = (one["limit"] - before) // nodes
    if field not in said or left < 1:
        return []
    return [_with(said, f"Take {left:,}" + (" on each node" if nodes > 1 else ""), **{field: str(left)})]


def _shorter(found: Mapping[str, Any], said: Said) -> list[dict[str, str]]:
    left = min((one["leftGpuHours"] for one in found["budget"]), default=0.0)
    seconds = int(left * 3600 / max(1, found["gpuCount"])) // 60 * 60
    return [_with(said, f"Take {exact(seconds)}", durationSeconds=exact(seconds))] if seconds >= 60 else []


def _freer(said: Said) -> list[dict[str, str]]:
    """What narrows it beyond its devices."""
    can = []
    narrow = [name for name in said if name.endswith((".selector", ".colocate")) or name.startswith("topology.")]
    if narrow:
        can.append(_with(said, "Without selectors and topology", **dict.fromkeys(narrow, "")))
    return can


def _with(said: Said, label: str, **changed: str) -> dict[str, str]:
    """The form again with other fields; an empty one is taken out."""
    return {"said": label, "href": f"/reserve?{urlencode({k: v for k, v in (said | changed).items() if v})}"}


def _problem(refusal: errors.Refusal, said: Said) -> dict[str, Any]:
    wrong = [{"field": one.field, "label": label(one.field), "message": one.message} for one in refusal.errors]
    return {"code": refusal.code, "detail": refusal.detail, "errors": wrong, "help": _corrected(refusal.errors, said)}


def _corrected(wrong: Sequence[errors.FieldError], said: Said) -> list[dict[str, str]]:
    """What is no matter of taste."""
    fields = {one.field for one in wrong}
    can = []
    if "startsAt" in fields:
        can.append(_with(said, "Start now", startsAt=""))
    if "maxPendingSeconds" in fields:
        can.append(_with(said, "Wait as long as the pool lets it", maxPendingSeconds=""))
    if "binding" in fields:
        other = "hold" if said.get("binding") == "instance" else "instance"
        can.append(_with(said, f"With binding {other}", binding=other))
    return can


def label(field: str) -> str:
    """A field of the request as the form calls it."""
    if field.startswith("devices["):
        row, _, name = field.removeprefix("devices[").partition("].")
        if row.isdecimal():
            return f"{LABELS.get(name, name)} of device row {int(row) + 1}"
    return LABELS.get(field, field)


LABELS: Final = {
    "poolId": "Pool",
    "devices": "Devices",
    "class": "Class",
    "count": "Count",
    "selector": "Selector",
    "topology.colocate": "Beside each other",
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
