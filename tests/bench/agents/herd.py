"""Many agents in a process of its own: takes orders as JSON lines, answers each with a line.

`start` brings agents up over some seconds, `tell` says what they counted since the last time, `told` how many of
some have a NodeSpec of a generation, `flood` sends heartbeats as fast as they are taken. It ends with its input.
"""

import asyncio
import json
import random
import sys
import time
import uuid
from typing import Any

import uvloop

from adapters.agent.session import AgentSession, Identity
from adapters.agent.simulated import Machine, Member
from domain.inventory import NodeInventory
from tests.bench.agents import nodes, wire
from tests.bench.agents.tally import Tally

_LINE = 16_777_216


class Herd:
    def __init__(self) -> None:
        self._tally = Tally()
        self._agents: list[wire.Agent] = []
        self._real: list[AgentSession] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def do(self, order: dict[str, Any]) -> dict[str, Any]:
        match order["do"]:
            case "start":
                return self._start(order)
            case "tell":
                return self._tell()
            case "told":
                return self._told(order)
            case "flood":
                return await self._flood(order["sessions"], order["seconds"])
            case "stop":
                return self._stop()
        raise ValueError(f"no such order: {order['do']}")

    def _start(self, order: dict[str, Any]) -> dict[str, Any]:
        """The first `real` of them are AgentSessions."""
        where, first = (order["host"], order["port"]), order["first"]
        ids: list[str] = order["nodes"]
        real = order.get("real", 0)
        for at, node_id in enumerate(ids[:real]):
            session = _session(where, first + at, node_id)
            self._real.append(session)
            self._tasks.append(asyncio.create_task(session.run()))
        loop = asyncio.get_running_loop()
        for at, node_id in enumerate(ids[real:], real):
            agent = wire.Agent(where, first + at, node_id, self._tally, order.get("bare", False))
            self._agents.append(agent)
            loop.call_later(random.random() * order["spread"], agent.start)
        return {}

    def _tell(self) -> dict[str, Any]:
        old, self._tally.beats, self._tally.micros = (self._tally.beats, self._tally.micros), 0, []
        closes = dict(self._tally.closes)
        self._tally.closes.clear()
        real = sum(session.epoch is not None for session in self._real)
        return {
            "connected": self._tally.connected + real,
            "real": real,
            "lost": self._tally.lost,
            "last": self._tally.last,
            "beats": old[0],
            "micros": old[1],
            "closes": closes,
            "cpu": time.process_time(),
        }

    def _told(self, order: dict[str, Any]) -> dict[str, Any]:
        """Of the agents with numbers in `[first, end)`; `real` ones do not say."""
        of = [a.told for a in self._agents if order["first"] <= a.number < order["end"]]
        have = [at for generation, at in of if generation >= order["generation"]]
        return {"of": len(of), "have": len(have), "last": max(have, default=0.0)}

    async def _flood(self, sessions: int, seconds: float) -> dict[str, Any]:
        chosen = [agent for agent in self._agents if agent.welcomed][:sessions]
        for agent in chosen:
            agent.flood()
        await asyncio.sleep(seconds / 4)  # until all are at it
        before, began = self._tally.flooded, time.monotonic()
        await asyncio.sleep(seconds)
        taken, took = self._tally.flooded - before, time.monotonic() - began
        for agent in chosen:
            agent.flooding = False
        return {"rate": taken / took}

    def _stop(self) -> dict[str, Any]:
        for agent in self._agents:
            agent.stop()
        for session in self._real:
            session.abort()
        self._agents, self._real = [], []
        self._tally = Tally()
        return {}


def _session(where: tuple[str, int], number: int, node_id: str) -> AgentSession:
    document = NodeInventory.convert(nodes.found(number))
    return AgentSession(
        "http://{}:{}".format(*where),
        Identity(node_id, nodes.key(number)),
        Machine(Member(name=node_id, join_token="", inventory=nodes.found(number)), 0.0),
        lambda: document,
        boot_id=str(uuid.uuid4()),
    )


async def main() -> None:
    herd = Herd()
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        try:
            answer = await herd.do(json.loads(line))
        except Exception as problem:
            answer = {"problem": f"{type(problem).__name__}: {problem}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
