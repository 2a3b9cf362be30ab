"""The thin client behind the operations, on the standard library: a command line starts often, asks once."""

import http.client
import ipaddress
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from email.message import Message
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urlencode, urlsplit

import click

from adapters.cli import answers, leaving, tables, troubles

TIMEOUT_SECONDS: Final = 30.0
"""For connecting and for each read; a list may wait for its read model before it answers."""

UPLOAD_SECONDS: Final = 600.0
"""For the answer to an upload: the server may have gigabytes to bring to its disk first."""


MOST_BYTES: Final = 256 << 20
"""Of an answer in JSON; the longest page of a list is a hundredth of it."""

MOST_OF_PROBLEM: Final = 1 << 20


class Answer(NamedTuple):
    """`body` is the decoded JSON; None where there was none, or it went into the sink."""

    status: int
    headers: Message
    body: Any

    @property
    def thing(self) -> answers.Told:
        """The body, where one object is the answer; raises troubles.Failed of another."""
        return answers.thing(self.body)

    @property
    def page(self) -> answers.Page:
        """The body, where a list is the answer; raises troubles.Failed of another."""
        return answers.page(self.body)

    @property
    def position(self) -> int:
        """That of the log, 0 where the server names none."""
        text = self.headers.get("X-Position") or ""
        return int(text) if text.isascii() and text.isdecimal() else 0


class Sink(Protocol):
    """Where an answer goes that is not JSON."""

    def write(self, piece: bytes, /) -> object: ...

    def flush(self) -> object: ...


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """urllib would carry the token along to wherever a redirect points."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class Content(NamedTuple):
    """A body of bytes that is sent as it is read: so many in all, a piece at a time."""

    size: int
    pieces: Iterator[bytes]


class _Hearing(http.client.HTTPConnection):
    """A server that refuses a long body answers before it has all of it, and hangs up: the answer is there to read."""

    _gone: OSError | None = None

    def request(self, *given: Any, **named: Any) -> None:
        self.connect()
        try:
            super().request(*given, **named)
        except (BrokenPipeError, ConnectionResetError) as gone:
            self._gone = gone

    def getresponse(self) -> http.client.HTTPResponse:
        try:
            return super().getresponse()
        except (OSError, http.client.HTTPException):
            if self._gone is not None:
                raise self._gone from None
            raise


class _HearingSecure(_Hearing, http.client.HTTPSConnection):
    pass


class _Http(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(_Hearing, req)


class _Https(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(_HearingSecure, req)


class Client:
    """One server, one credential. It has no repr of its own, so that no traceback shows the token."""

    def __init__(self, server: str, token: str | None, timeout: float = TIMEOUT_SECONDS) -> None:
        parts = urlsplit(server)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise click.UsageError("--server is an address such as http://127.0.0.1:8080")
        if parts.username is not None or parts.password is not None:
            raise click.UsageError("--server holds a credential; give it as BETTER_COMPUTE_TOKEN")
        self.server = server.rstrip("/")
        self._token = _header("token", token.strip()) if token else None
        self._timeout = timeout
        proxies = [urllib.request.ProxyHandler({})] if _is_loopback(parts.hostname) else []
        self._opener = urllib.request.build_opener(_NoRedirect(), _Http(), _Https(), *proxies)

    def send(
        self,
        verb: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        sink: Sink | None = None,
        content: Content | None = None,
    ) -> Answer:
        """Ask once. What is not JSON (an export, a stream of events) is copied into `sink` as it comes.

        `content` stands in place of a body in JSON.

        Raises troubles.Trouble for every answer from 300 up and for every failure on the way.
        """
        address = self.server + path + (f"?{urlencode(query)}" if query else "")
        request = urllib.request.Request(address, method=verb, headers=self._headers(headers or {}))
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        if content is not None:
            request.data = content.pieces
            request.add_header("Content-Type", "application/octet-stream")
            request.add_header("Content-Length", str(content.size))
        timeout = self._timeout if content is None else UPLOAD_SECONDS
        try:
            with self._opener.open(request, timeout=timeout) as response:
                return _answer(response, sink)
        except urllib.error.HTTPError as refusal:
            with refusal:
                raise _trouble(refusal) from None
        except (OSError, http.client.HTTPException) as failure:
            raise troubles.Failed(f"cannot reach {self.server}: {_reason(failure)}") from None

    def _headers(self, extra: Mapping[str, str]) -> dict[str, str]:
        headers = {"Accept": "application/json, */*;q=0.5", "User-Agent": "better-compute-cli"}
        headers |= {name: _header(name, value) for name, value in extra.items()}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        return headers


def _answer(response: Any, sink: Sink | None) -> Answer:
    if sink is not None and not is_json(response.headers):
        while piece := response.read1(65536):
            _pass_on(piece, sink)
        return Answer(response.status, response.headers, None)
    content = _whole(response, MOST_BYTES)
    try:
        body = answers.read(content) if content and is_json(response.headers) else None
    except (ValueError, RecursionError):
        body = None
    if content and body is None and content.strip() != b"null":
        raise troubles.Failed(f"the answer (HTTP {response.status}) is not JSON")
    return Answer(response.status, response.headers, body)


def _whole(response: Any, most: int) -> bytes:
    """All of a body; of one that has no end no more than can be held."""
    if response.length is not None and response.length <= most:
        content: bytes = response.read()
        return content
    content = response.read(most + 1)
    if len(content) > most:
        raise troubles.Failed(f"the answer (HTTP {response.status}) is longer than {most >> 20} MiB")
    return content


def _pass_on(piece: bytes, sink: Sink) -> None:
    """A full disk is not the server's failure."""
    try:
        sink.write(piece)
        sink.flush()
    except OSError as failure:
        raise leaving.unwritten(failure) from None


def _trouble(refusal: urllib.error.HTTPError) -> troubles.Trouble:
    status = refusal.code
    if status < 400:
        place = tables.printable(refusal.headers.get("Location", "nowhere"))
        return troubles.Failed(f"the server points to {place}; redirects are not followed, use --server")
    try:
        document = json.loads(_whole(refusal.fp, MOST_OF_PROBLEM)) if is_json(refusal.headers) else {}
    except (ValueError, RecursionError, OSError, http.client.HTTPException, troubles.Failed):
        document = {}
    if not isinstance(document, dict):
        document = {}
    document.setdefault("title", refusal.reason)
    if refusal.headers.get("X-Request-Id"):
        document.setdefault("requestId", refusal.headers["X-Request-Id"])
    text = tables.problem(document, status)
    kind = troubles.Failed if status >= 500 else troubles.Busy if status == 429 else troubles.Refused
    trouble = kind(text)
    trouble.status, trouble.code = status, str(document.get("code") or "")
    return trouble


def _reason(failure: Exception) -> str:
    cause = failure.reason if isinstance(failure, urllib.error.URLError) else failure
    if isinstance(cause, TimeoutError):
        return "no answer in time"
    if isinstance(cause, http.client.IncompleteRead):
        return "the answer was cut off before its end"
    if isinstance(cause, OSError) and cause.strerror:
        return tables.printable(cause.strerror)
    return tables.printable(str(cause) or type(cause).__name__)


def is_json(headers: Message) -> bool:
    """Whether an answer is one JSON value; an empty one without a type counts."""
    media = (headers.get("Content-Type") or "application/json").partition(";")[0].strip().lower()
    return media.endswith(("/json", "+json"))


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _header(name: str, value: str) -> str:
    """The value, if a header can bear it; http.client would quote a token that it refuses."""
    if not (value.isascii() and value.isprintable()):
        raise click.UsageError(f"the {name} holds a character that no header can bear")
    return value
