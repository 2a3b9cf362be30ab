"""A machine becomes a node: the join token is the credential (api.md §4)."""

import base64
import re
from typing import Annotated

from msgspec import Meta

from commands import hardware, tenancy, twins
from commands.join_tokens import digest
from commands.ports import Loaded
from commands.unit import Outcome, Unit, changed
from domain import errors, fingerprint, ids, join_token, node, node_view, schedulability, site
from domain.event import Change
from domain.event import Meta as EventMeta
from domain.inventory import NodeInventory
from domain.labels import Labels
from domain.operation import Operation, Request


class Join(Request, frozen=True, kw_only=True):
    """`publicKey` is the agent's Ed25519 key, 32 bytes in base64; the name defaults to the host name."""

    inventory: NodeInventory
    public_key: Annotated[str, Meta(min_length=44, max_length=44)]
    name: Annotated[str, Meta(max_length=63)] | None = None
    labels: Labels = {}
    address: Annotated[str, Meta(max_length=253, pattern=r"^[0-9A-Za-z.:-]+$(?!\n)")] | None = None


def join(command: Join, unit: Unit) -> Outcome:
    """Joining again with the same key answers the node that it made: an agent may lose the first answer."""
    token_id, held, meta = _token(unit)
    token: join_token.State = held.state
    _check_key(command.public_key)
    joined_before = unit.ports.store.holder("agent key", "", command.public_key)
    if joined_before is not None:
        return Outcome((_again(joined_before, token_id, token, unit),), meta=meta)
    _admits(token, unit)
    place: site.State = unit.existing(token.site_id).state
    node_id = unit.new_id("node")
    name = _name(command)
    identifiers = fingerprint.fingerprint(command.inventory).identifiers
    others = twins.of(unit.ports.store, node_id, place.owner_tenant_id, identifiers)
    joined = node.Joined(
        name=name,
        site_id=token.site_id,
        owner_tenant_id=place.owner_tenant_id,
        region=place.iam_region,
        role="site" if token.role == "site" else "unassigned",
        trust=token.trust,
        public_key=command.public_key,
        join_token_id=token_id,
        labels=command.labels,
        at=unit.now,
        address=command.address,
        admission_id=meta.admission,
    )
    state = node.evolve(node.State(), joined)
    seen = hardware.snapshot(command.inventory, others.nodes, others.taken, unit.now)
    events: list[node.Events] = [joined, *hardware.observe(state, seen, None, (), unit.now)]
    events += twins.mark(state, twins.earlier(unit.ports.store, node_id, state, others), others.strangers, unit.now)
    if token.pool_id is not None:
        for event in events[1:]:
            state = node.evolve(state, event)
        of = unit.existing(token.pool_id).state
        events += hardware.assign(node_id, state, token.pool_id, of, "host", unit.now)
    events = schedulability.settle(node.State(), events, unit.now)
    used = Change(token_id, held.version, (join_token.Used(node_id),))
    besides = twins.beside(unit.ports.store, node_id, (), identifiers, unit.now)
    return Outcome((Change(node_id, 0, tuple(events)), used, *besides), meta=meta)


def _again(node_id: str, token_id: str, token: join_token.State, unit: Unit) -> Change:
    loaded = unit.load(node_id)
    state: node.State = loaded.state
    if state.join_token_id != token_id:
        _admits(token, unit)
    if (state.site_id, state.provision_state == "retired") != (token.site_id, False):
        raise errors.Conflict("this key belongs to another node; make a new one")
    return changed(node_id, loaded, [])


def _admits(token: join_token.State, unit: Unit) -> None:
    if reason := join_token.unusable(token, unit.now):
        raise errors.Unauthenticated(f"the join token admits nobody: {reason}")
    if not tenancy.usable(unit.ports.store, token.tenant_id):
        raise errors.Unauthenticated("the join token admits nobody: its tenant is suspended")


def _token(unit: Unit) -> tuple[str, Loaded, EventMeta]:
    """The join token behind the bearer; what it causes names the admission that made it."""
    bearer = unit.call.bearer
    token_id = bearer and unit.ports.store.holder("join secret", "", digest(bearer))
    if not token_id:
        raise errors.Unauthenticated("send a join token as the bearer")
    loaded = unit.load(token_id)
    made = unit.ports.store.history(token_id)[0].meta
    actor = f"join-token:{token_id}"
    return token_id, loaded, EventMeta(actor, made.admission, correlation=unit.call.request_id)


def _check_key(text: str) -> None:
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:  # not base64, or not even ASCII
        raw = b""
    if len(raw) != 32:
        raise errors.Invalid("publicKey", "expected an Ed25519 public key: 32 bytes in base64")


def _name(command: Join) -> str:
    if command.name is not None:
        return ids.name(command.name)
    host = (command.inventory.system.hostname or "").partition(".")[0].lower()
    plain = re.sub(r"[^a-z0-9-]+", "-", host)[:63].strip("-")
    if not plain:
        raise errors.Invalid("name", "the inventory has no host name to take it from; give one")
    return plain


OPERATIONS = (
    Operation(
        name="nodes.join",
        verb="POST",
        path="/v1/nodes/join",
        request=Join,
        response=node_view.View,
        on=(),
        handle=join,
        view=node_view.view,
        summary="Make this machine a node; the join token is the bearer",
        status=201,
        refusals=(errors.Conflict,),
        credential="join-token",
    ),
)
