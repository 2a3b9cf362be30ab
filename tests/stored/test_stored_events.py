"""What the log holds stays readable for ever: events.jsonl has one row of each stored name, byte for byte.

A line is never changed. A new event gets a new line (sample.py makes one); a changed one a new name, a new line and
an upcaster from the old, whose line stays.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from eventsourcing.persistence import MapperDeserialisationError, StoredEvent
from msgspec import inspect

from adapters.postgres.mapper import EventMapper, Stored, decode
from domain import registry, upcast
from domain.event import Event, tag
from stored import sample

LINES = (Path(__file__).parent / "events.jsonl").read_bytes().splitlines()


def topic(line: bytes) -> str:
    data: dict[str, Any] = msgspec.json.decode(msgspec.json.decode(line, type=Stored).data)
    return str(data["type"])


def row(line: bytes, name: str | None = None) -> Any:
    return decode("x_1", 1, name or topic(line), line, 1, 1)


@pytest.mark.parametrize("name", sorted(registry.TYPES))
def test_every_event_has_a_line(name: str) -> None:
    assert name in map(topic, LINES), f"add to tests/stored/events.jsonl:\n{sample.line(name).decode()}"


@pytest.mark.parametrize("line", LINES, ids=topic)
def test_a_stored_row_is_read_and_written_again_byte_for_byte(line: bytes) -> None:
    if topic(line) in registry.TYPES:
        stored = EventMapper().to_stored_event(row(line))
        assert (stored.topic, stored.state) == (topic(line), line)
    else:
        assert isinstance(row(line).event, Event), "the line of an old shape goes through its upcaster"


@pytest.mark.parametrize("line", [line for line in LINES if topic(line) in registry.TYPES], ids=topic)
def test_a_line_fills_every_field_so_that_a_change_of_any_is_seen(line: bytes) -> None:
    info = inspect.type_info(registry.TYPES[topic(line)])
    assert isinstance(info, inspect.StructType)
    data: dict[str, Any] = msgspec.json.decode(msgspec.json.decode(line, type=Stored).data)
    assert set(data) == {"type", *(field.encode_name for field in info.fields)}


def test_the_library_reads_what_its_mapper_wrote() -> None:
    mapper = EventMapper()
    recorded = row(LINES[0])
    stored = mapper.to_stored_event(recorded)
    assert isinstance(stored, StoredEvent)
    again = mapper.to_domain_event(stored)
    assert (again.stream, again.version, again.event, again.meta) == ("x_1", 1, recorded.event, recorded.meta)


def test_a_name_nobody_knows_stops_with_an_error_that_names_it() -> None:
    """O43: not a skip."""
    with pytest.raises(MapperDeserialisationError, match=r"site\.sunk\.9 of x_1 version 1.*older than the log"):
        row(LINES[0], "site.sunk.9")


def test_a_row_that_is_damaged_stops_with_an_error_that_names_it() -> None:
    with pytest.raises(MapperDeserialisationError, match=r"site\.created\.1 of x_1 version 1"):
        decode(
            "x_1",
            1,
            "site.created.1",
            b'{"id":"e","part":{"append":"e","index":0,"count":1},"tenants":[],"meta":{"actor":"a"},"data":{"type":"site.created.1"}}',
            1,
            1,
        )


def test_an_old_shape_is_brought_to_todays_through_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """O43: the fold of old and new events is the fold of the migrated log."""
    monkeypatch.setitem(
        upcast.UPCASTERS, "site.renamed.-1", lambda old: old | {"type": "site.renamed.0", "former": "b"}
    )
    monkeypatch.setitem(
        upcast.UPCASTERS, "site.renamed.0", lambda old: old | {"type": "site.renamed.1", "ownerTenantId": "root"}
    )
    new = next(row(line).event for line in LINES if topic(line) == "site.renamed.1")
    old = {"type": "site.renamed.-1", "name": new.name}
    state = msgspec.json.encode(
        {
            "id": "evt_1",
            "part": {"append": "evt_1", "index": 0, "count": 1},
            "tenants": [],
            "meta": {"actor": "a"},
            "data": old,
        }
    )
    read = row(state, "site.renamed.-1").event
    assert (tag(read), read.name, read.former, read.owner_tenant_id) == ("site.renamed.1", new.name, "b", "root")
    assert registry.fold("site_1", [read]).name == registry.fold("site_1", [new]).name


def test_an_upcaster_that_leads_nowhere_stops_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(upcast.UPCASTERS, "site.sunk.0", lambda old: old | {"type": "site.sunk.1"})
    state = msgspec.json.encode(
        {
            "id": "evt_1",
            "part": {"append": "evt_1", "index": 0, "count": 1},
            "tenants": [],
            "meta": {"actor": "a"},
            "data": {"type": "site.sunk.0"},
        }
    )
    with pytest.raises(MapperDeserialisationError, match=r"site\.sunk\.0"):
        row(state, "site.sunk.0")


def test_a_stored_name_belongs_to_one_type() -> None:
    declared = [tag(event) for kind in registry.KINDS.values() for event in kind.events]
    assert len(declared) == len(set(declared)) == len(registry.TYPES)
