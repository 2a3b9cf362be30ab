"""Small disk images made byte by byte, sound ones and broken ones."""

import struct


def qcow2(
    *,
    virtual: int = 1 << 20,
    version: int = 3,
    bits: int = 16,
    backing: bytes = b"",
    encryption: int = 0,
    snapshots: int = 0,
    incompatible: int = 0,
    l1: int = 2,
    l1_offset: int | None = None,
    refcount_clusters: int = 1,
    length: int = 112,
    extension: tuple[int, bytes] | None = None,
    claimed: int | None = None,
) -> bytes:
    """An empty disk: header, refcount table, refcount block, L1 table, each in its cluster."""
    cluster = 1 << min(bits, 21)
    at = l1_offset if l1_offset is not None else 3 * cluster
    backing_at = 1024 if backing else 0
    fields = (virtual, encryption, l1, at, cluster, refcount_clusters, snapshots, 0)
    header = b"QFI\xfb" + struct.pack(">IQII", version, backing_at, len(backing), bits)
    header += struct.pack(">QIIQQIIQ", *fields)
    if version >= 3:
        header += struct.pack(">QQQII", incompatible, 0, 0, 4, length) + bytes(8)
    if extension is not None:
        kind, data = extension
        header += struct.pack(">II", kind, len(data) if claimed is None else claimed) + data
    first = bytearray(cluster)
    first[: len(header)] = header
    if backing:
        first[backing_at : backing_at + len(backing)] = backing
    counts = struct.pack(">Q", 2 * cluster).ljust(cluster, b"\0")
    block = struct.pack(">4H", 1, 1, 1, 1).ljust(cluster, b"\0")
    return bytes(first) + counts + block + bytes(cluster)


def iso(blocks: int, *, kind: int = 1, block: int = 2048) -> bytes:
    """A primary volume descriptor and its terminator, of a volume of so many blocks."""
    descriptor = bytearray(2048)
    descriptor[:7] = bytes([kind]) + b"CD001\x01"
    descriptor[80:88] = struct.pack("<I", blocks) + struct.pack(">I", blocks)
    descriptor[128:132] = struct.pack("<H", block) + struct.pack(">H", block)
    end = b"\xffCD001\x01".ljust(2048, b"\0")
    return (bytes(16 * 2048) + bytes(descriptor) + end).ljust(blocks * 2048, b"\0")
