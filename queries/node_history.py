"""Everything that happened to a node, event by event, with what its inventories changed (domain.md §3, §4)."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from domain import errors, inventory_diff, node, registry
from domain.event import Recorded
from domain.operation import Answer, AsOf, Operation, Page, Paged
from queries import audit, reading
from queries.reading import Place, Reader, Row

MOST_INVENTORIES: Final = 10
AT_ONCE: Final = 20
MOST_CHANGES: Final = 100
MARK: Final = "history"


class History(Paged, frozen=True, kw_only=True):
    """Newest first, where nothing else is said."""

    id: str
    as_of: AsOf | None = None
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
    """A stream's versions have no holes: a page is a range of them, and nothing else of the stream is read.

    Inventories are large and are compared: a page with many of them is cut short, and the cursor goes on.
    """
    here = reading.known(read, query.id)
    if not here.version:
        raise errors.NotFound("node", query.id, when=f" as of @{read.as_of}")
    mark = MARK if read.as_of is None else f"{MARK} @{read.as_of}"
    place = reading.after(query, mark)
    if place is not None and place[1] != query.id:
        raise errors.Invalid("cursor", "is not the nextCursor of an earlier page")
    events = _page(query, read, place, here.version)
    entries = _entries(query.id, read, events)
    if query.order == "desc":
        entries.reverse()
    rows: list[Row] = [(entry.version, query.id, 0, msgspec.json.encode(entry)) for entry in entries]
    last = 1 if query.order == "desc" else here.version
    following: Place | None = (entries[-1].version, query.id) if entries and entries[-1].version != last else None
    return reading.page(query, rows, following, here.position if read.as_of is None else read.as_of, mark)


def _page(query: History, read: Reader, place: Place | None, head: int) -> list[Recorded]:
    """The events of the page behind `place`, oldest first, read some at a time."""
    descending = query.order == "desc"
    found: list[Recorded] = []
    inventories = 0
    low, high = 0, head
    if place is not None:
        low, high = (0, min(head, place[0] - 1)) if descending else (max(0, place[0]), head)
    while low < high and len(found) < query.limit and inventories < MOST_INVENTORIES:
        some = min(AT_ONCE, query.limit - len(found))
        low_now, high_now = (max(low, high - some), high) if descending else (low, min(high, low + some))
        batch = read.versions(query.id, low_now, high_now)
        for recorded in reversed(batch) if descending else batch:
            found.append(recorded)
            inventories += isinstance(recorded.event, node.Inventoried)
            if inventories == MOST_INVENTORIES:
                break
        low, high = (low, low_now) if descending else (high_now, high)
    return found[::-1] if descending else found


def _entries(id: str, read: Reader, events: list[Recorded]) -> list[Entry]:
    if not events:
        return []
    state: node.State = read.load_version(id, events[0].version - 1).state
    entries = []
    for recorded in events:
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
        summary="Show everything that happened to a node, and what each inventory changed",
        refusals=(errors.AccessDenied, errors.NotFound, errors.ProjectionBehind),
        of_log=True,
        columns=("version", "at", "type", "actor", "admissionId"),
    ),
)
