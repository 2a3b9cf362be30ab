"""The record of each decision: Better IAM does not audit what it allows, so the log does (domain.md §9)."""

from msgspec import Struct

from domain.event import Event


class Decided(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One resource the request was decided on, with the attributes the policy read."""

    action: str
    resource: str
    allowed: bool
    reason: str
    attributes: dict[str, str | int | float | bool | list[str]] = {}


class Replay(Struct, frozen=True, rename="camel"):
    """What an Idempotency-Key answered: SHA-256 of caller and key, of the body, and the version of the answer."""

    key: str
    body: str
    stream: str
    version: int
    status: int


class Caller(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Who asked, as the decision saw them; never a token."""

    tenant_id: str
    identity_id: str
    identity_kind: str
    session_id: str
    session_kind: str
    mfa: bool = False
    agent_id: str | None = None
    delegation_id: str | None = None
    impersonator_id: str | None = None
    role_id: str | None = None
    trust_id: str | None = None


class Admitted(Event, frozen=True, tag="admission.recorded.1"):
    """An allowed mutation, the first event of the append it caused."""

    caller: Caller
    request_id: str
    decided: tuple[Decided, ...]
    policy_digest: str
    replay: Replay | None = None


class Refused(Event, frozen=True, tag="admission.refused.1"):
    """A refused mutation, also of a thing that does not resolve for the caller."""

    caller: Caller
    request_id: str
    action: str
    resource: str
    reason: str
    policy_digest: str


class RefusalsCounted(Event, frozen=True, tag="admission.refusals_counted.1"):
    """Refusals beyond 60 a minute of one identity stand as one event a minute."""

    caller: Caller
    count: int


Events = Admitted | Refused | RefusalsCounted


class State(Struct, frozen=True):
    """An admission is what it was recorded as; nothing follows it."""

    recorded: Events | None = None


def evolve(state: State, event: Events) -> State:
    return State(event)
