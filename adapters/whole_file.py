"""A small file that is changed as a whole: one change at a time, and never half of it on disk."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PRIVATE = 0o600


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """No other change of a file in this directory meanwhile. Raises OSError where it cannot be opened."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def replace(path: Path, data: bytes) -> None:
    """In one step, on disk before it returns, with the mode and the owner that the file had; a new one is private.

    Raises OSError; then the file is as it was.
    """
    fresh = path.with_name(path.name + ".new")
    try:
        was = path.stat() if path.exists() else None
        fresh.unlink(missing_ok=True)
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE), "wb") as file:
            file.write(data)
            file.flush()
            if was is not None:
                os.fchmod(file.fileno(), was.st_mode & 0o777)
                if (was.st_uid, was.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(file.fileno(), was.st_uid, was.st_gid)
            os.fsync(file.fileno())
        fresh.replace(path)
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(directory)
        os.close(directory)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
