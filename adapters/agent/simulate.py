"""Simulated agents: many nodes in one process, each as real to the plane as its protocol (api.md §4).

Keys and node ids are kept in one file, so that a second start brings the same nodes back.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import httpx

from adapters.agent import joining
from adapters.agent.commander import Commander
from adapters.agent.instances import Instances
from adapters.agent.joining import JoinRefused
from adapters.agent.machines import SEVEN, Model, inventory_for
from adapters.agent.session import AgentSession, Backoff
from adapters.agent.simulated import Host, Machine, Member, executors

__all__ = ["SEVEN", "Fleet", "JoinRefused", "Machine", "Member", "Model", "inventory_for"]

JOINS_AT_ONCE: Final = 4
JOINS_A_WRITE: Final = 200
"""Node ids are kept that many at a time: a crash loses none, as a node that joins again is the same."""

STOP_SECONDS: Final = 3.0


class Fleet:
    """Nodes of one process, by name. `run` joins those that have no key yet and keeps all connected.

    `audience`, when given, is the only plane they sign to; `prepare_seconds` is how long preparing takes, and
    `boot_seconds` what is done to an instance; what failed is tried again after `retry_seconds`, then later.
    """

    def __init__(
        self,
        server: str,
        members: Sequence[Member],
        state: Path,
        *,
        prepare_seconds: float = 0.2,
        boot_seconds: float = 0.2,
        retry_seconds: float = 5.0,
        audience: str | None = None,
        heartbeat_seconds: float = 10.0,
        backoff: Backoff | None = None,
    ) -> None:
        self._server = server.rstrip("/")
        self._members: Mapping[str, Member] = {member.name: member for member in members}
        if len(self._members) != len(members):
            raise ValueError("two members of a fleet have one name")
        self._keys = joining.Keyring(state)
        self._audience = audience
        self._heartbeat_seconds = heartbeat_seconds
        self._backoff = backoff
        self._retry_seconds = retry_seconds
        self._machines = {n: Machine(member, prepare_seconds, boot_seconds) for n, member in self._members.items()}
        self._reboots: set[asyncio.Task[None]] = set()
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

    def machine(self, name: str) -> Machine:
        return self._machines[name]

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
        """Join whoever has no node yet; raises JoinRefused for the first that the plane does not take."""
        self._keys.make(self._members)
        missing = [member for name, member in self._members.items() if self._keys.get(name) is None]
        gate = asyncio.Semaphore(JOINS_AT_ONCE)
        async with joining.client(self._server) as client:
            for n in range(0, len(missing), JOINS_A_WRITE):
                joined: list[tuple[str, str]] = []
                joins = [self._join(client, gate, member, joined) for member in missing[n : n + JOINS_A_WRITE]]
                tasks = [asyncio.create_task(join) for join in joins]
                try:
                    await asyncio.gather(*tasks)
                finally:
                    for task in tasks:
                        task.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)
                    self._keys.put(*joined)

    async def _join(
        self, client: httpx.AsyncClient, gate: asyncio.Semaphore, member: Member, joined: list[tuple[str, str]]
    ) -> None:
        async with gate:
            who = joining.Join(
                name=member.name,
                token=member.join_token,
                inventory=self._machines[member.name].document(),
                labels=member.labels,
            )
            joined.append((member.name, await joining.join(client, who, self._keys.key(member.name))))

    def start(self, name: str) -> None:
        """Switch a node on that is off; it has a new boot id, and holds nothing that it held before."""
        if name in self._tasks and not self._tasks[name].done():
            return
        identity = self._keys.get(name)
        if identity is None:
            raise KeyError(f"{name} has not joined")
        machine, member = self._machines[name], self._members[name]
        instances = Instances(machine.driver, self._retry_seconds)
        machine.driver.changed = instances.changed
        execute = executors(Host(machine, member, instances, lambda: session.spec, lambda: self._reboot(name)))
        session = AgentSession(
            self._server,
            identity,
            machine,
            machine.found,
            boot_id=machine.boot_id,
            commands=Commander(machine.journal, execute, machine.boot_id),
            instances=instances,
            retry_seconds=self._retry_seconds,
            audience=self._audience,
            heartbeat_seconds=self._heartbeat_seconds,
            backoff=self._backoff,
        )
        machine.changed = session.tell_inventory
        self._sessions[name] = session
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
            self._machines[name].switch_off()
        task = self._tasks.pop(name)
        _, hanging = await asyncio.wait([task], timeout=STOP_SECONDS)
        if hanging:
            task.cancel()

    def _reboot(self, name: str) -> None:
        """From within one of the node's own tasks, which end with it."""

        async def reboot() -> None:
            await self.stop(name)
            self.start(name)

        task = asyncio.create_task(reboot())
        self._reboots.add(task)
        task.add_done_callback(self._reboots.discard)

    async def close(self) -> None:
        for reboot in self._reboots:
            reboot.cancel()
        await asyncio.gather(*(self.stop(name, clean=True) for name in list(self._sessions)))
