"""How a machine becomes a node and stays the same one (api.md §4).

A key is written before its node joins: a process killed between the join and the answer joins again with the same
key and gets the same node. For the same reason a join without an answer may simply be asked again.
"""

import asyncio
import base64
import ipaddress
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Struct

from adapters.agent import durable, protocol
from adapters.agent.session import Identity

_log = logging.getLogger("better_compute.agent")

ATTEMPTS: Final = 8
ANSWER_SECONDS: Final = 30.0
LONGEST_PAUSE: Final = 30.0
CONFLICTS: Final = 5
"""How often a conflict is taken for a race: many who join at once with one token all change that token."""


class JoinRefused(Exception):
    """A node could not join; the text names it and says why."""


class Join(Struct, frozen=True, kw_only=True):
    """What a machine says of itself when it joins; `inventory` is a NodeInventory/v1 document, or its JSON."""

    name: str | None
    token: str
    inventory: Any
    labels: dict[str, str] = {}
    address: str | None = None


class _Kept(Struct, frozen=True, rename="camel"):
    node_id: str | None
    private_key: str


class Keyring:
    """Node ids and keys by node name, in a file that only its owner can read; written whole or not at all."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: dict[str, _Kept] = {}
        if path.exists():
            self._kept = msgspec.json.decode(path.read_bytes(), type=dict[str, _Kept])

    def get(self, name: str) -> Identity | None:
        """Who joined under this name; None while nobody did."""
        kept = self._kept.get(name)
        if kept is None or kept.node_id is None:
            return None
        return Identity(kept.node_id, self.key(name))

    def key(self, name: str) -> Ed25519PrivateKey:
        """The node's key, made and kept before it first joins: joining again with it makes no second node."""
        self.make((name,))
        return Ed25519PrivateKey.from_private_bytes(base64.b64decode(self._kept[name].private_key))

    def make(self, names: Iterable[str]) -> None:
        """Keys for all who have none, kept with one write."""
        missing = [name for name in names if name not in self._kept]
        for name in missing:
            secret = base64.b64encode(Ed25519PrivateKey.generate().private_bytes_raw()).decode()
            self._kept[name] = _Kept(None, secret)
        if missing:
            self._write()

    def put(self, *joined: tuple[str, str]) -> None:
        """Keep the node ids of these names, with one write."""
        for name, node_id in joined:
            self._kept[name] = _Kept(node_id, self._kept[name].private_key)
        if joined:
            self._write()

    def _write(self) -> None:
        durable.write(self._path, msgspec.json.format(msgspec.json.encode(self._kept), indent=2))


def client(server: str) -> httpx.AsyncClient:
    """For joins; the environment's proxy serves every server but one on this machine."""
    return httpx.AsyncClient(base_url=server, timeout=ANSWER_SECONDS, trust_env=not _is_loopback(server))


async def join(to: httpx.AsyncClient, who: Join, key: Ed25519PrivateKey, attempts: int | None = ATTEMPTS) -> str:
    """The id of the node that it is from now on; raises JoinRefused when the plane does not take it.

    A plane that cannot be reached or is busy is asked again, `attempts` times in all; None is for ever.
    """
    name = who.name or "this machine"
    failures = conflicts = 0
    while True:
        try:
            answer = await to.post("/v1/nodes/join", content=_body(who, key), headers=_headers(who))
        except httpx.HTTPError as failure:
            why = f"cannot reach the server: {failure or type(failure).__name__}"
        else:
            if answer.status_code == 201:
                return str(answer.json()["id"])
            why = _problem(answer)
            conflicts += answer.status_code == 409
            if answer.status_code not in (409, 429, 502, 503, 504) or conflicts > CONFLICTS:
                raise JoinRefused(f"{name} could not join: {why}")
        failures += 1
        if attempts is not None and failures >= attempts:
            raise JoinRefused(f"{name} could not join: {why}")
        _log.warning("could not join yet", extra={"fields": {"name": name, "why": why}})
        longest = LONGEST_PAUSE if attempts is None else 5.0
        await asyncio.sleep(min(longest, 0.25 * 2 ** min(failures, 16)))


def _body(who: Join, key: Ed25519PrivateKey) -> bytes:
    body = {
        "name": who.name,
        "publicKey": protocol.public_key(key),
        "inventory": who.inventory,
        "labels": who.labels,
        "address": who.address,
    }
    return msgspec.json.encode({name: value for name, value in body.items() if value is not None})


def _headers(who: Join) -> dict[str, str]:
    return {"Authorization": f"Bearer {who.token}", "Content-Type": "application/json"}


def _problem(answer: httpx.Response) -> str:
    try:
        document = answer.json()
        return str(document.get("detail") or document.get("title"))
    except (ValueError, AttributeError):
        return f"HTTP {answer.status_code}"


def _is_loopback(server: str) -> bool:
    host = urlsplit(server).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def state_directory(path: Path) -> Path:
    """The agent's own directory, made where it is missing; nobody else may look into it."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.stat().st_mode & 0o077:
        os.chmod(path, 0o700)
    return path
