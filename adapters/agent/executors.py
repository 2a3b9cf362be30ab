"""What a real node does with each command (node_command.TYPES)."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from adapters.agent import acceptance, diagnostics, images, nvidia, partition, program
from adapters.agent.commander import Execute, Failure
from adapters.agent.driver import Failed
from adapters.agent.holds import Holds
from adapters.agent.instances import Instances
from adapters.agent.protocol import Spec
from adapters.agent.session import VERSION
from adapters.agent.watch import Watch
from adapters.inventory.fragment import InventoryError
from domain import inventory, node_command


class Host(Struct, frozen=True, kw_only=True):
    """The machine that commands act on.

    `tell` sends the newest inventory, `spec` is the newest that came. `upgraded` is called once another version of
    the agent is installed; without an `upgrade` command there is no way to.
    """

    state: Path
    root: Path
    holds: Holds
    watch: Watch
    instances: Instances
    reboot: tuple[str, ...]
    upgrade: tuple[str, ...] | None
    spec: Callable[[], Spec | None]
    tell: Callable[[], Awaitable[None]]
    upgraded: Callable[[], None]
    run: program.Run = program.run


def executors(host: Host) -> Mapping[node_command.Name, Execute]:
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
        "instance-reboot": bound(_reboot_instance),
    }


async def _look(host: Host) -> None:
    try:
        await host.watch.look()
    except InventoryError as wrong:
        raise Failure("NotRead", detail=str(wrong)) from None


async def _reboot(host: Host, params: node_command.Params) -> dict[str, Any]:
    done = await host.run(host.reboot)
    if done.code != 0:
        raise Failure("NotRebooted", detail=done.why())
    return {}


async def _inspect(host: Host, params: node_command.Params) -> dict[str, Any]:
    await _look(host)
    await host.tell()
    return {"hash": inventory.document_hash(host.watch.found)}


async def _accept(host: Host, params: node_command.Acceptance) -> dict[str, Any]:
    await _look(host)
    return await acceptance.accept(params.checks, acceptance.Machine(host.watch.found, host.root, host.run))


async def _diagnose(host: Host, params: node_command.Params) -> dict[str, Any]:
    return await diagnostics.collect(host.root, host.holds.held(), host.run)


async def _reset(host: Host, params: node_command.GpuReset) -> dict[str, Any]:
    async with host.holds.gpus:
        try:
            card = (await nvidia.look(host.run)).gpu(params.gpu_uuid)
        except nvidia.DriverError as problem:
            raise Failure("NotReset", detail=str(problem)) from None
        if card is None:
            raise Failure("NoSuchGpu", gpuUuid=params.gpu_uuid)
        names = [card.uuid, *(one.uuid for one in card.mig_instances if one.uuid)]
        if held := [name for name in names if host.holds.uses(name)]:
            raise Failure("Held", devices=held)
        done = await host.run(("nvidia-smi", "--gpu-reset", "-i", card.uuid))
        if done.code != 0:
            raise Failure("NotReset", detail=done.why())
    await _look(host)
    await host.tell()
    return {"gpuUuid": card.uuid}


async def _partition(host: Host, params: node_command.Params) -> dict[str, Any]:
    """Where the spec wants no slices, GPUs become whole again: only this command does that."""
    spec = host.spec()
    if spec is None:
        raise Failure("NoSpec")
    try:
        await (host.holds.shape(spec.sharing) if spec.sharing.mode == "mig" else host.holds.whole())
    except (partition.NotPartitioned, nvidia.DriverError) as problem:
        raise Failure("NotPartitioned", detail=str(problem)[:2_000]) from None
    await _look(host)
    await host.tell()
    cards = host.watch.found.gpus
    return {"gpus": [{"uuid": card.uuid, "slices": len(card.mig_instances)} for card in cards]}


async def _prefetch(host: Host, params: node_command.PrefetchImage) -> dict[str, Any]:
    return await images.prefetch(params, host.state / "images")


async def _upgrade(host: Host, params: node_command.AgentUpgrade) -> dict[str, Any]:
    """An installer that starts the agent anew by itself ends this command; the next agent finds itself upgraded."""
    if params.version == VERSION:
        return {"version": VERSION}
    if host.upgrade is None:
        raise Failure("NotConfigured", detail="the agent was started without --upgrade-command")
    done = await host.run((*host.upgrade, params.version))
    if done.code != 0:
        raise Failure("NotUpgraded", detail=done.why())
    host.upgraded()
    return {"version": params.version}


async def _reboot_instance(host: Host, params: node_command.InstanceReboot) -> dict[str, Any]:
    return await reboot_instance(host.instances, params)


async def reboot_instance(instances: Instances, params: node_command.InstanceReboot) -> dict[str, Any]:
    """The keeper's lock is between this and whatever else is done to the instance."""
    try:
        await instances.reboot(params.instance_id)
    except Failed as failed:
        raise Failure(failed.reason, detail=failed.detail) from None
    return {"instanceId": params.instance_id}
