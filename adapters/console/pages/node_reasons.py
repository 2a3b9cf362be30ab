"""What stands against placing something on a node, and what was observed of it, in words, with what to do about it."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct


class Advice(Struct, frozen=True):
    """`says` is what it means, `do` what an operator does about it; `acts` are operations that help."""

    says: str
    do: str
    acts: tuple[str, ...] = ()


REASONS: Final[Mapping[str, Advice]] = {
    "NotProvisioned": Advice(
        "It is not in service.",
        "A machine that is installed already is adopted; one that is not is inspected, commissioned and deployed.",
        ("nodes.adopt", "nodes.inspect", "nodes.commission", "nodes.deploy"),
    ),
    "NotHost": Advice(
        "Its role is not host: its devices are not sold.",
        "Assign it to a pool as host. A site's agent has the role site and stays as it is.",
        ("nodes.assign",),
    ),
    "Maintenance": Advice(
        "It is in maintenance.",
        "End the maintenance when the work is done; a planned one ends by itself.",
        ("nodes.maintain",),
    ),
    "Cordoned": Advice(
        "An operator cordoned it, alone or with a drain.",
        "Uncordon it when the cause is gone; that ends a drain as well.",
        ("nodes.uncordon",),
    ),
    "NotConnected": Advice(
        "Its agent has no session: nobody knows what the machine does.",
        "See whether the machine is up, reaches this server and runs its agent. It comes back by itself. "
        "If the machine is off for good, fence it: then what was booked on it is free.",
        ("nodes.fence",),
    ),
    "SpecNotObserved": Advice(
        "Its agent has not yet confirmed its spec.",
        "It does so within seconds of connecting; if it does not, look at the agent's log.",
    ),
    "NotTrusted": Advice(
        "It is a tenant's machine in a pool that is not that tenant's.",
        "Assign it to a pool of the tenant that owns it.",
        ("nodes.assign",),
    ),
    "DuplicateHardware": Advice(
        "Another node had one of its hardware identifiers first.",
        "If it is the same machine, retire one of the two. If they are two machines, settle it.",
        ("nodes.settle", "nodes.retire"),
    ),
    "GpuModelUnknown": Advice(
        "It has a GPU whose model is not in the table of known ones.",
        "Take the GPU out, or run a version of this program that knows the model.",
    ),
    "GpuModelMismatch": Advice(
        "It has GPUs that its pool does not take.",
        "Assign it to a pool of its model, or change the GPUs.",
        ("nodes.assign",),
    ),
    "AcceptanceFailed": Advice(
        "It has not passed the checks that its pool demands.",
        "See what failed, mend it, then give it the command run-acceptance.",
        ("commands.issue",),
    ),
    "PartitionPending": Advice(
        "Its GPUs are not cut up as its pool wants them.",
        "Its agent does it once nothing runs there. If it does not, give it the command apply-mig-layout.",
        ("commands.issue",),
    ),
}
"""Every reason of `domain.schedulability.REASONS`; a test misses none."""

CONDITIONS: Final[Mapping[str, Advice]] = {
    "GpuCountMismatch": Advice(
        "It has fewer GPUs than it had.", "Look for the missing GPU, in the machine and in the inventory's changes."
    ),
    "BookedDeviceMissing": Advice(
        "A device that is booked is gone; the booking stays and its reservation is degraded.",
        "Bring the device back, or have the reservation released.",
    ),
    "SpecDrift": Advice(
        "It has something other than its spec says.", "Compare below what is wanted with what the node reports."
    ),
    "ClockSkew": Advice("Its clock is more than 5 s off.", "Look at the machine's time service."),
    "InventoryStale": Advice(
        "It has not reported its hardware for a day.", "Give it the command inspect.", ("commands.issue",)
    ),
}
"""Conditions that only inform; those that block are among the reasons."""


_NORMAL: Final[Mapping[str, tuple[str, ...]]] = {"site": ("NotHost", "SpecNotObserved")}
"""What is as it should be of a node in this role."""


def why(node: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each reason why nothing is placed there that is not as it should be, oldest first, with what is known of it."""
    if node["provisionState"] == "retired":
        return []
    normal = _NORMAL.get(node["role"], ())
    found = [one for one in node["unschedulableReasons"] if one["reason"] not in normal]
    told = [_reason(node, one["reason"], one["since"]) for one in found]
    return sorted(told, key=lambda one: (one["since"], one["reason"]))


def _reason(node: Mapping[str, Any], name: str, since: int) -> dict[str, Any]:
    known = REASONS.get(name, Advice("", ""))
    return {"reason": name, "since": since, "advice": known, "details": _details(node, name)}


def _details(node: Mapping[str, Any], name: str) -> list[str]:
    match name:
        case "Cordoned":
            return [node["cordoned"]] if node["cordoned"] else []
        case "Maintenance":
            return [stay["reason"] for stay in node["maintenance"]]
        case "NotProvisioned":
            return [f"it is {node['provisionState']}"]
        case "NotConnected":
            return [f"it is {node['connectivity']}"]
        case "NotHost":
            return [f"its role is {node['role']}"]
        case _:
            return [one["message"] for one in node["conditions"] if one["type"] == name and one["message"]]


def informing(node: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Conditions that stop nothing."""
    return [
        {**one, "advice": CONDITIONS.get(one["type"], Advice("", ""))}
        for one in node["conditions"]
        if one["type"] not in REASONS
    ]
