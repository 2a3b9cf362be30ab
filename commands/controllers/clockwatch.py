"""Wall-clock deadlines wait while the wall clock cannot be believed: ClockStep (domain.md §5, anchors O34)."""

import time
from collections.abc import Callable
from typing import Final

from commands.acting import act
from commands.ports import Store
from domain import clock
from domain.event import Change, Fence, Meta

STEP_MS: Final = 5_000
AGREED_S: Final = 60.0


class Watch:
    """Compares the wall clock with this process's monotonic one (seconds), from look to look.

    The wall clock is the database's, and asking takes time: a step is what lies more than `STEP_MS` beyond that doubt.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._looked: tuple[float, float, int] | None = None
        self._doubted: float | None = None
        self._believed: Fence | None = None
        self.unrecorded: int | None = None

    def look(self, wall: Callable[[], int]) -> None:
        asked = self._monotonic()
        shown = wall()
        answered = self._monotonic()
        before, self._looked = self._looked, (asked, answered, shown)
        if before is None:
            return
        since = shown - before[2]
        least, most = (asked - before[1]) * 1000, (answered - before[0]) * 1000
        by = since - most if since > most else min(0.0, since - least)
        if abs(by) > STEP_MS:
            self.unrecorded = round(by)
            self._doubted, self._believed = answered, None

    def believes(self, fence: Fence) -> bool:
        """Whether there is nothing to ask the log for: it was asked under this fence, and no step was seen since."""
        return self._believed == fence

    def believe(self, fence: Fence) -> None:
        self._doubted, self._believed = None, fence

    def agreed(self) -> bool:
        """Whether the clocks have agreed for long enough; whoever did not see the step begins to look now."""
        now = self._monotonic()
        self._doubted = now if self._doubted is None else self._doubted
        return now - self._doubted >= AGREED_S


def held(store: Store, watch: Watch, fence: Fence) -> bool:
    """Look at the clock, record what that brings, and say whether deadlines wait."""
    watch.look(store.now)
    if (by_ms := watch.unrecorded) is not None:
        _append(store, fence, lambda _, now: clock.Stepped(fence.lease, by_ms, now))
        watch.unrecorded = None
        return True
    if watch.believes(fence):
        return False
    stepped = store.load(clock.stream(fence.lease)).state.stepped
    if stepped is not None and not watch.agreed():
        return True
    if stepped is not None:
        _append(store, fence, lambda state, now: clock.Trusted("controller", now) if state.stepped else None)
    watch.believe(fence)
    return False


def _append(store: Store, fence: Fence, decide_one: Callable[[clock.State, int], clock.Events | None]) -> None:
    stream = clock.stream(fence.lease)

    def decide() -> list[Change]:
        loaded = store.load(stream)
        event = decide_one(loaded.state, store.now())
        return [] if event is None else [Change(stream, loaded.version, (event,))]

    act(store, Meta(f"controller:{fence.lease}"), decide, fence)
