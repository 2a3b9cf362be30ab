"""A restored log is another log: its name is new, its past stays proved, no lease of before is valid."""

from collections.abc import Iterator

import pytest

from adapters import audit_key
from adapters.postgres import evidence, evidence_check, incarnation, pool
from audited import Audited, audited
from domain import checkpoint


@pytest.fixture
def house(database: str) -> Iterator[Audited]:
    with audited(database) as made:
        yield made


def restored(house: Audited, dsn: str) -> incarnation.Restored:
    now = incarnation.begin(dsn)
    house.signer = audit_key.Signer(house.private, evidence.incarnation(house.connection))
    return now


def faults(house: Audited, *keys: checkpoint.Key, kept: tuple[str, ...] = ()) -> list[str]:
    told: list[str] = []
    evidence_check.Verifier(house.connection, told.append, keys, audit_key.verify, kept).run()
    return told


@pytest.fixture
def idle(house: Audited, database: str) -> tuple[Audited, str]:
    """Eight events, taken in and signed; no process serves."""
    house.log(8)
    house.take_in()
    house.sign()
    house.connections.close()
    return house, database


def test_what_was_signed_before_is_still_verified_and_what_comes_is_signed_in_the_new_name(
    idle: tuple[Audited, str],
) -> None:
    house, dsn = idle
    before = house.signer.key
    now = restored(house, dsn)
    assert (before.name, now.size) == (checkpoint.origin(now.former), 8)
    assert house.signer.key.name == checkpoint.origin(now.incarnation) != before.name
    assert faults(house, before, house.signer.key) == []


def test_a_checkpoint_of_what_was_lost_is_told(idle: tuple[Audited, str]) -> None:
    house, dsn = idle
    lost = house.signer.note(9, bytes(32))
    former = house.signer.key
    restored(house, dsn)
    assert faults(house, former, house.signer.key, kept=(lost,)) == [
        f"checkpoint of size 9: of {former.name} only 8 leaves were restored from a backup"
    ]


def test_no_lease_of_before_is_valid_and_nobody_has_to_wait_for_one(idle: tuple[Audited, str]) -> None:
    house, dsn = idle
    restored(house, dsn)
    assert house.connection.execute("SELECT holder, epoch FROM coordination_leases").fetchall() == [("", 2)]


def test_a_database_that_is_served_keeps_its_name(database: str) -> None:
    with (
        pool.pool(database, 1) as serving,
        serving.connection(),
        pytest.raises(incarnation.InUse, match="stop all of them first"),
    ):
        incarnation.begin(database)
