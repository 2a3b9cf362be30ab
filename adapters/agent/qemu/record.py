"""What the agent knows of an instance that it has, as a file in the instance's directory."""

from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from adapters.agent import durable
from adapters.agent.driver import Wanted
from adapters.agent.qemu.vfio import Lent
from domain.node_spec import Instance

NAME: Final = "instance.json"


class Record(Struct, frozen=True, rename="camel"):
    """`lent` are GPUs that may be with vfio-pci since the boot `boot_id`; `stopping` says that it was told to end.

    The token is not kept.
    """

    instance: Instance
    cdi_devices: tuple[str, ...]
    lent: tuple[Lent, ...] = ()
    stopping: bool = False
    started: bool = False


def of(wanted: Wanted) -> Record:
    return Record(wanted.instance, wanted.cdi_devices)


def write(directory: Path, record: Record) -> None:
    directory.mkdir(mode=0o700, exist_ok=True)
    durable.write(directory / NAME, msgspec.json.format(msgspec.json.encode(record)) + b"\n")


def read(directory: Path) -> Record | None:
    """None where the directory has none, or one that cannot be read."""
    try:
        return msgspec.json.decode((directory / NAME).read_bytes(), type=Record)
    except (OSError, msgspec.MsgspecError):
        return None


def remove(directory: Path) -> None:
    """With all that is in it; the record goes last."""
    if not directory.exists():
        return
    for path in directory.iterdir():
        if path.name != NAME:
            path.unlink()
    (directory / NAME).unlink(missing_ok=True)
    directory.rmdir()
    durable.sync_directory(directory.parent)
