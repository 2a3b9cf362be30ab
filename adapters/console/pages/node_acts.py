"""What may be done to a node in the state that it is in; what the caller may do is asked elsewhere."""

from collections.abc import Mapping
from typing import Any, Final

from domain import provision

SERVICE: Final = ("nodes.cordon", "nodes.uncordon", "nodes.drain", "nodes.maintain", "nodes.label", "nodes.assign")
WAY: Final = (
    "nodes.adopt",
    "nodes.inspect",
    "nodes.commission",
    "nodes.deploy",
    "nodes.rescue",
    "nodes.release",
    "nodes.retire",
)
APART: Final = ("nodes.fence", "nodes.settle")
ALL: Final = (*SERVICE, *WAY, *APART, "commands.issue")

_TO: Final[Mapping[str, provision.Provision]] = {
    "nodes.inspect": "inspecting",
    "nodes.commission": "commissioning",
    "nodes.release": "releasing",
    "nodes.rescue": "rescue",
}
"""Where an operation brings a node, if nothing stands between."""


def legal(node: Mapping[str, Any]) -> set[str]:
    """The operations that this node, as the API shows it, would not refuse for its own state."""
    state: provision.Provision = node["provisionState"]
    onward = provision.MOVES[state]
    found = {name for name, to in _TO.items() if to in onward}
    if state in ("adopting", "rescue", "failed"):
        found.add("nodes.adopt")
    if state in ("ready", "rescue"):
        found.add("nodes.deploy")
    if "retiring" in onward or state == "retiring":
        found.add("nodes.retire")
    if state == "retired":
        return found
    found |= {"nodes.drain", "nodes.maintain", "nodes.label", "commands.issue"}
    found.add("nodes.cordon" if node["cordoned"] is None else "nodes.uncordon")
    if node["drain"] is not None:
        found.add("nodes.uncordon")
    if state != "retiring" and not node["plannedMaintenance"]:
        found.add("nodes.assign")
    if node["connectivity"] != "connected":
        found.add("nodes.fence")
    if any(one["type"] == "DuplicateHardware" for one in node["conditions"]):
        found.add("nodes.settle")
    return found
