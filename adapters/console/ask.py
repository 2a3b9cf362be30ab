"""What a page asks: operations of the API, as whoever looks at it, now or as it was known then."""

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct

from adapters.http import decode, routes
from commands.ports import Loaded
from domain import catalog, errors
from domain.access import Authorizer, Resource, Session
from domain.event import Recorded
from domain.operation import Call, Operation, Reading

from . import forms
from .look import Look

_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
_POSITION: Final = re.compile(r"@?[0-9]{1,18}")
_LAST: Final = 2**62
LAST_MS: Final = 253_402_300_800_000
"""From here on a date has more digits than forms and calendars have room for."""


class Things(Protocol):
    """What there is, behind ids."""

    def resolve(self, tenant_id: str, type: str, id: str) -> Resource | None: ...

    def resolve_all(self, tenant_id: str, ids: Sequence[str]) -> Mapping[str, Resource | None]:
        """Of those that there are; None of one that the tenant does not see."""

    def load_all(self, streams: Sequence[str]) -> Sequence[Loaded]:
        """The states of streams with their versions, 0 of one that is not there."""

    def load_all_as_of(self, streams: Sequence[str], position: int) -> Sequence[Loaded]:
        """The same of as the log was up to a position."""

    def log(self, after: int, upto: int, limit: int) -> Sequence[Recorded]:
        """Events in `(after, upto]` by position."""


ReadBy = Callable[[Authorizer, Callable[[], bool]], routes.Dispatch]
"""By whom it is decided, and whether refusals are recorded now, to what answers queries."""

Checks = Callable[[], Mapping[str, str | float]]
"""How this process is, as `/health/ready` tells it."""


class Desk(Struct, frozen=True):
    """What all pages ask: the operations with their shapes, and who decides."""

    operations: Mapping[str, Operation]
    shapes: Mapping[str, decode.Shape]
    dispatch: routes.Dispatch
    reading: ReadBy
    authorizer: Authorizer
    things: Things
    checks: Checks


def desk(
    operations: Mapping[str, Operation],
    dispatch: routes.Dispatch,
    reading: ReadBy,
    authorizer: Authorizer,
    things: Things,
    checks: Checks,
) -> Desk:
    shapes = {name: decode.Shape(operation) for name, operation in operations.items()}
    return Desk(operations, shapes, dispatch, reading, authorizer, things, checks)


class Ask:
    """One look at one page. Answers come as JSON has them: dicts with the API's own names.

    `query` is what stands behind the page's path, `path` what its placeholders got; `position` is the latest log
    position that an answer showed.
    """

    def __init__(
        self, desk: Desk, session: Session, request_id: str, query: Mapping[str, str], path: Mapping[str, str]
    ) -> None:
        self._desk = desk
        self._request_id = request_id
        self._things: dict[tuple[str, str], Resource | None] = {}
        self.look = Look(desk.authorizer, session)
        self._dispatch = desk.reading(self.look, lambda: not self.look.guessing)
        self.session = session
        self.query = query
        self.path = path
        self.as_of = as_of(query.get("asOf", ""))
        self.wait_for = int(text) if (text := query.get("waitFor", "")).isdecimal() and len(text) < 16 else None
        self.position = 0

    def __call__(self, name: str, /, **fields: Any) -> Any:
        """The answer's body. Fields that are None or "" are left out; raises the refusals of the operation."""
        operation = self._desk.operations[name]
        found = {field: value for field, value in fields.items() if value not in (None, "")}
        if self.as_of is not None:
            if not operation.has_past:
                raise errors.Invalid("asOf", f"{name} is not in the log; it can be seen as it is now only")
            found.setdefault("asOf", self.as_of)
        elif self.wait_for is not None and issubclass(operation.request, Reading):
            found.setdefault("waitFor", self.wait_for)
        request = decode.request_of_text(self._desk.shapes[name], found)
        answer = self._dispatch(operation, request, Call(session=self.session, request_id=self._request_id))
        self.position = max(self.position, answer.position or 0)
        return msgspec.json.decode(msgspec.json.encode(answer.body))

    def if_may(self, name: str, /, **fields: Any) -> Any:
        """As a call, or None where it is not the caller's to ask, or the past does not tell it; nothing is recorded."""
        if self.as_of is not None and not self.has_past(name):
            return None
        return self(name, **fields) if self.may(name, **fields) else None

    @cached_property
    def now(self) -> int:
        """What now is on the page, in epoch ms: the present, or the instant of the past that it shows."""
        if self.as_of is None:
            return int(time.time() * 1000)
        if not self.as_of.startswith("@"):
            return int(self.as_of)
        came = self._desk.things.log(int(self.as_of[1:]) - 1, _LAST, 1)
        if not came:
            raise errors.Invalid("asOf", "lies beyond the log")
        return came[0].recorded_at

    def has_past(self, name: str) -> bool:
        return self._desk.operations[name].has_past

    def widest(self, name: str) -> str:
        """The scope in which the caller sees most: the fleet's for the platform."""
        return "fleet" if self.may(name, scope="fleet") else "tenant"

    def may(self, name: str, /, **fields: Any) -> bool:
        """Whether it would be decided in the caller's favour, on what the fields name. It decides nothing itself.

        Of a thing that no field names, it is whether there may be any such thing.
        """
        operation = self._desk.operations[name]
        verdicts = (self._allowed(operation, template, fields) for template in operation.on)
        return any(verdicts) if operation.decided_inside else all(verdicts)

    def know(self, ids: Iterable[str]) -> None:
        """Look these things up at once, of each of which it is asked then what may be done to it."""
        unknown = sorted(set(ids) - {id for _, id in self._things})
        if unknown:
            found = self._desk.things.resolve_all(self.session.tenant_id, unknown).values()
            self._things.update({(thing.type, thing.id): thing for thing in found if thing is not None})

    def gettable(self, ids: Sequence[str]) -> dict[str, bool]:
        """Of each thing that there is, whether the caller may get it: one question."""
        found = self._desk.things.resolve_all(self.session.tenant_id, ids)
        things = [thing for thing in found.values() if thing is not None]
        verdicts = self.look.allowed(self.session, [(catalog.GET[thing.type], thing) for thing in things])
        allowed = {thing.id for thing, verdict in zip(things, verdicts, strict=True) if verdict}
        return {id: id in allowed for id in found}

    def checks(self) -> Mapping[str, str | float]:
        """How this process is, for the platform; of that there is no past."""
        return self._desk.checks() if self.session.root_tenant and self.as_of is None else {}

    def load_all(self, streams: Sequence[str]) -> Sequence[Loaded]:
        """Their states, of whomever they are: for a page that asks what of them may be shown."""
        return self._desk.things.load_all(streams)

    def begun(self, streams: Collection[str]) -> set[str]:
        """Those that there were in the past that is shown; of the present all."""
        if self.as_of is None or not streams or not self.position:
            return set(streams)
        wanted = sorted(streams)
        then = self._desk.things.load_all_as_of(wanted, self.position)
        return {stream for stream, one in zip(wanted, then, strict=True) if one.version}

    def offered(self, *names: str, **fields: Any) -> set[str]:
        """Those of the operations that may be offered on a page: none of them on one that shows the past."""
        return set() if self.as_of is not None else {name for name in names if self.may(name, **fields)}

    def _allowed(self, operation: Operation, template: str, fields: Mapping[str, Any]) -> bool:
        type_, _, named = template.partition("/")
        id_ = _PLACEHOLDER.sub(lambda match: self._filled(match[1], fields), named)
        if type_ == "compute-tenant" and fields.get("scope") == "fleet":
            type_, id_ = "compute-fleet", "global"
        if not id_:
            return self.look.may_some(operation.action, type_)
        thing = self._thing(type_, id_)
        return thing is not None and self.look.allowed(self.session, [(operation.action, thing)])[0]

    def _thing(self, type_: str, id_: str) -> Resource | None:
        if (type_, id_) not in self._things:
            found = self._desk.things.resolve(self.session.tenant_id, type_, id_) if id_.isprintable() else None
            self._things[type_, id_] = found
        return self._things[type_, id_]

    def _filled(self, field: str, fields: Mapping[str, Any]) -> str:
        return self.session.tenant_id if field == "acting" else str(fields.get(field) or "")


def as_of(text: str) -> str | None:
    """`@position`, epoch milliseconds, or a date and time in UTC, as the API takes it; None of an empty one."""
    text = text.strip()
    if not text:
        return None
    if text.startswith("@") and _POSITION.fullmatch(text):
        return text
    at = int(text) if _POSITION.fullmatch(text) else forms.instant(text, "asOf")
    if not 0 <= at < LAST_MS:
        raise errors.Invalid("asOf", "lies before 1970 or after the year 9999")
    return str(at)
