"""Whether two inventories are of one machine (domain.md §3, "Hardware fingerprint"; anchors.md §2.9).

Boards leave the factory with the same "serial number" by the thousand, so an identifier counts only when it
is no known placeholder, and a fingerprint is trusted only when two kinds of identifier that do not repeat
each other survive.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from hashlib import sha256
from itertools import combinations
from typing import Final
from uuid import UUID

from msgspec import Struct

from domain.inventory import NodeInventory

_FILLER: Final = "tobefilledbyoem"
_MIN_CUT: Final = 6
_PLACEHOLDERS: Final = frozenset(
    {
        "",
        _FILLER,
        "defaultstring",
        "systemserialnumber",
        "notspecified",
        "notpresent",
        "notsettable",
        "none",
        "null",
        "na",
        "redacted",
        "unknown",
        "0123456789",
        "123456789",
        "1234",
        "abcd",
        "badindex",
    }
)
_ZEROS_OR_COUNTED = re.compile(r"(?:0x)?0+|sernum[0-9]")
_PLACEHOLDER_UUIDS: Final = frozenset(
    {
        UUID("03000200-0400-0500-0006-000700080009"),
        UUID("00010002-0003-0004-0005-000600070008"),
        UUID(int=0),
        UUID(int=2**128 - 1),
    }
)
_ZERO_TAIL: Final = bytes(6)
_DELL: Final = bytes.fromhex("4c4c4544")


class Fingerprint(Struct, frozen=True):
    """`fingerprint` is SHA-256 in hex, None when no identifier survives; `identifiers` are tagged, sorted."""

    fingerprint: str | None
    trusted: bool
    identifiers: tuple[str, ...]


def fingerprint(inventory: NodeInventory, excluding: Collection[str] = ()) -> Fingerprint:
    """Identifies a node by what survives the placeholder blocklist.

    `excluding` are tagged identifiers that another live node has too: they count for neither (O29).
    """
    found = {tagged for tagged in _identifiers(inventory) if tagged not in excluding}
    identifiers = tuple(sorted(found))
    if not identifiers:
        return Fingerprint(None, False, ())
    digest = sha256("\n".join(identifiers).encode()).hexdigest()
    return Fingerprint(digest, _trusted(identifiers), identifiers)


def is_placeholder(text: str) -> bool:
    """Says whether a serial, vendor or product is a factory's filler: in any case, doubled or cut."""
    bare = re.sub(r"[^0-9a-z]", "", text.lower())
    if bare in _PLACEHOLDERS or _ZEROS_OR_COUNTED.fullmatch(bare):
        return True
    repeated = _FILLER * (len(bare) // len(_FILLER) + 1)
    return len(bare) >= _MIN_CUT and repeated.startswith(bare)


def is_placeholder_uuid(uuid: UUID) -> bool:
    """Says whether a product UUID is shared by many boards, in either byte order that tools print it in."""
    return (
        uuid in _PLACEHOLDER_UUIDS or UUID(bytes=uuid.bytes_le) in _PLACEHOLDER_UUIDS or uuid.bytes.endswith(_ZERO_TAIL)
    )


def is_hardware_mac(mac: str) -> bool:
    """Says whether a maker burnt the address in: 6 octets, unicast, universally administered, not zero."""
    octets = bytes.fromhex(mac.replace(":", ""))
    return len(octets) == 6 and not octets[0] & 0b11 and any(octets)


def _identifiers(inventory: NodeInventory) -> Iterator[str]:
    system = inventory.system
    if (uuid := _uuid(system.product_uuid)) and not is_placeholder_uuid(uuid):
        yield f"uuid:{uuid.hex.upper()}"
    if system.serial_number and not is_placeholder(system.serial_number):
        yield f"serial:{_bare(system.serial_number)}"
    for nic in inventory.nics:
        if not nic.bmc_link and is_hardware_mac(nic.mac):
            yield f"mac:{_bare(nic.mac)}"
    for gpu in inventory.gpus:
        if not is_placeholder_uuid(UUID(gpu.uuid.removeprefix("GPU-"))):
            yield f"gpu:{_bare(gpu.uuid.removeprefix('GPU-'))}"


def _trusted(identifiers: tuple[str, ...]) -> bool:
    """Two kinds must be there that do not repeat each other."""
    kinds: dict[str, list[str]] = {}
    for tagged in identifiers:
        kind, _, value = tagged.partition(":")
        kinds.setdefault(kind, []).append(value)
    return any(_independent(kinds, a, b) for a, b in combinations(sorted(kinds), 2))


def _independent(kinds: dict[str, list[str]], a: str, b: str) -> bool:
    match (a, b):
        case ("mac", "uuid"):
            return not any(_holds_mac(UUID(kinds["uuid"][0]), mac) for mac in kinds["mac"])
        case ("serial", "uuid"):
            uuid, serial = UUID(kinds["uuid"][0]), kinds["serial"][0]
            return not _holds_serial(uuid, serial) and not _repeats(serial, uuid)
        case _:
            return True


def _holds_mac(uuid: UUID, mac: str) -> bool:
    octets = bytes.fromhex(mac)
    return any(octets in form or octets[::-1] in form for form in _forms(uuid))


def _holds_serial(uuid: UUID, serial: str) -> bool:
    """Makers write the serial into the UUID as hex, as ASCII (HPE), or as ASCII spread over it (Dell)."""
    ascii_serial = serial.encode()
    return (
        any(ascii_serial in form.upper() for form in _forms(uuid))
        or any(serial in form.hex().upper() for form in _forms(uuid))
        or _dell_service_tag(uuid) == ascii_serial
    )


def _dell_service_tag(uuid: UUID) -> bytes | None:
    octets = uuid.bytes if uuid.bytes.startswith(_DELL) else uuid.bytes_le
    if not octets.startswith(_DELL):
        return None
    return bytes([octets[10] & 0x7F, octets[5], octets[6], octets[9], *octets[13:16]]).upper()


def _repeats(serial: str, uuid: UUID) -> bool:
    """Whether 32 hex digits of the serial are the UUID's octets, in whatever order."""
    octets = Counter(uuid.bytes)
    return any(
        Counter(bytes.fromhex(run[start : start + 32])) == octets
        for run in re.findall(r"[0-9A-F]{32,}", serial)
        for start in range(len(run) - 31)
    )


def _forms(uuid: UUID) -> tuple[bytes, ...]:
    return (uuid.bytes, uuid.bytes_le)


def _uuid(text: str | None) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError:
        return None


def _bare(text: str) -> str:
    return re.sub(r"[^0-9A-Z]", "", text.upper())
