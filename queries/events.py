"""The log as it grows, filtered by what the caller may see (api.md §2: `GET /v1/events/stream`)."""

from collections.abc import Callable
from typing import Annotated, Final, Literal

from msgspec import Meta

from domain import catalog, errors
from domain.event import Recorded
from domain.operation import Answer, Operation, Request
from queries import audit
from queries.reading import Reader

AT_ONCE: Final = 200


class Stream(Request, frozen=True, kw_only=True):
    """`after` is a log position, default the present end; a `Last-Event-ID` header wins over it."""

    after: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    scope: Annotated[Literal["tenant", "fleet"], Meta(description="fleet: every tenant's, for the platform")] = "tenant"


class Feed:
    """What one listener has been shown so far. `read` blocks on the database, `behind` does not."""

    def __init__(self, after: int, read: Reader, fleet: bool, wanted: Callable[[Recorded], bool]) -> None:
        self._position = after
        self._log, self._visible = read.log, read.visible
        self._reader = None if fleet else read
        self._wanted = wanted

    def behind(self) -> bool:
        return self._position < self._visible()

    def read(self) -> list[audit.Entry]:
        """The next events that the listener may see; none does not mean that there are no others further on."""
        upto = self._visible()
        found = self._log(self._position, upto, AT_ONCE)
        self._position = found[-1].position if len(found) == AT_ONCE else upto
        return [audit.entry(recorded, self._reader) for recorded in found if self._wanted(recorded)]


def stream(query: Stream, read: Reader) -> Answer:
    def wanted(recorded: Recorded) -> bool:
        return query.scope == "fleet" or _may_see(recorded, read)

    after = read.position if query.after is None else query.after
    return Answer(body=Feed(after, read, query.scope == "fleet", wanted))


def _may_see(recorded: Recorded, read: Reader) -> bool:
    """What the caller's tenant has and the caller may get; of what has no `get`, what its audit would show."""
    tenant = read.session.tenant_id
    if tenant not in recorded.tenants:
        return False
    prefix = recorded.stream.partition("_")[0]
    type_, action = catalog.GOT_AS.get(prefix, ("compute-tenant", "compute:audit:stream"))
    resource = read.resolve(type_, tenant if type_ == "compute-tenant" else recorded.stream)
    return resource is not None and read.allowed(action, resource)


OPERATIONS = (
    Operation(
        name="events.stream",
        verb="GET",
        path="/v1/events/stream",
        request=Stream,
        response=audit.Entry,
        on=("compute-tenant/{acting}",),
        handle=stream,
        summary="Events of your tenant as they happen (server-sent events, resumable with Last-Event-ID)",
        refusals=(errors.AccessDenied,),
        streaming="events",
    ),
)
