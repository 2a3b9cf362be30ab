"""IP addresses and networks of policies (iam.md §2, "IP").

The standard library's `ipaddress` accepts scope ids, netmasks and padded prefixes, so it is not used.
"""

import re

from msgspec import Struct

_OCTET = re.compile(r"0|[1-9][0-9]{0,2}")
_GROUP = re.compile(r"[0-9A-Fa-f]{1,4}")
_LOW = 0xFFFF_FFFF


class Address(Struct, frozen=True):
    """One address: `bits` is 32 or 128."""

    bits: int
    number: int


class Network(Struct, frozen=True):
    """An address range; a single address has the full prefix. Host bits are ignored."""

    address: Address
    prefix: int


def address(text: object) -> Address | None:
    """Reads one address without prefix, or gives None."""
    if not isinstance(text, str):
        return None
    bits, number = (128, _ipv6(text)) if ":" in text else (32, _ipv4(text))
    return None if number is None else Address(bits, number)


def network(text: object) -> Network | None:
    """Reads an address with an optional plain decimal prefix, or gives None."""
    if not isinstance(text, str):
        return None
    written, slash, length = text.partition("/")
    base = address(written)
    if base is None:
        return None
    if not slash:
        return Network(base, base.bits)
    if _OCTET.fullmatch(length) is None or int(length) > base.bits:
        return None
    return Network(base, int(length))


def written(net: Network) -> str:
    """The text of a network, which `network` reads back as it is."""
    number = net.address.number
    if net.address.bits == 32:
        return ".".join(str(number >> shift & 0xFF) for shift in (24, 16, 8, 0)) + f"/{net.prefix}"
    return ":".join(f"{number >> shift & 0xFFFF:x}" for shift in range(112, -1, -16)) + f"/{net.prefix}"


def contains(net: Network, who: Address) -> bool:
    """Whether the address lies in the network; families meet only in IPv4-mapped IPv6."""
    base, prefix = net.address, net.prefix
    if base.bits == who.bits:
        return _same(base.number, who.number, base.bits, prefix)
    if base.bits == 32:
        return _mapped(who) and _same(base.number, who.number & _LOW, 32, prefix)
    return prefix >= 96 and _mapped(base) and _same(base.number & _LOW, who.number, 32, prefix - 96)


def _same(one: int, other: int, bits: int, prefix: int) -> bool:
    return (one ^ other) >> (bits - prefix) == 0


def _mapped(who: Address) -> bool:
    return who.number >> 32 == 0xFFFF


def _ipv4(text: str) -> int | None:
    parts = text.split(".")
    if len(parts) != 4 or not all(_OCTET.fullmatch(part) and int(part) <= 255 for part in parts):
        return None
    number = 0
    for part in parts:
        number = number << 8 | int(part)
    return number


def _ipv6(text: str) -> int | None:
    if text.count("::") > 1 or ":::" in text:
        return None
    left, gap, right = text.partition("::")
    head = _groups(left, dotted=not gap)
    tail = _groups(right, dotted=True)
    if head is None or tail is None:
        return None
    missing = 8 - len(head) - len(tail)
    if (missing < 1) if gap else (missing != 0):
        return None
    number = 0
    for group in (*head, *[0] * missing, *tail):
        number = number << 16 | group
    return number


def _groups(text: str, *, dotted: bool) -> list[int] | None:
    """The 16-bit groups of one side of `::`; a dotted IPv4 tail, where allowed, counts as two."""
    if not text:
        return []
    *front, last = text.split(":")
    groups: list[int] = []
    if dotted and "." in last:
        number = _ipv4(last)
        if number is None:
            return None
        groups = [number >> 16, number & 0xFFFF]
    else:
        front.append(last)
    if not all(_GROUP.fullmatch(part) for part in front):
        return None
    return [int(part, 16) for part in front] + groups
