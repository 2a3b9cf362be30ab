"""One machine that does not exist: what it holds, how its GPUs are cut up, and what commands do to it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, get_args
from uuid import uuid4

from msgspec import Struct

from adapters.agent import machines
from adapters.agent.commander import Execute, Failure
from adapters.agent.executors import reboot_instance
from adapters.agent.instances import Instances
from adapters.agent.journal import Journal, Memory
from adapters.agent.protocol import Spec
from adapters.agent.simulated_driver import SimulatedDriver
from domain import inventory, mig, node_command
from domain.inventory import NodeInventory
from domain.node_spec import Allocation, Sharing, Slice


class Member(Struct, frozen=True, kw_only=True):
    """A node to simulate; `inventory` is a NodeInventory/v1 document, or makes one when it is asked for.

    `failing` are the checks of acceptance that it does not pass.
    """

    name: str
    join_token: str
    inventory: dict[str, Any] | Callable[[], dict[str, Any]]
    labels: dict[str, str] = {}
    failing: tuple[node_command.Check, ...] = ()


class Held(Exception):
    """GPUs are not cut up under somebody who uses them."""


class Machine:
    """A member switched on. It is its own Runtime: it holds allocations in memory, `seconds` after it was asked to.

    `changed` is awaited when its inventory is another. `driver` has its instances.
    """

    def __init__(self, member: Member, seconds: float = 0.2, boot_seconds: float = 0.2) -> None:
        self._member = member
        self._seconds = seconds
        self._layout: tuple[Slice, ...] | None = None
        self._held: dict[str, Allocation] = {}
        self.driver = SimulatedDriver(boot_seconds)
        self.journal = Journal(Memory())
        self.boot_id = str(uuid4())
        self.changed: Callable[[], Awaitable[None]] | None = None

    def document(self) -> dict[str, Any]:
        made = self._member.inventory
        document = made() if callable(made) else made
        return document if self._layout is None else machines.partitioned(document, self._layout)

    def found(self) -> NodeInventory:
        return NodeInventory.convert(self.document())

    def switch_off(self) -> None:
        """It forgets what it held; its journal is on a disk, as its instances are, and as its partitions might be."""
        self._held = {}
        self.driver.switch_off()
        self.boot_id = str(uuid4())

    def held(self) -> Sequence[Allocation]:
        return tuple(self._held.values())

    async def prepare(self, allocation: Allocation) -> None:
        await asyncio.sleep(self._seconds)
        self._held[allocation.id] = allocation

    async def tear_down(self, allocation_id: str) -> None:
        self._held.pop(allocation_id, None)

    async def shape(self, sharing: Sharing) -> None:
        """Raises mig.IllegalLayout for a layout that its GPUs cannot hold, Held while something is."""
        if sharing.mode == "mig" and not self._stands(sharing.layout):
            if self._held:
                raise Held(f"{', '.join(sorted(self._held))} is held")
            machines.partitioned(self.document(), sharing.layout)
            self._layout = sharing.layout
            if self.changed is not None:
                await self.changed()

    def _stands(self, layout: Sequence[Slice]) -> bool:
        wanted = sorted((piece.profile, piece.start) for piece in layout)
        cards = self.document()["gpus"]
        return all(sorted((m["profile"], m["start"]) for m in card.get("migInstances", ())) == wanted for card in cards)


class Host(Struct, frozen=True):
    """What commands act on. `spec` is the newest that came; `reboot` cuts the node off and brings it back."""

    machine: Machine
    member: Member
    instances: Instances
    spec: Callable[[], Spec | None]
    reboot: Callable[[], None]


def executors(host: Host) -> Mapping[node_command.Name, Execute]:
    """What a simulated node does with each command."""

    def bound(act: Callable[[Host, Any], Awaitable[dict[str, Any]]]) -> Execute:
        return lambda params: act(host, params)

    return {
        "reboot": bound(_reboot),
        "inspect": bound(_inspect),
        "run-acceptance": bound(_accept),
        "collect-diagnostics": bound(_diagnose),
        "gpu-reset": bound(_reset),
        "apply-mig-layout": bound(_partition),
        "prefetch-image": bound(_prefetch),
        "agent-upgrade": bound(_upgrade),
        "instance-reboot": lambda params: reboot_instance(host.instances, params),
    }


async def _reboot(host: Host, params: node_command.Params) -> dict[str, Any]:
    host.reboot()
    return {}


async def _inspect(host: Host, params: node_command.Params) -> dict[str, Any]:
    if host.machine.changed is not None:
        await host.machine.changed()
    return {"hash": inventory.document_hash(host.machine.found())}


async def _accept(host: Host, params: node_command.Acceptance) -> dict[str, Any]:
    names = params.checks or get_args(node_command.Check)
    failed = [name for name in names if name in host.member.failing]
    checks = [{"name": name, "ok": name not in failed, "detail": "simulated"} for name in names]
    if failed:
        raise Failure(f"ChecksFailed: {', '.join(failed)}", checks=checks)
    return {"checks": checks}


async def _diagnose(host: Host, params: node_command.Params) -> dict[str, Any]:
    held = [allocation.id for allocation in host.machine.held()]
    return {"simulated": True, "bootId": host.machine.boot_id, "held": held}


async def _reset(host: Host, params: node_command.GpuReset) -> dict[str, Any]:
    if params.gpu_uuid not in [card["uuid"] for card in host.machine.document()["gpus"]]:
        raise Failure("NoSuchGpu", gpuUuid=params.gpu_uuid)
    return {"gpuUuid": params.gpu_uuid}


async def _partition(host: Host, params: node_command.Params) -> dict[str, Any]:
    spec = host.spec()
    if spec is None:
        raise Failure("NoSpec")
    try:
        await host.machine.shape(spec.sharing)
    except (mig.IllegalLayout, Held) as problem:
        raise Failure("NotPartitioned", detail=str(problem)) from None
    cards = host.machine.document()["gpus"]
    return {"gpus": [{"uuid": card["uuid"], "slices": len(card.get("migInstances", ()))} for card in cards]}


async def _prefetch(host: Host, params: node_command.PrefetchImage) -> dict[str, Any]:
    return {"sha256": params.sha256, "sizeBytes": params.size_bytes or 0}


async def _upgrade(host: Host, params: node_command.AgentUpgrade) -> dict[str, Any]:
    return {"version": params.version}
