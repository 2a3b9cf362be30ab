"""Every event of one thing: what, when, who, under which decision (api.md §6)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from domain import admission, catalog, errors, join_token, node, node_view, registry
from domain.event import Event, Recorded
from domain.operation import Answer, KnownListing, Operation
from queries import audit_decision, past, reading
from queries.audit_decision import Decision
from queries.reading import Reader

MARK: Final = "stream"

Id = Annotated[str, Meta(max_length=200)]


class Stream(KnownListing, frozen=True, kw_only=True):
    """`from` and `until` choose events of `[from, until)` in epoch ms, time taken as never going back."""

    id: Id
    from_: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    until: Annotated[int, Meta(ge=0, le=2**53)] | None = None


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


class Story(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A page of a thing's stream; `nextCursor` is absent on the last."""

    stream: str
    kind: str
    items: tuple[Entry, ...]
    next_cursor: str | None = None


class Found(Struct, frozen=True):
    """A thing that the caller may look at, as of when it asks: its kind, state, version and position."""

    kind: registry.Kind
    state: Any
    version: int
    position: int


def found(id: str, scope: str, read: Reader) -> Found:
    """Whose a thing is now says who may look at what it was; the fleet's auditors may look at anything."""
    try:
        kind = registry.kind(id)
    except KeyError:
        raise errors.Invalid("id", "is not the id of anything that the log keeps") from None
    now = read.load(id)
    owners = kind.tenants(now.state) if now.version else ()
    if not now.version or (scope != "fleet" and read.session.tenant_id not in owners):
        type_, _ = catalog.GOT_AS.get(id.partition("_")[0], (kind.noun, ""))
        raise read.unseen(type_, id, "id")
    if read.as_of is None:
        return Found(kind, now.state, now.version, now.position)
    then = read.load_as_of(id, read.as_of)
    if not then.version:
        raise errors.NotFound(kind.noun, id, when=f" as of @{read.as_of}")
    return Found(kind, then.state, then.version, read.as_of)


def stream(query: Stream, read: Reader) -> Answer:
    """A stream's versions have no holes: a page is a range of them, and nothing else of the stream is read."""
    here = found(query.id, query.scope, read)
    low, high = _between(query, read, here.version)
    place = reading.after(query, _mark(read))
    if place is not None and place[1] != query.id:
        raise errors.Invalid("cursor", "is not the nextCursor of an earlier page")
    if query.order == "asc":
        low = low if place is None else max(low, place[0])
        page = (low, min(high, low + query.limit))
    else:
        high = high if place is None else min(high, place[0] - 1)
        page = (max(low, high - query.limit), high)
    history = read.versions(query.id, *page) if page[0] < page[1] else []
    more = page[1] < high if query.order == "asc" else page[0] > low
    if query.order == "desc":
        history.reverse()
    decisions = audit_decision.of_all(history, read)
    reader = None if query.scope == "fleet" else read
    story = Story(
        stream=query.id,
        kind=here.kind.noun,
        items=tuple(entry(recorded, reader, decisions) for recorded in history),
        next_cursor=reading.cursor(query, (history[-1].version, query.id), _mark(read)) if more else None,
    )
    return Answer(body=story, position=here.position, version=here.version)


def _mark(read: Reader) -> str:
    return MARK if read.as_of is None else f"{MARK} @{read.as_of}"


def _between(query: Stream, read: Reader, head: int) -> tuple[int, int]:
    """The versions `(low, high]` that the window of time holds."""
    low, high = past.window(read.connection, query.from_, query.until)
    after = read.load_as_of(query.id, low).version if low else 0
    return after, head if high is None else min(head, read.load_as_of(query.id, high).version)


def entry(recorded: Recorded, reader: Reader | None, known: Mapping[str, Decision] = MappingProxyType({})) -> Entry:
    """An event as the reader's tenant sees it (None: the platform's auditor), with the decision where it is known.

    Of another tenant it tells the tenant, not who there acted or with which request (domain.md §10), nor with which one
    a controller went on with the tenant's own thing.
    """
    data = shown(recorded.event if reader is None else told(recorded.event, reader))
    tenant = reader.session.tenant_id if reader else None
    meta = recorded.meta
    decision = known.get(meta.admission or "")
    kind, _, who = meta.actor.partition(":")
    acting = who.partition("/")[0] if kind == "identity" else None
    mine = tenant is None or tenant == acting or (decision is not None and decision.tenant_id == tenant)
    asked = tenant in (None, acting) or (mine and decision is not None and decision.request_id == meta.correlation)
    theirs = acting is not None and tenant is not None and tenant != acting
    return Entry(
        position=recorded.position,
        version=recorded.version,
        type=data.pop("type"),
        recorded_at=recorded.recorded_at,
        event_id=recorded.event_id,
        actor=f"identity:{acting}" if theirs else meta.actor,
        admission_id=meta.admission,
        decision=decision if mine else None,
        causation=meta.causation,
        correlation=meta.correlation if asked else None,
        data=data,
    )


def shown(event: Event) -> dict[str, Any]:
    """What an event holds, without the hashes by which a token or a key is known again."""
    data: dict[str, Any] = msgspec.to_builtins(event)
    match event:
        case join_token.Created():
            del data["secretSha256"]
        case admission.Admitted(replay=replay) if replay is not None:
            del data["replay"]["key"], data["replay"]["body"]
        case _:
            pass
    return data


def told(event: Event, reader: Reader) -> Event:
    """An event without the names of nodes that are another tenant's (domain.md §10); the log keeps them."""
    match event:
        case node.Inventoried():
            return replace(event, shared_with=())
        case node.ConditionRaised():
            return replace(event, condition=node_view.shown(event.condition))
        case node.DuplicateSettled(nodes=nodes):
            return replace(event, nodes=own(nodes, reader))
        case _:
            return event


def own(nodes: tuple[str, ...], reader: Reader) -> tuple[str, ...]:
    """Those of the nodes that exist for the reader's tenant."""
    return tuple(other for other in nodes if reader.resolve("compute-node", other))


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
        refusals=(errors.AccessDenied, errors.NotFound, errors.ProjectionBehind),
        columns=("position", "version", "type", "recordedAt", "actor", "admissionId"),
        of_log=True,
    ),
)
