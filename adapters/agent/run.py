"""The agent of a real machine: joins it once, and from then on keeps it connected and as its NodeSpec says."""

import asyncio
import contextlib
import fcntl
import logging
import os
import signal
from collections.abc import Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from adapters.agent import driver, joining, protocol
from adapters.agent.commander import Commander
from adapters.agent.executors import Host, executors
from adapters.agent.holds import Holds
from adapters.agent.image_cache import Cache
from adapters.agent.instances import Instances
from adapters.agent.journal import File, Journal
from adapters.agent.session import VERSION, AgentSession, Identity
from adapters.agent.watch import Watch
from adapters.inventory import collect, sysfs
from adapters.inventory.fragment import InventoryError
from domain import inventory
from domain.inventory import NodeInventory

_log = logging.getLogger("better_compute.agent")

INVENTORY_SECONDS: Final = 60.0
REBOOT: Final = ("systemctl", "reboot")
_SELF: Final = "agent"


class AgentError(Exception):
    """The agent cannot run here; the text says why, and what would help."""


class Settings(Struct, frozen=True, kw_only=True):
    """`root` is where the host's files are; `token` is needed until the machine has joined."""

    server: str
    state: Path
    token: str | None = None
    name: str | None = None
    labels: dict[str, str] = {}
    address: str | None = None
    cdi: Path = Path("/var/run/cdi")
    root: Path = Path("/")
    inventory_seconds: float = INVENTORY_SECONDS
    reboot: tuple[str, ...] = REBOOT
    upgrade: tuple[str, ...] | None = None
    make_driver: driver.Make | None = None
    """What runs instances here; without one every instance has failed with `NoDriver`."""


class Agent:
    """One agent of one machine. `run` once, until `stop`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._instances = Instances()
        self._watch = Watch(partial(_look, settings.root, self._instances), settings.inventory_seconds)
        self._stop = asyncio.Event()
        self._upgraded = False

    def stop(self) -> None:
        self._stop.set()

    async def run(self) -> bool:
        """Until stopped; says whether another version was installed, which has to be started in its place.

        Raises AgentError, and joining.JoinRefused.
        """
        settings = self._settings
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        with _alone(_directories(settings)):
            boot_id = sysfs.read(settings.root / "proc/sys/kernel/random/boot_id")
            if boot_id is None:
                raise AgentError(f"{settings.root} has no proc/sys/kernel/random/boot_id: is --root the host's?")
            try:
                await self._watch.look()
            except InventoryError as wrong:
                raise AgentError(f"this machine cannot be read: {wrong}") from None
            identity = await self._unless_stopped(self._identity())
            if identity is not None:
                await self._serve(identity, boot_id)
        return self._upgraded

    async def _unless_stopped(self, joins: Coroutine[Any, Any, Identity]) -> Identity | None:
        join, stop = asyncio.create_task(joins), asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait([join, stop], return_when=asyncio.FIRST_COMPLETED)
            return join.result() if join.done() else None
        finally:
            for task in (join, stop):
                task.cancel()
            await asyncio.gather(join, stop, return_exceptions=True)

    async def _identity(self) -> Identity:
        """Who this machine is, from its first join on."""
        settings = self._settings
        file = settings.state / "identity.json"
        try:
            keys = joining.Keyring(file)
        except msgspec.MsgspecError as damaged:
            raise AgentError(f"{file} is damaged ({damaged}): restore it, or remove it and join anew") from None
        known = keys.get(_SELF)
        if known is not None:
            return known
        if settings.token is None:
            raise AgentError("this machine has not joined yet: give it a token with --join-token")
        key = keys.key(_SELF)
        who = joining.Join(
            name=settings.name,
            token=settings.token,
            inventory=msgspec.Raw(inventory.encode(self._watch.found)),
            labels=settings.labels,
            address=settings.address,
        )
        async with joining.client(settings.server) as client:
            node_id = await joining.join(client, who, key, attempts=None)
        keys.put((_SELF, node_id))
        _log.info("joined", extra={"fields": {"node": node_id}})
        return Identity(node_id, key)

    async def _serve(self, identity: Identity, boot_id: str) -> None:
        settings, watch = self._settings, self._watch

        async def news() -> None:
            await watch.look()
            await session.tell_inventory()

        holds = Holds(settings.cdi, boot_id, news, settings.root)
        instances = self._instances
        cache = Cache(settings.server, settings.state / "images", lambda: _images(session.spec))
        instances.driver = await self._driver(cache, instances)
        if instances.driver is not None and instances.driver.lent():
            await watch.look()
        host = Host(
            state=settings.state,
            root=settings.root,
            holds=holds,
            watch=watch,
            instances=instances,
            reboot=settings.reboot,
            upgrade=settings.upgrade,
            spec=lambda: session.spec,
            tell=lambda: session.tell_inventory(),
            upgraded=self._note_upgrade,
        )
        journal = Journal(File(settings.state / "commands.jsonl"))
        commands = Commander(journal, executors(host), boot_id, ended=self._restart_if_upgraded)
        session = AgentSession(
            settings.server,
            identity,
            holds,
            lambda: watch.found,
            boot_id=boot_id,
            commands=commands,
            instances=instances,
        )
        _log.info("starting", extra={"fields": {"node": identity.node_id, "version": VERSION}})
        running = asyncio.create_task(session.run())
        watching = asyncio.create_task(watch.run(session.tell_inventory, session.reconsider))
        stop = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait([running, watching, stop], return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                watching.result()
            session.stop()
            await running
        finally:
            for task in (running, watching, stop):
                task.cancel()
            await asyncio.gather(running, watching, stop, return_exceptions=True)
            if instances.driver is not None:
                await instances.driver.close()

    async def _driver(self, sources: driver.Sources, instances: Instances) -> driver.Driver | None:
        settings, directory = self._settings, self._settings.state / "instances"
        if settings.make_driver is None:
            return None
        directory.mkdir(mode=0o700, exist_ok=True)
        means = driver.Means(directory=directory, root=settings.root, sources=sources, changed=instances.changed)
        try:
            return await settings.make_driver(means)
        except driver.Failed as unable:
            raise AgentError(f"instances cannot run on this machine: {unable.detail or unable.reason}") from None

    def _note_upgrade(self) -> None:
        self._upgraded = True

    def _restart_if_upgraded(self) -> None:
        if self._upgraded:
            self.stop()


def _images(spec: protocol.Spec | None) -> set[str]:
    """Digests of the images that instances here begin with."""
    return {one.image.sha256 for one in spec.instances} if spec else set()


def _directories(settings: Settings) -> Path:
    """The agent's own directory; the one for CDI files is there too, and both can be written."""
    try:
        settings.cdi.mkdir(parents=True, exist_ok=True)
        state = joining.state_directory(settings.state)
    except OSError as problem:
        raise AgentError(f"{problem.filename}: {problem.strerror}") from None
    for directory, option in ((settings.cdi, "--cdi-dir"), (state, "--state")):
        if not os.access(directory, os.W_OK | os.X_OK):
            raise AgentError(f"{directory} cannot be written by this user; choose another {option}")
    return state


@contextlib.contextmanager
def _alone(state: Path) -> Iterator[None]:
    """Two agents on one directory would be one node twice."""
    lock = os.open(state / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AgentError(f"another agent runs on {state}; give this one another --state") from None
        yield
    finally:
        os.close(lock)


def _look(root: Path, instances: Instances) -> NodeInventory:
    """What is seen of the machine, and the GPUs of it that an instance has."""
    lent = instances.driver.lent() if instances.driver else ()
    found = collect.collect(root)
    seen = {card.uuid for card in found.gpus}
    gpus = (*found.gpus, *(card for card in lent if card.uuid not in seen))
    return replace(found, gpus=gpus, software=replace(found.software, agent=f"better-compute {VERSION}"))
