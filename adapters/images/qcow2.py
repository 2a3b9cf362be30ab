"""The header of a qcow2 file, versions 2 and 3 (QEMU's docs/interop/qcow2.rst), held against what may be uploaded."""

import struct
from typing import Final, NamedTuple

from domain import errors

MAGIC: Final = b"QFI\xfb"
MAX_VIRTUAL: Final = 16 << 40
"""The largest disk that an image may make: 16 TiB. A header of some bytes can claim 8 EiB."""

_FIELDS: Final = struct.Struct(">4sIQIIQIIQQIIQ")
_MORE: Final = struct.Struct(">QQQII")
_DIRTY, _CORRUPT, _EXTERNAL, _COMPRESSION, _WIDE_L2 = (1 << bit for bit in range(5))
_BACKING_FORMAT: Final = 0xE2792ACA
_DATA_FILE: Final = 0x44415441
_BITMAPS: Final = 0x23852875
_COMPRESSIONS: Final = (0, 1)
_MAX_L1: Final = 32 << 20
_MAX_REFCOUNT_TABLE: Final = 8 << 20
"""In bytes; what QEMU itself takes."""


class Header(NamedTuple):
    version: int
    backing_offset: int
    cluster_bits: int
    virtual: int
    encryption: int
    l1_entries: int
    l1_offset: int
    refcount_offset: int
    refcount_clusters: int
    snapshots: int
    incompatible: int = 0
    refcount_order: int = 4
    length: int = 72
    compression: int = 0


def check(head: bytes, size: int) -> int:
    """The virtual size. Raises Invalid for what is broken, encrypted, too large, or leans on another file."""
    header = _read(head)
    if header.backing_offset:
        raise _wrong("it has a backing file; flatten it: qemu-img convert -O qcow2")
    if header.encryption:
        raise _wrong("it is encrypted")
    if header.snapshots:
        raise _wrong("it has internal snapshots; leave them out: qemu-img convert -O qcow2")
    _check_features(header)
    _check_extensions(head, header)
    _check_tables(header, size)
    return header.virtual


def _wrong(message: str) -> errors.Invalid:
    return errors.Invalid("body", f"this qcow2 cannot be taken: {message}")


def _read(head: bytes) -> Header:
    if len(head) < _FIELDS.size:
        raise _wrong("its header is cut off")
    _, version, backing, _, bits, virtual, encryption, l1, l1_at, counts_at, counts, snapshots, _ = _FIELDS.unpack_from(
        head
    )
    known = (version, backing, bits, virtual, encryption, l1, l1_at, counts_at, counts, snapshots)
    if version == 2:
        return Header(*known)
    if version != 3:
        raise _wrong(f"its version is {version}; 2 and 3 are known")
    if len(head) < _FIELDS.size + _MORE.size:
        raise _wrong("its header is cut off")
    incompatible, _, _, order, length = _MORE.unpack_from(head, _FIELDS.size)
    if length < _FIELDS.size + _MORE.size or length % 8 or length > len(head):
        raise _wrong(f"its header claims to be {length} bytes long")
    compression = head[104] if length > 104 else 0
    return Header(*known, incompatible, order, length, compression)


def _check_features(header: Header) -> None:
    features = header.incompatible
    if features & _EXTERNAL:
        raise _wrong("its data lie in an external file; flatten it: qemu-img convert -O qcow2")
    if features & (_DIRTY | _CORRUPT):
        raise _wrong("it was not closed, or is marked corrupt; repair it: qemu-img check -r all")
    if features & ~(_COMPRESSION | _WIDE_L2):
        raise _wrong("it needs features that are not known here")
    if header.compression not in _COMPRESSIONS or (header.compression and not features & _COMPRESSION):
        raise _wrong("its compression is neither zlib nor zstd")
    if header.refcount_order > 6:
        raise _wrong("its refcounts are wider than 64 bits")


def _check_extensions(head: bytes, header: Header) -> None:
    """Header extensions end at type 0, or with the first cluster; QEMU reads whatever comes until then.

    Bitmaps of some bytes in the file are half a GiB each in the memory of whoever opens it.
    """
    at, end = header.length, min(1 << header.cluster_bits, len(head)) if header.cluster_bits < 32 else len(head)
    while at + 8 <= end:
        kind, length = struct.unpack_from(">II", head, at)
        if kind == 0:
            return
        if kind in (_BACKING_FORMAT, _DATA_FILE):
            raise _wrong("it names a backing file's format or an external data file; flatten it: qemu-img convert")
        if kind == _BITMAPS:
            raise _wrong("it has bitmaps; leave them out: qemu-img convert -O qcow2")
        at += 8 + (length + 7) // 8 * 8
    if at > end or end < 1 << header.cluster_bits:
        raise _wrong("a header extension reaches beyond the header, or beyond what is read of it")


def _check_tables(header: Header, size: int) -> None:
    if not 9 <= header.cluster_bits <= 21:
        raise _wrong(f"its clusters are 2^{header.cluster_bits} bytes; 2^9 to 2^21 are possible")
    if not 0 < header.virtual <= MAX_VIRTUAL:
        raise _wrong(f"its disk would be {header.virtual} bytes; at most {MAX_VIRTUAL} are taken, and at least one")
    cluster = 1 << header.cluster_bits
    entry = 16 if header.incompatible & _WIDE_L2 else 8
    spanned = cluster * (cluster // entry)
    if header.l1_entries < -(-header.virtual // spanned):
        raise _wrong("its L1 table is too short for its disk")
    _check_inside("L1", header.l1_offset, header.l1_entries * 8, _MAX_L1, cluster, size)
    length = header.refcount_clusters * cluster
    _check_inside("refcount", header.refcount_offset, length, _MAX_REFCOUNT_TABLE, cluster, size)


def _check_inside(name: str, offset: int, length: int, most: int, cluster: int, size: int) -> None:
    if not length or length > most:
        raise _wrong(f"its {name} table would be {length} bytes; at most {most} are taken, and it must have one")
    if offset % cluster or not cluster <= offset <= size - length:
        raise _wrong(f"its {name} table does not lie within the file")
