"""Instances: create (domain.md §6). What begins later is `instance_verbs`."""

from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from commands import admitting, launching, reservations
from commands.acting import act, following
from commands.ports import Ahead, Loaded, Race, Store
from commands.unit import Outcome, Unit
from domain import (
    access,
    catalog,
    errors,
    ids,
    instance,
    instance_claim,
    instance_life,
    instance_place,
    instance_view,
    node,
    node_spec,
    pool,
    reservation,
    reservation_terms,
    ssh_key,
    user_data,
)
from domain.event import Change, Fence
from domain.labels import Labels
from domain.operation import Call, Operation, Request
from domain.user_data import UserDataText

INSTANCE: Final = "compute-instance"
RESERVATION: Final = "compute-reservation"
LATE: Final = "it was not decided on in time; ask again with a new key"


class Create(Request, frozen=True, kw_only=True):
    """It brings an open-ended reservation of its own, or runs on `reservationId`, with which it then ends.

    `maxPendingSeconds` and `onNodeLoss` are of the reservation that it brings.
    """

    name: str
    kind: node_spec.Kind = "vm"
    pool_id: str
    flavor_id: str
    image_id: str
    project_id: str | None = None
    reservation_id: str | None = None
    on_node_loss: Annotated[instance.OnNodeLoss, Meta(description="replace: on another node, with a new disk")] = "fail"
    max_pending_seconds: Annotated[int, Meta(ge=0, le=366 * 86_400, description="0: now or never")] | None = None
    ssh_keys: ssh_key.Keys = ()
    user_data: UserDataText | None = None
    labels: Labels = {}


class Asked(Struct, frozen=True):
    """A draft, and the version that its stream has: 0 where it is not recorded yet."""

    id: str
    draft: instance.Drafted
    version: int = 0

    def change(self, *events: instance.Events) -> Change:
        return Change(self.id, self.version, events if self.version else (self.draft, *events))


def ahead(command: Create, call: Call) -> Ahead:
    assert call.session is not None
    instance_id, own = _derived(call.session, call)
    things = [(catalog.POOL, command.pool_id), (catalog.IMAGE, command.image_id)]
    if command.project_id is not None:
        things.append(("compute-project", command.project_id))
    if command.reservation_id is not None:
        things.append((RESERVATION, command.reservation_id))
    flavor_id = ids.parse("flv", command.flavor_id, "flavorId")
    streams = (instance_id, flavor_id, *(id for _, id in things))
    return Ahead(streams=streams if command.reservation_id else (*streams, own), things=tuple(things))


def _derived(session: access.Session, call: Call) -> tuple[str, str]:
    """Its id, and that of the reservation it brings: no Idempotency-Key of a reservation's own has a line's end."""
    key = ids.idempotency_key(call.idempotency_key)
    of = (session.tenant_id, session.identity_id)
    return ids.derive("inst", *of, key), ids.derive("rsv", *of, f"instance\n{key}")


def create(command: Create, unit: Unit) -> Outcome:
    instance_id, own = _derived(unit.session, unit.call)
    held = unit.load(instance_id)
    stored = _again(instance_id, held, unit) if held.version else None
    content = None if command.user_data is None else user_data.decoded(command.user_data, "userData")
    image = launching.named_image(unit, command.image_id)
    vouched = image.image.verdict is not None
    if vouched:
        launching.must_start(unit, image)
    asked = stored or Asked(instance_id, _draft(command, own, image.image, content, unit))
    launching.must_fit(image, asked.draft.flavor)
    if not asked.draft.owned:
        unit.decide(unit.resolve(RESERVATION, asked.draft.reservation_id, "reservationId"))
    if not asked.version and unit.ports.authorizer.needs_committed_draft:
        asked = commit(asked, unit)
    try:
        unit.decide(resource(asked))
    except errors.AccessDenied as refusal:
        if unit.session.session_kind == "delegated" or refusal.code in errors.STEP_UP:
            raise  # not kept: once their person approved, or after a new sign-in, they ask the same again
        return denied(asked, refusal, unit.now, admitted=False)
    if not vouched:  # refused now: a policy that says so has had its say before
        launching.must_start(unit, image)
    if content is not None:
        unit.ports.images.user_data.put(instance_id, content)
    return _bring(asked, unit) if asked.draft.owned else _attach(asked, unit)


def _draft(command: Create, own: str, image: instance.Image, content: bytes | None, unit: Unit) -> instance.Drafted:
    """What is decided on; what cannot be is refused before, naming the field, and nothing of it is recorded."""
    flavor = launching.flavor_of(unit, command.flavor_id)
    project_id = command.project_id
    if command.reservation_id is None:
        unit.resolve(catalog.POOL, command.pool_id, "poolId")
    else:  # its pool need not be offered any more: what is placed runs to its end
        project_id = _given(command, flavor, unit)
    of: pool.State = unit.existing(command.pool_id, "poolId").state
    instance_claim.check(flavor.size, of, command.max_pending_seconds)
    if command.project_id is not None:
        reservations.takes_more(command.project_id, unit)
    keys = [ssh_key.kept(key, f"sshKeys[{index}]") for index, key in enumerate(command.ssh_keys)]
    return instance.Drafted(
        tenant_id=unit.session.tenant_id,
        identity_id=unit.session.identity_id,
        name=ids.name(command.name),
        kind=command.kind,
        pool_id=command.pool_id,
        pool_name=of.name,
        flavor=flavor,
        image=image,
        reservation_id=command.reservation_id or own,
        owned=command.reservation_id is None,
        on_node_loss=command.on_node_loss,
        body=unit.body,
        at=unit.now,
        ssh_keys=tuple(dict.fromkeys(keys)),
        user_data=None if content is None else user_data.noted(content),
        project_id=project_id,
        max_pending_seconds=command.max_pending_seconds,
        labels=command.labels,
    )


def _given(command: Create, flavor: instance.Flavor, unit: Unit) -> str | None:
    """The project of the reservation that is to carry it, once that can."""
    assert command.reservation_id is not None
    unit.resolve(RESERVATION, command.reservation_id, "reservationId")
    state: reservation.State = unit.existing(command.reservation_id, "reservationId").state
    instance_place.check(flavor.size, command.pool_id, state)
    if command.max_pending_seconds is not None:
        raise errors.Invalid("maxPendingSeconds", "leave it out: how long it waits is its reservation's")
    if command.on_node_loss != "fail":
        raise errors.Invalid("onNodeLoss", "a reservation made before fails with its node, and the instance with it")
    assert state.draft is not None
    if command.project_id not in (None, state.draft.project_id):
        raise errors.Invalid("projectId", f"the reservation's is {state.draft.project_id or 'none'}; leave it out")
    return state.draft.project_id


def resource(asked: Asked) -> access.Resource:
    """What the create is decided on: the exact draft (domain.md §10)."""
    draft = asked.draft
    attributes = instance_life.attributes(draft)
    return access.Resource(INSTANCE, asked.id, draft.tenant_id, attributes, catalog.POOL, draft.pool_id)


def commit(asked: Asked, unit: Unit) -> Asked:
    """The draft alone is stored, where whoever decides reads it back (domain.md §5)."""
    draft = replace(asked.draft, committed=True)
    unit.commit(Change(asked.id, 0, (draft,)))
    return Asked(asked.id, draft, 1)


def denied(asked: Asked, refusal: errors.Refusal, now: int, *, admitted: bool = True) -> Outcome:
    """Kept with its no; nothing is recorded of a reservation that it would have brought."""
    refusal.extra.pop("reservationId", None)
    refusal.extra["instanceId"] = asked.id
    extra = {name: value for name, value in refusal.extra.items() if not isinstance(value, tuple)}
    event = instance.Denied(type(refusal).__name__, refusal.code, refusal.detail, extra, now)
    return Outcome((asked.change(event),), refusal=refusal, admitted=admitted)


def _bring(asked: Asked, unit: Unit) -> Outcome:
    """Allowed, with a reservation of its own: placed where there is room, else it waits as that does."""
    of: pool.State = unit.existing(asked.draft.pool_id, "poolId").state
    brought = instance_claim.draft(asked.draft, asked.id, of)
    made = admitting.admit(admitting.Asked(asked.draft.reservation_id, brought), unit)
    if made.refusal is not None:
        return denied(asked, made.refusal, unit.now)

    def instead(refusal: errors.Conflict) -> Outcome:
        return denied(asked, refusal, unit.now)

    events = made.changes[0].events
    waits = [event.reason for event in events if isinstance(event, reservation.Queued)]
    placed = any(isinstance(event, reservation.Placed) for event in events)
    admitted = asked.change(_admitted(asked, unit, None if placed or not waits else waits[-1]))
    return Outcome((admitted, *made.changes), contested=made.contested, instead=instead)


def _admitted(asked: Asked, unit: Unit, reason: str | None = None) -> instance.Admitted:
    return instance.Admitted(unit.admission_id, asked.version > 0, reason)


def _attach(asked: Asked, unit: Unit) -> Outcome:
    """Allowed, on a reservation made before; where a node has that prepared it has the instance from now on."""
    draft = asked.draft
    loaded = unit.existing(draft.reservation_id, "reservationId")
    state: reservation.State = loaded.state
    instance_place.check(draft.flavor.size, draft.pool_id, state)
    attached = Change(draft.reservation_id, loaded.version, (reservation.InstanceAttached(asked.id, unit.now),))
    allocation = instance_place.carried(state)
    on_node = unit.load(allocation.node_id) if allocation is not None else None
    if allocation is None or on_node is None or not _has(on_node.state, allocation.id):
        return Outcome((asked.change(_admitted(asked, unit, state.reason)), attached))
    generation = on_node.state.generation + 1
    spec = instance_life.specified(asked.id, instance.State(draft=draft), allocation.id)
    told = Change(allocation.node_id, on_node.version, (node.SpecChanged(generation, instances=(spec,)),))
    placed = instance.Placed(allocation.node_id, allocation.node_name, allocation.id, generation, unit.now)
    return Outcome((asked.change(_admitted(asked, unit), placed), attached, told))


def _has(spec: node.State, allocation_id: str) -> bool:
    return any(one.id == allocation_id for one in spec.allocations)


def _again(instance_id: str, held: Loaded, unit: Unit) -> Asked:
    """The key was used: the same body gets the same answer, another body is an error (api.md §2).

    A yes is kept with its append; what was not decided on yet is, now.
    """
    state: instance.State = held.state
    assert state.draft is not None
    if state.draft.body != unit.body:
        raise errors.KeyReused("this Idempotency-Key was used with another body; take a new key")
    if state.status == "draft" and state.draft.at + reservation_terms.DRAFT_MS > unit.now:
        return Asked(instance_id, state.draft, held.version)
    if state.admission_id is not None:
        raise Race("the same request was answered meanwhile")
    refusal: errors.Refusal = errors.Conflict(LATE, extra={"instanceId": instance_id})
    if state.denied is not None:
        refusal = errors.again(state.denied.code, state.denied.detail, state.denied.extra)
    refusal.replayed = True
    raise refusal


def expire(store: Store, instance_id: str, fence: Fence) -> int | None:
    """Close an open draft that nobody decided on in time."""

    def decide() -> Sequence[Change]:
        loaded, now = store.load(instance_id), store.now()
        state: instance.State = loaded.state
        if state.status != "draft" or state.draft is None or state.draft.at + reservation_terms.DRAFT_MS > now:
            return []
        late = errors.Conflict(LATE)
        event = instance.Denied("NotDecided", late.code, late.detail, {"instanceId": instance_id}, now)
        return [Change(instance_id, loaded.version, (event,))]

    return act(store, following("controller:timekeeper", None, store.load(instance_id)), decide, fence)


OPERATIONS = (
    Operation(
        name="instances.create",
        verb="POST",
        path="/v1/instances",
        request=Create,
        response=instance_view.View,
        on=("compute-instance/{id}", "compute-reservation/{reservationId}"),
        decided_inside=True,
        handle=create,
        ahead=ahead,
        view=instance_view.view,
        summary="Start a virtual machine, microVM or container from an image",
        status=201,
        refusals=admitting.REFUSALS,
        key="required",
    ),
)
