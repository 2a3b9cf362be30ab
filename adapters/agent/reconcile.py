"""Brings a node to its NodeSpec, and says what came of it (domain.md §8)."""

import asyncio
import logging
from collections.abc import Awaitable, Collection, Mapping
from typing import NamedTuple, Protocol

from adapters.agent import protocol
from adapters.agent.driver import UNKNOWN
from adapters.agent.instances import Instances
from domain.node_spec import Allocation, Sharing, Status

_log = logging.getLogger("better_compute.agent")


class Runtime(Protocol):
    """What prepares devices on this node. Every act may be repeated and then changes nothing."""

    def held(self) -> Collection[Allocation]:
        """What is prepared now, also from before this process began; of no reservation where devices are not known."""

    async def prepare(self, allocation: Allocation) -> None:
        """Make the allocation's devices ready for use; returns once they are, raises when they cannot be."""

    async def tear_down(self, allocation_id: str) -> None:
        """Take the devices back; returns once nobody can use them any more."""

    async def shape(self, sharing: Sharing) -> None:
        """Cut the GPUs up as told, where that disturbs nobody; raises when they cannot be."""


class Reconciled(NamedTuple):
    """The status of every item, and whether the GPUs are cut up as told."""

    items: dict[str, Status]
    shaped: bool

    @property
    def done(self) -> bool:
        return self.shaped and all(item == "prepared" for item in self.items.values())


async def reconcile(spec: protocol.Spec, runtime: Runtime, instances: Instances | None = None) -> Reconciled:
    """Bring the runtime to the spec: take back what is gone, cut the GPUs up, then prepare what is new.

    An item that could not be taken back stays, for leaving it out would say that its devices are free; and nothing
    is prepared on devices that are not free yet. So does one that an instance has not left yet. Where devices are not
    known, the spec's word for the item is taken.
    """
    instances = instances or Instances()
    wanted = {allocation.id: allocation for allocation in spec.allocations}
    instances.follow(spec, without={held.id for held in runtime.held() if _moved(held, wanted.get(held.id))})
    leaving = await instances.gone()
    stuck = await _take_back(wanted, runtime, leaving, instances.staying())
    shaped = await _done(runtime.shape(spec.sharing), "shape", "its GPUs")
    busy = {name for held in stuck.values() for name in held.cdi_devices}
    blind = any(_unknown(held) for held in stuck.values())
    there = {held.id for held in runtime.held() if wanted.get(held.id) == held} - set(stuck)

    async def bring(allocation: Allocation) -> Status:
        if allocation.id in there:
            return "prepared"
        if allocation.id in stuck:
            return "preparing" if allocation.id in leaving else "failed"
        if busy.intersection(allocation.cdi_devices) or (blind and allocation.cdi_devices):
            return "preparing"
        return "prepared" if await _done(runtime.prepare(allocation), "prepare", allocation.id) else "failed"

    states = await asyncio.gather(*(bring(allocation) for allocation in wanted.values()))
    items: dict[str, Status] = {**dict.fromkeys(stuck, "failed"), **dict.fromkeys(leaving - {UNKNOWN}, "prepared")}
    items.update(zip(wanted, states, strict=True))
    instances.prepared(items)
    return Reconciled(items, shaped)


async def _take_back(
    wanted: Mapping[str, Allocation], runtime: Runtime, leaving: Collection[str], staying: Collection[str]
) -> dict[str, Allocation]:
    """Tear down what is not as wanted, and answer what is here still; what an instance stays on is mended at most.

    An instance of which nobody knows what it is on may be on any of them.
    """
    stuck: dict[str, Allocation] = {}
    for held in sorted(runtime.held(), key=lambda a: a.id):
        want = wanted.get(held.id)
        if held.id in leaving:
            stuck[held.id] = held
            continue
        mend = want is not None and (_unknown(held) or held.id in staying)
        if want == held or (want and mend and await _done(runtime.prepare(want), "mend", held.id)):
            continue
        kept = held.id in staying or UNKNOWN in leaving
        if kept or not await _done(runtime.tear_down(held.id), "tear down", held.id):
            stuck[held.id] = held
    return stuck


def _moved(held: Allocation, want: Allocation | None) -> bool:
    """Whether it shall have other devices than it is known to have: no instance goes on with those."""
    return want is not None and bool(held.reservation_id) and held.cdi_devices != want.cdi_devices


def _unknown(held: Allocation) -> bool:
    return not held.reservation_id and not held.cdi_devices


async def _done(act: Awaitable[None], verb: str, what: str) -> bool:
    try:
        await act
    except Exception:
        _log.exception("a node could not %s what its spec says", verb, extra={"fields": {"what": what}})
        return False
    return True
