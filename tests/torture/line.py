"""A client's way to one serve, which may be gone at any moment, and another process the next."""

import http.client
from collections.abc import Mapping
from typing import Final, NamedTuple

from tests.bench.plane import Plane
from tests.torture.journal import Asked
from tests.torture.plane import Serve

REQUEST_S: Final = 10.0


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


class Unreached(Exception):
    """There was no connection: the request was not sent."""


class Lost(Exception):
    """The request was sent, or part of it, and no answer came: nobody knows what became of it."""


class Line:
    """A keep-alive connection, made anew when it broke or the serve is another process."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._to: Plane | None = None
        self._connection: http.client.HTTPConnection | None = None

    def send(self, asked: Asked, request: str) -> Answer:
        """`request` is the X-Request-Id, which the log keeps as the correlation of what it causes."""
        connection = self._connected()
        headers = {
            "authorization": f"Bearer {asked.token}",
            "content-type": "application/json",
            "x-request-id": request,
        }
        if asked.key:
            headers["idempotency-key"] = asked.key
        try:
            connection.request("POST", asked.path, asked.body, headers)
            answer = connection.getresponse()
            named = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, named, answer.read())
        except (OSError, http.client.HTTPException) as problem:
            self.close()
            raise Lost(repr(problem)) from problem

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _connected(self) -> http.client.HTTPConnection:
        plane = self._serve.plane
        if plane is None:
            raise Unreached(self._serve.name)
        if self._connection is None or self._to is not plane:
            self.close()
            made = http.client.HTTPConnection(plane.host, plane.port, timeout=REQUEST_S)
            try:
                made.connect()
            except OSError as problem:
                raise Unreached(self._serve.name) from problem
            self._connection, self._to = made, plane
        return self._connection
