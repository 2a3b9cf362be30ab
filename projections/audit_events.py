"""What the audit log is searched by: one row an event, and whose it is (domain.md §9, api.md §6).

What is shown of an event comes from the log itself; here stands only what a list filters by. An event of one's own
thing that another tenant brought about stands in both tenants' lists.
"""

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from domain import admission, catalog
from domain.event import Recorded, tag
from projections import history
from projections.projection import Async, Write, asking_nothing

TABLES = """
CREATE TABLE audit_events (
    position bigint PRIMARY KEY,
    type text COLLATE "C" NOT NULL,
    action text COLLATE "C" NOT NULL,
    resource_type text COLLATE "C",
    resource_id text COLLATE "C" NOT NULL,
    acting_tenant text COLLATE "C",
    actor text COLLATE "C" NOT NULL,
    agent_id text COLLATE "C",
    delegation_id text COLLATE "C",
    denied boolean NOT NULL,
    reason text COLLATE "C",
    admission_id text COLLATE "C",
    request_id text COLLATE "C"
);
CREATE INDEX audit_events_by_actor ON audit_events (actor, position);
CREATE INDEX audit_events_by_action ON audit_events (action, position);
CREATE INDEX audit_events_by_resource ON audit_events (resource_id, position);
CREATE INDEX audit_events_by_admission ON audit_events (admission_id, position) WHERE admission_id IS NOT NULL;
CREATE INDEX audit_events_by_request ON audit_events (request_id, position) WHERE request_id IS NOT NULL;
CREATE INDEX audit_events_by_reason ON audit_events (reason, position) WHERE reason IS NOT NULL;
CREATE INDEX audit_events_by_agent ON audit_events (agent_id, position) WHERE agent_id IS NOT NULL;
CREATE INDEX audit_events_by_delegation ON audit_events (delegation_id, position) WHERE delegation_id IS NOT NULL;
CREATE INDEX audit_events_denied ON audit_events (position) WHERE denied;
CREATE INDEX audit_events_denied_in ON audit_events (acting_tenant, position) WHERE denied;
CREATE TABLE audit_events_of (
    tenant_id text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (tenant_id, position)
);
"""

_TYPED = (
    "position bigint",
    "type text",
    "action text",
    "resource_type text",
    "resource_id text",
    "acting_tenant text",
    "actor text",
    "agent_id text",
    "delegation_id text",
    "denied boolean",
    "reason text",
    "admission_id text",
    "request_id text",
)


def apply(batch: Sequence[Recorded]) -> list[Write]:
    whose = [(tenant, recorded.position) for recorded in batch for tenant in recorded.tenants]
    return [
        history.insert("audit_events", _TYPED, [row(recorded) for recorded in batch]),
        history.insert("audit_events_of", ("tenant_id text", "position bigint"), whose),
    ]


def row(recorded: Recorded) -> tuple[Any, ...]:
    """An event as it is found again. `actor` is the id of an identity, or `agent:…` or `controller:…` as it is.

    A decision is found by the last thing that it was made on, any other event by its stream. The request is the
    decision's: what it led to names its admission.
    """
    event, meta, name = recorded.event, recorded.meta, tag(recorded.event)
    acting_tenant, actor = who(meta.actor)
    if not isinstance(event, admission.Events):
        stream, by = recorded.stream, meta.admission
        kind = _kind(stream.partition("_")[0])
        return (recorded.position, name, name, kind, stream, acting_tenant, actor, None, None, False, None, by, None)
    action, resource, reason = _decided(event)
    type_, _, id_ = resource.partition("/")
    return (
        recorded.position,
        name,
        action or name,
        type_ or None,
        id_ or recorded.stream,
        acting_tenant,
        actor,
        event.caller.agent_id,
        event.caller.delegation_id,
        not isinstance(event, admission.Admitted),
        reason,
        recorded.stream,
        meta.correlation,
    )


@cache
def _kind(prefix: str) -> str | None:
    kind = catalog.GOT_AS.get(prefix)
    return kind[0] if kind else None


@lru_cache(maxsize=4096)
def who(actor: str) -> tuple[str | None, str]:
    """The tenant that acted, if one did, and who there."""
    if not actor.startswith("identity:"):
        return None, actor
    tenant_id, _, identity_id = actor.removeprefix("identity:").partition("/")
    return tenant_id, identity_id


def _decided(event: admission.Events) -> tuple[str, str, str | None]:
    """Action, resource and reason of a decision; of several the last, on which the request itself was decided."""
    match event:
        case admission.Admitted(decided=(*_, last)):
            return last.action, last.resource, last.reason
        case admission.Refused():
            return event.action, event.resource, event.reason
        case _:
            return "", "", None


PROJECTION = Async("audit_events", TABLES, asking_nothing(apply))
