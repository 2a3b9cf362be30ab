"""Brings the tenant tree, and an access file's digest, into the log (domain.md §9)."""

from collections.abc import Collection, Mapping
from typing import Final

from adapters.postgres.store import EventStore
from commands.acting import act
from commands.ports import Loaded
from domain import tenant
from domain.access import Tenant
from domain.event import Change, Meta

ACTOR: Final = "controller:directory"
NOWHERE: Final[frozenset[str]] = frozenset()


def record(
    store: EventStore, tenants: Collection[Tenant], digest: str | None = None, unread: Collection[str] = NOWHERE
) -> None:
    """Append what differs between the tree and the log; a tree and a digest that are there append nothing.

    A tenant that is missing in the tree is deleted, unless it lies below one that is `unread`: whose children could
    not be looked at.
    """
    tree = {one.id: one for one in tenants}

    def decide() -> list[Change]:
        gone = set(store.tenants()) - set(tree)
        every = [*tree, *sorted(gone)]
        known = dict(zip(every, store.load_all([tenant.stream(id) for id in every]), strict=True))
        parents = {id: known[id].state.parent for id in gone}
        found = [tenant.Recorded(one.id, one.status, one.parent) for one in tree.values()]
        found += [tenant.Recorded(id, "deleted", parents[id]) for id in sorted(gone) if not _below(id, parents, unread)]
        changes = [] if digest is None else _loaded(store, digest)
        return [*changes, *(_change(event, known[event.tenant_id]) for event in found)]

    act(store, Meta(ACTOR), decide)


def _change(event: tenant.Recorded, known: Loaded) -> Change:
    """Without events where the log says the same already."""
    same = known.version > 0 and (known.state.status, known.state.parent) == (event.status, event.parent)
    return Change(tenant.stream(event.tenant_id), known.version, () if same else (event,))


def _loaded(store: EventStore, digest: str) -> list[Change]:
    access = store.load(tenant.ACCESS_STREAM)
    if access.state.digest == digest:
        return []
    return [Change(tenant.ACCESS_STREAM, access.version, (tenant.AccessLoaded(digest),))]


def _below(gone: str, parents: Mapping[str, str | None], unread: Collection[str]) -> bool:
    """Whether a missing tenant hangs, through others that are missing, below one whose children are not known."""
    at: str | None = gone
    for _ in range(len(parents) + 1):
        at = parents.get(at) if at is not None else None
        if at is None or at in unread:
            return at is not None
    return False
