"""The bytes of images in a directory, each file under the digest of its content (architecture.md §1).

Processes that serve one database share the directory. Whoever gives a digest its file or takes it away holds its lock
meanwhile, so that no bytes go while the log learns that they are there.
"""

import contextlib
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from adapters.agent import durable
from domain import errors

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class Directory:
    """Blobs as files: `sha256/ab/abcd...`. What is there under a digest was checked before it got the name."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._coming = root / "coming"

    def path(self, sha256: str) -> Path:
        """Where the bytes are, or would be; raises ValueError for what is no digest."""
        if not _DIGEST.fullmatch(sha256):
            raise ValueError("a digest is 64 characters of lower-case hex")
        return self._root / "sha256" / sha256[:2] / sha256

    def has(self, sha256: str) -> bool:
        """Raises Unavailable where all of them are away: a directory that is not mounted has lost nothing."""
        try:
            if self.path(sha256).is_file():
                return True
            away = not (self._root / "sha256").is_dir()
        except OSError as fault:
            raise errors.Unavailable("the bytes of images cannot be reached just now; try again") from fault
        if away:
            raise errors.Unavailable("the directory of images is not there: whoever runs this plane can mount it")
        return False

    def drop(self, sha256: str) -> None:
        path = self.path(sha256)
        if path.exists():
            durable.remove(path)

    def kept(self) -> Iterator[str]:
        """Every digest whose bytes are there."""
        for path in (self._root / "sha256").glob("??/*"):
            if _DIGEST.fullmatch(path.name):
                yield path.name

    @contextlib.contextmanager
    def locked(self, sha256: str) -> Iterator[None]:
        """Hold a digest against every other process and thread; digests that begin alike wait for each other."""
        directory = _made(self._root / "locks")
        handle = os.open(directory / self.path(sha256).parent.name, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def fresh(self) -> tuple[Path, BinaryIO]:
        """A new file for bytes that are to come. It is locked for as long as it is open."""
        while True:
            path = _made(self._coming) / secrets.token_hex(16)
            file = open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b")  # noqa: SIM115
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file.fileno()).st_nlink:
                return path, file
            file.close()  # somebody swept before it was locked

    def keep(self, fresh: Path, sha256: str) -> None:
        """Give synced bytes their name; the same bytes from before are replaced."""
        path = self.path(sha256)
        _made(path.parent)
        fresh.replace(path)
        durable.sync_directory(path.parent)

    def room(self) -> int:
        """Bytes that the disk has left."""
        return shutil.disk_usage(_made(self._root)).free

    def sweep(self) -> int:
        """Delete what uploads left whose process is gone; return how many."""
        found = 0
        for path in self._coming.glob("*") if self._coming.is_dir() else ():
            with contextlib.suppress(OSError), path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # an upload under way holds it
                path.unlink()
                found += 1
        return found


def _made(directory: Path) -> Path:
    """The directory, which nobody else may look into, made to last."""
    if not directory.is_dir():
        if not directory.parent.is_dir():
            _made(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)
        durable.sync_directory(directory.parent)
    return directory
