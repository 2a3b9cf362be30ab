"""Joins over HTTP: so many machines become nodes, over eight connections, each from an address of its own.

One address may ask 60 times a second without a session; loopback has addresses enough.
"""

import http.client
import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

from adapters.agent import machines, protocol
from tests.bench.agents import nodes
from tests.bench.plane import Plane

CONNECTIONS: Final = 8
_SEED: Final = "bench joins"
_TIMEOUT_S: Final = 30


class Joined(NamedTuple):
    """`micros` each join's latency, with what was asked again because others used the token at that moment."""

    seconds: float
    micros: list[int]
    again: int


def measure(plane: Plane, root: str, machines_: int) -> Joined:
    """Raises RuntimeError for a join that was refused for good."""
    site_id = plane.ok("POST", "/v1/sites", root, {"name": "joins", "kind": "shared", "iamRegion": "eu-north"})["id"]
    asked = {"siteId": site_id, "trust": "platform", "uses": machines_}
    token = plane.ok("POST", "/v1/join-tokens", root, asked)["token"]
    bodies = [json.dumps(_body(n)).encode() for n in range(machines_)]
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        began = time.monotonic()
        shares = [
            threads.submit(_join, plane, f"127.0.0.{n + 2}", token, bodies[n::CONNECTIONS]) for n in range(CONNECTIONS)
        ]
        done = [share.result() for share in shares]
    micros = [one for taken, _ in done for one in taken]
    return Joined(time.monotonic() - began, micros, sum(again for _, again in done))


def _body(number: int) -> dict[str, Any]:
    return {
        "name": f"joined{number:05}",
        "publicKey": protocol.public_key(nodes.key(1_000_000 + number)),
        "inventory": machines.inventory_for("H100", 8, number, seed=_SEED),
    }


def _join(plane: Plane, source: str, token: str, bodies: list[bytes]) -> tuple[list[int], int]:
    connection = http.client.HTTPConnection(plane.host, plane.port, _TIMEOUT_S, source_address=(source, 0))
    micros, asked = [], 0
    try:
        for body in bodies:
            began, status = time.monotonic(), 409
            while status == 409:
                status, asked = _ask(connection, token, body), asked + 1
            if status != 201:
                raise RuntimeError(f"a join was answered {status}")
            micros.append(round((time.monotonic() - began) * 1e6))
    finally:
        connection.close()
    return micros, asked - len(bodies)


def _ask(connection: http.client.HTTPConnection, token: str, body: bytes) -> int:
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    connection.request("POST", "/v1/nodes/join", body, headers)
    answer = connection.getresponse()
    answer.read()
    return answer.status
