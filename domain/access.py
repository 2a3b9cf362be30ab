"""The port to access decisions: who is calling, and may they do this to that (iam.md §6, architecture.md §6).

Two adapters stand behind it, the embedded access file and Better IAM; no one else in the house knows which.
"""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from domain.policy import filters, matching

IdentityKind = Literal["user", "service", "agent"]
SessionKind = Literal["user", "api-key", "role", "session-token", "delegated"]
TenantStatus = Literal["active", "suspended", "deleted", "pending"]
Attribute = str | int | float | bool | list[str]


class Credential:
    """A caller's bearer, to be passed on for the length of its request; it shows itself nowhere (iam.md §13)."""

    __slots__ = ("token",)

    def __init__(self, token: str) -> None:
        self.token = token

    def __repr__(self) -> str:
        return "Credential(…)"


class Session(Struct, frozen=True):
    """Who is calling, for the length of one request or stream.

    Of a delegated session the identity is the person; `agent_id` is who acts for them (iam.md §14). `credential` is
    there where the decider wants to see it again; it is stored nowhere. The kind of an identity that its token alone
    proves, for reading, is unknown.
    """

    tenant_id: str
    identity_id: str
    identity_kind: IdentityKind | Literal["unknown"]
    session_id: str
    session_kind: SessionKind
    mfa: bool = False
    agent_id: str | None = None
    delegation_id: str | None = None
    root_tenant: bool = False
    impersonator_id: str | None = None
    role_id: str | None = None
    trust_id: str | None = None
    credential: Credential | None = None


class Resource(Struct, frozen=True):
    """What is decided on, with its attributes as of now; unknown attributes are absent, never null.

    `tenant_id` is the tenant in which it resolves for this decision: of an offered pool, the one that it is
    offered to (iam.md §8). The parent stands apart: relations on it become `resource.parentRelations`.
    """

    type: str
    id: str
    tenant_id: str
    attributes: dict[str, Attribute]
    parent_type: str | None = None
    parent_id: str | None = None


Check = tuple[str, Resource]
"""An action, and the thing that it would be done to."""


def checks(action: str, resources: Sequence[Resource]) -> list[Check]:
    """The same action on each thing."""
    return [(action, resource) for resource in resources]


class Decision(Struct, frozen=True):
    """An answer, why, and the SHA-256 hex of the access file that it was given under (domain.md §9).

    The digest is empty where Better IAM decided; `reason` is `ROOT_OVERRIDE` where its root administrator passed.
    """

    allowed: bool
    reason: str
    policy_digest: str


class Foresight(Struct, frozen=True):
    """What a decision would be, and why; `unknown` where that cannot be told without deciding."""

    verdict: Literal["allowed", "denied", "unknown"]
    reason: str


class Plan(Struct, frozen=True):
    """Which things of one type an action is allowed on, as a filter over their attributes (iam.md §19).

    `unsupported`: no filter says it; ask for each thing.
    """

    kind: Literal["always", "never", "conditional", "unsupported"]
    filter: filters.Filter | None = None


def plan_of(filter: filters.Filter) -> Plan:
    match filter:
        case filters.Always():
            return Plan("always")
        case filters.Never():
            return Plan("never")
        case _:
            return Plan("conditional", filter)


def row(resource: Resource) -> dict[str, object]:
    """The fields of a thing that filters speak of (iam.md §19)."""
    parent = {}
    if resource.parent_type is not None and resource.parent_id is not None:
        parent = {"parentType": resource.parent_type, "parentId": resource.parent_id}
    return {**resource.attributes, **parent, "id": resource.id}


def may(
    plan: Plan, resources: Sequence[Resource], ask: Callable[[Sequence[Resource]], Sequence[bool]]
) -> Sequence[bool]:
    """What a plan says of each thing; where there is no plan it is asked."""
    match plan.kind:
        case "unsupported":
            return ask(resources) if resources else ()
        case "conditional" if plan.filter is not None:
            return [matching.matches(plan.filter, row(resource)) for resource in resources]
        case kind:
            return [kind == "always"] * len(resources)


class Tenant(Struct, frozen=True):
    """One node of the tenant tree; only the root, the platform itself, has no parent."""

    id: str
    parent: str | None
    status: TenantStatus
    type: str


class Authorizer(Protocol):
    """Decides on behalf of the platform; an error of its own is never an allow."""

    @property
    def needs_committed_draft(self) -> bool:
        """Whether what is decided on must be stored first, for the decider reads it back (domain.md §5)."""

    def identify(self, token: str) -> Session | None:
        """Whose credential this is; None for one that is unknown or no longer good."""

    def authorize(self, session: Session, action: str, resource: Resource) -> Decision:
        """Decides once; called exactly once per mutation, at its commit point (iam.md §6, "Single use")."""

    def foresee(self, session: Session, action: str, resource: Resource) -> Foresight:
        """What `authorize` would say of a thing that is not there yet, by the action's filter plan (iam.md §19).

        It decides nothing: nothing is recorded, and no confirmation is used up.
        """

    def plan(self, session: Session, action: str, type: str) -> Plan:
        """What a list may show: agrees with `authorize` on every thing of the type in the session's tenant."""

    def allowed(self, session: Session, checks: Sequence[Check]) -> Sequence[bool]:
        """Decides on existing things for looking at them; uses up no confirmation (iam.md §6)."""
