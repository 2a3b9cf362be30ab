"""Brings the tenant tree, and an access file's digest, into the log (domain.md §9)."""

from collections.abc import Collection, Mapping
from typing import Final

from adapters.postgres.store import EventStore
from commands.acting import act
from domain import tenant
from domain.access import Tenant
from domain.event import Change, Event, Meta

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
        changes = [] if digest is None else _loaded(store, digest)
        for found in tree.values():
            stream = tenant.stream(found.id)
            known = store.load(stream)
            event: Event = tenant.Recorded(found.id, found.status, found.parent)
            if known.version == 0 or (known.state.status, known.state.parent) != (found.status, found.parent):
                changes.append(Change(stream, known.version, (event,)))
        missing = {gone: store.load(tenant.stream(gone)) for gone in set(store.tenants()) - set(tree)}
        parents = {gone: known.state.parent for gone, known in missing.items()}
        for gone, known in missing.items():
            if not _below(gone, parents, unread):
                event = tenant.Recorded(gone, "deleted", known.state.parent)
                changes.append(Change(tenant.stream(gone), known.version, (event,)))
        return changes

    act(store, Meta(ACTOR), decide)


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
