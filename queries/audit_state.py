"""One thing as it was: the state that its events fold to, at any time (api.md §6)."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from domain import admission, errors, node, node_view
from domain.operation import Answer, Known, Operation
from queries import audit, audit_decision
from queries.audit_decision import Decision
from queries.reading import Reader


class State(Known, frozen=True, kw_only=True):
    """The log is never pruned: `asOf` may lie as far back as it likes."""

    id: audit.Id
    scope: Annotated[Literal["tenant", "fleet"], Meta(description="fleet: any tenant's, for the platform")] = "tenant"


class Folded(Struct, frozen=True, kw_only=True, rename="camel"):
    """The state after `version`, whose event stands at `position` and was recorded at `recordedAt` (epoch ms).

    `actor` brought that event about, under `decision`.
    """

    stream: str
    kind: str
    version: int
    position: int
    recorded_at: int
    type: str
    actor: str
    admission_id: str | None
    decision: Decision | None
    state: dict[str, Any]


def state(query: State, read: Reader) -> Answer:
    here = audit.found(query.id, query.scope, read)
    (last,) = read.versions(query.id, here.version - 1, here.version)
    reader = None if query.scope == "fleet" else read
    entry = audit.entry(last, reader, audit_decision.of_all((last,), read))
    folded = Folded(
        stream=query.id,
        kind=here.kind.noun,
        version=here.version,
        position=entry.position,
        recorded_at=entry.recorded_at,
        type=entry.type,
        actor=entry.actor,
        admission_id=entry.admission_id,
        decision=entry.decision,
        state=_shown(here.state, reader),
    )
    return Answer(body=folded, position=here.position, version=here.version)


def _shown(folded: Any, reader: Reader | None) -> dict[str, Any]:
    """A state without hashes of secrets and, for a tenant, without the names of nodes that are another's."""
    if isinstance(folded, node.State) and reader is not None:
        conditions = tuple(node_view.shown(condition) for condition in folded.conditions)
        folded = replace(folded, conditions=conditions, settled=audit.own(folded.settled, reader))
    data: dict[str, Any] = msgspec.to_builtins(folded)
    if isinstance(folded, admission.State) and folded.recorded is not None:
        data["recorded"] = audit.shown(folded.recorded)
    return data


OPERATIONS = (
    Operation(
        name="audit.state",
        verb="GET",
        path="/v1/audit/streams/{id}/state",
        request=State,
        response=Folded,
        on=("compute-tenant/{acting}",),
        handle=state,
        summary="One thing as it was at any time, and the decision that it stood under",
        refusals=(errors.AccessDenied, errors.NotFound, errors.ProjectionBehind),
        of_log=True,
    ),
)
