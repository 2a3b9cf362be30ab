"""One connection pool to Better IAM; every call is bounded in time and size, and few are made twice (iam.md §11).

Again, and only these: 503 STORAGE_BUSY, one 500, a 429 that asks for a short wait. In all three the server says
that it did nothing. A call without an answer is never made again: an `authorize` may have used up a confirmation.
"""

import ipaddress
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import httpx
import msgspec

from adapters.iam.better import answers
from adapters.iam.better.answers import Failed, Unknown
from adapters.telemetry import CLIENT_ADDRESS, REQUEST_ID
from domain import errors

log = logging.getLogger(__name__)
T = TypeVar("T")

CONNECT_S: Final = 2.0
READ_S: Final = 5.0
TOTAL_S: Final = 10.0
"""For a call with all its repetitions; a caller waits for it, and holds a thread."""

MAX_ANSWER: Final = 1 << 20
MAX_REQUEST: Final = 64 * 1024
MAX_WAIT_S: Final = 2.0
BUSY_TRIES: Final = 4
BUSY_WAIT_S: Final = 0.05
IDLE_S: Final = 4.0
"""Node closes what is idle for 5 s: a connection that it is about to close is not to carry an `authorize`."""

CONNECTIONS: Final = 32

_PLAIN: Final = {"accept-encoding": "identity"}
"""A compressed answer is none: a little of it may be a lot."""


class Client:
    """Calls as whoever's bearer is given, or as nobody. `base_url` has the base path: `https://iam.example/api/iam`.

    `address_header` tells the host where the request came from that a call is made for. It is made here for each call:
    nothing that a client sent is ever passed on (iam.md §11).
    """

    def __init__(
        self,
        base_url: str,
        *,
        address_header: str | None = None,
        total_s: float = TOTAL_S,
        wait: Callable[[float], Any] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self._address_header = address_header
        self._total_s = total_s
        self._wait = wait or threading.Event().wait
        self._monotonic = monotonic
        self._http = httpx.Client(
            timeout=httpx.Timeout(min(READ_S, total_s), connect=min(CONNECT_S, total_s)),
            limits=httpx.Limits(
                max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS, keepalive_expiry=IDLE_S
            ),
            follow_redirects=False,
            trust_env=False,
        )

    def close(self) -> None:
        self._http.close()

    def call(self, method: str, body: Any, shape: type[T], bearer: str | None = None) -> T:
        """`group/method` with a JSON object; raises Failed for its no, Unknown where there is no telling."""
        content = msgspec.json.encode(body)
        if len(content) > MAX_REQUEST:
            raise ValueError(f"{method}: Better IAM takes bodies of {MAX_REQUEST} bytes, this has {len(content)}")
        headers = {"content-type": "application/json", "x-better-iam": "1", "accept": "application/json", **_PLAIN}
        if bearer is not None:
            headers["authorization"] = f"Bearer {bearer}"
        if (request_id := REQUEST_ID.get()) is not None:
            headers["x-request-id"] = request_id
        if self._address_header is not None and (address := _address(CLIENT_ADDRESS.get())) is not None:
            headers[self._address_header] = address
        return answers.data(self._repeated(method, content, headers), shape)

    def get(self, path: str) -> tuple[bytes, str]:
        """A public document and its media type."""
        try:
            status, body, headers = self._once("GET", path, None, _PLAIN, self._monotonic() + self._total_s)
        except httpx.HTTPError as fault:
            raise _unknown(path, fault) from None
        if status != 200:
            raise Failed(status, "")
        return body, headers.get("content-type", "")

    def _repeated(self, method: str, content: bytes, headers: dict[str, str]) -> bytes:
        deadline = self._monotonic() + self._total_s
        tries: dict[int, int] = {}
        while True:
            try:
                status, body, answered = self._once("POST", method, content, headers, deadline)
            except httpx.HTTPError as fault:
                raise _unknown(method, fault) from None
            if status == 200:
                return body
            failed = answers.failure(status, body, answered.get("retry-after"))
            tries[status] = tries.get(status, 0) + 1
            wait = _again_after(failed, tries[status])
            if wait is None or self._monotonic() + wait >= deadline:
                raise _final(method, failed)
            log.info("%s: %s, again in %.2f s", method, failed, wait)
            self._wait(wait)

    def _once(
        self, verb: str, path: str, content: bytes | None, headers: dict[str, str], deadline: float
    ) -> tuple[int, bytes, httpx.Headers]:
        """One request; an answer that is too long or takes too long is cut off."""
        with self._http.stream(verb, f"{self.base_url}/{path}", content=content, headers=headers) as answer:
            chunks: list[bytes] = []
            size = 0
            for chunk in answer.iter_raw():
                size += len(chunk)
                if size > MAX_ANSWER:
                    raise httpx.DecodingError(f"the answer is longer than {MAX_ANSWER} bytes")
                if self._monotonic() > deadline:
                    raise httpx.ReadTimeout("the answer takes too long")
                chunks.append(chunk)
            return answer.status_code, b"".join(chunks), answer.headers


def _address(said: str | None) -> str | None:
    """An IP address, or nothing: what a proxy tells may be any text."""
    try:
        return str(ipaddress.ip_address(said.partition("%")[0])) if said else None
    except ValueError:
        return None


def _again_after(failed: Failed, tries: int) -> float | None:
    """Seconds until a repetition makes sense; None where it does not (iam.md §11, client policy)."""
    if failed.status == 503 and failed.code == "STORAGE_BUSY" and tries < BUSY_TRIES:
        return float(BUSY_WAIT_S * 2 ** (tries - 1))
    if failed.status == 500 and tries < 2:
        return BUSY_WAIT_S
    if failed.status == 429 and tries < 3 and failed.retry_after is not None and failed.retry_after <= MAX_WAIT_S:
        return failed.retry_after
    return None


def _final(method: str, failed: Failed) -> Exception:
    """A fault of the other side is our caller's 503; a no is for whoever asked."""
    if failed.status == 401:
        return errors.Unauthenticated("Better IAM does not take this token: it is unknown, expired or revoked")
    if failed.status == 429:
        wait = answers.whole_seconds(failed.retry_after)
        return errors.Unavailable("Better IAM asks to come back later", extra={"retryAfterSeconds": wait})
    if failed.code and 400 <= failed.status < 500:
        return failed
    log.warning("%s: Better IAM answered %s", method, failed)
    return Unknown(f"it answered {failed.status}")


def _unknown(method: str, fault: httpx.HTTPError) -> Unknown:
    log.warning("%s: no answer from Better IAM: %s", method, type(fault).__name__)
    return Unknown("it does not answer")
