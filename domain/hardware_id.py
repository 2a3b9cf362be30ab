"""One normal form per hardware identifier, so that letter case and separators never make two of one (O45).

Each function takes the text a tool printed and raises ValueError saying what would be right.
"""

import re
from typing import Final
from uuid import UUID

_UUID: Final = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_GPU = re.compile(rf"(?:gpu-)?({_UUID})")
_MIG = re.compile(rf"mig-({_UUID})")
_MIG_OLD = re.compile(rf"mig-gpu-({_UUID})/(\d+)/(\d+)")
_PCI = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])")
_NAA = re.compile(r"(?:0x|naa\.)?([0-9a-f]{16}|[0-9a-f]{32})")
_WWN = re.compile(r"(?:eui|nvme|uuid|t10)\.[0-9a-z._:-]{1,240}")
_OCTETS: Final = (6, 8, 20)


def gpu_uuid(text: str) -> str:
    """`GPU-` and the lower-case UUID, which is how NVML prints it."""
    found = _GPU.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError(f"{text!r} is no GPU UUID; one looks like GPU-8f6f9e54-1c2d-4b3a-9f00-0123456789ab")
    return f"GPU-{found[1]}"


def mig_uuid(text: str) -> str:
    """`MIG-<uuid>`, or `MIG-GPU-<uuid>/<gi>/<ci>` as drivers before 470 named them."""
    lower = text.strip().lower()
    if found := _MIG.fullmatch(lower):
        return f"MIG-{found[1]}"
    if old := _MIG_OLD.fullmatch(lower):
        return f"MIG-GPU-{old[1]}/{old[2]}/{old[3]}"
    raise ValueError(f"{text!r} is no MIG UUID; one looks like MIG-8f6f9e54-1c2d-4b3a-9f00-0123456789ab")


def mac(text: str) -> str:
    """Lower-case octets with colons: 6 of Ethernet, 8 of EUI-64, 20 of IP over InfiniBand."""
    digits = re.sub(r"[:.\-]", "", text.strip().lower())
    if not re.fullmatch(r"[0-9a-f]+", digits) or len(digits) not in {2 * n for n in _OCTETS}:
        raise ValueError(f"{text!r} is no hardware address; one looks like 9c:6b:00:12:34:56")
    return ":".join(digits[i : i + 2] for i in range(0, len(digits), 2))


def wwn(text: str) -> str:
    """Lower case; `naa.` and bare forms become the `0x` that lsblk prints."""
    lower = text.strip().lower()
    if found := _NAA.fullmatch(lower):
        return f"0x{found[1]}"
    if _WWN.fullmatch(lower):
        return lower
    raise ValueError(f"{text!r} is no WWN; one looks like 0x5000c500a1b2c3d4 or eui.0025385b71b00a1e")


def pci(text: str) -> str:
    """`domain:bus:device.function`, the domain in four digits where it fits, as sysfs prints it."""
    found = _PCI.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError(f"{text!r} is no PCI address; one looks like 0000:1b:00.0")
    domain = (found[1] or "").lstrip("0").rjust(4, "0")
    return f"{domain}:{found[2]}:{found[3]}.{found[4]}"


def system_uuid(text: str) -> str:
    """Lower case where it is a UUID; any other text as it came: a placeholder in it is worth seeing."""
    try:
        return str(UUID(text.strip()))
    except ValueError:
        return text
