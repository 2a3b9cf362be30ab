"""Simulated agents that run instances, in a process of its own: orders as JSON lines, answered with a line each.

What they do to an allocation or an instance takes them no time: what is measured is the plane. It ends with its input.
"""

import asyncio
import json
import sys
import time
import uuid
from typing import Any

import uvloop

from adapters.agent.instances import Instances
from adapters.agent.session import AgentSession, Identity
from adapters.agent.simulated import Machine, Member
from domain.inventory import NodeInventory
from tests.bench.agents import nodes

_LINE = 16_777_216


class Herd:
    def __init__(self) -> None:
        self._sessions: list[AgentSession] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def do(self, order: dict[str, Any]) -> dict[str, Any]:
        if order["do"] == "start":
            for at, node_id in enumerate(order["nodes"]):
                session = _session(order["server"], order["first"] + at, node_id)
                self._sessions.append(session)
                self._tasks.append(asyncio.create_task(session.run()))
                await asyncio.sleep(order["spread"] / len(order["nodes"]))
        connected = sum(session.epoch is not None for session in self._sessions)
        return {"connected": connected, "cpu": time.process_time()}


def _session(server: str, number: int, node_id: str) -> AgentSession:
    document = NodeInventory.convert(nodes.found(number))
    machine = Machine(Member(name=node_id, join_token="", inventory=nodes.found(number)), 0.0, 0.0)
    instances = Instances(machine.driver)
    machine.driver.changed = instances.changed
    return AgentSession(
        server,
        Identity(node_id, nodes.key(number)),
        machine,
        lambda: document,
        boot_id=str(uuid.uuid4()),
        instances=instances,
    )


async def main() -> None:
    herd = Herd()
    reader = asyncio.StreamReader(limit=_LINE)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        try:
            answer = await herd.do(json.loads(line))
        except Exception as problem:
            answer = {"problem": f"{type(problem).__name__}: {problem}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
