"""What `audit verify` finds: everything, and it says where (api.md §6)."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from audited import Audited, audited, events, put

COLUMNS = {
    ("stored_events", "originator_id"): "stream reads",
    ("stored_events", "originator_version"): "version reads",
    ("stored_events", "topic"): "type reads",
    ("stored_events", "state"): "of the stored bytes reads",
    ("stored_events", "notification_id"): "this is the event that was recorded at position",
    ("stored_events", "recorded_at"): "recordedAt reads",
    ("audit_chain", "tenant_id"): "chain of",
    ("audit_chain", "sequence"): "by its hash it is sequence",
    ("audit_chain", "position"): "it stands at position|there is no event at its position",
    ("audit_chain", "leaf"): "its leaf reads",
    ("audit_chain", "hash"): "hash-mismatch",
    ("audit_tiles", "level"): "belongs to no tree",
    ("audit_tiles", "index"): "belongs to no tree",
    ("audit_tiles", "hashes"): "one bit of the recorded hash was flipped",
    ("audit_tiles", "positions"): "its position reads",
    ("audit_checkpoints", "size"): "the note says",
    ("audit_checkpoints", "note"): "checkpoint of size",
    ("audit_progress", "position"): "progress reads position",
    ("audit_progress", "size"): "progress reads",
}
"""Every column of log and evidence that can be written, and what a bit flipped in it is called."""

ROW = {"audit_checkpoints": 0, "audit_progress": 0, "audit_tiles": 1}
"""Which row is spoilt; elsewhere one in the middle."""


@pytest.fixture
def house(database: str) -> Iterator[Audited]:
    with audited(database) as made:
        for number in (150, 1, 200, 220):
            made.log(number)
            made.take_in()
            made.sign()
        yield made


def flipped(value: Any, bit: int) -> Any:
    """One bit of a value as it is stored; None where that is no value of its kind."""
    match value:
        case int():
            unsigned = (value % 2**64) ^ 1 << bit % 64
            return unsigned - 2**64 if unsigned >= 2**63 else unsigned
        case str():
            raw = bytearray(value.encode())
            raw[bit // 8 % len(raw)] ^= 1 << bit % 8
            text = raw.decode(errors="ignore")
            return text if len(text.encode()) == len(raw) and "\0" not in text else None
        case bytes():
            spoilt = bytearray(value)
            spoilt[bit // 8 % len(spoilt)] ^= 1 << bit % 8
            return bytes(spoilt)
        case list():
            return [*value[:-1], flipped(value[-1], bit)]
    raise AssertionError(type(value))


def spoil(connection: psycopg.Connection, table: str, column: str, bit: int) -> tuple[str, Any] | None:
    """Flip a bit of one row; where that row is now and what stood there, None where the database does not take it."""
    keys = {"stored_events": "notification_id", "audit_chain": "position, tenant_id", "audit_tiles": "level, index"}
    row = connection.execute(
        f"SELECT ctid::text, {column} FROM {table} ORDER BY {keys.get(table, '1')} OFFSET %s LIMIT 1",  # type: ignore[arg-type]
        (ROW.get(table, 100),),
    ).fetchone()
    assert row is not None
    changed = flipped(row[1], bit)
    if changed is None:
        return None
    try:
        return _set(connection, table, column, row[0], changed), row[1]
    except (psycopg.errors.UniqueViolation, psycopg.errors.NumericValueOutOfRange):
        return None


def _set(connection: psycopg.Connection, table: str, column: str, ctid: str, value: Any) -> str:
    row = connection.execute(
        f"UPDATE {table} SET {column} = %s WHERE ctid = %s::tid RETURNING ctid::text",  # type: ignore[arg-type]
        (value, ctid),
    ).fetchone()
    assert row is not None
    return str(row[0])


def test_what_was_taken_in_verifies(house: Audited) -> None:
    told, report = house.verified()
    assert told == []
    assert (report.events, report.leaves, report.checkpoints, report.signed, report.later) == (571, 571, 4, 4, 0)


def test_a_log_that_nothing_was_taken_in_of_verifies(database: str) -> None:
    with audited(database) as made:
        assert made.verified()[0] == []
        made.sign()
        made.log(2)
        told, report = made.verified()
    assert (told, report.leaves, report.signed, report.later) == ([], 0, 1, 2)


def test_later_events_are_no_fault(house: Audited) -> None:
    house.log(3)
    told, report = house.verified()
    assert (told, report.later) == ([], 3)


def test_every_column_is_in_the_table_above(connection: psycopg.Connection) -> None:
    found = connection.execute("""
        SELECT table_name, column_name FROM information_schema.columns
        WHERE table_schema = 'public' AND column_name <> 'only_one' AND (table_name = 'stored_events'
            OR table_name IN ('audit_chain', 'audit_tiles', 'audit_checkpoints', 'audit_progress'))
    """).fetchall()
    assert set(found) == set(COLUMNS)


@pytest.mark.parametrize(("table", "column"), COLUMNS, ids=[".".join(one) for one in COLUMNS])
def test_one_flipped_bit_is_found_and_named(house: Audited, table: str, column: str) -> None:
    named = COLUMNS[table, column].split("|")
    tried = 0
    for bit in (0, 1, 6, 17, 31, 62, 63, 100, 801):
        spoilt = spoil(house.connection, table, column, bit)
        if spoilt is None:
            continue
        tried += 1
        told = house.faults()
        assert any(name in fault for name in named for fault in told), (bit, told)
        assert len(told) <= 6, (bit, told)
        _set(house.connection, table, column, *spoilt)
    assert tried
    assert house.faults() == []


def position(house: Audited, leaf: int) -> int:
    row = house.connection.execute(
        "SELECT notification_id FROM stored_events ORDER BY notification_id OFFSET %s LIMIT 1", (leaf,)
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_an_event_removed_is_named_with_its_place_in_the_chains(house: Audited) -> None:
    at = position(house, 100)
    house.connection.execute("DELETE FROM stored_events WHERE notification_id = %s", (at,))
    told = house.faults()
    assert told[0] == f"position {at}: the event recorded as leaf 100 is missing"
    assert all(f"there is no event at its position {at}" in fault for fault in told[1:])
    assert len(told) <= 3


def test_an_event_slipped_into_the_past_is_named(house: Audited) -> None:
    hole = position(house, 150) + 1
    assert hole < position(house, 151)
    put(house.connection, events(1))
    house.connection.execute(
        "UPDATE stored_events SET notification_id = %s WHERE notification_id = %s", (hole, house.end())
    )
    assert [fault for fault in house.faults() if f"position {hole} " in fault and "slipped in" in fault]


def test_events_that_changed_places_are_named(house: Audited) -> None:
    one, other = position(house, 40), position(house, 41)
    for before, after in ((one, -1), (other, one), (-1, other)):
        house.connection.execute(
            "UPDATE stored_events SET notification_id = %s WHERE notification_id = %s", (after, before)
        )
    told = house.faults()
    for at, was in ((one, other), (other, one)):
        assert [
            fault
            for fault in told
            if fault.startswith(f"position {at} ") and fault.endswith(f"recorded at position {was}")
        ]


def test_the_end_of_the_log_cut_off_is_named_event_by_event(house: Audited) -> None:
    at = position(house, 568)
    house.connection.execute("DELETE FROM stored_events WHERE notification_id >= %s", (at,))
    assert len([fault for fault in house.faults() if "is missing" in fault]) == 3


def test_log_and_evidence_cut_off_together_are_found_by_a_checkpoint(house: Audited) -> None:
    connection = house.connection
    connection.execute("DELETE FROM stored_events WHERE notification_id > %s", (position(house, 350),))
    for table in ("audit_chain", "audit_tiles"):
        connection.execute(f"DELETE FROM {table}")  # type: ignore[arg-type]
    connection.execute("UPDATE audit_progress SET position = 0, size = 0")
    house.take_in()
    assert house.faults() == ["checkpoint of size 571: there are only 351 leaves"]


def test_a_log_that_was_rewritten_with_all_its_evidence_fails_on_a_checkpoint(house: Audited) -> None:
    connection = house.connection
    connection.execute("UPDATE stored_events SET recorded_at = 0 WHERE notification_id = %s", (position(house, 3),))
    for table in ("audit_chain", "audit_tiles"):
        connection.execute(f"DELETE FROM {table}")  # type: ignore[arg-type]
    connection.execute("UPDATE audit_progress SET position = 0, size = 0")
    house.take_in()
    sizes = (150, 151, 351, 571)
    assert house.faults() == [
        f"checkpoint of size {size}: the root that was signed is not that of the leaves" for size in sizes
    ]


def test_a_link_removed_is_named(house: Audited) -> None:
    house.connection.execute("DELETE FROM audit_chain WHERE tenant_id = 'acme' AND sequence = 30")
    (told,) = house.faults()
    assert told.endswith("the chain of acme has no link for it (sequence 30)")


@pytest.mark.parametrize(("level", "index"), [(0, 0), (0, 2), (1, 0)])
def test_a_tile_removed_is_named(house: Audited, level: int, index: int) -> None:
    house.connection.execute("DELETE FROM audit_tiles WHERE level = %s AND index = %s", (level, index))
    told = house.faults()
    assert f"tile {level}/{index} is missing" in told
    assert len(told) <= 2


def test_progress_removed_is_named(house: Audited) -> None:
    house.connection.execute("DELETE FROM audit_progress")
    assert house.faults() == ["how far it goes is not recorded any more"]


def test_a_position_removed_from_a_leaf_is_named(house: Audited) -> None:
    house.connection.execute("UPDATE audit_tiles SET positions[3] = NULL WHERE level = 0 AND index = 1")
    assert house.faults() == ["leaf 258: it has no position"]


def test_a_checkpoint_of_another_key_or_another_log_is_named(house: Audited) -> None:
    house.connection.execute("UPDATE audit_checkpoints SET note = replace(note, 'better-compute/', 'better-compute/0')")
    assert len(house.faults()) == 4


def test_an_event_that_nobody_can_read_is_named_and_the_rest_is_verified(house: Audited) -> None:
    house.connection.execute(
        "UPDATE stored_events SET state = 'x' WHERE notification_id = %s", (at := position(house, 7),)
    )
    told = house.faults()
    assert [fault for fault in told if f"position {at}: cannot read event" in fault]
    assert len(told) == 2
