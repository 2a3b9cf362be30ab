"""Every operation there is, by its noun (api.md §1)."""

from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from typing import Final

from domain.operation import Operation, Table

DECLARED: Final = {
    "sites": ("commands.sites", "queries.sites"),
    "pools": ("commands.pools", "commands.offerings", "commands.evicting", "queries.pools"),
    "offerings": ("queries.offerings",),
    "projects": ("commands.projects", "queries.projects"),
    "quotas": ("commands.quotas", "queries.quotas"),
    "budgets": ("commands.budgets", "queries.budgets"),
    "flavors": ("commands.flavors", "queries.flavors"),
    "images": ("commands.images", "commands.image_content", "queries.images"),
    "imageSigners": ("commands.image_signers", "queries.image_signers"),
    "joinTokens": ("commands.join_tokens", "queries.join_tokens"),
    "nodes": (
        "commands.joining",
        "commands.nodes",
        "commands.identity",
        "commands.node_service",
        "commands.node_provision",
        "queries.nodes",
        "queries.nodes_map",
        "queries.nodes_count",
        "queries.node_history",
    ),
    "commands": ("commands.node_commands", "commands.node_command_ends", "queries.node_commands"),
    "devices": ("queries.devices",),
    "capacity": ("queries.capacity", "queries.capacity_timeline"),
    "reservations": (
        "commands.reservations",
        "commands.confirming",
        "commands.extensions",
        "queries.reservations",
        "queries.reservation_states",
        "queries.preview",
    ),
    "extensions": ("queries.extensions",),
    "instances": (
        "commands.instances",
        "commands.instance_verbs",
        "queries.instances",
        "queries.instance_console",
    ),
    "allocations": ("queries.allocations",),
    "bookings": ("queries.bookings",),
    "usage": ("queries.usage", "queries.usage_timeline"),
    "leases": ("commands.leases", "queries.leases"),
    "audit": ("queries.audit", "queries.evidence", "queries.audit_events", "queries.audit_state"),
    "events": ("queries.events",),
}
"""The modules that declare the operations of a noun; the command line imports those of the noun that is typed."""


def _declared(modules: Iterable[str]) -> list[Operation]:
    return [operation for module in modules for operation in import_module(module).OPERATIONS]


def _iam() -> tuple[Operation, ...]:
    """What access policies speak of is told of all operations."""
    from queries import iam

    return iam.operations(lambda: OPERATIONS.values())


_NOUNS: Final[dict[str, Callable[[], Iterable[Operation]]]] = {
    noun: partial(_declared, modules) for noun, modules in DECLARED.items()
}

OPERATIONS: Final = Table(_NOUNS | {"iam": _iam})


def actions() -> frozenset[str]:
    """Every action that is decided on: a policy may name no other."""
    return frozenset(operation.action for operation in OPERATIONS.values() if operation.on)
