"""The bytes of images in a directory, each file under the digest of its content (architecture.md §1)."""

import re
from pathlib import Path
from typing import Final

from adapters.agent import durable

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class Directory:
    """Blobs as files: `sha256/ab/abcd...`. What is there under a digest was checked before it got the name."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def path(self, sha256: str) -> Path:
        """Where the bytes are, or would be; raises ValueError for what is no digest."""
        if not _DIGEST.fullmatch(sha256):
            raise ValueError("a digest is 64 characters of lower-case hex")
        return self._root / "sha256" / sha256[:2] / sha256

    def has(self, sha256: str) -> bool:
        return self.path(sha256).is_file()

    def drop(self, sha256: str) -> None:
        path = self.path(sha256)
        if path.exists():
            durable.remove(path)
