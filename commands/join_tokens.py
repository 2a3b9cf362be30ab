"""Join tokens: the credential with which a machine becomes a node (api.md §4)."""

import hashlib
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from commands.unit import Outcome, Unit, changed
from domain import errors, ids, join_token, node
from domain.event import Change
from domain.operation import Operation, Request

WEEK_SECONDS = 7 * 86_400


class Create(Request, frozen=True, kw_only=True):
    """Fixes what a joining machine may become; `poolId` assigns it on joining.

    With `nodeId` it makes no node but gives that one a new key, after its machine was installed anew.
    """

    site_id: str
    trust: join_token.Trust
    pool_id: str | None = None
    role: join_token.Role = "unassigned"
    node_id: str | None = None
    enroll: Annotated[bool, Meta(description="nothing is installed on it: it begins as enrolling")] = False
    uses: Annotated[int, Meta(ge=1, le=10_000)] = 1
    expires_in_seconds: Annotated[int, Meta(ge=60, le=366 * 86_400)] = WEEK_SECONDS


class Revoke(Request, frozen=True, kw_only=True):
    id: str


def create(command: Create, unit: Unit) -> Outcome:
    unit.resolve("compute-site", command.site_id, "siteId")
    if command.trust == "platform" and not unit.session.root_tenant:
        raise errors.Invalid("trust", "platform is for the platform's own tenant; use tenant-owned")
    if command.node_id is not None:
        unit.resolve("compute-node", command.node_id, "nodeId")
        for_node(command, unit.existing(command.node_id, "nodeId").state)
    if command.pool_id is not None:
        _check_pool(command.pool_id, command.site_id, unit)
    secret = unit.ports.new_secret()
    event = join_token.Created(
        tenant_id=unit.session.tenant_id,
        site_id=command.site_id,
        secret_sha256=digest(secret),
        trust=command.trust,
        uses=command.uses,
        expires_at=unit.now + command.expires_in_seconds * 1000,
        at=unit.now,
        role=command.role,
        pool_id=command.pool_id,
        node_id=command.node_id,
        enroll=command.enroll,
    )
    change = Change(unit.new_id("jt"), 0, (event,))
    return Outcome((change,), reveal=lambda view: replace(view, token=secret))


def _check_pool(pool_id: str, site_id: str, unit: Unit) -> None:
    unit.resolve("compute-pool", pool_id, "poolId")
    state = unit.existing(pool_id, "poolId").state
    unit.only_owner(state.owner_tenant_id, f"compute-pool/{pool_id}")
    if state.retired:
        raise errors.Conflict("the pool is retired and takes nothing new")
    if state.site_id != site_id:
        raise errors.Invalid("poolId", "the pool is in another site")


def for_node(command: Create, state: node.State) -> None:
    """A token for a node changes its key and nothing else: site and trust are the node's, the rest is left out."""
    if state.provision_state == "retired":
        raise errors.Conflict("the node is retired: its machine joins as a new one")
    if command.site_id != state.site_id:
        raise errors.Invalid("siteId", f"the node is in site {state.site_id}")
    if command.trust != state.trust:
        raise errors.Invalid("trust", f"the node's is {state.trust}, and stays so")
    given = {"poolId": command.pool_id is not None, "role": command.role != "unassigned", "enroll": command.enroll}
    for name, there in given.items():
        if there:
            raise errors.Invalid(name, "leave it out: the node keeps what it has")
    if command.uses != 1:
        raise errors.Invalid("uses", "expected 1: one machine is to get the key")


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def revoke(command: Revoke, unit: Unit) -> Outcome:
    loaded = unit.load(ids.parse("jt", command.id))
    if loaded.version == 0 or loaded.state.tenant_id != unit.session.tenant_id:
        raise unit.unseen("join token", command.id)
    events = [] if loaded.state.revoked else [join_token.Revoked(unit.now)]
    return Outcome((changed(command.id, loaded, events),))


OPERATIONS = (
    Operation(
        name="joinTokens.create",
        verb="POST",
        path="/v1/join-tokens",
        request=Create,
        response=join_token.View,
        on=("compute-tenant/{acting}",),
        handle=create,
        view=join_token.view,
        summary="Create a join token; it is shown only once",
        status=201,
        refusals=(errors.AccessDenied, errors.NotFound, errors.Conflict, errors.KeyReused),
        key="accepted",
    ),
    Operation(
        name="joinTokens.revoke",
        verb="DELETE",
        path="/v1/join-tokens/{id}",
        request=Revoke,
        response=join_token.View,
        on=("compute-tenant/{acting}",),
        handle=revoke,
        view=join_token.view,
        summary="Revoke a join token",
        refusals=(errors.AccessDenied, errors.NotFound, errors.StaleVersion),
    ),
)
