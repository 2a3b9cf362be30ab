"""What access policies can speak of, as a Better IAM host is configured from it (domain.md §10; iam.md §7)."""

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from domain import catalog, errors, roles
from domain.access import Attribute, Resource
from domain.operation import Answer, Operation, Request
from queries.reading import Reader

Registry = Callable[[], Iterable[Operation]]
See = Callable[[str, str, str], Resource | None]
"""The thing of a type and an id as a tenant sees it."""


class Get(Request, frozen=True, kw_only=True):
    pass


class Declaration(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One resource type. None is `managed`: its things are asked for with `POST /v1/iam/resolve`, never registered."""

    description: str
    managed: bool
    actions: tuple[str, ...]
    attributes: Mapping[str, catalog.AttributeType]
    relations: tuple[str, ...]
    parent: str | None = None


class Permissions(Struct, frozen=True, rename="camel"):
    """The option `permissions` of a Better IAM host, as it stands."""

    resource_types: dict[str, Declaration]


class Role(Struct, frozen=True, rename="camel"):
    """A role to start from, as a policy document; one that is `rootOnly` makes sense in the root tenant alone."""

    name: str
    description: str
    root_only: bool
    document: Mapping[str, Any]


class Catalog(Struct, frozen=True, rename="camel"):
    """Types with the actions that are decided on them, every action, and the default roles."""

    permissions: Permissions
    actions: tuple[str, ...]
    roles: tuple[Role, ...]


def of(operations: Iterable[Operation]) -> Catalog:
    """The catalog that these operations make; an action that several types know stands with each."""
    decided = [operation for operation in operations if operation.on]
    declared = {
        entry.name: Declaration(
            description=entry.description,
            managed=False,
            actions=tuple(sorted(operation.action for operation in decided if entry.name in operation.types)),
            attributes=entry.attributes,
            relations=entry.relations,
            parent=entry.parent,
        )
        for entry in catalog.TYPES
    }
    actions = tuple(sorted(operation.action for operation in decided))
    known = tuple(Role(role.name, role.description, role.root_only, role.document) for role in roles.DEFAULTS)
    return Catalog(Permissions(declared), actions, known)


class Resolve(Request, frozen=True, kw_only=True):
    """What Better IAM asks before it decides; the lengths are its own (iam.md §8)."""

    tenant_id: Annotated[str, Meta(min_length=1, max_length=128)]
    type: Annotated[str, Meta(min_length=1, max_length=256)]
    id: Annotated[str, Meta(min_length=1, max_length=256)]


class Resolved(Struct, frozen=True, rename="camel"):
    """The thing, in the tenant in which it is there; what policies read of it, and `parentType` with `parentId`."""

    tenant_id: str
    type: str
    id: str
    attributes: dict[str, Attribute]


def resolve(asked: Resolve, see: See) -> Answer:
    """Nothing of a thing that is missing or foreign: that is 404, which the bridge hands on as nothing."""
    found = see(asked.tenant_id, asked.type, asked.id)
    if found is None:
        raise errors.NotFound(asked.type, asked.id)
    attributes = dict(found.attributes)
    if found.parent_type is not None and found.parent_id is not None:
        attributes |= {"parentType": found.parent_type, "parentId": found.parent_id}
    return Answer(body=Resolved(found.tenant_id, found.type, found.id, attributes))


def operations(registry: Registry) -> tuple[Operation, ...]:
    """`registry` gives all operations there are, this one among them: it is asked when somebody asks."""

    def get(_: Get, __: Reader) -> Answer:
        return Answer(body=of(registry()))

    return (
        Operation(
            name="iam.catalog",
            verb="GET",
            path="/v1/iam/catalog",
            request=Get,
            response=Catalog,
            on=(f"{catalog.PREFIX}tenant/{{acting}}",),
            handle=get,
            summary="Show the resource types, actions and roles that a Better IAM host is configured from",
            refusals=(errors.AccessDenied,),
        ),
        Operation(
            name="iam.resolve",
            verb="POST",
            path="/v1/iam/resolve",
            request=Resolve,
            response=Resolved,
            on=(),
            handle=resolve,
            summary="Tell Better IAM what a thing is, in one tenant's view",
            refusals=(errors.NotFound,),
            credential="resolver",
            looks=True,
        ),
    )
