"""A directory in which machines run, and a driver on it: what the tests of the QEMU driver share."""

import asyncio
import contextlib
import hashlib
from pathlib import Path

import qemus
import tiny_guest
from adapters.agent.driver import Failed, Means, Seed, Wanted
from adapters.agent.qemu import processes
from adapters.agent.qemu.driver import make
from adapters.agent.qemu.settings import Settings
from domain.node_spec import Image, Instance

needs_qemu = qemus.needed
SETTINGS = Settings(accelerator="tcg", stop_seconds=20.0)


class Sources:
    """The plane's image and seed; `asked` are the tokens with which they were asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.asked: list[str] = []
        self.refuses: Failed | None = None

    async def image(self, image: Image, token: str) -> Path:
        self.asked.append(token)
        if self.refuses:
            raise self.refuses
        return self.path

    async def seed(self, instance_id: str, token: str) -> Seed:
        self.asked.append(token)
        return Seed("web", instance_id, ("ssh-ed25519 AAAA me",), b"#cloud-config\n")


def image(path: Path, format: str = "raw") -> Image:
    content = path.read_bytes()
    return Image(hashlib.sha256(content).hexdigest(), len(content), format)


def wanted(path: Path, id: str = "inst_1", desired: str = "running", devices: tuple[str, ...] = (), **fields) -> Wanted:
    given = {
        "id": id,
        "name": "web",
        "allocation_id": "alc_1",
        "kind": "vm",
        "desired": desired,
        "vcpu": 1,
        "memory_mib": 64,
        "disk_gib": 1,
        "image": image(path),
    } | fields
    return Wanted(Instance(**given), devices, "the-token")


class Node:
    """One agent after another on the same directory."""

    def __init__(self, directory: Path, settings: Settings = SETTINGS, root: Path = Path("/")) -> None:
        self.directory = directory / "instances"
        self.directory.mkdir()
        self.image = tiny_guest.raw(directory / "tiny.img")
        self.sources = Sources(self.image)
        self.settings = settings
        self.root = root
        self.news = asyncio.Event()
        self.driver = None

    async def changed(self) -> None:
        self.news.set()

    async def start(self):
        means = Means(directory=self.directory, root=self.root, sources=self.sources, changed=self.changed)
        self.driver = await make(self.settings)(means)
        return self.driver

    def status(self, id: str = "inst_1"):
        return self.driver.held()[id].status

    async def until(self, meets, seconds: float = 30.0):
        """Wait for news until the driver's word meets the condition."""
        async with asyncio.timeout(seconds):
            while not meets():
                self.news.clear()
                if meets():
                    return
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.news.wait(), 0.1)

    async def until_printed(self, text: str, times: int = 1, id: str = "inst_1"):
        def printed() -> bool:
            console = self.driver.console(id)
            return console is not None and console.tail.count(text) >= times

        await self.until(printed)

    async def end(self) -> None:
        """No machine is left, whatever the test did."""
        for entry in self.directory.iterdir():
            process = processes.find(entry)
            if process is not None:
                await process.kill()
                process.let_go()
        if self.driver is not None:
            await self.driver.close()


@contextlib.asynccontextmanager
async def node(directory: Path, **fields):
    made = Node(directory, **fields)
    try:
        await made.start()
        yield made
    finally:
        await made.end()
