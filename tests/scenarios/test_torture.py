"""The crash torture in short; `python -m tests.torture` is the long one."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import psycopg
import pytest

import given
from tests.torture import rounds, verify
from tests.torture.journal import Acknowledged, acknowledged

VICTIMS = (rounds.POSTMASTER_AND_SERVE, rounds.BOTH_SERVES)

HARM = {
    "DELETE FROM stored_events WHERE topic = 'admission.recorded.1'": "of it there are these positions and parts",
    "UPDATE stored_events SET originator_version = 9 WHERE topic = 'reservation.placed.1'": "events of",
    "UPDATE stored_events SET notification_id = 9999 WHERE topic = 'reservation.placed.1'": "X-Position",
    """
    ALTER TABLE device_bookings DROP CONSTRAINT device_bookings_never_overlap;
    INSERT INTO device_bookings SELECT device_id, 'alloc_other', reservation_id, node_id, pool_id, tenant_id, bound,
        ended, freed, during FROM device_bookings
    """: "is booked by",
}
"""What is done to the database behind the plane's back, and what is to be said of it."""
LIES: dict[str, Callable[[Acknowledged], Acknowledged]] = {
    "acknowledged and lost": lambda told: told._replace(version=told.version + 1000),
    "X-Position was": lambda told: told._replace(position=told.position + 1),
    "another than the log gives": lambda told: told._replace(digest=b""),
    "was answered in 2 ways": lambda told: told._replace(version=told.version - 1),
    "Idempotency-Replayed was": lambda told: told._replace(request="another"),
}
"""What a client might have been told instead, by what is to be said of it."""


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that the account of PostgreSQL may pass through."""
    made = Path(tempfile.mkdtemp(prefix="better-compute-torture-", dir="/tmp"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made)


def test_kill_9_of_serves_and_of_postgresql_loses_nothing_that_was_acknowledged(place: Path) -> None:
    done: list[rounds.Round] = []
    with rounds.torture(place, Random(1), nodes=8) as running:
        assert rounds.run(running, VICTIMS, done.append) == ()
        assert running.load.granted > 0
    assert [found.victim for found in done] == [victim.name for victim in VICTIMS]


def reserved(plane: given.Plane) -> Acknowledged:
    pool_id, _ = plane.fleet()
    body = {"poolId": pool_id, "devices": [{"class": "gpu", "count": 1}], "durationSeconds": 3600}
    answer = plane.acme.post("/v1/reservations", body, X_Request_Id="try", Idempotency_Key="key")
    return acknowledged("try", "key", answer.headers, answer.content)


@pytest.mark.parametrize("harm", HARM, ids=HARM.values())
def test_the_torture_sees_what_is_wrong_with_the_log(fresh: str, tmp_path: Path, harm: str) -> None:
    with given.plane(fresh, tmp_path) as plane:
        told = reserved(plane)
    assert verify.history(fresh, [told], {"try": "key"})[1] == []
    with psycopg.connect(fresh) as connection:
        connection.execute(harm.encode())
    assert HARM[harm] in "\n".join(verify.history(fresh, [told], {"try": "key"})[1])


def test_the_torture_sees_what_a_client_was_told_wrongly(plane: given.Plane) -> None:
    told, dsn = reserved(plane), plane.wired.reads.conninfo
    assert verify.history(dsn, [told], {"try": "key"})[1] == []
    for words, lie in LIES.items():
        assert words in "\n".join(verify.history(dsn, [told, lie(told)], {"try": "key"})[1])
    assert [*verify.current([told._replace(version=told.version - 1)], [told])] != []
