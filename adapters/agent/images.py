"""Images that a command fetches: kept under the digest of their bytes, or not at all."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import httpx

from adapters.agent import durable
from adapters.agent.commander import Failure
from domain.node_command import PrefetchImage

SPARE_BYTES: Final = 1 << 30
"""What an image leaves free on the disk that it is kept on."""

_CHUNK: Final = 1 << 20
_SILENT_SECONDS: Final = 60.0


def name_of(digest: str) -> str:
    """The file of the image that has this digest."""
    return f"sha256-{digest}"


async def prefetch(
    params: PrefetchImage, directory: Path, client: Callable[[], httpx.AsyncClient] | None = None
) -> dict[str, Any]:
    """Fetch an image, unless it is there; raises commander.Failure and keeps nothing when it is not what was named."""
    kept = directory / name_of(params.sha256)
    if kept.exists():
        return {"sha256": params.sha256, "sizeBytes": kept.stat().st_size, "path": str(kept), "fetched": False}
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = directory / f".{params.sha256}.new"
    for left in directory.glob(".*.new"):
        left.unlink()
    try:
        async with (client or _client)() as http, http.stream("GET", params.url) as answer:
            if answer.status_code != 200:
                raise Failure("NotFetched", detail=f"HTTP {answer.status_code}")
            size = await _store(answer.aiter_raw(_CHUNK), fresh, params, _room(directory, params))
        await asyncio.to_thread(_keep, fresh, kept)
    except (httpx.HTTPError, httpx.InvalidURL) as failure:
        raise Failure("NotFetched", detail=f"{type(failure).__name__}: {failure}"[:500]) from None
    except OSError as failure:
        raise Failure("NotKept", detail=str(failure)) from None
    finally:
        fresh.unlink(missing_ok=True)
    return {"sha256": params.sha256, "sizeBytes": size, "path": str(kept), "fetched": True}


def _client() -> httpx.AsyncClient:
    """The bytes are what the digest says, so they are asked for as they lie there."""
    headers = {"accept-encoding": "identity"}
    return httpx.AsyncClient(timeout=_SILENT_SECONDS, follow_redirects=True, max_redirects=5, headers=headers)


def _room(directory: Path, params: PrefetchImage) -> int:
    """How many bytes may come: what was named, or what the disk can spare."""
    free = max(0, shutil.disk_usage(directory).free - SPARE_BYTES)
    if params.size_bytes is not None and params.size_bytes > free:
        raise Failure("NoSpace", freeBytes=free, sizeBytes=params.size_bytes)
    return free if params.size_bytes is None else params.size_bytes


async def _store(chunks: AsyncIterator[bytes], fresh: Path, params: PrefetchImage, room: int) -> int:
    digest, size = sha256(), 0
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        async for chunk in chunks:
            size += len(chunk)
            if size > room:
                raise Failure("TooBig", limitBytes=room)
            digest.update(chunk)
            await asyncio.to_thread(file.write, chunk)
        file.flush()
        await asyncio.to_thread(os.fsync, file.fileno())
    if params.size_bytes is not None and size != params.size_bytes:
        raise Failure("WrongSize", sizeBytes=size)
    if digest.hexdigest() != params.sha256:
        raise Failure("WrongDigest", sha256=digest.hexdigest(), sizeBytes=size)
    return size


def _keep(fresh: Path, kept: Path) -> None:
    fresh.replace(kept)
    durable.sync_directory(kept.parent)
