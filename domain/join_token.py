"""A join token: the credential with which a machine becomes a node; stored as a hash (api.md §4)."""

from typing import Literal, assert_never

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict, replace

from domain.event import Event

Trust = Literal["platform", "tenant-owned", "tenant-controlled"]
Role = Literal["unassigned", "host", "dedicated", "site"]


class Created(Event, frozen=True, tag="join_token.created.2"):
    """`secret_sha256` is the hex SHA-256 of the token; the token itself is shown once and never stored.

    With `node_id` it gives that node a new key and makes none; with `enroll` a node begins as enrolling.
    """

    tenant_id: str
    site_id: str
    secret_sha256: str
    trust: Trust
    uses: int
    expires_at: int
    at: int
    role: Role = "unassigned"
    pool_id: str | None = None
    node_id: str | None = None
    enroll: bool = False


class Used(Event, frozen=True, tag="join_token.used.1"):
    node_id: str


class Revoked(Event, frozen=True, tag="join_token.revoked.1"):
    at: int


Events = Created | Used | Revoked


class State(Struct, frozen=True, rename="camel"):
    tenant_id: str = ""
    site_id: str = ""
    trust: Trust = "platform"
    uses: int = 1
    used: int = 0
    expires_at: int = 0
    created_at: int = 0
    role: Role = "unassigned"
    pool_id: str | None = None
    node_id: str | None = None
    enroll: bool = False
    revoked: bool = False


def evolve(state: State, event: Events) -> State:
    match event:
        case Created():
            return State(
                event.tenant_id,
                event.site_id,
                event.trust,
                event.uses,
                0,
                event.expires_at,
                event.at,
                event.role,
                event.pool_id,
                event.node_id,
                event.enroll,
            )
        case Used():
            return replace(state, used=state.used + 1)
        case Revoked():
            return replace(state, revoked=True)
        case _:
            assert_never(event)


def unusable(state: State, now: int) -> str | None:
    """Why the token admits nobody at `now` (epoch ms); None while it does."""
    if state.revoked:
        return "it was revoked"
    if now >= state.expires_at:
        return "it expired"
    if state.used >= state.uses:
        return "it was used up"
    return None


class View(State, frozen=True, kw_only=True, rename="camel"):
    """A join token without its secret; `token` is there once, in the answer that made it."""

    id: str
    version: int
    token: str | UnsetType = UNSET


def view(id: str, state: State, version: int) -> View:
    return View(id=id, version=version, **asdict(state))
