"""The CDI file of one allocation: what a container runtime has to give to a container, and nothing else.

Format: Container Device Interface 0.6.0, the first with annotations. A container gets all of an allocation with
`--device better-compute.io/allocation=<allocation id>`.
"""

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct

from domain.node_spec import Allocation

VERSION: Final = "0.6.0"
KIND: Final = "better-compute.io/allocation"
_PREFIX: Final = "better-compute.io/"
_NAME: Final = re.compile(r"[0-9A-Za-z](?:[0-9A-Za-z_.-]{0,118}[0-9A-Za-z])?")
_DEVICE: Final = re.compile(
    r"(?P<kind>[a-z0-9.-]+/[a-z0-9-]+)=(?P<name>[0-9A-Za-z](?:[\w.:/-]*[0-9A-Za-z])?)", re.ASCII
)


class Damaged(ValueError):
    """A file that is none of ours as we wrote it."""


class Node(Struct, frozen=True):
    path: str


class Edits(Struct, frozen=True, rename="camel"):
    env: tuple[str, ...]
    device_nodes: tuple[Node, ...] = ()


class Device(Struct, frozen=True, rename="camel"):
    name: str
    container_edits: Edits


class File(Struct, frozen=True, rename="camel"):
    """`annotations` say which allocation it is of, in which boot its device nodes were these, and its own digest."""

    cdi_version: str
    kind: str
    annotations: dict[str, str]
    devices: tuple[Device, ...]


def is_name(allocation_id: str) -> bool:
    """Whether an id can be a CDI device's name, and so a part of a file's name."""
    return _NAME.fullmatch(allocation_id) is not None


def uuid_of(device: str) -> str:
    """The UUID in `nvidia.com/gpu=<uuid>`; raises ValueError for devices of other kinds, which this agent has not."""
    found = _DEVICE.fullmatch(device)
    if found is None or found["kind"] != "nvidia.com/gpu":
        raise ValueError(f"{device!r} is no device of nvidia.com/gpu, the only kind that is known here")
    return found["name"]


def write(allocation: Allocation, boot_id: str, uuids: Sequence[str], nodes: Sequence[str]) -> bytes:
    """The file of an allocation with these GPUs or slices and these device nodes.

    Whatever the container's image says, NVIDIA's own hooks see no other GPU; `void` tells them to see none.
    """
    env = (f"NVIDIA_VISIBLE_DEVICES={','.join(uuids) or 'void'}",)
    edits = Edits(env, tuple(Node(path) for path in nodes))
    device = Device(allocation.id, edits)
    notes = {
        "allocation": msgspec.json.encode(allocation).decode(),
        "boot-id": boot_id,
        "digest": _digest(device),
    }
    file = File(VERSION, KIND, {_PREFIX + name: value for name, value in notes.items()}, (device,))
    return msgspec.json.format(msgspec.json.encode(file), indent=2) + b"\n"


def read(content: bytes) -> tuple[Allocation, str]:
    """Which allocation a file is of, and the boot id under which it was written; raises Damaged."""
    try:
        file = msgspec.json.decode(content, type=File)
        allocation = msgspec.json.decode(file.annotations[f"{_PREFIX}allocation"], type=Allocation)
        boot_id, digest = file.annotations[f"{_PREFIX}boot-id"], file.annotations[f"{_PREFIX}digest"]
    except (msgspec.MsgspecError, KeyError, UnicodeDecodeError) as broken:
        raise Damaged(str(broken)) from None
    if (file.cdi_version, file.kind) != (VERSION, KIND):
        raise Damaged(f"it is of {file.kind!r} {file.cdi_version}")
    if [device.name for device in file.devices] != [allocation.id] or _digest(file.devices[0]) != digest:
        raise Damaged("its devices are not what was written")
    return allocation, boot_id


def _digest(device: Device) -> str:
    return sha256(msgspec.json.encode(device)).hexdigest()
