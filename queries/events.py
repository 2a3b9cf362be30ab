"""The log as it grows, filtered by what the caller may see (api.md §2: `GET /v1/events/stream`)."""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Annotated, Final, Literal

from msgspec import Meta, structs

from domain import access, catalog, errors
from domain.event import Recorded
from domain.operation import Answer, Operation, Request
from queries import audit
from queries.reading import Reader

AT_ONCE: Final = 200
_SCOPE: Final = "compute-tenant"


class Stream(Request, frozen=True, kw_only=True):
    """`after` is a log position, default the present end; a `Last-Event-ID` header wins over it."""

    after: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    scope: Annotated[Literal["tenant", "fleet"], Meta(description="fleet: every tenant's, for the platform")] = "tenant"


class Told(audit.Entry, frozen=True, kw_only=True):
    """An event, and the id of the thing that it happened to."""

    stream: str


class Feed:
    """What one listener has been shown so far. `read` blocks on the database, `behind` does not."""

    def __init__(
        self,
        after: int,
        read: Reader,
        fleet: bool,
        shown: Callable[[Sequence[Recorded]], Sequence[Recorded]],
    ) -> None:
        self._position = after
        self._log, self._visible = read.log, read.visible
        self._reader = None if fleet else read
        self._shown = shown

    def behind(self) -> bool:
        return self._position < self._visible()

    def read(self) -> list[Told]:
        """The next events that the listener may see; none does not mean that there are no others further on."""
        upto = self._visible()
        found = self._log(self._position, upto, AT_ONCE)
        self._position = found[-1].position if len(found) == AT_ONCE else upto
        return [_told(recorded, self._reader) for recorded in self._shown(found)]


def stream(query: Stream, read: Reader) -> Answer:
    def shown(found: Sequence[Recorded]) -> Sequence[Recorded]:
        if query.scope != "fleet":
            return _seen(found, read)
        return found if any(_may(read, "compute-fleet", "compute:events:stream", ["global"])) else ()

    after = read.position if query.after is None else query.after
    if after > read.position:
        _check_reached(read, after)
    return Answer(body=Feed(after, read, query.scope == "fleet", shown))


def _check_reached(read: Reader, after: int) -> None:
    """Nobody was told of a position that the log does not have, except before it was restored from a backup."""
    row = read.connection.execute("SELECT coalesce(max(notification_id), 0) FROM stored_events").fetchone()
    if row is not None and after > row[0]:
        raise errors.Invalid("after", f"the log ends at {row[0]}: begin anew without it, what came later is not there")


def _told(recorded: Recorded, reader: Reader | None) -> Told:
    return Told(stream=recorded.stream, **structs.asdict(audit.entry(recorded, reader)))


def _seen(found: Sequence[Recorded], read: Reader) -> Sequence[Recorded]:
    """What the caller's tenant has and the caller may get; of what has no `get`, what its audit would show."""
    mine = [recorded for recorded in found if read.session.tenant_id in recorded.tenants]
    asked: dict[tuple[str, str], set[str]] = {}
    for stream in {recorded.stream for recorded in mine}:
        type_, action = _shown_by(stream)
        asked.setdefault((type_, action), set()).add(stream)
    seen = {stream for of, streams in asked.items() for stream in _may(read, *of, streams)}
    return [recorded for recorded in mine if recorded.stream in seen]


def _shown_by(stream: str) -> tuple[str, str]:
    return catalog.GOT_AS.get(stream.partition("_")[0], (_SCOPE, "compute:audit:stream"))


def _may(read: Reader, type: str, action: str, streams: Collection[str]) -> Iterator[str]:
    plan = read.plan(action, type)
    things = {stream: read.resolve(type, read.session.tenant_id if type == _SCOPE else stream) for stream in streams}
    there = [(stream, thing) for stream, thing in things.items() if thing is not None]
    verdicts = access.may(plan, [thing for _, thing in there], partial(read.allowed, action))
    yield from (stream for (stream, _), seen in zip(there, verdicts, strict=True) if seen)


OPERATIONS = (
    Operation(
        name="events.stream",
        verb="GET",
        path="/v1/events/stream",
        request=Stream,
        response=Told,
        on=("compute-tenant/{acting}",),
        handle=stream,
        summary="Events of your tenant as they happen (server-sent events, resumable with Last-Event-ID)",
        refusals=(errors.AccessDenied, errors.Invalid),
        streaming="events",
    ),
)
