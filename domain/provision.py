"""How far a node is on its way into service and out of it, and which moves are legal (domain.md §3)."""

from collections.abc import Mapping
from typing import Final, Literal

from domain import errors

Provision = Literal[
    "adopting",
    "adopted",
    "enrolling",
    "inspecting",
    "commissioning",
    "ready",
    "deploying",
    "deployed",
    "releasing",
    "rescue",
    "failed",
    "retiring",
    "retired",
]

MOVES: Final[Mapping[Provision, tuple[Provision, ...]]] = {
    "adopting": ("adopted", "failed", "retiring"),
    "adopted": ("retiring", "failed", "rescue"),
    "enrolling": ("inspecting", "failed", "retiring"),
    "inspecting": ("commissioning", "failed"),
    "commissioning": ("ready", "failed"),
    "ready": ("deploying", "inspecting", "retiring"),
    "deploying": ("deployed", "failed"),
    "deployed": ("releasing", "rescue", "failed", "retiring"),
    "releasing": ("ready", "failed"),
    "rescue": ("deployed", "adopted", "failed"),
    "failed": ("inspecting", "adopting", "enrolling", "releasing", "retiring"),
    "retiring": ("retired",),
    "retired": (),
}


def check(state: Provision, to: Provision) -> None:
    """Refuse a move that is not legal, naming those that are."""
    if to not in MOVES[state]:
        raise errors.IllegalTransition(state, f"a move to {to}", MOVES[state], final=not MOVES[state])
