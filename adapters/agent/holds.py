"""What a real node has prepared: one CDI file an allocation, in a directory where others have theirs too."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from adapters.agent import cdi, durable, nvidia, partition, program
from domain.node_spec import Allocation, Sharing

_log = logging.getLogger("better_compute.agent")

PREFIX: Final = "better-compute-"
_READY: Final = ".json"
_LEAVING: Final = ".leaving"
"""No runtime reads a file of this name: nothing new begins, and what runs still counts as held."""


class Refused(Exception):
    """An allocation that cannot be prepared or taken back now, and why."""


class Holds:
    """The Runtime of a real node. What is held is what its files say, also after a restart.

    `boot_id` is the running system's: device nodes are dealt anew at every boot, so a file of an earlier one is
    written again, without taking anything from whoever was started from it. `changed` is told when the GPUs were
    partitioned.
    """

    def __init__(
        self,
        directory: Path,
        boot_id: str,
        changed: Callable[[], Awaitable[None]],
        root: Path = Path("/"),
        run: program.Run = program.run,
    ) -> None:
        self._directory = directory
        self._boot_id = boot_id
        self._changed = changed
        self._root = root
        self._run = run
        self._stale: set[str] = set()
        self.gpus = asyncio.Lock()
        """Held by whoever changes a GPU, or relies on it staying as it is."""

    def held(self) -> Sequence[Allocation]:
        """A file that cannot serve is held as another allocation than it should be, so it is taken back and redone.

        One that cannot be read is held without devices, as nobody knows which they are.
        """
        return [self._read(allocation_id, path) for allocation_id, path in self._files()]

    async def prepare(self, allocation: Allocation) -> None:
        if not cdi.is_name(allocation.id):
            raise Refused(f"{allocation.id!r} cannot be the name of a CDI device")
        async with self.gpus:
            await self._write(allocation)

    async def tear_down(self, allocation_id: str) -> None:
        """Raises Refused while somebody computes on what the allocation has alone."""
        ready, leaving = self._path(allocation_id, _READY), self._path(allocation_id, _LEAVING)
        if ready.exists():
            ready.replace(leaving)
            durable.sync_directory(self._directory)
        if not leaving.exists():
            return
        async with self.gpus:
            await self._must_be_idle(allocation_id, leaving)
            durable.remove(leaving)
            self._stale.discard(allocation_id)

    async def shape(self, sharing: Sharing) -> None:
        """Only MIG is the agent's to make; what slots share needs nothing on the node."""
        async with self.gpus:
            changed = False
            try:
                if sharing.mode == "mig":
                    changed = await partition.apply(sharing.layout, await self._untouchable(), self._run)
            except partition.NotPartitioned as problem:
                changed = problem.changed
                raise
            finally:
                await self._renew(everything=changed)
                if changed:
                    await self._changed()

    async def whole(self) -> None:
        """Undo partitions, as a command may ask where the NodeSpec says that GPUs are not shared as slices."""
        async with self.gpus:
            changed = False
            try:
                changed = await partition.dissolve(await self._untouchable(), self._run)
            except partition.NotPartitioned as problem:
                changed = problem.changed
                raise
            finally:
                if changed:
                    await self._changed()

    def uses(self, uuid: str) -> bool:
        """Whether an allocation has this GPU or slice, or may have."""
        return self._unread() or uuid.lower() in self._uuids()

    def _unread(self) -> bool:
        return any(self._content(path) is None for _, path in self._files())

    async def _untouchable(self) -> set[str]:
        """What is held, in lower case: everything, while a file of ours does not say what it holds."""
        if not self._unread():
            return self._uuids()
        cards = (await nvidia.look(self._run)).gpus
        slices = {one.uuid for card in cards for one in card.mig_instances if one.uuid}
        return {name.lower() for name in slices | {card.uuid for card in cards}}

    def _uuids(self, but: str | None = None) -> set[str]:
        """What is held, in lower case; what a file that cannot be read held is not known."""
        files = (self._content(path) for held_id, path in self._files() if held_id != but)
        return {cdi.uuid_of(name).lower() for held in files if held is not None for name in held[0].cdi_devices}

    async def _renew(self, *, everything: bool) -> None:
        """Write files of an earlier boot again, or all, as slices that were made anew have other device nodes.

        One whose devices are gone is no longer held as it was.
        """
        for allocation_id, path in list(self._files()):
            held = self._content(path)
            known = held is not None and held[1] == self._boot_id and not everything
            if held is None or known or path.suffix != _READY:
                continue
            try:
                await self._write(held[0])
            except (Refused, ValueError, nvidia.DriverError, OSError) as why:
                self._stale.add(allocation_id)
                fields = {"id": allocation_id, "why": str(why)}
                _log.warning("an allocation of an earlier boot could not be renewed", extra={"fields": fields})

    async def _write(self, allocation: Allocation) -> None:
        uuids = tuple(dict.fromkeys(cdi.uuid_of(name) for name in allocation.cdi_devices))
        nodes = await self._nodes(uuids)
        self._directory.mkdir(parents=True, exist_ok=True)
        content = cdi.write(allocation, self._boot_id, uuids, nodes)
        durable.write(self._path(allocation.id, _READY), content, 0o644)
        self._stale.discard(allocation.id)

    async def _nodes(self, uuids: Sequence[str]) -> tuple[str, ...]:
        if not uuids:
            return ()
        found = await nvidia.look(self._run)
        own: dict[str, None] = {}
        for uuid in uuids:
            place = found.place(uuid)
            if place is None:
                raise Refused(f"the driver has no {uuid}")
            own |= dict.fromkeys(nvidia.nodes(found, place, self._root))
        control = [path for path in nvidia.CONTROL if (self._root / path[1:]).exists()]
        return (*own, *(control or nvidia.CONTROL[:2]))

    async def _must_be_idle(self, allocation_id: str, leaving: Path) -> None:
        held = self._content(leaving)
        others = self._uuids(but=allocation_id)
        if held is None:
            await self._nobody_may_have_it(others)
            return
        alone = [uuid for name in held[0].cdi_devices if (uuid := cdi.uuid_of(name)).lower() not in others]
        if not alone:
            return
        found = await nvidia.look(self._run)
        busy = [uuid for uuid in alone if found.place(uuid) in found.computing]
        if busy:
            raise Refused(f"somebody still computes on {', '.join(busy)}")

    async def _nobody_may_have_it(self, others: set[str]) -> None:
        """A file that cannot be read proves nothing: whatever computes where no other allocation is may be its own."""
        found = await nvidia.look(self._run)
        strays = found.computing - {found.place(uuid) for uuid in others}
        if strays:
            where = ", ".join(sorted({place.gpu for place in strays}))
            raise Refused(f"its file is damaged, and somebody computes on {where} for no allocation that is known")

    def _read(self, allocation_id: str, path: Path) -> Allocation:
        held = self._content(path)
        if held is None or allocation_id in self._stale or path.suffix != _READY:
            return Allocation(allocation_id, "", held[0].cdi_devices if held else ())
        return held[0]

    def _content(self, path: Path) -> tuple[Allocation, str] | None:
        try:
            held, boot_id = cdi.read(path.read_bytes())
            if path.name not in (f"{PREFIX}{held.id}{_READY}", f"{PREFIX}{held.id}{_LEAVING}"):
                raise cdi.Damaged(f"it is of {held.id}")
            return held, boot_id
        except (cdi.Damaged, OSError) as why:
            _log.warning("a CDI file is damaged", extra={"fields": {"file": str(path), "why": str(why)}})
            return None

    def _files(self) -> Iterator[tuple[str, Path]]:
        """Ours alone: a name that this agent would not give belongs to somebody else."""
        if not self._directory.is_dir():
            return
        for path in sorted(self._directory.iterdir()):
            allocation_id = path.stem.removeprefix(PREFIX)
            if path.name.startswith(PREFIX) and path.suffix in (_READY, _LEAVING) and cdi.is_name(allocation_id):
                yield allocation_id, path

    def _path(self, allocation_id: str, suffix: str) -> Path:
        if not cdi.is_name(allocation_id):
            raise Refused(f"{allocation_id!r} cannot be the name of a file")
        return self._directory / f"{PREFIX}{allocation_id}{suffix}"
