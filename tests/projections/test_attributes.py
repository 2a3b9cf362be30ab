"""Attributes are never stale: whatever happens to a thing, the catalog says what its history says (domain.md §10)."""

import json
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import attributes
from adapters.postgres.mapper import Stored
from domain import extension, image, instance, node, pool, project, registry, reservation, site
from domain.event import Event, Meta, Recorded
from domain.provision import Provision
from given import Plane
from projections import catalog
from wellformed import drafted, things

LINES = (Path(__file__).parent.parent / "stored" / "events.jsonl").read_bytes().splitlines()
PROVISIONS: tuple[Provision, ...] = ("adopted", "failed", "inspecting", "ready", "deployed", "rescue", "retired")


def stored() -> dict[type[Event], Event]:
    """An event of every type."""
    found: dict[type[Event], Event] = {}
    for line in LINES:
        data = msgspec.json.decode(line, type=Stored).data
        name = json.loads(bytes(data))["type"]
        if name in registry.TYPES:
            found[registry.TYPES[name]] = msgspec.json.decode(data, type=registry.TYPES[name])
    return found


EVENTS = stored()
FIRST = {
    "site": site.Created,
    "prj": project.Created,
    "pool": pool.Created,
    "node": node.Joined,
    "rsv": reservation.Drafted,
    "img": image.Registered,
    "inst": instance.Drafted,
}


def variants(event: Event) -> list[Event]:
    """The event, and others like it where an attribute hangs on what it says."""
    match event:
        case node.Inventoried():
            return [event, replace(event, gpu_model=None, gpu_count=0), replace(event, gpu_model="L4", gpu_count=3)]
        case node.Assigned():
            return [event, replace(event, pool_id=None), replace(event, pool_id="pool_2")]
        case node.Moved():
            return [replace(event, provision=provision) for provision in PROVISIONS]
        case reservation.Extended(claimed=claimed):
            return [replace(event, claimed=replace(claimed, from_=0, until=n * 1_800_000)) for n in (1, 3)]
        case _:
            return [event]


def row(connection: psycopg.Connection[Any], stream: str) -> attributes.Row | None:
    sql = "SELECT type, tenant_id, parent_id, attributes FROM catalog WHERE id = %s"
    found = connection.execute(sql, (stream,)).fetchone()
    return None if found is None else (found[0], found[1], found[2], found[3])


def fold(connection: psycopg.Connection[Any], stream: str, events: list[Event]) -> None:
    for version, event in enumerate(events, 1):
        for statement in catalog.fold(Recorded(stream, version, event, Meta("test"), f"evt_{version}")):
            connection.execute(statement.sql.encode(), statement.params)


@pytest.mark.parametrize("prefix", FIRST)
def test_after_any_events_the_row_is_what_they_say(connection: psycopg.Connection[Any], prefix: str) -> None:
    first = EVENTS[FIRST[prefix]]
    others = [one for of in registry.KINDS[prefix].events if of is not FIRST[prefix] for one in variants(EVENTS[of])]

    @settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
    @given(st.lists(st.sampled_from(others), max_size=6))
    def holds(following: list[Event]) -> None:
        connection.execute("DELETE FROM catalog")
        stream = f"{prefix}_1"
        fold(connection, stream, [first, *following])
        assert row(connection, stream) == attributes.expected(stream, [first, *following])

    holds()


@pytest.mark.parametrize("prefix", FIRST)
def test_so_it_is_after_each_event_that_there_is(connection: psycopg.Connection[Any], prefix: str) -> None:
    first = EVENTS[FIRST[prefix]]
    for of in registry.KINDS[prefix].events:
        for event in variants(EVENTS[of]) if of is not FIRST[prefix] else []:
            connection.execute("DELETE FROM catalog")
            fold(connection, f"{prefix}_1", [first, event])
            assert row(connection, f"{prefix}_1") == attributes.expected(f"{prefix}_1", [first, event]), event


@pytest.mark.parametrize("ends", [extension.Denied, extension.Applied, extension.Expired])
def test_an_open_extension_has_its_reservations_row_with_the_new_total(
    connection: psycopg.Connection[Any], ends: type[Event]
) -> None:
    made = EVENTS[reservation.Drafted]
    draft = EVENTS[extension.Drafted]
    assert isinstance(draft, extension.Drafted)
    fold(connection, draft.reservation_id, [made])
    of = row(connection, draft.reservation_id)
    assert of is not None
    for events in ([replace(draft, committed=False)], [draft], [draft, EVENTS[ends]]):
        connection.execute("DELETE FROM catalog WHERE id = 'ext_1'")
        fold(connection, "ext_1", events)
        assert row(connection, "ext_1") == attributes.of_extension(events, of)


def test_so_it_is_of_everything_on_a_busy_plane(plane: Plane) -> None:
    known = things(plane)
    drafted(plane, known["bound"])
    plane.root.ok("POST", f"/v1/nodes/{known['ready_node']}/deploy", {})
    plane.settle()
    rows = plane.rows("SELECT id, type, tenant_id, parent_id, attributes FROM catalog")
    streams = [stream for (stream,) in plane.rows("SELECT DISTINCT originator_id FROM stored_events")]
    told = {stream: attributes.expected(stream, plane.events(stream)) for stream in streams}
    assert {id: (kind, *rest) for id, kind, *rest in rows} == {id: row for id, row in told.items() if row is not None}
    kinds = ("site", "pool", "node", "project", "reservation", "image", "instance")
    assert {kind for _, kind, *_ in rows} == {f"compute-{name}" for name in kinds}
