"""When a pool or a project goes out of a tenant's sight, the relationships on it are removed there (iam.md §7, §21).

The log says what went; nobody waits for it. What is to be done is a row until it is done, so that a restart loses
nothing; doing it twice does no harm.
"""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from adapters.controller import Controller
from adapters.iam.better.answers import Failed
from adapters.iam.better.relationships import NoKey, Relationships
from adapters.postgres.pool import Pool
from adapters.postgres.removals import Removal, Removals
from commands.ports import Store
from domain import errors, offering, pool, project
from domain.event import Fence, Recorded

log = logging.getLogger(__name__)

LEASE: Final = "singleton:relationships"
EVERY_S: Final = 1.0
STRETCH: Final = 10_000
"""Positions of the log that are looked through at a time."""

AT_ONCE: Final = 20
FIRST_WAIT_MS, LONGEST_WAIT_MS = 30_000, 6 * 3_600_000
TRIES: Final = 16
"""About two days; a process that takes over begins anew."""

_TOPICS: Final = tuple(
    str(kind.__struct_config__.tag) for kind in (pool.Retired, project.Archived, offering.Withdrawn, offering.Changed)
)


class Removing:
    """`shown` is the position that every read model shows; a second process is a hot standby."""

    def __init__(
        self, connections: Pool, store: Store, shown: Callable[[], int], relationships: Relationships, holder: str
    ) -> None:
        self._rows = Removals(connections)
        self._store = store
        self._shown = shown
        self._relationships = relationships
        self._begun: Fence | None = None
        self._position = 0
        self.left = 0
        """How many were tried and are not done, as far as this process knows."""
        self._controller = Controller(LEASE, connections, holder, self._round, store, EVERY_S)
        self.start, self.stop, self.tick = self._controller.start, self._controller.stop, self._controller.tick

    def _round(self, fence: Fence, held: bool) -> None:
        if self._begun != fence:
            self._rows.anew(fence)
            self._position, self._begun = self._rows.position(), fence
        self._take_in(fence)
        if held:
            return
        for one in self._rows.due(AT_ONCE):
            self._controller.one(partial(self._remove, one, fence), f"{one.tenant_id} {one.type}/{one.id}")
        self.left = self._rows.left()

    def _take_in(self, fence: Fence) -> None:
        shown = self._shown()
        while self._position < shown:
            upto = min(shown, self._position + STRETCH)
            found = [one for recorded in self._rows.ends(self._position, upto, _TOPICS) for one in self._of(recorded)]
            self._rows.add(list(dict.fromkeys(found)), upto, fence)
            self._position = upto

    def _of(self, recorded: Recorded) -> Iterator[Removal]:
        """Who may have seen it; who still does is found when it is done."""
        stream = recorded.stream
        match recorded.event:
            case pool.Retired(owner_tenant_id=owner):
                yield Removal(owner, "compute-pool", stream)
                for id in self._rows.offerings(stream):
                    yield from self._reached(self._store.load(id).state)
            case project.Archived(owner_tenant_id=owner):
                yield Removal(owner, "compute-project", stream)
            case offering.Withdrawn() | offering.Changed(include_descendants=False):
                before: offering.State = self._store.load(stream, recorded.version - 1).state
                yield from self._reached(before)

    def _reached(self, of: offering.State) -> Iterator[Removal]:
        """Where an offering made its pool seen; who still sees it is looked at last."""
        below = self._rows.below(of.tenant_id) if of.include_descendants else []
        for tenant_id in (of.tenant_id, *below):
            yield Removal(tenant_id, "compute-pool", of.pool_id)

    def _remove(self, one: Removal, fence: Fence) -> bool:
        try:
            count = self._relationships.remove(one.tenant_id, one.type, one.id, partial(self._gone, one))
        except (NoKey, Failed, OSError, errors.Unauthenticated, errors.Unavailable) as fault:
            self._later(one, str(fault), fence)
            return True
        if count:
            log.info("%s: %d relationships on %s/%s removed", one.tenant_id, count, one.type, one.id)
        self._rows.done(one, fence)
        return True

    def _later(self, one: Removal, trouble: str, fence: Fence) -> None:
        last = one.tries + 1 >= TRIES
        wait = None if last else min(FIRST_WAIT_MS << one.tries, LONGEST_WAIT_MS)
        when = "given up until the next start" if wait is None else f"again in {wait // 1000} s"
        log.warning("%s: relationships on %s/%s stay: %s; %s", one.tenant_id, one.type, one.id, trouble, when)
        self._rows.later(one, trouble[:300], wait, fence)

    def _gone(self, one: Removal) -> bool:
        """Whether it is still over: offered again meanwhile, a pool has relationships that are meant."""
        state = self._store.load(one.id).state
        if isinstance(state, pool.State) and state.retired:
            return True
        if isinstance(state, project.State):
            return state.archived_at is not None
        return self._store.resolve(one.tenant_id, one.type, one.id) is None
