"""Every event of one thing: what, when, who, under which decision (api.md §6)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from domain import admission, errors, node, node_view, registry
from domain.event import Event, Recorded
from domain.operation import Answer, Operation, Request
from queries.reading import Reader


class Stream(Request, frozen=True, kw_only=True):
    """`scope=fleet` shows every tenant's, for the platform."""

    id: Annotated[str, Meta(max_length=200)]
    scope: Literal["tenant", "fleet"] = "tenant"


class Decision(Struct, frozen=True, kw_only=True, rename="camel"):
    """The admission that an event names: who was allowed what, under which policy."""

    identity_id: str
    tenant_id: str
    session_kind: str
    action: str
    resource: str
    reason: str
    request_id: str
    policy_digest: str


class Entry(Struct, frozen=True, kw_only=True, rename="camel"):
    """One event as the log holds it; `recordedAt` is the database's clock in epoch ms."""

    position: int
    version: int
    type: str
    recorded_at: int
    event_id: str
    actor: str
    admission_id: str | None
    decision: Decision | None
    causation: str | None
    correlation: str | None
    data: dict[str, Any]


class Story(Struct, frozen=True, kw_only=True, rename="camel"):
    """A thing's whole stream, oldest event first."""

    stream: str
    kind: str
    items: tuple[Entry, ...]


def stream(query: Stream, read: Reader) -> Answer:
    try:
        kind = registry.kind(query.id)
    except KeyError:
        raise errors.Invalid("id", "is not the id of anything that the log keeps") from None
    history = read.history(query.id)
    if not history:
        raise read.unseen(kind.noun, query.id, "id")
    if query.scope != "fleet":
        owners = kind.tenants(registry.fold_recorded(query.id, history))
        if read.session.tenant_id not in owners:
            raise read.unseen(kind.noun, query.id, "id")
    decisions = {recorded.meta.admission for recorded in history} - {None}
    known = {id: _decision(read.load(id).state.recorded) for id in decisions if id}
    reader = None if query.scope == "fleet" else read
    items = tuple(entry(recorded, reader, known) for recorded in history)
    last = history[-1]
    story = Story(stream=query.id, kind=kind.noun, items=items)
    return Answer(body=story, position=last.position, version=last.version)


def _decision(recorded: admission.Events | None) -> Decision | None:
    if not isinstance(recorded, admission.Admitted):
        return None
    last = recorded.decided[-1] if recorded.decided else None
    return Decision(
        identity_id=recorded.caller.identity_id,
        tenant_id=recorded.caller.tenant_id,
        session_kind=recorded.caller.session_kind,
        action=last.action if last else "",
        resource=last.resource if last else "",
        reason=last.reason if last else "",
        request_id=recorded.request_id,
        policy_digest=recorded.policy_digest,
    )


def entry(
    recorded: Recorded, reader: Reader | None, known: Mapping[str, Decision | None] = MappingProxyType({})
) -> Entry:
    """An event as the reader's tenant sees it (None: the platform's auditor), with the decision where it is known.

    Of another tenant it tells the tenant, not who there acted or with which request (domain.md §10).
    """
    data = msgspec.to_builtins(recorded.event if reader is None else told(recorded.event, reader))
    tenant = reader.session.tenant_id if reader else None
    decision = known.get(recorded.meta.admission or "")
    kind, _, who = recorded.meta.actor.partition(":")
    acting = who.partition("/")[0] if kind == "identity" else None
    mine = tenant is None or tenant == acting or (decision is not None and decision.tenant_id == tenant)
    theirs = acting is not None and tenant is not None and tenant != acting
    return Entry(
        position=recorded.position,
        version=recorded.version,
        type=data.pop("type"),
        recorded_at=recorded.recorded_at,
        event_id=recorded.event_id,
        actor=f"identity:{acting}" if theirs else recorded.meta.actor,
        admission_id=recorded.meta.admission,
        decision=decision if mine else None,
        causation=recorded.meta.causation,
        correlation=recorded.meta.correlation if mine else None,
        data=data,
    )


def told(event: Event, reader: Reader) -> Event:
    """An event without the names of nodes that are another tenant's (domain.md §10); the log keeps them."""
    match event:
        case node.Inventoried():
            return replace(event, shared_with=())
        case node.ConditionRaised():
            return replace(event, condition=node_view.shown(event.condition))
        case node.DuplicateSettled(nodes=nodes):
            return replace(event, nodes=tuple(other for other in nodes if reader.resolve("compute-node", other)))
        case _:
            return event


OPERATIONS = (
    Operation(
        name="audit.stream",
        verb="GET",
        path="/v1/audit/streams/{id}",
        request=Stream,
        response=Story,
        on=("compute-tenant/{acting}",),
        handle=stream,
        summary="Every event of one thing: what, when, who, under which decision",
        refusals=(errors.AccessDenied, errors.NotFound),
        columns=("position", "version", "type", "recordedAt", "actor", "admissionId"),
    ),
)
