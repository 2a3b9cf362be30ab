"""The machine this runs on, as one NodeInventory.

Every program may be missing and every one has a time limit: a machine without nvidia-smi has no GPUs, and a
driver that hangs must not hang the agent. What one source cannot tell is left out.
"""

import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from adapters.inventory import dmi, ethtool, lsblk, merge, sysfs
from adapters.inventory.fragment import Fragment, InventoryError, known, text
from domain.inventory import NodeInventory

Run = Callable[[Sequence[str]], bytes | None]
Parse = Callable[[bytes, str], Fragment]

TIMEOUT_SECONDS: Final = 20
#: `-L` comes first: only there MIG devices have their UUIDs and profiles.
_PROGRAMS: Final[tuple[tuple[tuple[str, ...], Parse], ...]] = (
    (("nvidia-smi", "-L"), merge.nvidia_smi),
    (("nvidia-smi", "-q", "-x"), merge.nvidia_smi),
    (("nvidia-smi", "mig", "-lgi"), merge.nvidia_smi),
    (("nvidia-smi", "topo", "-m"), merge.nvidia_smi),
    (("nvidia-smi", "nvlink", "--status"), merge.nvidia_smi),
    (("dmidecode", "-t", "0", "-t", "1", "-t", "17"), dmi.parse),
    (("lsblk", "-J", "-b", "-o", lsblk.COLUMNS), lsblk.parse),
)


def run(command: Sequence[str]) -> bytes | None:
    """What the program printed; None when it is missing, fails, or takes too long."""
    program = shutil.which(command[0])
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, *command[1:]],
            capture_output=True,
            check=True,
            timeout=TIMEOUT_SECONDS,
            stdin=subprocess.DEVNULL,
            env={"LC_ALL": "C", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin"},
        )
    except (subprocess.SubprocessError, OSError):
        return None
    return done.stdout


def collect(
    root: Path = Path("/"), run: Run = run, permanent: sysfs.Permanent = ethtool.permanent_mac
) -> NodeInventory:
    """Reads the machine; `root`, `run` and `permanent` are the world, so that a test can be another one."""
    fragments = [
        sysfs.system(root),
        sysfs.cpu(root),
        sysfs.memory(root),
        sysfs.topology(root),
        sysfs.software(root),
        sysfs.clock(root),
        sysfs.nics(root, permanent),
        _timekeeping(run),
        *_programs(run),
    ]
    for fragment in fragments:
        for thing in fragment.get("gpus", ()):
            _add_numa(root, thing)
    return merge.build(fragments)


def _programs(run: Run) -> Iterator[Fragment]:
    """A program of another version that prints something else is as good as missing."""
    for command, parse in _PROGRAMS:
        printed = run(command)
        if printed is None or not printed.strip():
            continue
        try:
            yield parse(printed, command[0])
        except InventoryError:
            continue


def _add_numa(root: Path, gpu: Fragment) -> None:
    numa = sysfs.numa_of_pci(root, gpu["pciBusId"]) if "pciBusId" in gpu else None
    if numa is not None:
        gpu["numaNode"] = numa


def _timekeeping(run: Run) -> Fragment:
    printed = run(("timedatectl", "show", "-p", "NTPSynchronized", "-p", "Timezone"))
    shown = dict(line.partition("=")[::2] for line in (printed or b"").decode(errors="replace").splitlines())
    return {
        "clock": known(
            synchronized={"yes": True, "no": False}.get(shown.get("NTPSynchronized", "")),
            timezone=text(shown.get("Timezone")),
        )
    }
