"""What the log's tree says of one event: its place, its name and the digest of its stored bytes (api.md §6)."""

from hashlib import sha256

import msgspec
from msgspec import Struct

from domain import merkle


class Leaf(Struct, frozen=True, rename="camel"):
    """The fields stand as RFC 8785 sorts them, which makes their plain encoding the canonical one.

    `recorded_at` in epoch ms; `sha256` is hex, of the stored bytes as they are stored; `type` is the stored name.
    """

    position: int
    recorded_at: int
    sha256: str
    stream: str
    type: str
    version: int


_encode = msgspec.json.Encoder().encode


def of(position: int, recorded_at: int, state: bytes, stream: str, type: str, version: int) -> Leaf:
    """The leaf of one row of the log."""
    return Leaf(position, recorded_at, sha256(state).hexdigest(), stream, type, version)


def encoded(leaf: Leaf) -> bytes:
    """RFC 8785 JSON of a leaf."""
    return _encode(leaf)


def hashed(leaf: Leaf) -> bytes:
    """Its hash in the tree, 32 bytes."""
    return merkle.leaf_hash(_encode(leaf))
