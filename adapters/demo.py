"""The fleet of `serve --demo`: two sites, four pools, forty-four simulated nodes, offers to two tenants."""

import asyncio
import logging
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx

from adapters import demo_images
from adapters.agent.joining import JoinRefused, Keyring
from adapters.agent.machines import SEVEN, Model, inventory_for
from adapters.agent.simulate import Fleet, Member

log = logging.getLogger(__name__)

READY_SECONDS: Final = 60.0
STOP_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.05


class PoolPlan(NamedTuple):
    """A pool of the demo: where it is, what its machines are, how they are sold, to whom how much.

    Machines of one model bear numbers, from `first` on, that none of another pool has.
    """

    name: str
    site: str
    model: Model
    nodes: int
    gpus: int
    body: dict[str, Any]
    quotas: dict[str, dict[str, int]]
    first: int = 0


SITES: Final = {"north": "eu-north", "south": "eu-south"}
POOLS: Final = (
    PoolPlan(
        "h100",
        "north",
        "H100",
        20,
        8,
        {"gpuModel": "H100", "gpuMemoryGb": 80, "sharing": "exclusive"},
        {
            "acme": {"gpu": 64, "vcpu": 4096, "memoryMiB": 8_388_608, "nic.vf": 64, "disk": 64},
            "globex": {"gpu": 32, "vcpu": 2048, "memoryMiB": 4_194_304},
        },
    ),
    PoolPlan(
        "a100-mig",
        "north",
        "A100",
        8,
        8,
        {
            "gpuModel": "A100",
            "gpuMemoryGb": 80,
            "sharing": "mig",
            "policy": {"migLayout": [{"profile": piece.profile, "start": piece.start} for piece in SEVEN]},
        },
        {"acme": {"gpu.mig": 112}, "globex": {"gpu.mig": 56}},
    ),
    PoolPlan(
        "l4-shared",
        "south",
        "L4",
        12,
        4,
        {"gpuModel": "L4", "gpuMemoryGb": 24, "sharing": "timeslice", "policy": {"sharing": {"replicas": 4}}},
        {"globex": {"gpu.slot": 96}, "acme": {"gpu.slot": 32}},
    ),
    PoolPlan(
        "vps",
        "south",
        "L4",
        4,
        2,
        {"class": "vps-host", "gpuModel": "L4", "gpuMemoryGb": 24, "sharing": "exclusive"},
        {
            "acme": {"gpu": 4, "vcpu": 128, "memoryMiB": 524_288},
            "globex": {"gpu": 4, "vcpu": 128, "memoryMiB": 524_288},
        },
        first=100,
    ),
)


class DemoError(Exception):
    """The plane refused what the demo asked for; the text says what."""


class Demo:
    """Sets the fleet up through the API, as an operator would, and keeps its agents running in a thread."""

    def __init__(self, url: str, root_token: str, state: Path) -> None:
        self._url = url
        self._state = state
        self._client = httpx.Client(
            base_url=url, headers={"authorization": f"Bearer {root_token}"}, timeout=30, trust_env=False
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="demo-agents", daemon=True)
        self._fleet: Fleet | None = None
        self._running: Future[None] | None = None

    def start(self) -> None:
        """Return when every node of the fleet can be booked."""
        sites = self._sites()
        pools = self._pools(sites)
        demo_images.flavors(self._ok)
        demo_images.image(self._ok)
        members = self._members(sites, pools)
        self._fleet = fleet = Fleet(self._url, members, self._state)
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(fleet.join(), self._loop).result()
        except JoinRefused as refused:
            raise DemoError(str(refused)) from refused
        self._adopt(fleet.node_ids.values())
        self._running = asyncio.run_coroutine_threadsafe(fleet.run(), self._loop)
        self._until_schedulable(sum(plan.nodes for plan in POOLS))

    def stop(self) -> None:
        """End the agents; the plane is down already, or goes down with them."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._wind_up(), self._loop).result(STOP_SECONDS)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._client.close()

    async def _wind_up(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ok(self, verb: str, path: str, body: Any = None) -> Any:
        sent: Any = {"content": body} if isinstance(body, bytes) else {"json": body}
        answer = self._client.request(verb, path, **sent)
        if answer.is_error:
            raise DemoError(f"the demo's {verb} {path} was refused: {answer.text}")
        return answer.json()

    def _sites(self) -> dict[str, str]:
        known = {site["name"]: site["id"] for site in self._ok("GET", "/v1/sites")["items"]}
        for name, region in SITES.items():
            if name not in known:
                body = {"name": name, "kind": "shared", "iamRegion": region}
                known[name] = self._ok("POST", "/v1/sites", body)["id"]
        return known

    def _pools(self, sites: dict[str, str]) -> dict[str, str]:
        known = {pool["name"]: pool["id"] for pool in self._ok("GET", "/v1/pools")["items"]}
        for plan in POOLS:
            if plan.name not in known:
                body = {"name": plan.name, "siteId": sites[plan.site], "class": "metal-host"} | plan.body
                pool_id = known[plan.name] = self._ok("POST", "/v1/pools", body)["id"]
                for tenant, quota in plan.quotas.items():
                    self._ok("PUT", f"/v1/pools/{pool_id}/offers/{tenant}", {"quota": quota})
        return known

    def _members(self, sites: dict[str, str], pools: dict[str, str]) -> list[Member]:
        """The same machines at every start; a join token is asked for only where a node is missing."""
        keys = Keyring(self._state)
        members: list[Member] = []
        for plan in POOLS:
            names = [f"{plan.name}-{n:02}" for n in range(plan.nodes)]
            missing = sum(keys.get(name) is None for name in names)
            token = self._token(sites[plan.site], missing, poolId=pools[plan.name])
            layout = SEVEN if plan.body["sharing"] == "mig" else ()
            for n, name in enumerate(names):
                found = inventory_for(plan.model, plan.gpus, plan.first + n, mig_layout=layout)
                labels = {"rack": f"{plan.site}-{n // 4}"}
                members.append(Member(name=name, join_token=token, inventory=found, labels=labels))
        for n, name in enumerate(sites):
            agent = f"{name}-site-agent"
            token = self._token(sites[name], int(keys.get(agent) is None), role="site")
            members.append(Member(name=agent, join_token=token, inventory=inventory_for("L4", 1, 1000 + n)))
        return members

    def _token(self, site_id: str, uses: int, **more: str) -> str:
        if uses == 0:
            return ""
        body = {"siteId": site_id, "trust": "platform", "uses": uses, **more}
        return str(self._ok("POST", "/v1/join-tokens", body)["token"])

    def _adopt(self, node_ids: Iterable[str]) -> None:
        for node_id in node_ids:
            if self._ok("GET", f"/v1/nodes/{node_id}")["provisionState"] == "adopting":
                self._ok("POST", f"/v1/nodes/{node_id}/adopt", {})

    def _until_schedulable(self, wanted: int) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while len(self._ok("GET", "/v1/nodes?limit=1000&schedulable=true")["items"]) < wanted:
            if time.monotonic() > deadline:
                log.warning("not every demo node is schedulable after %d s", READY_SECONDS)
                return
            time.sleep(_POLL_SECONDS)
