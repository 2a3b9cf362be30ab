"""What happened to a node, each event as a sentence with who and why."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from adapters.console import render

Change = Mapping[str, Any]
Said = Callable[[Change], str]


class Kind(Struct, frozen=True):
    """How an event is told: its name, how it looks, and what of its fields is worth saying."""

    name: str
    tone: str = ""
    said: Said = lambda change: ""


def _reason(change: Change) -> str:
    return str(change.get("reason") or "")


def _joined(change: Change) -> str:
    return f"as {change['name']}, role {change['role']}, trust {change['trust']}"


def _assigned(change: Change) -> str:
    return f"as {change['role']}" if change.get("poolId") else f"to no pool, as {change['role']}"


def _shared(change: Change) -> str:
    return str(change["sharing"].get("mode", "exclusive"))


def _booted(change: Change) -> str:
    return f"boot {change['bootId']}, agent {change['agentVersion']}"


def _hardware(change: Change) -> str:
    gpus = f"{change['gpuCount']} × {change.get('gpuModel') or 'GPU'}" if change.get("gpuCount") else "no GPU"
    shared = f"; shares identifiers with {', '.join(change['sharedWith'])}" if change.get("sharedWith") else ""
    return gpus + shared


def _devices(change: Change) -> str:
    devices = change.get("devices", ())
    bookable = sum(1 for one in devices if one.get("bookable", True))
    scalars = ", ".join(f"{name} {render.amount(amount)}" for name, amount in change.get("scalars", {}).items())
    return f"{bookable} of {len(devices)} bookable; {scalars or 'no scalars'}"


def _drain(change: Change) -> str:
    ends = f"; at {render.iso(change['deadline'])} UTC what still runs is released" if change.get("deadline") else ""
    forced = "; beyond the pool's disruption budget" if change.get("forced") else ""
    return f"{_reason(change)}{ends}{forced}"


def _window(change: Change) -> str:
    plan = change["plan"]
    return f"{plan['reason']}: {render.iso(plan['from'])} to {render.iso(plan['until'])} UTC"


def _connected(change: Change) -> str:
    return f"{change['connectivity']}, session {change['session']}"


def _condition(change: Change) -> str:
    of = change["condition"]
    return f"{render.words(of['type'])}: {of['message'] or of['reason']}"


def _spec(change: Change) -> str:
    parts = [f"generation {change['generation']}"]
    for field, said in (("added", "more"), ("removed", "fewer")):
        if change.get(field):
            parts.append(f"{len(change[field])} {said} allocation{'s' if len(change[field]) > 1 else ''}")
    if change.get("instances"):
        parts.append(", ".join(f"{one['name']} {one['desired']}" for one in change["instances"]))
    if change.get("without"):
        parts.append(f"{len(change['without'])} fewer instances")
    return "; ".join(parts)


def _observed(change: Change) -> str:
    items = change.get("items", {})
    failed = [id for id, status in items.items() if status == "failed"]
    prepared = sum(1 for status in items.values() if status == "prepared")
    said = f"generation {change['generation']}; {prepared} of {len(items)} prepared"
    return f"{said}; failed: {', '.join(failed)}" if failed else said


def _labels(change: Change) -> str:
    return ", ".join(f"{key}={value}" for key, value in change["labels"].items()) or "none"


def _reasons(change: Change) -> str:
    return ", ".join(render.words(name) for name in change["reasons"])


def _left(change: Change) -> str:
    what = ", ".join(change.get("reasons", ())) or change.get("plan") or "all reasons"
    return f"{what}; other reasons hold on" if change.get("still") else what


KINDS: Final[Mapping[str, Kind]] = {
    "node.joined.1": Kind("Joined", "info", _joined),
    "node.enrolled.1": Kind("Enrolled: nothing is installed on it yet"),
    "node.rekeyed.1": Kind("Joined again with another key", "warn"),
    "node.booted.1": Kind("Booted", "info", _booted),
    "node.inventoried.1": Kind("Hardware reported", "", _hardware),
    "node.duplicate_settled.1": Kind("Twins settled as other machines", "", _reason),
    "node.assigned.1": Kind("Assigned", "info", _assigned),
    "node.devices_changed.1": Kind("Devices changed", "", _devices),
    "node.provision_moved.1": Kind("Moved", "info", lambda change: f"to {change['provision']}: {_reason(change)}"),
    "node.cordoned.1": Kind("Cordoned", "warn", _reason),
    "node.uncordoned.1": Kind("Uncordoned", "good"),
    "node.maintenance_entered.2": Kind("Maintenance began", "warn", _reason),
    "node.maintenance_left.2": Kind("Maintenance ended", "good", _left),
    "node.maintenance_planned.1": Kind("Maintenance planned", "", _window),
    "node.plan_ended.1": Kind("Planned maintenance is over or called off"),
    "node.drain_started.1": Kind("Drain began", "warn", _drain),
    "node.drained.1": Kind("Drained: nothing is booked here any more", "good"),
    "node.drain_ended.1": Kind("Drain ended", "good"),
    "node.connectivity_changed.1": Kind("Connection", "", _connected),
    "node.condition_raised.1": Kind("Observed", "warn", _condition),
    "node.condition_cleared.1": Kind("Over", "good", lambda change: render.words(change["condition"])),
    "node.spec_changed.1": Kind("Spec changed", "", _spec),
    "node.spec_shaped.1": Kind("GPU sharing set", "", _shared),
    "node.spec_observed.1": Kind("Spec observed", "", lambda change: f"generation {change['generation']}"),
    "node.spec_reported.1": Kind("Spec reported", "", _observed),
    "node.command_queued.1": Kind("Command queued", "", lambda change: f"number {change['seq']}"),
    "node.command_settled.1": Kind("Command settled"),
    "node.labelled.1": Kind("Labelled", "", _labels),
    "node.fenced.1": Kind("Fenced: the machine is said to be off", "bad", _reason),
    "node.schedulability_changed.1": Kind("Schedulability", "", _reasons),
}
"""Every event of a node; a test misses none."""

_CONNECTIVITY: Final = {"connected": "good", "disconnected": "warn", "unreachable": "bad", "lost": "bad"}


def told(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of `nodes.history` with its sentence: `name`, `tone` and `said`; `thing` is what it is about."""
    kind = KINDS.get(entry["type"], Kind(entry["type"]))
    change = entry["change"]
    name, tone = kind.name, kind.tone
    match entry["type"]:
        case "node.schedulability_changed.1":
            name, tone = ("Not schedulable", "bad") if change["reasons"] else ("Schedulable", "good")
        case "node.connectivity_changed.1":
            tone = _CONNECTIVITY[change["connectivity"]]
    about = change.get("id") if entry["type"].startswith("node.command_") else change.get("poolId")
    return {**entry, "name": name, "tone": tone, "said": kind.said(change), "thing": about}


def story(entries: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Entries in words; `then` is where what was decided together was complete: as of within it, half would be so."""
    last: dict[tuple[int, str], int] = {}
    for one in entries:
        together = (one["at"], one["actor"])
        last[together] = max(one["position"], last.get(together, 0))
    return [{**told(one), "then": last[one["at"], one["actor"]]} for one in entries]


def schedulable_since(entries: list[dict[str, Any]]) -> int | None:
    """Since when things are placed on it, as far as these entries, newest first, tell."""
    found = next((one for one in entries if one["type"] == "node.schedulability_changed.1"), None)
    return found["at"] if found and not found["change"]["reasons"] else None


def sessions(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the entries tell of sessions and boots, newest first."""
    wanted = ("node.connectivity_changed.1", "node.booted.1", "node.rekeyed.1")
    return [one for one in entries if one["type"] in wanted]
