"""The bytes of an image on their way in: what they must be, and what they are (domain.md §6)."""

from msgspec import Struct

from domain.image import Format, Purpose


class Expected(Struct, frozen=True):
    """What was registered; other bytes are refused and not kept."""

    sha256: str
    size_bytes: int
    format: Format
    purpose: Purpose


class Content(Struct, frozen=True):
    """Bytes that are kept and are what was registered. `virtual_bytes` is the size of the disk that they make."""

    virtual_bytes: int
