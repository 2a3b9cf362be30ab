"""Who did what, in a tenant or in the fleet: the audit log, found by identity, thing, action, time and outcome.

Each row is the audit event as the tenant's chain has it, made from the log itself (iam.md §17, api.md §6).
"""

import re
from typing import Annotated, Any, Final, Literal, LiteralString

import msgspec
from msgspec import Meta, Struct

from domain import admission, audit_event, errors, ids
from domain.event import Recorded
from domain.operation import Answer, KnownListing, Operation, Page
from queries import audit_decision, past, reading
from queries.audit_decision import Decision
from queries.reading import Place, Reader

Outcome = Literal["allow", "deny"]
Text = Annotated[str, Meta(min_length=1, max_length=256)]
Glob = Annotated[str, Meta(max_length=128)]
Instant = Annotated[int, Meta(ge=0, le=2**53)]
_GLOB: Final = re.compile(r"[A-Za-z0-9_.:*?-]{1,128}")
_DECIDED: Final = "admission."
_LIKE: Final = str.maketrans({"*": "%", "?": "_", "_": r"\_"})


class Events(KnownListing, frozen=True, kw_only=True):
    """`from` and `until` choose `[from, until)` in epoch ms, time taken as never going back.

    `identityId` is who acted, also `agent:<node>` or `controller:<job>`; of another tenant's acts only the tenant is
    told, so nobody there is found. `resource` is the id of a thing, `type/id` or the id of a stream. `requestId` finds
    what a request of the tenant's own was decided and what that led to.
    """

    identity_id: Text | None = None
    resource: Text | None = None
    action: Annotated[Glob, Meta(description="* and ? are wild: compute:reservations:*")] | None = None
    outcome: Outcome | None = None
    type: Annotated[str, Meta(max_length=128, description="a stored name; * and ? are wild: reservation.*")] | None = (
        None
    )
    from_: Instant | None = None
    until: Instant | None = None
    admission_id: Text | None = None
    request_id: Text | None = None
    agent_id: Text | None = None
    delegation_id: Text | None = None
    reason: Text | None = None


class Session(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The session that was decided on; `agentId` acts for the person under `delegationId`."""

    session_id: str
    kind: str
    agent_id: str | None = None
    delegation_id: str | None = None
    role_id: str | None = None
    trust_id: str | None = None


class Metadata(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Where it stands in the log; `digest` is the hex SHA-256 of the stored bytes."""

    position: int
    stream: str
    version: int
    type: str
    digest: str
    admission_id: str | None = None
    request_id: str | None = None
    reason: str | None = None


class Event(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An audit event; `timestamp` in epoch ms. `decision` is the one that it was brought about under, if any.

    `actorId` is an identity of `tenantId`, another tenant that acted, `agent:<node>` or `controller:<job>`.
    """

    id: str
    tenant_id: str
    actor_id: str
    action: str
    resource_id: str
    outcome: Outcome
    timestamp: int
    metadata: Metadata
    root_override: bool = False
    impersonator_id: str | None = None
    session_context: Session | None = None
    decision: Decision | None = None


_ITSELF: Final = ("agent:", "controller:", "join-token:")
"""How actors begin that are nobody's identities; their acts are of the tenants to whose things they did it."""

_WHERE: Final[dict[str, LiteralString]] = {
    "identity_id": "actor = %(identity_id)s",
    "agent_id": "agent_id = %(agent_id)s",
    "delegation_id": "delegation_id = %(delegation_id)s",
    "reason": "reason = %(reason)s",
    "admission_id": "admission_id = %(admission_id)s",
}
_OF_REQUEST: LiteralString = """admission_id IN (
    SELECT admission_id FROM audit_events WHERE request_id = %(request_id)s
    AND (%(tenant)s::text IS NULL OR acting_tenant = %(tenant)s)
)"""
_TYPES: Final[tuple[LiteralString, LiteralString]] = ("type = %(type)s", "type LIKE %(type)s")
_NAMES: Final[tuple[LiteralString, LiteralString]] = ("action = %(type)s", "action LIKE %(type)s")
"""Of all that is no decision the action is the type, and actions have an index."""

_OUTCOMES: Final[dict[Outcome, LiteralString]] = {"deny": "denied", "allow": "NOT denied"}
_THING: LiteralString = "resource_id = %(resource)s"
_TYPED_THING: LiteralString = "resource_id = %(resource)s AND resource_type = %(resource_type)s"
_ADMISSION: LiteralString = "admission_id = %(resource)s AND type LIKE 'admission.%%'"


def events(query: Events, read: Reader) -> Answer:
    mark = "" if read.as_of is None else f" @{read.as_of}"
    place = reading.after(query, mark)
    wanted = {**reading.filters(query, read), **_wanted(query, read, place)}
    found = read.connection.execute(_statement(query), wanted, prepare=False).fetchall()
    shown = read.at([position for (position,) in found[: query.limit]])
    decisions = audit_decision.of_all([recorded for recorded, _ in shown], read)
    tenant_id = reading.tenants(query, read)
    rows = [(recorded.position, "@", 0, _row(recorded, digest, tenant_id, decisions)) for recorded, digest in shown]
    following = rows[-1][:2] if len(found) > query.limit else None
    return reading.page(query, rows, following, read.position, mark)


def _statement(query: Events) -> LiteralString:
    """Only what is asked for stands in it, so that the index which serves can be told."""
    asked: list[LiteralString] = [sql for name, sql in _WHERE.items() if getattr(query, name) is not None]
    if query.action is not None:
        asked.append("action LIKE %(action)s" if _is_wild(query.action) else "action = %(action)s")
    if query.type is not None:
        exact, like = _NAMES if _of_no_decision(query.type) else _TYPES
        asked.append(like if _is_wild(query.type) else exact)
    if query.request_id is not None:
        asked.append(_OF_REQUEST)
    if query.outcome is not None:
        asked.append(_OUTCOMES[query.outcome])
    if query.resource is not None:
        adm, typed = query.resource.startswith("adm_"), "/" in query.resource
        asked.append(_ADMISSION if adm else _TYPED_THING if typed else _THING)
    source: LiteralString = "audit_events AS event"
    if query.scope != "fleet" and _of_own_acts(query):
        asked.append("acting_tenant = %(tenant)s")
    elif query.scope != "fleet":
        source = "audit_events_of AS whose JOIN audit_events AS event USING (position)"
        asked.append("whose.tenant_id = %(tenant)s AND whose.position > %(_after)s AND whose.position < %(_before)s")
    asked.append("event.position > %(_after)s AND event.position < %(_before)s")
    ordered: LiteralString = " ORDER BY event.position" + ("" if query.order == "asc" else " DESC")
    return "SELECT event.position FROM " + source + " WHERE " + " AND ".join(asked) + ordered + " LIMIT %(_most)s"


def _of_no_decision(type_: str) -> bool:
    """Whether no decision has a type like this."""
    head = re.split("[*?]", type_, maxsplit=1)[0]
    return not head.startswith(_DECIDED) and not _DECIDED.startswith(head)


def _of_own_acts(query: Events) -> bool:
    """Whether only what the tenant itself did can be found: decisions, and acts of an identity.

    Those are in its list by who acted, and another tenant's identities, reasons and agents are not told.
    """
    if query.outcome == "deny" or any((query.reason, query.agent_id, query.delegation_id)):
        return True
    return query.identity_id is not None and not query.identity_id.startswith(_ITSELF)


def _wanted(query: Events, read: Reader, place: Place | None) -> dict[str, Any]:
    if query.admission_id is not None:
        ids.parse("adm", query.admission_id, "admissionId")
    after, high = past.window(read.connection, query.from_, query.until)
    upto = min(one for one in (high, read.as_of, 1 << 62) if one is not None)
    before = upto + 1
    if place is not None and query.order == "asc":
        after = max(after, place[0])
    elif place is not None:
        before = min(before, place[0])
    type_, slash, id_ = (query.resource or "").partition("/")
    return {
        "_after": after,
        "_before": before,
        "_most": query.limit + 1,
        "action": _pattern("action", query.action),
        "type": _pattern("type", query.type),
        "resource": id_ if slash else type_,
        "resource_type": type_,
    }


def _pattern(field: str, glob: str | None) -> str | None:
    if glob is None:
        return None
    if not _GLOB.fullmatch(glob):
        raise errors.Invalid(field, "takes letters, digits, _ . : - and the wildcards * and ?")
    return glob.translate(_LIKE) if _is_wild(glob) else glob


def _is_wild(glob: str) -> bool:
    return "*" in glob or "?" in glob


def _row(recorded: Recorded, digest: str, tenant_id: str | None, decisions: dict[str, Decision]) -> bytes:
    told = audit_event.of_fleet(recorded, digest) if tenant_id is None else audit_event.of(recorded, digest, tenant_id)
    decision = decisions.get(recorded.meta.admission or "")
    if decision is not None and not isinstance(recorded.event, admission.Events):
        mine = tenant_id is None or tenant_id == decision.tenant_id
        told["decision"] = decision if mine else None
    return msgspec.json.encode({name: value for name, value in told.items() if value is not None})


OPERATIONS = (
    Operation(
        name="audit.events",
        verb="GET",
        path="/v1/audit/events",
        request=Events,
        response=Page[Event],
        on=("compute-tenant/{acting}",),
        handle=events,
        summary="Who did what, and who was refused: the audit log of your tenant",
        example={"resource": "node_…", "order": "desc"},
        refusals=(errors.AccessDenied, errors.ProjectionBehind),
        columns=("timestamp", "actorId", "action", "resourceId", "outcome", "position=metadata.position"),
        of_log=True,
    ),
)
