"""Everything that happened to a node, event by event, with what its inventories changed (domain.md §3, §4)."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from domain import errors, inventory_diff, node, registry
from domain.event import Recorded
from domain.operation import Answer, Operation, Page, Paged
from queries import audit, reading
from queries.reading import Place, Reader, Row

MOST_CHANGES: Final = 100
MARK: Final = "history"


class History(Paged, frozen=True, kw_only=True):
    """Newest first, where nothing else is said."""

    id: str
    order: Annotated[Literal["asc", "desc"], Meta(description="asc: oldest first")] = "desc"


class Seen(Struct, frozen=True, kw_only=True, rename="camel"):
    """A new inventory against the one before; `omitted` counts the changes beyond the first hundred."""

    hash: str
    sections: tuple[str, ...]
    changes: tuple[inventory_diff.Change, ...]
    omitted: int


class Entry(Struct, frozen=True, kw_only=True, rename="camel"):
    """One event; `at` is the database's clock in epoch ms, `change` its fields. `inventory` is of a new one only."""

    version: int
    position: int
    at: int
    actor: str
    admission_id: str | None
    type: str
    change: dict[str, Any]
    inventory: Seen | None


def history(query: History, read: Reader) -> Answer:
    """A stream's versions have no holes: a page is a range of them, and nothing else of the stream is read."""
    here = read.load(query.id)
    place = reading.after(query, MARK)
    if place is not None and place[1] != query.id:
        raise errors.Invalid("cursor", "is not the nextCursor of an earlier page")
    after, until = _range(query, place, here.version)
    entries = _entries(query.id, read, after, until)
    if query.order == "desc":
        entries.reverse()
    rows: list[Row] = [(entry.version, query.id, 0, msgspec.json.encode(entry)) for entry in entries]
    more = until < here.version if query.order == "asc" else after > 0
    following: Place | None = (entries[-1].version, query.id) if entries and more else None
    return reading.page(rows, following, here.position, MARK)


def _range(query: History, place: Place | None, head: int) -> tuple[int, int]:
    """The versions `(after, until]` of the page behind `place`."""
    if query.order == "asc":
        after = max(0, place[0]) if place else 0
        return after, min(head, after + query.limit)
    until = min(head, place[0] - 1) if place else head
    return max(0, until - query.limit), max(0, until)


def _entries(id: str, read: Reader, after: int, until: int) -> list[Entry]:
    if until <= after:
        return []
    state: node.State = read.load_version(id, after).state
    entries = []
    for recorded in read.versions(id, after, until):
        entries.append(_entry(recorded, state, read))
        state = registry.fold(id, [recorded.event], state)
    return entries


def _entry(recorded: Recorded, before: node.State, read: Reader) -> Entry:
    shown = audit.entry(recorded, read)
    change = dict(shown.data)
    seen = None
    if isinstance(recorded.event, node.Inventoried):
        change.pop("inventory")
        seen = _seen(recorded.event, before)
    return Entry(
        version=recorded.version,
        position=recorded.position,
        at=recorded.recorded_at,
        actor=shown.actor,
        admission_id=shown.admission_id,
        type=shown.type,
        change=change,
        inventory=seen,
    )


def _seen(event: node.Inventoried, before: node.State) -> Seen:
    found = inventory_diff.changes(before.inventory, event.inventory)
    return Seen(
        hash=event.hash,
        sections=inventory_diff.sections(before.inventory, event.inventory),
        changes=found[:MOST_CHANGES],
        omitted=max(0, len(found) - MOST_CHANGES),
    )


OPERATIONS = (
    Operation(
        name="nodes.history",
        verb="GET",
        path="/v1/nodes/{id}/history",
        request=History,
        response=Page[Entry],
        on=("compute-node/{id}",),
        handle=history,
        summary="Everything that happened to a node, and what each inventory changed",
        refusals=(errors.AccessDenied, errors.NotFound, errors.ProjectionBehind),
        columns=("version", "at", "type", "actor", "admissionId"),
    ),
)
