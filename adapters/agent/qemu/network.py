"""The interface of a machine: behind QEMU's own network, or a tap on a bridge of the host."""

from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Final

from adapters.agent import program
from adapters.agent.driver import Failed
from adapters.agent.qemu import machine
from adapters.inventory import sysfs

USER_ADDRESS: Final = "10.0.2.15"
"""What QEMU's network gives by DHCP to the one machine in it."""
_GONE: Final = b"Cannot find device"


def tap_of(instance_id: str) -> str:
    """An interface's name has 15 characters at most."""
    return f"bct{sha256(instance_id.encode()).hexdigest()[:12]}"


async def plug(instance_id: str, bridge: str, root: Path, run: program.Run = program.run) -> str:
    """Make the tap and put it on the bridge; raises Failed."""
    tap = tap_of(instance_id)
    if not (root / f"sys/class/net/{bridge}/bridge").exists():
        raise Failed("NoBridge", f"this node has no bridge {bridge}")
    if not (root / f"sys/class/net/{tap}").exists():
        await _ip(run, "tuntap", "add", "dev", tap, "mode", "tap")
    await _ip(run, "link", "set", "dev", tap, "master", bridge, "up")
    return tap


async def unplug(instance_id: str, root: Path, run: program.Run = program.run) -> None:
    tap = tap_of(instance_id)
    if (root / f"sys/class/net/{tap}").exists():
        await _ip(run, "link", "del", "dev", tap)


class Neighbours:
    """Where machines are: of the host's neighbour table, which is read once, when it is asked first."""

    def __init__(self, bridge: str | None, root: Path) -> None:
        self._bridge = bridge
        self._root = root

    def addresses(self, instance_id: str) -> tuple[str, ...]:
        """Without a bridge it is always the same; on one it is what the table has of the machine."""
        if self._bridge is None:
            return (USER_ADDRESS,)
        return tuple(sorted(self._met.get(machine.mac(instance_id), ()))[:16])

    @cached_property
    def _met(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for line in (sysfs.read(self._root / "proc/net/arp") or "").splitlines()[1:]:
            words = line.split()
            if len(words) == 6 and words[5] == self._bridge and words[2] != "0x0":
                found.setdefault(words[3].lower(), []).append(words[0])
        return found


async def _ip(run: program.Run, *words: str) -> None:
    done = await run(("ip", *words))
    if done.code != 0 and _GONE not in done.complained:
        raise Failed("NoNetwork", f"ip {' '.join(words)}: {done.why(150)}")
