"""One instance as a virtual machine: made, started, stopped and taken away, and watched meanwhile."""

import asyncio
import contextlib
from typing import Any, Final

from msgspec.structs import replace

from adapters.agent import cdi, durable
from adapters.agent.driver import UNKNOWN, Failed, Held, Wanted
from adapters.agent.qemu import disk, machine, network, power, processes, qmp, record, seed, vfio
from adapters.agent.qemu.host import Host
from adapters.agent.qemu.processes import Process
from adapters.agent.qemu.qmp import Qmp, QmpError
from adapters.agent.qemu.record import Record
from domain.node_spec import InstanceStatus, Observed

_ANSWER_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 0.05


class Life:
    """`adopt` it once; then acts come one at a time. `status` is what the machine is known to do now."""

    def __init__(self, id: str, host: Host) -> None:
        if not cdi.is_name(id):
            raise Failed("NameRefused", f"{id!r} cannot be the name of a directory")
        self.id = id
        self.directory = host.means.directory / id
        self._host = host
        self._record = record.read(self.directory)
        self._process: Process | None = None
        self._qmp: Qmp | None = None
        self._watching: asyncio.Task[None] | None = None
        self._telling: set[asyncio.Task[None]] = set()
        self._cause: str | None = None
        self._off = asyncio.Event()
        self._status = InstanceStatus("provisioning")

    def held(self, neighbours: network.Neighbours) -> Held:
        allocation = self._record.instance.allocation_id if self._record else UNKNOWN
        shown = neighbours.addresses(self.id) if self._status.state in ("running", "stopping") else ()
        return Held(allocation, replace(self._status, addresses=shown))

    def lent(self) -> tuple[vfio.Lent, ...]:
        """The GPUs that its host's own driver does not see now, because the machine has them."""
        return tuple(one for one in (self._record.lent if self._record else ()) if self._is_lent(one))

    async def adopt(self) -> None:
        """Find out what became of it while no agent ran."""
        process, known = processes.find(self.directory), self._record
        if process is not None:
            self._keep(process)
        if known is None:
            self._show("failed", Failed("RecordDamaged", f"{self.directory / record.NAME} cannot be read"))
        elif process is not None:
            self._show("stopping" if known.stopping else "running")
            await self._look()
        elif known.started or known.instance.desired == "stopped":
            self._show("stopped")

    async def _look(self) -> None:
        """A machine that waits shall be brought on; a reboot that was cut short leaves one so."""
        try:
            if await power.waits(await self._connected()):
                self._show("stopped")
        except Failed as why:
            self._show("failed", why)
        except QmpError as why:
            self._show("failed", Failed("NotAnswering", str(why)))

    async def bring(self, wanted: Wanted) -> None:
        try:
            if self._record is not None and self._record.instance.allocation_id != wanted.instance.allocation_id:
                await self.take_away()
            known = self._record or record.of(wanted)
            stopped = wanted.instance.desired == "stopped"
            keep = self._note if stopped else self._write
            keep(replace(known, instance=wanted.instance, cdi_devices=wanted.cdi_devices))
            machine.check(wanted.instance, len(wanted.cdi_devices))
            if stopped:
                await self._stop()
            elif not await self._goes_on():
                await self._start(wanted)
        except Failed as why:
            self._show("failed", why)
            raise
        except OSError as problem:
            if self._record is None:
                with contextlib.suppress(OSError):
                    self.directory.rmdir()
            failed = disk.unwritten(problem)
            self._show("failed", failed)
            raise failed from None

    @property
    def is_nothing(self) -> bool:
        """Not even its record could be written."""
        return self._record is None and self._process is None and not self.directory.exists()

    async def reboot(self) -> None:
        """The guest is asked to shut down, and its power is cut if it does not."""
        if not self._runs() or self._status.state != "running":
            raise Failed("NotRunning", f"it is {self._status.state}")
        line = await self._connected()
        self._off.clear()
        try:
            await power.reboot(line, self._off, self._host.settings.stop_seconds)
        except BaseException as why:
            if self._off.is_set():
                self._show("stopped")
            if isinstance(why, QmpError):
                raise Failed("NotRebooted", str(why)) from None
            raise
        finally:
            self._cause = None

    async def take_away(self) -> None:
        """Its power is cut, for its disk goes with it; the record goes last."""
        try:
            await self._take_away()
        except Failed as why:
            self._show("failed", why)
            raise

    async def _take_away(self) -> None:
        while (process := self._process or processes.find(self.directory)) is not None:
            if process is not self._process:
                self._keep(process)
            await process.kill()
            await self._let_go()
        if self._record is not None:
            await vfio.give_back(self._record.lent, self._host.means.root)
        await network.unplug(self.id, self._host.means.root, self._host.run)
        await asyncio.to_thread(record.remove, self.directory)
        self._record = None

    async def close(self) -> None:
        await self._let_go()
        for task in self._telling:
            task.cancel()
        await asyncio.gather(*self._telling, return_exceptions=True)

    async def _start(self, wanted: Wanted) -> None:
        """Every step may have been done before."""
        self._show("provisioning")
        self.directory.mkdir(mode=0o700, exist_ok=True)
        host, instance = self._host, wanted.instance
        image = await host.means.sources.image(instance.image, wanted.token)
        await disk.make(self.directory / machine.DISK, image, instance.image, instance.disk_gib, host.run)
        if not (self.directory / machine.SEED).exists():
            told = await host.means.sources.seed(self.id, wanted.token)
            durable.write(self.directory / machine.SEED, await asyncio.to_thread(seed.iso, told))
        gpus = await self._gpus(wanted)
        bridge = host.settings.bridge
        tap = None if bridge is None else await network.plug(self.id, bridge, host.means.root, host.run)
        parts = machine.Parts(
            directory=self.directory,
            image=image,
            accelerator=host.accelerator,
            tap=tap,
            gpus=gpus,
            user=host.settings.user,
            firmware=machine.firmware(host.means.root) if instance.kind == "microvm" else None,
        )
        self._cause = None
        await self._let_go()
        self._keep(processes.start(machine.command(instance, parts), self.directory))
        await self._connected(host.settings.start_seconds)
        self._write(replace(self._known(), started=True, stopping=False))
        self._show("running")

    async def _gpus(self, wanted: Wanted) -> tuple[str, ...]:
        """Their PCI addresses, bound to vfio-pci; who they are is written down before they are out of sight."""
        root, known = self._host.means.root, self._known()
        if not known.lent or not all(self._is_lent(one) for one in known.lent):
            await vfio.give_back(known.lent, root)
            lent = await vfio.find(wanted.cdi_devices, root, self._host.run)
            self._write(replace(known, lent=lent))
            await vfio.take(lent, root, self._host.run)
        return tuple(one.address for one in self._known().lent)

    async def _goes_on(self) -> bool:
        """Whether it runs, or does so again; what was told to end is ended first."""
        if not self._runs():
            return False
        if self._known().stopping:
            await self._stop()
            return False
        line = await self._connected()
        try:
            status = await power.goes_on(line)
            if status == "io-error":
                raise Failed(self._status.reason or "DiskFailed", self._status.detail or "")
            if status in power.BROKEN:
                assert self._process is not None
                await self._process.kill()
                await self._let_go()
                return False
        except QmpError as why:
            raise Failed("NotAnswering", str(why)) from None
        self._show("running")
        return True

    async def _stop(self) -> None:
        if self._process is not None and self._runs():
            self._note(replace(self._known(), stopping=True))
            self._show("stopping")
            with contextlib.suppress(QmpError, Failed):
                await power.off(await self._connected(), self._process.wait, self._host.settings.stop_seconds)
            await self._process.kill()
        await self._let_go()
        self._note(replace(self._known(), stopping=False))
        self._show("stopped")

    async def _connected(self, seconds: float = _ANSWER_SECONDS) -> Qmp:
        """Its QMP; raises Failed where it ends, or does not answer within that time."""
        if self._qmp is not None and self._qmp.open:
            return self._qmp
        deadline = asyncio.get_running_loop().time() + seconds
        while self._process is not None and not self._process.ended:
            try:
                self._qmp = await qmp.connect(self.directory, self._heard)
                await power.as_usual(self._qmp)
                return self._qmp
            except QmpError as why:
                if asyncio.get_running_loop().time() > deadline:
                    raise Failed("NotAnswering", str(why)[:200]) from None
                await asyncio.sleep(_AGAIN_SECONDS)
        raise Failed("QemuEnded", processes.complaint(self.directory) or "it ended as soon as it began")

    def _runs(self) -> bool:
        return self._process is not None and not self._process.ended

    def _known(self) -> Record:
        assert self._record is not None, "it has been written"
        return self._record

    def _write(self, known: Record) -> None:
        if known != self._record:
            record.write(self.directory, known)
            self._record = known

    def _note(self, known: Record) -> None:
        """As `_write`, but a full disk keeps no machine from being stopped: an agent that begins is told it again."""
        try:
            self._write(known)
        except OSError:
            self._record = known

    def _is_lent(self, one: vfio.Lent) -> bool:
        return vfio.is_taken(one, self._host.means.root)

    def _keep(self, process: Process) -> None:
        self._process = process
        self._watching = asyncio.create_task(self._watch(process))

    async def _watch(self, process: Process) -> None:
        """What ends by itself ends as its guest wanted it, or has failed."""
        await process.wait()
        if self._qmp is not None:
            await self._qmp.finished()
        if self._process is process and not (self._record and self._record.stopping):
            if self._cause in ("guest-shutdown", "host-qmp-quit"):
                self._show("stopped", Failed("PoweredOff", "its guest shut down"))
            elif self._status.state in ("running", "stopping"):
                self._show("failed", Failed("QemuEnded", processes.complaint(self.directory)))

    async def _let_go(self) -> None:
        """Of process and line; the machine itself is left as it is."""
        process, line, watching = self._process, self._qmp, self._watching
        self._process = self._qmp = self._watching = None
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        if line is not None:
            await line.close()
        if process is not None:
            process.let_go()

    def _heard(self, event: str, data: dict[str, Any]) -> None:
        if event == "SHUTDOWN":
            self._cause = data.get("reason")
            self._off.set()
        elif event == "BLOCK_IO_ERROR" and data.get("action") == "stop":
            reason = "NoSpace" if data.get("nospace") else "DiskFailed"
            self._show("failed", Failed(reason, f"the machine waits: {data.get('reason', '')}"))

    def _show(self, state: Observed, why: Failed | None = None) -> None:
        shown = InstanceStatus(state, why.reason[:63] if why else None, (why.detail[:255] or None) if why else None)
        if shown != self._status:
            self._status = shown
            task = asyncio.create_task(self._tell())
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    async def _tell(self) -> None:
        """Beside the act that it tells of: to wait for who is told could be to wait for the act itself."""
        await self._host.means.changed()
