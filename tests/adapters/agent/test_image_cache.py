"""What a driver gets has the digest that it asked for, whatever the network, the disk or the plane did."""

import asyncio
import os
import resource
from hashlib import sha256

import httpx
import pytest
from depot import Depot
from fake_plane import scenario

from adapters.agent.driver import Failed, Seed
from adapters.agent.image_cache import Cache
from domain.node_spec import Image

BYTES = bytes(range(256)) * 12_288


@pytest.fixture
def depot():
    made = Depot(BYTES)
    yield made
    made.close()


class Kept:
    """A cache of the depot, in a directory; `wanted` are the digests that its node needs."""

    def __init__(self, depot, tmp_path, **more):
        self.directory = tmp_path / "images"
        self.wanted = set()
        self.cache = Cache(depot.address, self.directory, lambda: self.wanted, **more)
        self.image = Image(depot.sha256, len(BYTES), "raw")
        self.path = self.directory / f"sha256-{depot.sha256}"
        self.part = self.directory / f".sha256-{depot.sha256}.part"

    async def get(self, image=None):
        return await self.cache.image(image or self.image, "tok")

    async def refused(self, image=None):
        with pytest.raises(Failed) as failed:
            await self.get(image)
        return failed.value


@pytest.fixture
def kept(depot, tmp_path):
    return Kept(depot, tmp_path)


@scenario
async def test_an_image_is_fetched_once_with_the_token_and_given_out_with_its_bytes(depot, kept):
    assert await kept.get() == kept.path == await kept.get()
    assert kept.path.read_bytes() == BYTES
    assert depot.asked == [(f"/v1/agent/images/{depot.sha256}", "Bearer tok", None)]
    assert [path.name for path in kept.directory.iterdir()] == [kept.path.name]
    assert kept.directory.stat().st_mode & 0o077 == 0


@scenario
async def test_an_image_is_read_each_time_though_nobody_wrote_to_it(depot, kept):
    await kept.get()
    read = kept.path.stat().st_mtime_ns
    await kept.get()
    assert kept.path.stat().st_mtime_ns > read


@scenario
async def test_many_at_once_fetch_it_once(depot, kept):
    paths = await asyncio.gather(*(kept.get() for _ in range(8)))
    assert set(paths) == {kept.path}
    assert len(depot.asked) == 1


@scenario
async def test_what_was_cut_short_goes_on_from_there(depot, kept):
    depot.cut = 1_000_000
    await kept.get()
    assert kept.path.read_bytes() == BYTES
    assert [asked[2] for asked in depot.asked] == [None, "bytes=1000000-", "bytes=2000000-", "bytes=3000000-"]


@scenario
async def test_what_an_agent_had_of_it_when_it_was_killed_is_not_fetched_again(depot, kept):
    kept.directory.mkdir()
    kept.part.write_bytes(BYTES[:2_000_000])
    await kept.get()
    assert [asked[2] for asked in depot.asked] == ["bytes=2000000-"]
    assert kept.path.read_bytes() == BYTES


@scenario
async def test_a_whole_part_is_not_fetched_but_checked(depot, kept):
    kept.directory.mkdir()
    kept.part.write_bytes(BYTES)
    await kept.get()
    assert depot.asked == []
    assert not kept.part.exists()


@scenario
async def test_a_plane_without_ranges_sends_all_of_it_again(depot, kept):
    depot.ranges = False
    kept.directory.mkdir()
    kept.part.write_bytes(b"x" * 70_000)
    await kept.get()
    assert kept.path.read_bytes() == BYTES


@scenario
async def test_a_fetch_that_is_broken_off_keeps_what_came(depot, kept):
    depot.cut = 1_000_000
    task = asyncio.create_task(kept.get())
    while len(depot.asked) < 2:
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert kept.part.stat().st_size >= 1_000_000
    depot.cut = None
    await kept.get()
    assert kept.path.read_bytes() == BYTES


@scenario
async def test_bytes_that_were_changed_on_the_node_are_noticed_before_they_are_used(depot, kept):
    await kept.get()
    before = kept.path.stat()
    with kept.path.open("r+b") as file:
        file.seek(1_234_567)
        file.write(b"\xff\xfe")
    os.utime(kept.path, ns=(before.st_atime_ns, before.st_mtime_ns))
    await kept.get()
    assert kept.path.read_bytes() == BYTES
    assert len(depot.asked) == 2


@scenario
async def test_changed_bytes_that_cannot_be_fetched_anew_are_not_given_out(depot, kept):
    await kept.get()
    kept.path.write_bytes(BYTES[:-1] + b"x")
    depot.status = 404
    assert (await kept.refused()).reason == "ImageMissing"
    assert not kept.path.exists()


@scenario
async def test_an_image_that_was_prefetched_is_checked_too(depot, kept):
    kept.directory.mkdir()
    kept.path.write_bytes(b"something else")
    await kept.get()
    assert kept.path.read_bytes() == BYTES


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (BYTES[:-1] + b"x", "sha256"),
        (BYTES[:-1], "3145727 bytes"),
        (BYTES + b"x", "more than"),
        (b"", "0 bytes"),
    ],
)
def test_a_plane_that_sends_other_bytes_is_not_believed(depot, kept, sent, words):
    @scenario
    async def story():
        depot.sent = sent
        failed = await kept.refused()
        assert failed.reason == "ImageCorrupt"
        assert words in failed.detail
        assert not kept.path.exists()
        depot.sent = None
        await kept.get()
        assert kept.path.read_bytes() == BYTES

    story()


@pytest.mark.parametrize(
    ("status", "reason"),
    [(401, "TokenRefused"), (403, "TokenRefused"), (404, "ImageMissing"), (503, "ImageNotFetched")],
)
def test_a_plane_that_refuses_is_quoted(depot, kept, status, reason):
    @scenario
    async def story():
        depot.status = status
        failed = await kept.refused()
        assert (failed.reason, failed.detail) == (reason, f"HTTP {status}: because")

    story()


@scenario
async def test_a_plane_that_is_away_is_named_so(tmp_path, depot):
    depot.close()
    failed = await Kept(depot, tmp_path).refused()
    assert failed.reason == "ImageNotFetched"
    assert "Connect" in failed.detail


@scenario
async def test_a_disk_without_room_is_said_before_anything_is_fetched(depot, kept):
    assert (await kept.refused(Image(depot.sha256, 1 << 50, "raw"))).reason == "NoSpace"
    assert depot.asked == []


@scenario
async def test_a_disk_that_fills_up_meanwhile_is_said(depot, kept):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, hard))
    try:
        assert (await kept.refused()).reason == "NoSpace"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(kept.directory.iterdir()) == []
    await kept.get()
    assert kept.path.read_bytes() == BYTES


@scenario
async def test_room_is_made_of_what_no_instance_here_begins_with(depot, tmp_path):
    kept = Kept(depot, tmp_path, spare_bytes=1 << 50)
    kept.directory.mkdir()
    needed, unused = (sha256(name).hexdigest() for name in (b"needed", b"unused"))
    kept.wanted = {needed}
    for name in (f"sha256-{needed}", f".sha256-{needed}.part", f"sha256-{unused}", f".sha256-{unused}.part"):
        (kept.directory / name).write_bytes(b"x")
    assert (await kept.refused()).reason == "NoSpace"
    assert {path.name for path in kept.directory.iterdir()} == {f"sha256-{needed}", f".sha256-{needed}.part"}


@scenario
async def test_halves_that_nobody_needs_are_dropped_and_whole_images_stay_while_there_is_room(depot, kept):
    kept.directory.mkdir()
    for name in (f"sha256-{'1' * 64}", f".sha256-{'2' * 64}.part", ".gitkeep"):
        (kept.directory / name).write_bytes(b"x")
    await kept.get()
    assert {path.name for path in kept.directory.iterdir()} == {f"sha256-{'1' * 64}", ".gitkeep", kept.path.name}


@scenario
async def test_a_directory_that_cannot_be_written_is_said(depot, tmp_path):
    (tmp_path / "images").write_text("")
    assert (await Kept(depot, tmp_path).refused()).reason == "ImageNotKept"


@scenario
async def test_a_seed_comes_with_the_token(depot, kept):
    seed = await kept.cache.seed("inst_1", "tok")
    assert seed == Seed("web", "inst_1", ("ssh-ed25519 AAAA a@b",), b"#cloud-config\n")
    assert depot.asked == [("/v1/agent/instances/inst_1/seed", "Bearer tok", None)]


@pytest.mark.parametrize("answer", [[], {}, {"name": "a", "instanceId": "b", "userData": "?"}])
def test_a_seed_that_is_none_is_refused(depot, kept, answer):
    depot.seed = answer
    with pytest.raises(Failed) as failed:
        asyncio.run(kept.cache.seed("inst_1", "tok"))
    assert failed.value.reason == "SeedNotFetched"


def test_a_seed_that_is_refused_says_why(depot, kept):
    for status, reason in ((401, "TokenRefused"), (404, "SeedMissing"), (500, "SeedNotFetched")):
        depot.status = status
        with pytest.raises(Failed) as failed:
            asyncio.run(kept.cache.seed("inst_1", "tok"))
        assert failed.value.reason == reason


@scenario
async def test_the_token_goes_to_no_other_server(depot, tmp_path):
    """A redirect is no answer of the plane's."""
    seen = []

    def answer(request):
        seen.append(str(request.url))
        return httpx.Response(302, headers={"location": depot.address})

    def client():
        return httpx.AsyncClient(base_url="http://plane", transport=httpx.MockTransport(answer))

    kept = Kept(depot, tmp_path, client=client)
    assert (await kept.refused()).reason == "ImageNotFetched"
    assert len(seen) == 1
    assert depot.asked == []
