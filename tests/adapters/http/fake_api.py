"""A small registry of widgets behind the real application, and what its handlers were asked."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import httpx
from litestar.testing import TestClient
from msgspec import Meta, Struct

from adapters.http.app import create_app
from adapters.http.health import Health
from adapters.http.limits import Limits
from domain import errors, ids
from domain.access import Session
from domain.operation import Answer, Call, Listing, Operation, Page, Request, table

ALICE = {"Authorization": "Bearer good"}
KEYED = ALICE | {"Idempotency-Key": "k-1"}
UNLIMITED = Limits(mutations=1e9, reads=1e9, anonymous=1e9)


class Shelf(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, tag="shelf"):
    row_number: int

    def __post_init__(self) -> None:
        if self.row_number == 13:
            raise ValueError("rowNumber: there is no row 13")


class Crate(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, tag="crate"):
    side: Literal["left", "right"]


class Part(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    count: Annotated[int, Meta(ge=1, le=64)]
    part_class: Literal["gear", "axle"] = "gear"


class Widget(Struct, frozen=True, rename="camel", omit_defaults=True):
    id: str
    name: str
    parts: tuple[Part, ...] = ()


class Create(Request, frozen=True, kw_only=True):
    name: Annotated[str, Meta(min_length=1, max_length=63)]
    parts: tuple[Part, ...] = ()
    labels: dict[str, str] | None = None
    place: Shelf | Crate | None = None
    weight: float | None = None
    size: int | None = None
    free: Any = None


class Get(Request, frozen=True, kw_only=True):
    id: str


class List(Listing, frozen=True, kw_only=True):
    color: Literal["red", "blue"] | None = None
    names: tuple[str, ...] = ()
    heavier: float | None = None
    spare: bool = False


class Rename(Request, frozen=True, kw_only=True):
    id: str
    name: str


class Put(Request, frozen=True, kw_only=True):
    id: str
    slot_number: int
    note: str | None = None


class Drop(Request, frozen=True, kw_only=True):
    id: str


class Join(Request, frozen=True, kw_only=True):
    serial: str


class Fake:
    """Answers every operation plausibly, or as `answer` and `raises` say; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any, Call]] = []
        self.answer: Answer | None = None
        self.raises: Exception | None = None

    @property
    def last(self) -> Any:
        return self.asked[-1][1]

    @property
    def call(self) -> Call:
        return self.asked[-1][2]

    def dispatch(self, operation: Operation, request: Any, call: Call) -> Answer:
        self.asked.append((operation.name, request, call))
        if operation.key == "required":
            ids.idempotency_key(call.idempotency_key)
        if self.raises is not None:
            raise self.raises
        if self.answer is not None:
            return self.answer
        match request:
            case List():
                return Answer(body=Page(items=(Widget("wdg_1", "first"),), next_cursor="abc"), position=41)
            case Create():
                body = Widget("wdg_1", request.name, request.parts)
                return Answer(body=body, status=201, position=41, version=1)
            case Join() if call.bearer != "good":
                raise errors.Unauthenticated("this join token is used up")
            case Join():
                return Answer(body={"id": "wdg_9", "name": request.serial}, status=201, position=42, version=1)
            case Drop():
                return Answer(body=None, status=204, position=43, version=4)
            case _:
                return Answer(body=Widget(request.id, "first"), position=41, version=3)


def _unused(*_: object) -> None: ...


def operation(name: str, verb: Any, path: str, request: type[Request], **more: Any) -> Operation:
    given: dict[str, Any] = {
        "response": Widget,
        "on": ("compute-widget/{id}",),
        "handle": _unused,
        "summary": name + ".",
    }
    return Operation(name=name, verb=verb, path=path, request=request, **(given | more))  # fmt: skip


OPERATIONS = table(
    operation(
        "widgets.create", "POST", "/v1/widgets", Create, status=201, key="required",
        refusals=(errors.QuotaExceeded, errors.Conflict),
    ),
    operation("widgets.list", "GET", "/v1/widgets", List, response=Page[Widget]),
    operation("widgets.get", "GET", "/v1/widgets/{id}", Get),
    operation("widgets.rename", "PATCH", "/v1/widgets/{id}", Rename),
    operation("widgets.put", "PUT", "/v1/widgets/{id}/slots/{slotNumber}", Put),
    operation("widgets.drop", "DELETE", "/v1/widgets/{id}", Drop, status=204),
    operation("widgets.join", "POST", "/v1/widgets/join", Join, status=201, credential="join-token"),
)  # fmt: skip


def identify(token: str) -> Session | None:
    """`good` is Alice and `bob` is Bob, of one tenant; nobody else is known."""
    who = {"good": "alice", "bob": "bob"}.get(token)
    return Session("ten_a", who, "user", f"ses_{who}", "user") if who else None


def healthy() -> Health:
    return Health(ready=True, checks={"database": "ok", "projectionLag": 3})


def application(fake: Fake | None = None, extra: Sequence[Any] = (), health: Any = healthy, **more: Any) -> Any:
    given = {"limits": UNLIMITED} | more
    return create_app(OPERATIONS, (fake or Fake()).dispatch, identify, health, extra, **given)


def client(fake: Fake | None = None, **more: Any) -> TestClient[Any]:
    return TestClient(application(fake, **more), raise_server_exceptions=False)


def ask(fake: Fake, method: str, path: str, **more: Any) -> httpx.Response:
    """One request over plain httpx: Litestar's client decodes a path twice and joins repeated headers."""

    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(application(fake))
        async with httpx.AsyncClient(transport=transport, base_url="http://api") as plain:
            return await plain.request(method, path, **more)

    return asyncio.run(run())


def assert_problem(response: Any, status: int, code: str) -> dict[str, Any]:
    """A refusal is a complete RFC 9457 document; returns it."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert problem["status"] == status
    assert problem["code"] == code
    assert problem["type"] == "urn:better-compute:problem:" + code.lower().replace("_", "-")
    assert problem["title"]
    assert problem["detail"]
    assert problem["requestId"] == response.headers["x-request-id"]
    return problem
