"""What was changed in a row of the log, found by trying: the hash that was recorded says when it is put right.

A fault of one bit is found in whichever field it is. More than one bit is too many ways to try.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Final

from msgspec.structs import replace

from domain.leaf import Leaf, hashed

TRIED: Final = 16_384
"""Stored bytes beyond this are not tried: it would take minutes."""


def moved(found: Leaf, position: int) -> bytes:
    """The hash that the event would have at another position."""
    return hashed(replace(found, position=position))


def told(found: Leaf, state: bytes, recorded: bytes) -> str | None:
    """Which bit differs between an event and the hash recorded for it; None where it is more than one."""
    if (int.from_bytes(recorded) ^ int.from_bytes(hashed(found))).bit_count() == 1:
        return "one bit of the recorded hash was flipped"
    for name, reads, was, candidate in _candidates(found, state):
        if hashed(candidate) == recorded:
            return f"{name} reads {reads}, it was {was}"
    return None


def _candidates(found: Leaf, state: bytes) -> Iterator[tuple[str, object, object, Leaf]]:
    """Every leaf that is one flipped bit away: the field, how it reads, how it would have read."""
    for number in _flipped_number(found.version):
        yield "version", found.version, number, replace(found, version=number)
    for number in _flipped_number(found.recorded_at):
        yield "recordedAt", found.recorded_at, number, replace(found, recorded_at=number)
    for text in _flipped_text(found.stream):
        yield "stream", found.stream, text, replace(found, stream=text)
    for text in _flipped_text(found.type):
        yield "type", found.type, text, replace(found, type=text)
    for byte, flipped in _flipped(state) if len(state) <= TRIED else ():
        name = f"byte {byte} of the stored bytes"
        yield name, state[byte], flipped[byte], replace(found, sha256=sha256(flipped).hexdigest())


def _flipped_number(number: int) -> Iterator[int]:
    """Of eight bytes, as PostgreSQL stores it."""
    for flipped in _flipped(number.to_bytes(8, signed=True)):
        yield int.from_bytes(flipped[1], signed=True)


def _flipped(data: bytes) -> Iterator[tuple[int, bytes]]:
    changed = bytearray(data)
    for at in range(len(data)):
        for bit in range(8):
            changed[at] ^= 1 << bit
            yield at, bytes(changed)
            changed[at] ^= 1 << bit


def _flipped_text(text: str) -> Iterator[str]:
    for _, flipped in _flipped(text.encode()):
        try:
            yield flipped.decode()
        except UnicodeDecodeError:
            continue
