"""A small server that answers what it is told to, and a registry to ask it with, for the tests beside it."""

import enum
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Annotated, Any, Literal

from click.testing import CliRunner, Result
from msgspec import Meta, Struct, field

from adapters.cli import main
from domain.operation import KnownListing, Listing, Operation, Request, table


class Mode(enum.StrEnum):
    FAST = "fast"
    SLOW = "slow"


class Line(Struct, frozen=True, rename="camel"):
    class_: str = field(name="class")
    count: int
    selector: str | None = None


class Get(Request, frozen=True, kw_only=True):
    id: str


class Find(KnownListing, frozen=True, kw_only=True):
    pool_id: Annotated[str, Meta(description="only of this pool")] | None = None
    states: tuple[str, ...] = ()
    ready: bool | None = None


class Cordon(Request, frozen=True, kw_only=True):
    id: str
    reason: Annotated[str, Meta(description="why, for others")]
    mode: Mode = Mode.FAST
    deadline_at: int | None = None


class Place(Request, frozen=True, kw_only=True):
    pool_id: Annotated[str, Meta(description="where")]
    devices: tuple[Line, ...]
    duration_seconds: Annotated[int, Meta(ge=60)]
    labels: dict[str, str] = field(default_factory=dict)
    scalars: dict[str, int] = field(default_factory=dict)
    topology: dict[str, Any] | None = None
    spot: bool = False
    token: str | None = None


class Evict(Request, frozen=True, kw_only=True):
    id: str
    reservation_id: str
    reason: str


class Offer(Request, frozen=True, kw_only=True):
    kind: Literal["tenant", "project"]
    tenant_id: str


def declare(name: str, verb: Any, path: str, request: type[Request], **more: Any) -> Operation:
    kept = {"response": dict, "on": (), "handle": dict, "summary": f"Do {name}."}
    return Operation(name=name, verb=verb, path=path, request=request, **kept, **more)


REGISTRY = table(
    declare("nodes.list", "GET", "/v1/nodes", Find, columns=("id", "name", "joinedAt")),
    declare("nodes.get", "GET", "/v1/nodes/{id}", Get),
    declare("nodes.cordon", "POST", "/v1/nodes/{id}/cordon", Cordon, key="accepted"),
    declare("nodes.drain", "POST", "/v1/nodes/{id}/drain", Cordon),
    declare("allocations.list", "GET", "/v1/allocations", Find),
    declare("nodes.retire", "DELETE", "/v1/nodes/{id}", Get),
    declare("joinTokens.revokeAll", "PUT", "/v1/x/{kind}/{tenantId}", Offer),
    declare("reservations.create", "POST", "/v1/reservations", Place, key="required"),
    declare("reservations.get", "GET", "/v1/reservations/{id}", Get),
    declare("commands.issue", "POST", "/v1/nodes/{id}/commands", Cordon, status=201),
    declare("commands.get", "GET", "/v1/commands/{id}", Get),
    declare("pools.evict", "POST", "/v1/pools/{id}/evict", Evict),
    declare("audit.events", "GET", "/v1/audit/events", Listing),
    declare("audit.export", "GET", "/v1/audit/export", Request, streaming="lines"),
    declare("audit.verify", "POST", "/v1/audit/verify", Request),
)


class Asked(Struct, frozen=True):
    verb: str
    path: str
    headers: dict[str, str]
    body: Any


class Server:
    """Answers in turn what `answers` holds: status, body, headers; the last one again and again."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self.asked: list[Asked] = []
        self.answers: list[tuple[int, Any, dict[str, str]]] = []

    def says(self, body: Any, status: int = 200, **headers: str) -> "Server":
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        kind = "application/json" if status < 400 else "application/problem+json"
        self.answers.append((status, body, {"Content-Type": kind} | named))
        return self


@contextmanager
def serving() -> Iterator[Server]:
    """A server for one test, at an address of its own."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            is_json = "json" in self.headers.get("Content-Type", "")
            body = json.loads(content) if is_json and content else content or None
            told.asked.append(Asked(self.command, self.path, dict(self.headers), body))
            status, body, headers = told.answers.pop(0) if len(told.answers) > 1 else told.answers[0]
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = answer

        def log_message(self, *_: Any) -> None:
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    told = Server(running.server_port)
    thread = Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield told
    finally:
        running.shutdown()
        running.server_close()
        thread.join()


def run(line: str | list[str], server: Server | None = None, token: str = "biam_key_secret", **more: Any) -> Result:
    """One command line against the server; without one, against a port where nobody listens."""
    words = line.split() if isinstance(line, str) else line
    environment = {"BETTER_COMPUTE_SERVER": server.address if server else "http://127.0.0.1:1"}
    environment["BETTER_COMPUTE_CONFIG"] = "/nonexistent/config.toml"
    groups = {"nodes": "Machines.", "commands": "Orders.", "reservations": "Claims.", "pools": "Sets."}
    root = main.Root(registry=lambda: REGISTRY, static={}, groups=groups)
    return CliRunner().invoke(root, words, env=environment | {"BETTER_COMPUTE_TOKEN": token}, **more)


PROBLEM = {
    "status": 409,
    "code": "CONFLICT",
    "detail": "it is gone",
    "errors": [{"field": "id", "message": "no more"}],
    "requestId": "req_1",
}
