"""Takes away the bytes that nobody needs: of retired images that no instance is left of, and what no image has.

What is retired rests first: an instance that was asked for just before may not be in the read models yet.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, LiteralString

from adapters.housekeeping import Housekeeping, Job
from adapters.images.blobs import Directory
from adapters.postgres.pool import Pool
from commands import image_content
from commands.ports import Store
from domain import image

EVERY_S: Final = 30.0
ORPHANS_EVERY_S: Final = 3600.0
RESTS_MS: Final = 3_600_000
"""For how long bytes stay after their image was retired, or after they came."""
AT_ONCE: Final = 20

_UNUSED: LiteralString = """
SELECT i.id, i.sha256 FROM images i
WHERE i.stored AND i.retired_at <= %s AND NOT EXISTS (
    SELECT FROM instances n WHERE n.image_id = i.id AND NOT n.ended
)
ORDER BY i.retired_at, i.id LIMIT %s
"""
_USED: LiteralString = "SELECT EXISTS (SELECT FROM instances WHERE image_id = %s AND NOT ended)"
_SAME: LiteralString = "SELECT id FROM images WHERE sha256 = %s"


class Tidying:
    """`current` says whether the read models show all that the log has: what they do not show may use the bytes."""

    def __init__(
        self, store: Store, blobs: Directory, pool: Pool, current: Callable[[], bool], rests_ms: int = RESTS_MS
    ) -> None:
        self._store = store
        self._blobs = blobs
        self._pool = pool
        self._current = current
        self._rests_ms = rests_ms
        # A thread of its own: to delete a large file takes seconds, in which leases would run out.
        jobs = Job("bytes of retired images", EVERY_S, self.retired), Job("left-over bytes", ORPHANS_EVERY_S, self.left)
        self._keeper = Housekeeping(*jobs)
        self.start, self.stop = self._keeper.start, self._keeper.stop

    def retired(self) -> None:
        """Drop the bytes of images that were retired and are used by nobody."""
        before = self._store.now() - self._rests_ms
        with self._pool.connection() as connection:
            unused = connection.execute(_UNUSED, (before, AT_ONCE)).fetchall()
        for image_id, sha256 in unused:
            with self._blobs.locked(sha256):
                if not self._current():
                    return
                if image_content.dropped(self._store, image_id, self._used(image_id)):
                    self._drop(sha256)

    def left(self) -> None:
        """Delete what no image has: an upload's whose answer was a no, and what was being sent when a process ended."""
        self._blobs.sweep()
        for sha256 in list(self._blobs.kept()):
            if self._age_ms(self._blobs.path(sha256)) < self._rests_ms:
                continue
            with self._blobs.locked(sha256):
                if not self._current():
                    return
                self._drop(sha256)

    def _drop(self, sha256: str) -> None:
        """Unless an image has the bytes; whoever holds the lock is the only one who could change that."""
        with self._pool.connection() as connection:
            same = [row[0] for row in connection.execute(_SAME, (sha256,)).fetchall()]
        states: list[image.State] = [loaded.state for loaded in self._store.load_all(same)]
        if all(state.stored_at is None for state in states):
            self._blobs.drop(sha256)

    def _used(self, image_id: str) -> bool:
        with self._pool.connection() as connection:
            row = connection.execute(_USED, (image_id,)).fetchone()
        return row is None or bool(row[0])

    @staticmethod
    def _age_ms(path: Path) -> float:
        """By the file's own clock, which is this machine's; what is gone is of no age."""
        try:
            return (time.time() - path.stat().st_mtime) * 1000
        except FileNotFoundError:
            return 0
