"""Log or evidence that somebody spoilt: whoever asks is told, and nothing is signed on top (api.md §6)."""

import psycopg
import pytest

from adapters import audit_key
from adapters.postgres import evidence_check
from domain import checkpoint
from exports import busy, covered, signed
from given import Plane

BY_CHECKPOINT = {
    "progress at nothing": "UPDATE audit_progress SET size = 0",
    "progress behind": "UPDATE audit_progress SET size = size - 1",
    "a leaf changed": "UPDATE audit_tiles SET hashes = set_byte(hashes, 8, 255 - get_byte(hashes, 8)) WHERE level = 0",
    "checkpoints that are none": "UPDATE audit_checkpoints SET note = 'x'",
}
BY_TREE = {
    "a leaf's tile removed": "DELETE FROM audit_tiles WHERE level = 0",
    "a tile cut short": "UPDATE audit_tiles SET hashes = substr(hashes, 1, 33) WHERE level = 0",
    "progress removed": "DELETE FROM audit_progress",
    "progress ahead": "UPDATE audit_progress SET size = size + 1000",
}
BY_EVENT = {
    "no JSON": "UPDATE stored_events SET state = 'x' WHERE notification_id = {at}",
    "nested without end": """
        UPDATE stored_events SET state = overlay(state PLACING convert_to('{{"data":' || repeat('[', 100000), 'UTF8')
        FROM 1 FOR 1) WHERE notification_id = {at}
    """,
    "a name nobody knows": "UPDATE stored_events SET topic = 'admission.unknown.1' WHERE notification_id = {at}",
}
POSITIONS = "UPDATE audit_tiles SET positions = '{{}}' WHERE level = 0"


@pytest.fixture
def spoilable(plane: Plane) -> Plane:
    """Signed, and nobody takes in or signs any more."""
    busy(plane)
    signed(plane)
    plane.wired.evidence.stop()
    return plane


def spoil(plane: Plane, sql: str) -> None:
    (at,) = plane.rows("SELECT position FROM audit_chain WHERE tenant_id = 'acme' AND sequence = 2")[0]
    with plane.wired.reads.connection() as connection:
        connection.execute(sql.format(at=at).encode())


def told(plane: Plane, dsn: str) -> list[str]:
    found: list[str] = []
    keys = [checkpoint.key(plane.wired.evidence.key)]
    with psycopg.connect(dsn, autocommit=True) as connection:
        evidence_check.Verifier(connection, found.append, keys, audit_key.verify).run()
    return found


@pytest.mark.parametrize("sql", [*BY_CHECKPOINT.values(), *BY_TREE.values()], ids=[*BY_CHECKPOINT, *BY_TREE])
def test_evidence_that_was_changed_is_named_and_never_signed(spoilable: Plane, database: str, sql: str) -> None:
    spoil(spoilable, sql)
    for client, query in ((spoilable.acme, ""), (spoilable.auditor, "?scope=fleet")):
        for path in ("export", "checkpoint"):
            answer = client.get(f"/v1/audit/{path}{query if path == 'export' else ''}")
            assert (answer.status_code, answer.json()["code"]) == (503, "EVIDENCE_UNSOUND")
        verified = client.ok("GET", f"/v1/audit/verify{query}")
        assert (verified["valid"], verified["problemCount"], verified["checked"]) == (False, 1, 0)
        assert verified["problems"][0]["detail"].startswith("the log's evidence is not sound: ")
    assert told(spoilable, database)


@pytest.mark.parametrize("sql", BY_EVENT.values(), ids=BY_EVENT)
def test_an_event_that_cannot_be_read_is_named(spoilable: Plane, database: str, sql: str) -> None:
    spoil(spoilable, sql)
    of_tenant = spoilable.acme.ok("GET", "/v1/audit/verify")
    assert "cannot read event" in of_tenant["problems"][0]["detail"]
    of_fleet = spoilable.auditor.ok("GET", "/v1/audit/verify?scope=fleet")
    assert any("cannot be read as an event" in one["detail"] for one in of_fleet["problems"])
    assert any("cannot read event" in one for one in told(spoilable, database))


def test_positions_that_are_lost_are_named(spoilable: Plane, database: str) -> None:
    spoil(spoilable, POSITIONS)
    assert spoilable.acme.get("/v1/audit/checkpoint").json()["code"] == "EVIDENCE_UNSOUND"
    assert not spoilable.auditor.ok("GET", "/v1/audit/verify?scope=fleet")["valid"]
    assert any("positions" in one for one in told(spoilable, database))


def test_what_came_after_the_last_checkpoint_is_signed_when_it_is_asked_for(plane: Plane) -> None:
    busy(plane)
    first = signed(plane)
    plane.acme.ok("POST", "/v1/projects", {"name": "more"})
    covered(plane)
    assert checkpoint.parse(plane.wired.evidence.sign()).size > checkpoint.parse(first).size
