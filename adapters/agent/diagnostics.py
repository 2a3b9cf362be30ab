"""Facts that help to find a fault: few, bounded, and none that anybody keeps secret."""

import asyncio
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from adapters.agent import program
from adapters.inventory import sysfs
from domain.node_spec import Allocation

MAX_BYTES: Final = 32_768
_PSEUDO: Final = frozenset({"proc", "sysfs", "tmpfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "overlay", "squashfs"})
_GPU_FIELDS: Final = (
    "uuid,name,temperature.gpu,power.draw,utilization.gpu,memory.used,memory.total,pstate,mig.mode.current"
)
_MOST_ROWS: Final = 32


async def collect(root: Path, held: Sequence[Allocation], run: program.Run = program.run) -> dict[str, Any]:
    """What the host shows now, at most MAX_BYTES of JSON: the longest lists are left out first, and named."""
    query = ("nvidia-smi", f"--query-gpu={_GPU_FIELDS}", "--format=csv,noheader,nounits")
    failed = ("systemctl", "list-units", "--failed", "--plain", "--no-legend", "--no-pager")
    gpus, units = await asyncio.gather(run(query), run(failed))
    facts = {
        "uptimeSeconds": int(float((sysfs.read(root / "proc/uptime") or "0").split()[0])),
        "load": [float(one) for one in (sysfs.read(root / "proc/loadavg") or "").split()[:3]],
        "kernel": sysfs.read(root / "proc/sys/kernel/osrelease"),
        "tainted": int(sysfs.read(root / "proc/sys/kernel/tainted") or 0),
        "memory": _memory(root),
        "filesystems": _filesystems(root),
        "failedUnits": [line.split()[0] for line in _lines(units)] if units.code == 0 else None,
        "gpus": [
            dict(zip(_GPU_FIELDS.split(","), map(str.strip, line.split(",")), strict=False)) for line in _lines(gpus)
        ],
        "gpuDriver": "none" if gpus.code == 127 else "answers" if gpus.code == 0 else gpus.why(),
        "held": [{"id": one.id, "devices": list(one.cdi_devices)} for one in held[:_MOST_ROWS]],
    }
    return _bounded(facts)


def _lines(done: program.Done) -> list[str]:
    text = done.printed.decode(errors="replace") if done.code == 0 else ""
    return [line[:300] for line in text.splitlines() if line.strip()][:_MOST_ROWS]


def _memory(root: Path) -> dict[str, int]:
    """In MiB."""
    rows = re.findall(
        r"^(MemTotal|MemAvailable|SwapTotal|SwapFree):\s+(\d+) kB", sysfs.read(root / "proc/meminfo") or "", re.M
    )
    return {name[0].lower() + name[1:] + "MiB": int(amount) // 1024 for name, amount in rows}


def _filesystems(root: Path) -> list[dict[str, Any]]:
    mounts = [line.split() for line in (sysfs.read(root / "proc/mounts") or "").splitlines()]
    shown = []
    for _, where, kind, *_rest in [mount for mount in mounts if len(mount) >= 4 and mount[2] not in _PSEUDO]:
        try:
            usage = shutil.disk_usage(root / where.lstrip("/"))
        except OSError:
            continue
        if usage.total:
            mib = 1_048_576
            shown.append(
                {"at": where[:255], "type": kind, "totalMiB": usage.total // mib, "freeMiB": usage.free // mib}
            )
    return shown[:_MOST_ROWS]


def _bounded(facts: dict[str, Any]) -> dict[str, Any]:
    left_out: list[str] = []
    while len(msgspec.json.encode(facts)) > MAX_BYTES - 256:
        largest = max(facts, key=lambda name: len(msgspec.json.encode(facts[name])))
        del facts[largest]
        left_out.append(largest)
    return facts | {"leftOut": left_out} if left_out else facts
