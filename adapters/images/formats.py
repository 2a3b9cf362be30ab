"""What a file is by its content: raw, qcow2 or ISO 9660, and nothing that only pretends to be (domain.md §6).

Nobody but this judges what is uploaded: a node opens it as the format that was registered, and never lets a program
guess. A disk that names another file (a backing file, an external data file) would open that on the node.
"""

from typing import Final

from adapters.images import qcow2
from domain import errors
from domain.image import Format, Purpose

HEAD: Final = 1 << 17
"""Bytes from the beginning that tell a format; a shorter file is judged by all that it has."""
TAIL: Final = 512

_SECTOR: Final = 512
_DESCRIPTOR: Final = 16 * 2048
"""Where the first volume descriptor of an ISO 9660 file lies (ECMA-119 §6.2.1)."""

_FOREIGN: Final = (
    (0, b"KDMV", "a VMDK"),
    (0, b"COWD", "a VMDK"),
    (0, b"# Disk DescriptorFile", "a VMDK descriptor"),
    (0, b"vhdxfile", "a VHDX"),
    (0, b"conectix", "a VHD"),
    (0, b"QED\x00", "a QED"),
    (0, b"LUKS\xba\xbe", "encrypted (LUKS)"),
    (0, b"WithoutFreeSpace", "a Parallels disk"),
    (0, b"WithouFreSpacExt", "a Parallels disk"),
    (64, b"\x7f\x10\xda\xbe", "a VDI"),
)
_PACKED: Final = (
    (0, b"\x1f\x8b", "gzip"),
    (0, b"\xfd7zXZ\x00", "xz"),
    (0, b"\x28\xb5\x2f\xfd", "zstd"),
    (0, b"BZh", "bzip2"),
    (0, b"PK\x03\x04", "zip"),
)
_FOREIGN_TAILS: Final = ((b"conectix", "a VHD"), (b"koly", "a DMG"))


def check_head(head: bytes, size: int, format: Format, purpose: Purpose) -> int:
    """The size of the disk that it makes. Raises Invalid for what is no sound file of the format.

    `head` are the first HEAD bytes, or all that there are; `size` is that of the whole file.
    """
    if format == "qcow2":
        if not head.startswith(qcow2.MAGIC):
            raise wrong(f"registered as qcow2, and this is {_seen(head)}")
        return qcow2.check(head, size)
    if found := _foreign(head, packed=format == "raw" and purpose == "os"):
        raise wrong(f"registered as {format}, and this is {found}")
    if format == "iso":
        return _iso(head, size)
    if _is_iso(head):
        raise wrong("registered as raw, and this is an ISO 9660 file; register it as iso")
    if purpose == "os" and size % _SECTOR:
        raise wrong(f"a raw disk is a multiple of {_SECTOR} bytes, this is {size}")
    return size


def check_tail(tail: bytes, format: Format) -> None:
    """Raises Invalid where the last TAIL bytes make another format of a raw file."""
    for magic, name in _FOREIGN_TAILS if format == "raw" else ():
        if tail.startswith(magic):
            raise wrong(f"registered as raw, and this is {name}")


def wrong(message: str) -> errors.Invalid:
    return errors.Invalid("body", message)


def _foreign(head: bytes, *, packed: bool) -> str | None:
    if head.startswith(qcow2.MAGIC):
        return "a qcow2"
    known = next((name for at, magic, name in _FOREIGN if head.startswith(magic, at)), None)
    if known is None and packed:
        pressed = next((name for at, magic, name in _PACKED if head.startswith(magic, at)), None)
        return pressed and f"compressed with {pressed}: unpack it first"
    return known


def _seen(head: bytes) -> str:
    if _is_iso(head):
        return "an ISO 9660 file"
    return _foreign(head, packed=True) or "something else: a qcow2 begins with `QFI` and 0xFB"


def _is_iso(head: bytes) -> bool:
    return head[_DESCRIPTOR + 1 : _DESCRIPTOR + 6] == b"CD001"


def _iso(head: bytes, size: int) -> int:
    """A primary volume descriptor where it belongs, of a volume that is all there (ECMA-119 §8.4)."""
    if not _is_iso(head):
        raise wrong("registered as iso, and there is no `CD001` at byte 32769")
    descriptor = head[_DESCRIPTOR : _DESCRIPTOR + 2048]
    if len(descriptor) < 2048 or descriptor[0] != 1 or descriptor[6] != 1:
        raise wrong("its first volume descriptor is no primary one of ISO 9660")
    blocks, block = int.from_bytes(descriptor[80:84], "little"), int.from_bytes(descriptor[128:130], "little")
    if block not in (512, 1024, 2048) or not blocks:
        raise wrong("its primary volume descriptor names no volume")
    if blocks * block > size:
        raise wrong(f"its volume is {blocks * block} bytes, the file has {size}: it is cut off")
    return size
