"""Simulated agents: many nodes in one process, each as real to the plane as its protocol (api.md §4).

Keys and node ids are kept in one file, so that a second start brings the same nodes back. A key is written before
its node joins: a process killed between the join and the answer joins again with the same key and gets the same node.
"""

import asyncio
import base64
import contextlib
import ipaddress
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Struct

from adapters.agent import protocol
from adapters.agent.machines import SEVEN, Model, inventory_for
from adapters.agent.session import AgentSession, Backoff, Identity
from domain.inventory import NodeInventory
from domain.node_spec import Allocation

__all__ = ["SEVEN", "Fleet", "JoinRefused", "Member", "MemoryRuntime", "Model", "inventory_for"]

_log = logging.getLogger("better_compute.agent")

JOINS_AT_ONCE: Final = 4
JOIN_ATTEMPTS: Final = 8
JOIN_SECONDS: Final = 30.0
STOP_SECONDS: Final = 3.0


class Member(Struct, frozen=True, kw_only=True):
    """A node to simulate; `inventory` is a NodeInventory/v1 document, see `inventory_for`."""

    name: str
    join_token: str
    inventory: dict[str, Any]
    labels: dict[str, str] = {}


class JoinRefused(Exception):
    """A node could not join; the text names it and says why."""


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
        kept = self._kept.get(name)
        if kept is None or kept.node_id is None:
            return None
        return Identity(kept.node_id, self.key(name))

    def key(self, name: str) -> Ed25519PrivateKey:
        """The node's key, made and kept before it first joins: joining again with it makes no second node."""
        kept = self._kept.get(name)
        if kept is not None:
            return Ed25519PrivateKey.from_private_bytes(base64.b64decode(kept.private_key))
        key = Ed25519PrivateKey.generate()
        self._keep(name, None, key)
        return key

    def put(self, name: str, identity: Identity) -> None:
        self._keep(name, identity.node_id, identity.key)

    def _keep(self, name: str, node_id: str | None, key: Ed25519PrivateKey) -> None:
        secret = base64.b64encode(key.private_bytes_raw()).decode()
        self._kept[name] = _Kept(node_id, secret)
        fresh = self._path.with_name(f"{self._path.name}.{os.getpid()}.new")
        with contextlib.suppress(FileNotFoundError):
            fresh.unlink()
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(self._kept), indent=2))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)


class MemoryRuntime:
    """Holds allocations in memory, a while after it was asked to."""

    def __init__(self, seconds: float = 0.2) -> None:
        self._seconds = seconds
        self._held: dict[str, Allocation] = {}

    def held(self) -> Sequence[Allocation]:
        return tuple(self._held.values())

    async def prepare(self, allocation: Allocation) -> None:
        await asyncio.sleep(self._seconds)
        self._held[allocation.id] = allocation

    async def tear_down(self, allocation_id: str) -> None:
        self._held.pop(allocation_id, None)


class Fleet:
    """Nodes of one process, by name. `run` joins those that have no key yet and keeps all connected.

    `audience`, when given, is the only plane they sign to; `prepare_seconds` is how long preparing takes.
    """

    def __init__(
        self,
        server: str,
        members: Sequence[Member],
        state: Path,
        *,
        prepare_seconds: float = 0.2,
        audience: str | None = None,
        heartbeat_seconds: float = 10.0,
        backoff: Backoff | None = None,
    ) -> None:
        self._server = server.rstrip("/")
        self._members: Mapping[str, Member] = {member.name: member for member in members}
        if len(self._members) != len(members):
            raise ValueError("two members of a fleet have one name")
        self._keys = Keyring(state)
        self._audience = audience
        self._heartbeat_seconds = heartbeat_seconds
        self._backoff = backoff
        self._prepare_seconds = prepare_seconds
        self._runtimes = {name: MemoryRuntime(prepare_seconds) for name in self._members}
        self._sessions: dict[str, AgentSession] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @property
    def node_ids(self) -> dict[str, str]:
        """Node id by name, of those that have joined."""
        known = {name: self._keys.get(name) for name in self._members}
        return {name: identity.node_id for name, identity in known.items() if identity}

    @property
    def connected(self) -> list[str]:
        return [name for name, session in self._sessions.items() if session.epoch is not None]

    def runtime(self, name: str) -> MemoryRuntime:
        return self._runtimes[name]

    async def run(self) -> None:
        """Until cancelled; then all nodes leave the plane as on a clean shutdown."""
        try:
            await self.join()
            for name in self._members:
                self.start(name)
            while True:
                # Only a timer keeps this task from the garbage collector: the loop holds tasks weakly.
                await asyncio.sleep(3_600)
        finally:
            await self.close()

    async def join(self) -> None:
        """Join whoever has no key yet; raises JoinRefused for the first that the plane does not take."""
        gate = asyncio.Semaphore(JOINS_AT_ONCE)

        async def one(client: httpx.AsyncClient, member: Member) -> None:
            async with gate:
                self._keys.put(member.name, await _join(client, member, self._keys.key(member.name)))

        trust = not _is_loopback(self._server)
        async with httpx.AsyncClient(base_url=self._server, timeout=JOIN_SECONDS, trust_env=trust) as client:
            missing = [member for name, member in self._members.items() if self._keys.get(name) is None]
            joins = [asyncio.create_task(one(client, member)) for member in missing]
            try:
                await asyncio.gather(*joins)
            finally:
                for join in joins:
                    join.cancel()
                await asyncio.gather(*joins, return_exceptions=True)

    def start(self, name: str) -> None:
        """Switch a node on that is off; it has a new boot id, and holds nothing that it held before."""
        if name in self._tasks and not self._tasks[name].done():
            return
        identity = self._keys.get(name)
        if identity is None:
            raise KeyError(f"{name} has not joined")
        found = NodeInventory.convert(self._members[name].inventory)
        self._sessions[name] = AgentSession(
            self._server,
            identity,
            self._runtimes[name],
            lambda: found,
            boot_id=str(uuid4()),
            audience=self._audience,
            heartbeat_seconds=self._heartbeat_seconds,
            backoff=self._backoff,
        )
        self._tasks[name] = asyncio.create_task(self._sessions[name].run())

    async def stop(self, name: str, *, clean: bool = False) -> None:
        """Kill a node: nothing is said, its lease has to run out. With `clean` it takes its leave."""
        session = self._sessions.pop(name, None)
        if session is None:
            return
        if clean:
            session.stop()
        else:
            session.abort()
            self._runtimes[name] = MemoryRuntime(self._prepare_seconds)
        task = self._tasks.pop(name)
        _, hanging = await asyncio.wait([task], timeout=STOP_SECONDS)
        if hanging:
            task.cancel()

    async def close(self) -> None:
        await asyncio.gather(*(self.stop(name, clean=True) for name in list(self._sessions)))


async def _join(client: httpx.AsyncClient, member: Member, key: Ed25519PrivateKey) -> Identity:
    """Only what surely did not join is asked again: no connection, or an answer that says `later`."""
    body = {
        "name": member.name,
        "publicKey": protocol.public_key(key),
        "inventory": member.inventory,
        "labels": member.labels,
    }
    headers = {"Authorization": f"Bearer {member.join_token}"}
    why = ""
    for attempt in range(JOIN_ATTEMPTS):
        if attempt:
            await asyncio.sleep(min(5.0, 0.25 * 2**attempt))
        try:
            answer = await client.post("/v1/nodes/join", json=body, headers=headers)
        except httpx.ConnectError as failure:
            why = f"cannot reach the server: {failure}"
            continue
        except httpx.HTTPError as failure:
            raise JoinRefused(f"{member.name}: no answer to its join: {type(failure).__name__}") from None
        if answer.status_code == 201:
            return Identity(str(answer.json()["id"]), key)
        why = _problem(answer)
        if answer.status_code not in (429, 503):
            break
    raise JoinRefused(f"{member.name} could not join: {why}")


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
