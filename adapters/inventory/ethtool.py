"""The permanent address of a network port, asked of its driver (`ethtool -P` without the program)."""

import array
import fcntl
import socket
import struct
from typing import Final

_SIOCETHTOOL: Final = 0x8946
_GET_PERMANENT: Final = 0x20
_LONGEST: Final = 32
_HEADER: Final = struct.calcsize("II")


def permanent_mac(name: str) -> str | None:
    """Octets in hex, None where the driver knows none; elsewhere a bond's member shows the bond's address."""
    answer = array.array("B", struct.pack("II", _GET_PERMANENT, _LONGEST) + bytes(_LONGEST))
    request = struct.pack("16sP", name.encode()[:15], answer.buffer_info()[0])
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
            fcntl.ioctl(channel, _SIOCETHTOOL, request)
    except OSError:
        return None
    _, size = struct.unpack("II", answer.tobytes()[:_HEADER])
    octets = answer.tobytes()[_HEADER : _HEADER + min(size, _LONGEST)]
    return octets.hex() if any(octets) else None
