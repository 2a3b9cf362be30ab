"""The root disk: a qcow2 overlay of the image, which is never written to."""

import errno
from pathlib import Path
from typing import Any, Final

import msgspec

from adapters.agent import durable, program
from adapters.agent.driver import Failed
from adapters.agent.qemu.machine import GIB
from adapters.agent.qemu.settings import QEMU_IMG
from domain.node_spec import Image

_FRESH: Final = ".disk.new"


async def make(path: Path, image: Path, of: Image, gib: int, run: program.Run = program.run) -> None:
    """Put a disk of `gib` GiB under `path`, unless it is there; an ISO's is blank. Raises Failed."""
    if path.exists():
        return
    size = gib * GIB
    words = ["-q", "-f", "qcow2"]
    if of.format != "iso":
        await _must_fit(image, of, size, run)
        words += ["-b", str(image), "-F", of.format]
    fresh = path.with_name(_FRESH)
    fresh.unlink(missing_ok=True)
    await _qemu_img(run, "create", *words, str(fresh), str(size))
    fresh.chmod(0o600)
    fresh.replace(path)
    durable.sync_directory(path.parent)


async def _must_fit(image: Path, of: Image, size: int, run: program.Run) -> None:
    """What was checked when the image came is checked here too, for QEMU opens whatever file an image names."""
    about = await _info(image, of.format, run)
    extra = about.get("format-specific", {}).get("data", {})
    if "backing-filename" in about or "data-file" in extra:
        raise Failed("ImageRefused", "the image names another file: flatten it with qemu-img convert")
    if about["virtual-size"] > size:
        raise Failed("ImageTooBig", f"the image makes a disk of {about['virtual-size']} bytes, the flavor has {size}")


async def _info(path: Path, format: str, run: program.Run) -> dict[str, Any]:
    printed = await _qemu_img(run, "info", "--output=json", "-f", format, str(path))
    try:
        return dict(msgspec.json.decode(printed))
    except (msgspec.MsgspecError, TypeError, ValueError):
        raise Failed("ImageRefused", f"{QEMU_IMG} info says nothing that can be read") from None


async def _qemu_img(run: program.Run, *words: str) -> bytes:
    done = await run((QEMU_IMG, *words))
    if done.code == 127:
        raise missing(QEMU_IMG)
    if done.code != 0:
        full = b"No space left" in done.complained
        raise Failed("NoSpace" if full else "DiskNotMade", done.why(200))
    return done.printed


def missing(tool: str) -> Failed:
    return Failed("ToolMissing", f"this node has no {tool}: install qemu-system-x86 and qemu-utils")


def unwritten(problem: OSError) -> Failed:
    full = problem.errno in (errno.ENOSPC, errno.EDQUOT)
    return Failed("NoSpace" if full else "DiskNotMade", str(problem)[:200])
