"""One declaration per operation: routes, OpenAPI, CLI, IAM actions and the reference page come from it (api.md §1)."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Annotated, Any, Final, Generic, Literal, TypeVar

from msgspec import Meta, Struct, field

from domain import errors
from domain.access import Session

T = TypeVar("T")
Verb = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Key = Literal["none", "accepted", "required"]
Credential = Literal["session", "join-token", "resolver"]
"""What the bearer is: of an identity, of a node that joins, of a Better IAM host that asks what a thing is."""

ALWAYS: Final = (
    errors.Malformed,
    errors.Invalid,
    errors.Unauthenticated,
    errors.TooManyRequests,
    errors.Unavailable,
)
"""Refusals that every operation can give, so that no declaration repeats them."""

FLEET: Final = "compute-fleet"
_PLACEHOLDER = re.compile(r"\{(\w+)\}")

AsOf = Annotated[
    str,
    Meta(
        pattern=r"^@?[0-9]{1,18}$(?!\n)",
        description="as it was known at this instant (epoch ms) or position (@1234); lists of things then go by id",
    ),
]


class Request(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """What a caller sends. Fields named in the path come from it, the others from the body (GET: the query)."""


class Known(Request, frozen=True, kw_only=True):
    """What a `get` takes of what the log tells: `as_of` asks for it as it was known then."""

    as_of: AsOf | None = None


class Reading(Request, frozen=True, kw_only=True):
    """What every query of a read model takes; `wait_for` is a global position that it must have reached."""

    wait_for: Annotated[int, Meta(ge=0, description="wait until this position is visible")] | None = None


class KnownReading(Reading, frozen=True, kw_only=True):
    """What a query takes that is told of read models which keep their versions."""

    as_of: AsOf | None = None


class Paged(Reading, frozen=True, kw_only=True):
    """What every query in pages takes; `order` is by age, where nothing else is said."""

    limit: Annotated[int, Meta(ge=1, le=1000, description="rows on a page")] = 100
    cursor: Annotated[str, Meta(max_length=1024, description="nextCursor of the previous page")] | None = None
    order: Annotated[Literal["asc", "desc"], Meta(description="asc: oldest first")] = "asc"


class Listing(Paged, frozen=True, kw_only=True):
    """What every list takes."""

    scope: Annotated[Literal["tenant", "fleet"], Meta(description="fleet: every tenant's, for the platform")] = "tenant"


class KnownListing(Listing, frozen=True, kw_only=True):
    """What a list takes whose rows keep their versions."""

    as_of: AsOf | None = None


class Call(Struct, frozen=True, kw_only=True):
    """The circumstances of one request. `bearer` is the join token where that is the credential, else absent.

    `content` is what a body of bytes turned out to be; they are kept already.
    """

    session: Session | None
    request_id: str
    idempotency_key: str | None = None
    if_match: int | None = None
    bearer: str | None = None
    content: Any = None


class Answer(Struct, frozen=True, kw_only=True):
    """`position` is the log position of the command's last event (a list: what it shows), `version` the stream's.

    A body that is `of_the_moment` tells more than the version does.
    """

    body: Any
    status: int = 200
    position: int | None = None
    version: int | None = None
    replayed: bool = False
    of_the_moment: bool = False


class Page(Struct, Generic[T], frozen=True, rename="camel", omit_defaults=True):
    """One page of a list; `next_cursor` is absent on the last."""

    items: tuple[T, ...]
    next_cursor: str | None = None


class Operation(Struct, frozen=True, kw_only=True):
    """A method of the API.

    `on` names the IAM resources it is decided on, as `compute-node/{id}`, `compute-tenant/{acting}` or
    `compute-fleet/global`; placeholders are the request's fields, `{acting}` the caller's tenant. With
    `decided_inside` the handler decides: on the one of them that the request is about, or on its own draft.
    `handle` takes the request and the unit of work (commands) or the reader (queries); `columns` are the fields
    that a table for people shows, each as a path or as `heading=path`; `example` is what an example shows beside
    the required fields, or in place of them. `view` renders a command's stream (id, state, version) as the response.
    A `streaming` query answers a feed of responses, sent as server-sent events, or pieces of JSON Lines. One that
    `looks` is a query by POST: what it asks is too much for a URL. It sees what the log had when it was asked, and
    records nothing. One that `proves` is given the log's evidence, which never changes, and no snapshot.
    What is read `of_log` alone has a past without an end: of the log nothing is ever forgotten.
    With the resolver's credential the handler takes the request and what resolves in a tenant.
    `ahead` says of a request and its call what performing it is sure to ask, where that is not what `on` names.
    With `content` the body is bytes, as long as they may be: it says of a request and a unit of work what they must
    be, once the operation is decided on and before one is read; the handler finds in the call what they are.
    """

    name: str
    verb: Verb
    path: str
    request: type[Request]
    response: Any
    on: tuple[str, ...]
    handle: Callable[..., Any]
    view: Callable[[str, Any, int], Any] | None = None
    summary: str
    status: int = 200
    refusals: tuple[type[errors.Refusal], ...] = ()
    key: Key = "none"
    columns: tuple[str, ...] = ()
    example: Mapping[str, Any] = field(default_factory=dict)
    credential: Credential = "session"
    decided_inside: bool = False
    streaming: Literal["events", "lines"] | None = None
    looks: bool = False
    proves: bool = False
    of_log: bool = False
    ahead: Callable[..., Any] | None = None
    content: Callable[..., Any] | None = None

    @property
    def is_query(self) -> bool:
        return self.looks or self.in_url

    @property
    def in_url(self) -> bool:
        """Whether the request is in the URL alone; all others have a body."""
        return self.verb == "GET"

    @property
    def has_past(self) -> bool:
        """Whether `asOf` means something: of what is not in the log it is a field that is refused (api.md §2)."""
        told = self.of_log or errors.HistoryPruned in self.refusals
        return told and "as_of" in self.request.__struct_fields__

    @property
    def action(self) -> str:
        """The IAM action: `compute:nodes:cordon` for `nodes.cordon` (api.md §1)."""
        return "compute:" + self.name.replace(".", ":")

    @property
    def types(self) -> tuple[str, ...]:
        """The resource types that it is decided on; with a `scope` the fleet may stand for the caller's tenant."""
        named = [template.partition("/")[0] for template in self.on]
        if "scope" in self.request.__struct_fields__ and any("{acting}" in template for template in self.on):
            named.append(FLEET)
        return tuple(dict.fromkeys(named))

    @property
    def path_fields(self) -> tuple[str, ...]:
        return tuple(_PLACEHOLDER.findall(self.path))


class Table(Mapping[str, Operation]):
    """Operations by name. What declares those of a noun is asked when the noun is, so that one starts without the rest.

    A name or a route that is taken twice is refused when all of them are told: a server tells them at its start.
    """

    def __init__(self, nouns: Mapping[str, Callable[[], Iterable[Operation]]]) -> None:
        self._nouns = nouns
        self._declared: dict[str, dict[str, Operation]] = {}
        self._all: dict[str, Operation] | None = None

    @property
    def nouns(self) -> tuple[str, ...]:
        return tuple(self._nouns)

    def of(self, noun: str) -> Mapping[str, Operation]:
        """The operations of a noun: none where there is no such noun."""
        if noun not in self._declared and noun in self._nouns:
            self._declared[noun] = _once(self._nouns[noun](), noun)
        return self._declared.get(noun, {})

    def __getitem__(self, name: str) -> Operation:
        return self.of(name.partition(".")[0])[name]

    def __iter__(self) -> Iterator[str]:
        if self._all is None:
            self._all = _once(one for noun in self._nouns for one in self.of(noun).values())
        return iter(self._all)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _once(declared: Iterable[Operation], noun: str = "") -> dict[str, Operation]:
    known: dict[str, Operation] = {}
    routes: set[tuple[str, str]] = set()
    for operation in declared:
        route = (operation.verb, _PLACEHOLDER.sub("{}", operation.path))
        if operation.name in known or route in routes:
            raise ValueError(f"operation {operation.name} ({operation.verb} {operation.path}) is declared twice")
        if noun and operation.name.partition(".")[0] != noun:
            raise ValueError(f"operation {operation.name} is declared as one of {noun}")
        known[operation.name] = operation
        routes.add(route)
    return known


def table(*declared: Operation) -> Table:
    """Those operations, and no others."""
    nouns: dict[str, list[Operation]] = {}
    for operation in declared:
        nouns.setdefault(operation.name.partition(".")[0], []).append(operation)
    return Table({noun: partial(list, those) for noun, those in nouns.items()})
