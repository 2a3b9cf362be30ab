"""Cuts the GPUs up as the NodeSpec says (domain.md §4, "Slices"), with nvidia-smi.

Slices do not outlive a boot, so this also makes the same ones at the same starts again. What somebody holds is
never destroyed: a GPU whose present slices differ from the layout is changed only when none of them is held.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

from adapters.agent import nvidia, program
from domain import gpu, inventory, mig
from domain.node_spec import Slice

_PROFILE: Final = re.compile(r"MIG (\S+)\s+(\d+)\s+\d+/\d+")
_NOT_FOUND: Final = 6
"""nvidia-smi's exit code when there is no instance to destroy."""


class NotPartitioned(Exception):
    """GPUs are not cut up as told, and why; `changed` says whether any was on the way."""

    def __init__(self, why: str, *, changed: bool = False) -> None:
        super().__init__(why)
        self.changed = changed


async def apply(layout: Sequence[Slice], held: Collection[str], run: program.Run = program.run) -> bool:
    """Make the layout stand on every GPU, and say whether anything was changed.

    `held` are UUIDs of GPUs and slices in lower case. Raises NotPartitioned with every GPU that could not be, after
    all others have been.
    """
    found = await nvidia.look(run)

    async def one(card: inventory.Gpu) -> bool:
        return await _partition(card, layout, held, run, pending=card.uuid in found.pending)

    return await _each(found, one)


async def dissolve(held: Collection[str], run: program.Run = program.run) -> bool:
    """Make whole GPUs of all that are partitioned, and say whether any was; refuses as `apply` does."""

    async def one(card: inventory.Gpu) -> bool:
        if card.mig_mode != "enabled":
            return False
        _must_be_free(card, held)
        await _destroy(card.uuid, run)
        await _must(run, "nvidia-smi", "-i", card.uuid, "-mig", "0")
        return True

    return await _each(await nvidia.look(run), one)


async def _each(found: nvidia.Found, one: Callable[[inventory.Gpu], Awaitable[bool]]) -> bool:
    changed, problems = False, []
    for card in found.gpus:
        try:
            changed |= await one(card)
        except (NotPartitioned, nvidia.DriverError) as problem:
            problems.append(f"{card.uuid}: {problem}")
    if problems:
        raise NotPartitioned("; ".join(problems), changed=changed)
    return changed


async def _partition(
    card: inventory.Gpu, layout: Sequence[Slice], held: Collection[str], run: program.Run, *, pending: bool
) -> bool:
    wanted = {(piece.profile, piece.start) for piece in layout}
    standing = [_standing(card, one) for one in card.mig_instances]
    on = card.mig_mode == "enabled"
    if on and sorted(standing, key=str) == sorted(wanted, key=str):
        return False
    known = gpu.lookup(card.name, card.memory_mib)
    _must_be_legal(known, layout, standing)
    surplus = any(one not in wanted or standing.count(one) > 1 for one in standing)
    if surplus or not on:
        _must_be_free(card, held)
    if not on:
        await _enable(card.uuid, run, pending=pending)
    if surplus:
        await _destroy(card.uuid, run)
        standing = []
    missing = [piece for piece in sorted(layout, key=lambda p: p.start) if (piece.profile, piece.start) not in standing]
    await _create(card.uuid, known, missing, run)
    return True


def _must_be_legal(
    known: gpu.Model, layout: Sequence[Slice], standing: Sequence[tuple[str | None, int | None]]
) -> None:
    try:
        mig.check_layout(known.model, known.memory_gb, layout)
    except mig.IllegalLayout as illegal:
        raise NotPartitioned(illegal.message) from None
    if any(start is None for _, start in standing):
        raise NotPartitioned("the driver does not say where its slices start")


def _must_be_free(card: inventory.Gpu, held: Collection[str]) -> None:
    present = [card.uuid, *(one.uuid for one in card.mig_instances if one.uuid)]
    if in_use := [name for name in present if name.lower() in held]:
        raise NotPartitioned(f"{', '.join(in_use)} is held, so nothing that stands there may go")


def _standing(card: inventory.Gpu, one: inventory.MigInstance) -> tuple[str | None, int | None]:
    """Profile and start of a slice, in the layout's words."""
    known = gpu.lookup(card.name, card.memory_mib)
    name = mig.match(
        known.model,
        known.memory_gb,
        name=one.profile,
        memory_mib=one.memory_mib,
        multiprocessors=one.multiprocessors,
    )
    return name, one.start


async def _enable(uuid: str, run: program.Run, *, pending: bool) -> None:
    """Ampere takes the mode at a reset, Hopper and later at once."""
    if not pending:
        await _must(run, "nvidia-smi", "-i", uuid, "-mig", "1")
    if await _is_enabled(uuid, run):
        return
    reset = await run(("nvidia-smi", "--gpu-reset", "-i", uuid))
    if not await _is_enabled(uuid, run):
        raise NotPartitioned(f"MIG mode awaits a reset or reboot: {reset.why()}")


async def _is_enabled(uuid: str, run: program.Run) -> bool:
    found = (await nvidia.look(run)).gpu(uuid)
    return found is not None and found.mig_mode == "enabled"


async def _destroy(uuid: str, run: program.Run) -> None:
    for what in ("-dci", "-dgi"):
        done = await run(("nvidia-smi", "mig", what, "-i", uuid))
        if done.code not in (0, _NOT_FOUND):
            raise NotPartitioned(f"nvidia-smi mig {what}: {done.why()}")


async def _create(uuid: str, known: gpu.Model, missing: Sequence[Slice], run: program.Run) -> None:
    """By the profile's number: drivers round the memory in its name each in their own way."""
    if not missing:
        return
    listed = (await _must(run, "nvidia-smi", "mig", "-lgip", "-i", uuid)).printed.decode(errors="replace")
    numbers = {mig.match(known.model, known.memory_gb, name=name): number for name, number in _PROFILE.findall(listed)}
    unknown = [piece.profile for piece in missing if piece.profile not in numbers]
    if unknown:
        raise NotPartitioned(f"the driver has no profile {unknown[0]}")
    pieces = ",".join(f"{numbers[piece.profile]}:{piece.start}" for piece in missing)
    await _must(run, "nvidia-smi", "mig", "-cgi", pieces, "-C", "-i", uuid)


async def _must(run: program.Run, *command: str) -> program.Done:
    done = await run(command)
    if done.code != 0:
        raise NotPartitioned(f"{' '.join(command)}: {done.why()}")
    return done
