"""The HTTP transport: one POST a method, the two headers, bounded bodies, and the forms of its errors (iam.md §11)."""

import contextlib
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from iam_server import decide
from iam_server.model import Iam, IamError, Session

BODY_LIMIT = 64 * 1024

Method = Callable[[Iam, Session, dict[str, Any]], Any]
Fault = Callable[["Handler"], bool]
"""What goes wrong with a call: it answers by itself and says so, or lets the call go on."""


def _children(iam: Iam, session: Session, body: dict[str, Any]) -> Any:
    tenant_id = _readable(iam, session, body)
    return [tenant.shown() for tenant in iam.tenants.values() if tenant.parent == tenant_id]


def _tenant(iam: Iam, session: Session, body: dict[str, Any]) -> Any:
    return iam.tenants[_readable(iam, session, body)].shown()


def _readable(iam: Iam, session: Session, body: dict[str, Any]) -> str:
    """A key acts only in its own tenant: a parent's reaches no child (iam.md §15)."""
    tenant_id = decide.text(body, "tenantId")
    if tenant_id not in iam.tenants:
        raise IamError("NOT_FOUND", 404)
    if not session.root_admin and (session.tenant != tenant_id or "iam-reader" not in session.groups):
        raise IamError("ACCESS_DENIED", 403)
    return tenant_id


def _billing(iam: Iam, session: Session, body: dict[str, Any]) -> Any:
    """Of the caller's own tenant; not audited (iam.md §16)."""
    if decide.text(body, "tenantId") != session.tenant:
        raise IamError("ACCESS_DENIED", 403)
    name = iam.spent.get(session.tenant)
    return {
        "allowed": name is None,
        "budgets": [],
        **({"blockedBy": {"budgetId": "bud_1", "name": name}} if name else {}),
    }


def _relationships(iam: Iam, session: Session, body: dict[str, Any]) -> Any:
    tenant_id = _keeper(session, body)
    asked = (body.get("type"), body.get("id"))
    return [
        {"id": _tuple_id(one), "tenantId": one[0], "relation": one[2], "type": one[3], "resourceId": one[4]}
        for one in iam.relationships
        if one[0] == tenant_id and one[3:] == asked
    ]


def _unrelate(iam: Iam, session: Session, body: dict[str, Any]) -> Any:
    tenant_id = _keeper(session, body)
    found = [one for one in iam.relationships if (one[0], _tuple_id(one)) == (tenant_id, body.get("relationshipId"))]
    if not found:
        raise IamError("NOT_FOUND", 404)
    iam.relationships.remove(found[0])
    return {"deleted": True}


def _keeper(session: Session, body: dict[str, Any]) -> str:
    tenant_id = decide.text(body, "tenantId")
    if session.tenant != tenant_id or "relationship-keeper" not in session.groups:
        raise IamError("ACCESS_DENIED", 403)
    return tenant_id


def _tuple_id(one: tuple[str, ...]) -> str:
    return "rel:" + "/".join(one)


METHODS: dict[str, Method] = {
    "sts/getCallerIdentity": lambda iam, session, body: session.shown(),
    "authorize": decide.authorize,
    "authorizeMany": decide.authorize_many,
    "filters/plan": decide.plan,
    "billing/check": _billing,
    "relationships/list": _relationships,
    "relationships/delete": _unrelate,
    "tenants/get": _tenant,
    "tenants/listChildren": _children,
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    iam: Iam
    base: str
    faults: dict[str, list[Fault]]
    documents: dict[str, tuple[str, bytes]]

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", 0))
        if length > BODY_LIMIT:
            self.close_connection = True
            return self.plain(413, b"Payload too large", "text/plain")
        raw = self.rfile.read(length)
        method = self.path.removeprefix(self.base + "/")
        try:
            body = self._checked(method, raw)
            with self.iam.lock:
                self.iam.asked.append((method, body, {name.lower(): value for name, value in self.headers.items()}))
                fault = self.faults.get(method, [None]).pop(0) if self.faults.get(method) else None
            if fault is not None and fault(self):
                return None
            session = self._session()
            with self.iam.lock:
                answer = METHODS[method](self.iam, session, body)
            return self.say(200, {"data": answer})
        except IamError as error:
            more = {"retry-after": str(-(-error.more["retryAfterMs"] // 1000))} if "retryAfterMs" in error.more else {}
            said = {"code": error.code, "message": error.code.lower(), **error.more}
            return self.say(error.status, {"error": said}, more)

    def do_GET(self) -> None:
        document = self.documents.get(self.path.removeprefix(self.base + "/"))
        if document is None:
            return self.say(404, {"error": {"code": "NOT_FOUND", "message": "no"}})
        self.plain(200, document[1], document[0])
        return None

    def _checked(self, method: str, raw: bytes) -> dict[str, Any]:
        headers = self.headers
        if not headers.get("content-type", "").startswith("application/json") or headers.get("x-better-iam") != "1":
            raise IamError("CSRF_REJECTED", 403)
        if "cookie" in headers or "origin" in headers:
            raise IamError("UNTRUSTED_ORIGIN", 403)
        if method not in METHODS:
            raise IamError("NOT_FOUND", 404)
        try:
            body = json.loads(raw)
        except ValueError:
            raise IamError("INVALID_INPUT") from None
        if not isinstance(body, dict):
            raise IamError("INVALID_INPUT")
        return body

    def _session(self) -> Session:
        bearer = re.fullmatch(r"Bearer (\S+)", self.headers.get("authorization", ""))
        session = self.iam.sessions.get(bearer[1]) if bearer else None
        if session is None:
            raise IamError("UNAUTHENTICATED", 401)
        return session

    def say(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        self.plain(status, json.dumps(body).encode(), "application/json", headers)

    def plain(self, status: int, body: bytes, media_type: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        request_id = self.headers.get("x-request-id")
        for name, value in {
            "content-type": media_type,
            "content-length": str(len(body)),
            "cache-control": "no-store",
            **({"x-request-id": request_id} if request_id else {}),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Listener(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *args: Any) -> None:
        self._open: set[socket.socket] = set()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that hung up is no trouble."""

    def hang_up(self) -> None:
        """Whoever is connected notices that the server is gone."""
        for one in list(self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


class Server:
    """An `Iam` that answers at `url`. `fail` says what goes wrong with the next calls of a method, one each."""

    def __init__(self, iam: Iam, port: int = 0) -> None:
        self.iam = iam
        self._faults: dict[str, list[Fault]] = {}
        self.documents: dict[str, tuple[str, bytes]] = {}
        members = {"iam": iam, "base": "/api/iam", "faults": self._faults, "documents": self.documents}
        handler = type("Bound", (Handler,), members)
        self._http = _Listener(("127.0.0.1", port), handler)
        self.port = self._http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/api/iam"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def fail(self, method: str, *faults: Fault) -> None:
        with self.iam.lock:
            self._faults.setdefault(method, []).extend(faults)

    def forgive(self) -> None:
        """Nothing goes wrong any more."""
        with self.iam.lock:
            self._faults.clear()

    def stop(self) -> None:
        self._http.shutdown()
        self._http.hang_up()
        self._http.server_close()


@contextmanager
def serving(iam: Iam, port: int = 0) -> Iterator[Server]:
    server = Server(iam, port)
    try:
        yield server
    finally:
        server.stop()
