"""Images and seeds of instances, as a driver gets them: fetched from the plane, and checked before each use.

An image is kept under its digest, beside those that were prefetched. What was cut short goes on from where it was.
"""

import asyncio
import base64
import binascii
import errno
import logging
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Collection
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, Final

import httpx
import msgspec
from msgspec import Struct

from adapters.agent import durable, joining
from adapters.agent.driver import Failed, Seed
from adapters.agent.images import SPARE_BYTES, name_of
from domain.node_spec import Image

_log = logging.getLogger("better_compute.agent")

_CHUNK: Final = 1 << 20
_SILENT_SECONDS: Final = 60.0
_PART: Final = ".part"
_REASONS: Final = {401: "TokenRefused", 403: "TokenRefused", 404: "NotThere", 410: "NotThere"}


class _Seed(Struct, frozen=True, rename="camel"):
    name: str
    instance_id: str
    ssh_keys: tuple[str, ...] = ()
    user_data: str = ""


class _Checked(Struct, frozen=True):
    """A file as it was when its bytes were read last, and when reading began (monotonic seconds)."""

    signature: tuple[int, ...]
    began: float


class Cache:
    """`driver.Sources` from the plane. Images in `wanted` (digests) are never dropped to make room for others."""

    def __init__(
        self,
        server: str,
        directory: Path,
        wanted: Callable[[], Collection[str]],
        client: Callable[[], httpx.AsyncClient] | None = None,
        spare_bytes: int = SPARE_BYTES,
    ) -> None:
        self._directory = directory
        self._wanted = wanted
        self._client = client or (lambda: _client(server))
        self._spare_bytes = spare_bytes
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._checked: dict[str, _Checked] = {}

    async def image(self, image: Image, token: str) -> Path:
        """See driver.Sources. Those who ask while the same bytes are fetched or read share what comes of it."""
        asked = time.monotonic()
        kept = self._directory / name_of(image.sha256)
        async with self._locks[image.sha256]:
            try:
                if kept.exists() and not await self._good(kept, image, asked):
                    _log.error(
                        "an image was not what it is called: fetched anew", extra={"fields": {"file": str(kept)}}
                    )
                    durable.remove(kept)
                if not kept.exists():
                    self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                    await self._fetch(image, token, kept)
            except OSError as problem:
                raise _unkept(problem) from None
        return kept

    async def seed(self, instance_id: str, token: str) -> Seed:
        try:
            async with self._client() as http:
                answer = await http.get(f"/v1/agent/instances/{instance_id}/seed", headers=_bearer(token))
        except httpx.HTTPError as problem:
            raise Failed("SeedNotFetched", _said(problem)) from None
        if answer.status_code != 200:
            raise _refused("Seed", answer.status_code, answer.content)
        try:
            said = msgspec.json.decode(answer.content, type=_Seed)
            return Seed(said.name, said.instance_id, said.ssh_keys, base64.b64decode(said.user_data, validate=True))
        except (msgspec.MsgspecError, binascii.Error) as wrong:
            raise Failed("SeedNotFetched", f"the plane's answer is no seed: {wrong}") from None

    async def _good(self, kept: Path, image: Image, asked: float) -> bool:
        """Whether the file has the bytes: read now, unless somebody did so since it was asked for."""
        known = self._checked.get(image.sha256)
        if known is not None and known.began >= asked and known.signature == _signature(kept):
            return True
        began = time.monotonic()
        os.utime(kept)
        with kept.open("rb") as file:
            before = _signature(file.fileno())
            digest = await asyncio.to_thread(_digest, file)
        if digest.hexdigest() != image.sha256:
            return False
        self._checked[image.sha256] = _Checked(before, began)
        return True

    async def _fetch(self, image: Image, token: str, kept: Path) -> None:
        """For as long as more comes with each attempt; what came is kept for the next one, unless it is wrong.

        A disk that is full is not left so.
        """
        part = kept.with_name(f".{kept.name}{_PART}")
        self._make_room(image, part)
        began = time.monotonic()
        while True:
            before = _size(part)
            try:
                digest = await self._more(image, token, part)
                break
            except httpx.HTTPError as problem:
                if _size(part) <= before:
                    raise Failed("ImageNotFetched", _said(problem)) from None
            except OSError:
                part.unlink(missing_ok=True)
                raise
        if _size(part) != image.size_bytes or digest != image.sha256:
            found = f"sha256 {digest} with {_size(part)} bytes"
            durable.remove(part)
            raise Failed("ImageCorrupt", f"the plane sent {found}, expected {image.sha256} with {image.size_bytes}")
        part.replace(kept)
        durable.sync_directory(self._directory)
        self._checked[image.sha256] = _Checked(_signature(kept), began)

    async def _more(self, image: Image, token: str, part: Path) -> str:
        """Fetch what is missing, and answer the digest of all that is there then."""
        with open(os.open(part, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
            digest = await asyncio.to_thread(_digest, file)
            have = file.tell()
            if have < image.size_bytes:
                headers = _bearer(token) | ({"range": f"bytes={have}-"} if have else {})
                async with self._client() as http, http.stream("GET", _path(image), headers=headers) as answer:
                    if answer.status_code == 416 and have:
                        file.truncate(0)
                        raise httpx.RemoteProtocolError("the plane does not go on from there")
                    if answer.status_code not in (200, 206):
                        raise _refused("Image", answer.status_code, await answer.aread())
                    if answer.status_code == 206 and not _goes_on(answer, have):
                        raise Failed("ImageNotFetched", f"asked for bytes from {have}, got another range")
                    if answer.status_code == 200 and have:
                        file.seek(0)
                        file.truncate(0)
                        digest = sha256()
                    await _pour(answer, file, digest, image.size_bytes)
            file.flush()
            await asyncio.to_thread(os.fsync, file.fileno())
        return str(digest.hexdigest())

    def _make_room(self, image: Image, part: Path) -> None:
        """Drop what no instance here begins with, the longest unused first, until the disk has room for this one."""
        wanted = {name_of(digest) for digest in self._wanted()} | {name_of(image.sha256)}
        spare = [path for path in self._directory.iterdir() if path.name.strip(".").removesuffix(_PART) not in wanted]
        halves = [path for path in spare if path.name.endswith(_PART)]
        whole = sorted((p for p in spare if p.name.startswith("sha256-")), key=lambda p: p.stat().st_mtime)
        for path in halves:
            path.unlink(missing_ok=True)
        needed = image.size_bytes - _size(part) + self._spare_bytes
        while (free := shutil.disk_usage(self._directory).free) < needed:
            if not whole:
                raise Failed("NoSpace", f"the image needs {needed} bytes with what stays free, the disk has {free}")
            durable.remove(whole.pop(0))


def _client(server: str) -> httpx.AsyncClient:
    """The bytes are what the digest says, so they are asked for as they lie there."""
    made = joining.client(server)
    made.timeout = httpx.Timeout(_SILENT_SECONDS)
    made.headers["accept-encoding"] = "identity"
    return made


def _path(image: Image) -> str:
    return f"/v1/agent/images/{image.sha256}"


def _bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def _goes_on(answer: httpx.Response, have: int) -> bool:
    return str(answer.headers.get("content-range")).startswith(f"bytes {have}-")


def _digest(file: IO[bytes]) -> Any:
    """Of all that the file has; it is read to its end."""
    file.seek(0)
    digest = sha256()
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    return digest


async def _pour(answer: httpx.Response, file: IO[bytes], digest: Any, most: int) -> None:
    """Also what came before the connection broke is written."""
    have, waiting = file.tell(), bytearray()
    try:
        async for chunk in answer.aiter_raw():
            waiting += chunk
            if have + len(waiting) > most:
                raise Failed("ImageCorrupt", f"the plane sends more than {most} bytes")
            if len(waiting) >= _CHUNK:
                have += len(waiting)
                piece = bytes(waiting)
                waiting.clear()
                await asyncio.to_thread(_write, file, digest, piece)
    except (httpx.HTTPError, asyncio.CancelledError):
        file.write(waiting)
        raise
    except Failed:
        file.truncate(0)
        raise
    _write(file, digest, bytes(waiting))


def _write(file: IO[bytes], digest: Any, chunk: bytes) -> None:
    file.write(chunk)
    digest.update(chunk)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _signature(file: Path | int) -> tuple[int, ...]:
    at = os.stat(file)
    return at.st_ino, at.st_size, at.st_mtime_ns, at.st_ctime_ns


def _said(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"[:200]


def _unkept(problem: OSError) -> Failed:
    full = problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return Failed("NoSpace" if full else "ImageNotKept", str(problem)[:200])


def _refused(what: str, status: int, body: bytes) -> Failed:
    """`TokenRefused`, `ImageMissing`, or else `ImageNotFetched`; likewise of seeds."""
    try:
        detail = str(msgspec.json.decode(body)["detail"])
    except (msgspec.MsgspecError, KeyError, TypeError):
        detail = ""
    reason = _REASONS.get(status, "NotFetched")
    named = {"NotThere": f"{what}Missing", "NotFetched": f"{what}NotFetched"}.get(reason, reason)
    return Failed(named, f"HTTP {status}: {detail}"[:200])
