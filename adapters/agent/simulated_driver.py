"""Instances that do not exist: what a driver does with them takes time, and fails where it is told to."""

import asyncio
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final, Literal

from msgspec import Struct

from adapters.agent.driver import Changed, Console, Failed, Held, Wanted
from domain import inventory
from domain.node_spec import Instance, InstanceStatus, Observed

Act = Literal["bring", "take away", "reboot"]
_TAIL: Final = 4_096


class Fault(Struct):
    """What an act fails with: `times` times, or until it is healed; of one instance, or of all."""

    reason: str
    detail: str
    act: Act
    times: int | None
    instance_id: str | None


class _Pretended(Struct):
    """An instance as this driver has it; `written` counts all that its console ever had."""

    instance: Instance
    state: Observed = "provisioning"
    reason: str | None = None
    console: str = ""
    written: int = 0


class SimulatedDriver:
    """A driver of any kind of instance. `seconds` is how long a boot, a shutdown or a deletion takes.

    What it has outlives its machine's power, as disks do; only what runs does not.
    """

    def __init__(self, seconds: float = 0.2) -> None:
        self._seconds = seconds
        self._held: dict[str, _Pretended] = {}
        self._faults: list[Fault] = []
        self.changed: Changed | None = None

    def fail(
        self,
        reason: str,
        detail: str = "",
        *,
        act: Act = "bring",
        times: int | None = None,
        instance_id: str | None = None,
    ) -> None:
        """From now on `act` raises Failed: `ImageCorrupt`, `NoSpace`, or whatever a driver may say."""
        self._faults.append(Fault(reason, detail, act, times, instance_id))

    def heal(self) -> None:
        """Nothing fails any more."""
        self._faults.clear()

    async def crash(self, instance_id: str, reason: str = "Crashed") -> None:
        """It ends by itself, and not well."""
        await self._be(self._held[instance_id], "failed", reason)

    async def power_off(self, instance_id: str) -> None:
        """It shuts itself down."""
        await self._be(self._held[instance_id], "stopped")

    def switch_off(self) -> None:
        """The machine under it loses its power."""
        for one in self._held.values():
            if one.state != "provisioning":
                one.state, one.reason = "stopped", None

    def lent(self) -> Sequence[inventory.Gpu]:
        return ()

    def held(self) -> Mapping[str, Held]:
        return {id: Held(one.instance.allocation_id, _status(one)) for id, one in self._held.items()}

    async def bring(self, wanted: Wanted) -> None:
        instance = wanted.instance
        one = self._held.get(instance.id)
        self._may("bring", instance.id)
        if one is None:
            one = self._held[instance.id] = _Pretended(instance)
            await self._be(one, "provisioning")
        one.instance = instance
        if one.state == instance.desired:
            return
        if instance.desired == "stopped":
            if one.state == "running":
                await self._be(one, "stopping")
            await asyncio.sleep(self._seconds)
            await self._be(one, "stopped")
        else:
            await asyncio.sleep(self._seconds)
            await self._boot(one)

    async def take_away(self, instance_id: str) -> None:
        if instance_id not in self._held:
            return
        self._may("take away", instance_id)
        await asyncio.sleep(self._seconds)
        self._held.pop(instance_id, None)

    async def reboot(self, instance_id: str) -> None:
        self._may("reboot", instance_id)
        one = self._held.get(instance_id)
        if one is None or one.state != "running":
            raise Failed("NotRunning", f"it is {one.state if one else 'not here'}")
        await asyncio.sleep(self._seconds)
        await self._boot(one)

    def console(self, instance_id: str) -> Console | None:
        one = self._held.get(instance_id)
        return Console(one.written, one.console) if one is not None and one.written else None

    async def close(self) -> None:
        """There is nothing to watch."""

    async def _boot(self, one: _Pretended) -> None:
        instance = one.instance
        line = f"{instance.name}: {instance.kind} with {instance.vcpu} vCPU and {instance.memory_mib} MiB (simulated)\n"
        one.console, one.written = (one.console + line)[-_TAIL:], one.written + len(line)
        await self._be(one, "running")

    async def _be(self, one: _Pretended, state: Observed, reason: str | None = None) -> None:
        one.state, one.reason = state, reason
        if self.changed is not None:
            await self.changed()

    def _may(self, act: Act, instance_id: str) -> None:
        for fault in self._faults:
            if fault.act != act or fault.instance_id not in (None, instance_id):
                continue
            if fault.times is not None:
                fault.times -= 1
                if fault.times <= 0:
                    self._faults.remove(fault)
            raise Failed(fault.reason, fault.detail)


def _status(one: _Pretended) -> InstanceStatus:
    addresses = (_address(one.instance.id),) if one.state == "running" else ()
    return InstanceStatus(one.state, one.reason, None, addresses)


def _address(instance_id: str) -> str:
    """In 10.0.0.0/8, always the same one."""
    a, b, c = sha256(instance_id.encode()).digest()[:3]
    return f"10.{a}.{b}.{c}"
