"""A machine becomes a node: the join token is the credential (api.md §4)."""

import base64
import re
from typing import Annotated

from msgspec import Meta

from commands import hardware, rekeying, tenancy, twins
from commands.join_tokens import digest
from commands.ports import Loaded
from commands.unit import Outcome, Unit, changed
from domain import errors, fingerprint, ids, join_token, node, node_view, registry, schedulability, site
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
    """Joining again with the same key answers the node that it made: an agent may lose the first answer.

    With a token that was made for a node, that node gets the key; its name, labels and address stay.
    """
    token_id, held, meta = _token(unit)
    token: join_token.State = held.state
    _check_key(command.public_key)
    joined_before = unit.ports.store.holder("agent key", "", command.public_key)
    if joined_before is not None:
        return Outcome((_again(joined_before, token_id, token, unit),), meta=meta)
    _admits(token, unit)
    if token.node_id is not None:
        changes = rekeying.rekey(token.node_id, token_id, held.version, command.public_key, command.inventory, unit)
        return Outcome(changes, meta=meta)
    used = Change(token_id, held.version, (join_token.Used(node_id := unit.new_id("node")),))
    made, *besides = _new(node_id, command, token_id, token, meta.admission, unit)
    return Outcome((made, used, *besides), meta=meta)


def _new(
    node_id: str, command: Join, token_id: str, token: join_token.State, admission_id: str | None, unit: Unit
) -> list[Change]:
    store = unit.ports.store
    place: site.State = unit.existing(token.site_id).state
    identifiers = fingerprint.fingerprint(command.inventory).identifiers
    others = twins.of(store, node_id, place.owner_tenant_id, identifiers)
    events = _begin(command, token_id, token, place, admission_id, unit.now)
    state: node.State = registry.fold(node_id, events)
    seen = hardware.snapshot(command.inventory, others.nodes, others.taken, unit.now)
    found = hardware.observe(state, seen, None, (), unit.now)
    found += twins.mark(state, twins.earlier(store, node_id, state, others), others.strangers, unit.now)
    events += found
    if token.pool_id is not None:
        of = unit.existing(token.pool_id).state
        state = registry.fold(node_id, found, state)
        events += hardware.assign(node_id, state, token.pool_id, of, "host", unit.now)
    events = schedulability.settle(node.State(), events, unit.now)
    besides = twins.beside(store, node_id, (), identifiers, unit.now)
    return [Change(node_id, 0, tuple(events)), *besides]


def _begin(
    command: Join, token_id: str, token: join_token.State, place: site.State, admission_id: str | None, now: int
) -> list[node.Events]:
    joined = node.Joined(
        name=_name(command),
        site_id=token.site_id,
        owner_tenant_id=place.owner_tenant_id,
        region=place.iam_region,
        role="site" if token.role == "site" else "unassigned",
        trust=token.trust,
        public_key=command.public_key,
        join_token_id=token_id,
        labels=command.labels,
        at=now,
        address=command.address,
        admission_id=admission_id,
    )
    return [joined, node.Enrolled(now)] if token.enroll else [joined]


def _again(node_id: str, token_id: str, token: join_token.State, unit: Unit) -> Change:
    loaded = unit.load(node_id)
    state: node.State = loaded.state
    if state.join_token_id != token_id:
        _admits(token, unit)
    elsewhere = state.site_id != token.site_id or token.node_id not in (None, node_id)
    if elsewhere or state.provision_state == "retired":
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
        summary="Join a machine as a node; the join token is the bearer token",
        status=201,
        refusals=(errors.Conflict,),
        credential="join-token",
    ),
)
