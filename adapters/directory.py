"""Brings the tenant tree and the access file's digest into the log (domain.md §9)."""

from adapters.iam.access_file import AccessFile
from adapters.postgres.store import EventStore
from commands.acting import act
from domain import tenant
from domain.event import Change, Event, Meta

ACTOR = "controller:directory"


def record(store: EventStore, file: AccessFile) -> None:
    """Append what differs between the file and the log; a file that was in force before appends nothing."""

    def decide() -> list[Change]:
        changes: list[Change] = []
        access = store.load(tenant.ACCESS_STREAM)
        if access.state.digest != file.digest:
            changes.append(Change(tenant.ACCESS_STREAM, access.version, (tenant.AccessLoaded(file.digest),)))
        for found in file.tenants.values():
            stream = tenant.stream(found.id)
            known = store.load(stream)
            event: Event = tenant.Recorded(found.id, found.status, found.parent)
            if known.version == 0 or (known.state.status, known.state.parent) != (found.status, found.parent):
                changes.append(Change(stream, known.version, (event,)))
        for gone in set(store.tenants()) - set(file.tenants):
            known = store.load(tenant.stream(gone))
            event = tenant.Recorded(gone, "deleted", known.state.parent)
            changes.append(Change(tenant.stream(gone), known.version, (event,)))
        return changes

    act(store, Meta(ACTOR), decide)
