"""An upload on its way: bytes are hashed as they are written, and get their name once they are what was registered.

Nothing of what fails is kept. All of it runs in threads; one upload is in one thread at a time.
"""

import contextlib
import errno
import hashlib
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO, Final

from msgspec.structs import replace

from adapters.images import formats
from adapters.images.blobs import Directory
from domain import errors
from domain.image_content import Content, Expected
from domain.operation import Answer, Call, Operation

_log = logging.getLogger(__name__)

SPARE: Final = 1 << 30
"""What uploads leave free on the disk, in bytes: a database may live on it too."""

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
Expect = Callable[[Operation, Any, Call], Expected]
Perform = Callable[[Operation, Any, Call], Answer]


class Uploads:
    """`expect` decides what may come, `perform` records that it came."""

    def __init__(self, blobs: Directory, expect: Expect, perform: Perform, spare: int = SPARE) -> None:
        self.blobs = blobs
        self.perform = perform
        self._expect = expect
        self._spare = spare

    def begin(self, operation: Operation, asked: Any, call: Call) -> "Upload":
        """Refuses before a byte is read: who may not, what cannot come, and what the disk has no room for."""
        expected = self._expect(operation, asked, call)
        with _disk():
            room = self.room()
            if expected.size_bytes > room:
                raise _full(f"the image has {expected.size_bytes} bytes, and the plane has room for {max(0, room)}")
            path, file = self.blobs.fresh()
        return Upload(self, expected, path, file, lambda content: (operation, asked, replace(call, content=content)))

    def room(self) -> int:
        """Bytes that uploads may still take. None is kept for who has only said that it will send: it may never."""
        return self.blobs.room() - self._spare


class Upload:
    """One body. After `done` or `drop` nothing of it is open."""

    def __init__(
        self,
        uploads: Uploads,
        expected: Expected,
        path: Path,
        file: BinaryIO,
        command: Callable[[Content], tuple[Operation, Any, Call]],
    ) -> None:
        self.size = expected.size_bytes
        self._uploads = uploads
        self._expected = expected
        self._path = path
        self._file = file
        self._command = command
        self._hash = hashlib.sha256()
        self._head = b""
        self._virtual: int | None = None
        self._written = 0
        self._turn = Lock()

    def write(self, piece: bytes) -> None:
        """Take the next bytes; refuses as soon as they cannot be what was registered."""
        with self._turn, _disk():
            if self._written + len(piece) > self.size:
                raise formats.wrong(f"more than the {self.size} bytes that were registered came")
            if self._file.closed:
                return
            if len(piece) > self._uploads.room():
                raise _full("the plane's disk is full")
            self._file.write(piece)
            self._hash.update(piece)
            self._written += len(piece)
            self._look(piece)

    def done(self) -> Answer:
        """Every byte came: check them, make them last, give them their name, and record it."""
        with self._turn, _disk():
            virtual = self._checked()
            self._file.flush()
            os.fsync(self._file.fileno())
            return self._record(Content(virtual))

    def drop(self) -> None:
        """Let go of it; what has not got its name is deleted."""
        with self._turn:
            if self._file.closed:
                return
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self._file.close()

    def _look(self, piece: bytes) -> None:
        """Judge the format by the first bytes, so that what is refused is refused early."""
        if self._virtual is None:
            self._head += piece[: formats.HEAD - len(self._head)]
            if len(self._head) == min(formats.HEAD, self.size):
                of = self._expected
                self._virtual = formats.check_head(self._head, self.size, of.format, of.purpose)
                self._head = b""

    def _checked(self) -> int:
        if self._written != self.size or self._virtual is None:
            raise formats.wrong(f"{self._written} bytes came, {self.size} were registered")
        if (digest := self._hash.hexdigest()) != self._expected.sha256:
            raise formats.wrong(f"its SHA-256 is {digest}, registered is {self._expected.sha256}")
        self._file.seek(max(0, self.size - formats.TAIL))
        formats.check_tail(self._file.read(formats.TAIL), self._expected.format)
        return self._virtual

    def _record(self, content: Content) -> Answer:
        """The digest is held until the log has it: bytes that it does not know are taken for left over."""
        blobs, sha256 = self._uploads.blobs, self._expected.sha256
        with blobs.locked(sha256):
            known = blobs.path(sha256).is_file()
            blobs.keep(self._path, sha256)
            try:
                return self._uploads.perform(*self._command(content))
            except errors.Unavailable:
                raise  # it may be recorded all the same
            except errors.Refusal:
                if not known:
                    blobs.drop(sha256)
                raise


@contextlib.contextmanager
def _disk() -> Iterator[None]:
    """What a disk cannot do is told the caller without naming places on it."""
    try:
        yield
    except OSError as fault:
        if fault.errno in _FULL:
            raise _full("the plane's disk is full") from fault
        _log.error("an upload cannot be written: %s", fault)
        raise errors.Unavailable("the bytes cannot be written just now; try again later") from fault


def _full(detail: str) -> errors.StorageFull:
    return errors.StorageFull(f"{detail}; nothing was kept")
