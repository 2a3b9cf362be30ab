"""The Driver of a node with QEMU. Machines outlive the agent: each start of it finds them again."""

import asyncio
import logging
import shutil
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from adapters.agent import cdi, driver, program
from adapters.agent.driver import Console, Failed, Held, Means, Wanted
from adapters.agent.qemu import console, disk, machine
from adapters.agent.qemu.host import Host
from adapters.agent.qemu.life import Life
from adapters.agent.qemu.network import Neighbours
from adapters.agent.qemu.settings import QEMU, QEMU_IMG, Settings, accelerator
from domain import inventory

_log = logging.getLogger("better_compute.agent")

_UPKEEP_SECONDS: Final = 5.0


class _All(Mapping[str, Held]):
    """What there is of each when it is looked at; the addresses of all are read once."""

    def __init__(self, lives: Mapping[str, Life], neighbours: Neighbours) -> None:
        self._lives = lives
        self._neighbours = neighbours

    def __getitem__(self, id: str) -> Held:
        return self._lives[id].held(self._neighbours)

    def __iter__(self) -> Iterator[str]:
        return iter(self._lives)

    def __len__(self) -> int:
        return len(self._lives)


class Qemu:
    """See driver.Driver; `open` makes one."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._lives: dict[str, Life] = {}
        self._upkeep: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, host: Host) -> "Qemu":
        made = cls(host)
        for directory in sorted(host.means.directory.iterdir()):
            if directory.is_dir() and cdi.is_name(directory.name):
                made._lives[directory.name] = Life(directory.name, host)
        await asyncio.gather(*(life.adopt() for life in made._lives.values()))
        made._upkeep = asyncio.create_task(made._keep_up())
        return made

    def held(self) -> Mapping[str, Held]:
        """Keepers ask for their own, each time that any of them moves: nothing is looked up for the others."""
        settings, means = self._host.settings, self._host.means
        return _All(self._lives, Neighbours(settings.bridge, means.root))

    def lent(self) -> tuple[inventory.Gpu, ...]:
        """GPUs that machines have: the host's own driver does not show them, yet they are this node's."""
        return tuple(one.gpu for life in list(self._lives.values()) for one in life.lent())

    async def bring(self, wanted: Wanted) -> None:
        id = wanted.instance.id
        if id not in self._lives:
            self._lives[id] = Life(id, self._host)
        try:
            await self._lives[id].bring(wanted)
        finally:
            if self._lives[id].is_nothing:
                await self._lives.pop(id).close()

    async def take_away(self, instance_id: str) -> None:
        life = self._lives.get(instance_id)
        if life is not None:
            await life.take_away()
            await life.close()
            self._lives.pop(instance_id, None)

    async def reboot(self, instance_id: str) -> None:
        life = self._lives.get(instance_id)
        if life is None:
            raise Failed("NotRunning", "this node does not have it")
        await life.reboot()

    def console(self, instance_id: str) -> Console | None:
        life = self._lives.get(instance_id)
        return console.read(life.directory / machine.CONSOLE) if life else None

    async def close(self) -> None:
        if self._upkeep is not None:
            self._upkeep.cancel()
            await asyncio.gather(self._upkeep, return_exceptions=True)
        await asyncio.gather(*(life.close() for life in self._lives.values()))

    async def _keep_up(self) -> None:
        """Bound what machines print and what QEMU complains of, and notice addresses that came or went."""
        shown: dict[str, tuple[str, ...]] = {}
        while True:
            await asyncio.sleep(_UPKEEP_SECONDS)
            try:
                for life in list(self._lives.values()):
                    for name in (machine.CONSOLE, machine.LOG):
                        await console.bound(life.directory / name, self._host.run)
                now = {id: held.status.addresses for id, held in self.held().items()}
                if now != shown:
                    shown = now
                    await self._host.means.changed()
            except Exception:
                _log.exception("the upkeep of instances failed")


def make(settings: Settings, run: program.Run = program.run) -> driver.Make:
    return partial(_make, settings, run)


async def _make(settings: Settings, run: program.Run, means: Means) -> Qemu:
    for tool in (QEMU, QEMU_IMG):
        if shutil.which(tool) is None:
            raise disk.missing(tool)
    if settings.bridge is not None and not (means.root / f"sys/class/net/{settings.bridge}/bridge").exists():
        raise Failed("NoBridge", f"this machine has no bridge {settings.bridge}")
    return await Qemu.open(Host(means, settings, accelerator(settings), run))
