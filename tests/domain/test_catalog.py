"""The catalog is domain.md §10's table, in names that Better IAM takes (iam.md §7)."""

import re

import pytest

from adapters.registry import OPERATIONS
from domain import catalog

TABLE = {
    "fleet": (None, "", ""),
    "tenant": (None, "", ""),
    "project": (None, "member admin", ""),
    "site": (None, "", "region iamRegion kind"),
    "pool": (None, "viewer user operator admin", "region class gpuModel gpuMemoryGb sharing"),
    "node": ("pool", "operator", "region gpuModel gpuCount lifecycle trust dedicatedTo"),
    "reservation": ("pool", "", "region gpuModel gpuCount durationHours binding projectId ownerId spot"),
    "instance": ("pool", "", "vcpu memoryGiB gpus imageId imageVerified projectId ownerId"),
    "image": (None, "", "visibility verified"),
    "profile": (None, "", ""),
    "provider-account": (None, "", ""),
}
"""And `ownerId`, by which a plain user sees its own reservations and instances (domain.md §10, default roles)."""


def test_the_types_are_those_of_the_domain() -> None:
    found = {entry.name: (entry.parent, " ".join(entry.relations), set(entry.attributes)) for entry in catalog.TYPES}
    assert found == {
        f"compute-{name}": (parent and f"compute-{parent}", relations, set(attributes.split()))
        for name, (parent, relations, attributes) in TABLE.items()
    }


def test_three_types_are_scopes() -> None:
    scopes = {entry.name for entry in catalog.TYPES if entry.scope}
    assert scopes == {"compute-fleet", "compute-tenant", "compute-project"}


@pytest.mark.parametrize("entry", catalog.TYPES, ids=lambda entry: entry.name)
def test_better_iam_accepts_every_declaration(entry: catalog.Type) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9-]{0,63}", entry.name)
    assert len(entry.description) <= 512
    assert entry.parent is None or catalog.BY_NAME[entry.parent].parent is None
    assert all(re.fullmatch(r"[a-z][a-z0-9_-]{0,63}", relation) for relation in entry.relations)
    for name, kind in entry.attributes.items():
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,63}", name)
        assert name != "tenantId"
        assert kind in ("string", "number", "boolean")


def test_ids_and_gets_are_of_the_things_that_can_be_got() -> None:
    """`get` is the action of the operation that shows a thing: there is one, on that type."""
    prefixes = (
        "project prj",
        "site site",
        "pool pool",
        "node node",
        "reservation rsv",
        "provider-account pacct",
        "image img",
        "instance inst",
    )
    known = dict(line.split() for line in prefixes)
    assert {name.removeprefix("compute-"): prefix for name, prefix in catalog.ID_PREFIXES.items()} == known
    assert set(catalog.GOT_AS) == {"site", "pool", "node", "rsv", "prj", "img", "inst"}
    shown = {operation.action: operation.on for operation in OPERATIONS.values()}
    for prefix, (name, action) in catalog.GOT_AS.items():
        assert (catalog.ID_PREFIXES[name], shown[action]) == (prefix, (f"{name}/{{id}}",))


@pytest.mark.parametrize(
    ("thing", "tenant", "root", "resolves"),
    [
        ("fleet/global", "platform", True, True),
        ("fleet/global", "acme", False, False),
        ("fleet/other", "platform", True, False),
        ("tenant/acme", "acme", False, True),
        ("tenant/acme", "platform", True, False),
        ("pool/pool_1", "acme", False, True),
        ("moon/1", "acme", False, False),
    ],
)
def test_scopes_exist_only_where_they_belong(thing: str, tenant: str, root: bool, resolves: bool) -> None:
    kind, identifier = thing.split("/")
    assert catalog.resolves(f"compute-{kind}", identifier, tenant, root_tenant=root) is resolves
