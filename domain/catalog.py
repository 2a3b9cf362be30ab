"""The resource types that access policies speak of, in one table (domain.md §10).

It is what the embedded directory checks policies and relationships against, and what a Better IAM host loads.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

PREFIX = "compute-"
"""Stands before every type, so that they share Better IAM's name space with others."""

FLEET_ID = "global"
"""The one id of the platform fleet."""

AttributeType = Literal["string", "number", "boolean"]


class Type(Struct, frozen=True):
    """One resource type; `scope` marks those that stand for a place to act in, not for a thing.

    `id_prefix` begins the ids of its things (domain.md §1), `get` is the action that shows one.
    """

    name: str
    description: str
    parent: str | None = None
    relations: tuple[str, ...] = ()
    attributes: Mapping[str, AttributeType] = {}
    scope: bool = False
    id_prefix: str | None = None
    get: str | None = None


_REGION: Mapping[str, AttributeType] = {"region": "string"}
_GPU: Mapping[str, AttributeType] = {"gpuModel": "string", "gpuCount": "number"}

POOL = f"{PREFIX}pool"
IMAGE = f"{PREFIX}image"

TYPES: tuple[Type, ...] = (
    Type(f"{PREFIX}fleet", "the platform's fleet as a whole", scope=True),
    Type(f"{PREFIX}tenant", "what a tenant does in its own scope", scope=True),
    Type(
        f"{PREFIX}project",
        "a grouping inside a tenant",
        relations=("member", "admin"),
        scope=True,
        id_prefix="prj",
        get="compute:projects:get",
    ),
    Type(
        f"{PREFIX}site",
        "a boot and failure domain",
        attributes={**_REGION, "iamRegion": "string", "kind": "string"},
        id_prefix="site",
        get="compute:sites:get",
    ),
    Type(
        POOL,
        "machines of one kind in one site, scheduled together",
        relations=("viewer", "user", "operator", "admin"),
        attributes={
            **_REGION,
            "class": "string",
            "gpuModel": "string",
            "gpuMemoryGb": "number",
            "sharing": "string",
        },
        id_prefix="pool",
        get="compute:pools:get",
    ),
    Type(
        f"{PREFIX}node",
        "a machine",
        parent=POOL,
        relations=("operator",),
        attributes={**_REGION, **_GPU, "lifecycle": "string", "trust": "string", "dedicatedTo": "string"},
        id_prefix="node",
        get="compute:nodes:get",
    ),
    Type(
        f"{PREFIX}reservation",
        "a claim on devices for a time, decided as a draft",
        parent=POOL,
        attributes={
            **_REGION,
            **_GPU,
            "durationHours": "number",
            "binding": "string",
            "projectId": "string",
            "ownerId": "string",
            "spot": "boolean",
        },
        id_prefix="rsv",
        get="compute:reservations:get",
    ),
    Type(
        f"{PREFIX}instance",
        "a virtual machine, microVM or container",
        parent=POOL,
        attributes={
            "vcpu": "number",
            "memoryGiB": "number",
            "gpus": "number",
            "imageId": "string",
            "imageVerified": "boolean",
            "projectId": "string",
            "ownerId": "string",
        },
        id_prefix="inst",
        get="compute:instances:get",
    ),
    Type(
        IMAGE,
        "an operating system or ramdisk image",
        attributes={"visibility": "string", "verified": "boolean"},
        id_prefix="img",
        get="compute:images:get",
    ),
    Type(f"{PREFIX}profile", "a provisioning template"),
    Type(f"{PREFIX}provider-account", "an account with a capacity provider", id_prefix="pacct"),
)

BY_NAME: Mapping[str, Type] = {entry.name: entry for entry in TYPES}
ID_PREFIXES: Mapping[str, str] = {entry.name: entry.id_prefix for entry in TYPES if entry.id_prefix}
GET: Mapping[str, str] = {entry.name: entry.get for entry in TYPES if entry.get}
GOT_AS: Mapping[str, tuple[str, str]] = {ID_PREFIXES[name]: (name, action) for name, action in GET.items()}
"""Of an id's prefix: the type of the thing, and the action that shows it."""


def resolves(type_name: str, identifier: str, tenant_id: str, *, root_tenant: bool) -> bool:
    """Whether a thing of this type and id can exist in the tenant at all (domain.md §10).

    The fleet exists for the platform alone and a tenant's scope only inside it, whatever policies say; other
    types are resolved by whoever holds their rows.
    """
    ids = within(type_name, tenant_id, root_tenant=root_tenant)
    return ids is None or identifier in ids


def within(type_name: str, tenant_id: str, *, root_tenant: bool) -> tuple[str, ...] | None:
    """The ids that things of the type can have in the tenant; None is any."""
    if type_name == f"{PREFIX}fleet":
        return (FLEET_ID,) if root_tenant else ()
    if type_name == f"{PREFIX}tenant":
        return (tenant_id,)
    return None if type_name in BY_NAME else ()
