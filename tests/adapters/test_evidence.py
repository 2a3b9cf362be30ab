"""The writer of the evidence: one at a time, behind the follower, and never the same event twice (api.md §6)."""

import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from adapters import audit_key
from adapters.audit_key import KeyFileError
from adapters.evidence import CHECKPOINT_S, LEASE, Evidence, Writer
from adapters.postgres import embedded_binaries, evidence
from adapters.postgres.follower import Follower
from adapters.postgres.leases import LOOK_S
from adapters.postgres.pool import pool
from audited import FENCE, Audited, audited
from domain import checkpoint, errors, merkle
from domain.event import Fence
from facts import Facts, at_once, facts


@pytest.fixture
def house(database: str) -> Iterator[Audited]:
    with audited(database) as made:
        yield made


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def worker(house: Audited, given: Facts, passed: Callable[[], int], clock: Clock) -> Evidence:
    return Evidence(house.connections, given.store, passed, house.signer, "sess_1", clock)


def chains(house: Audited) -> dict[str, list[int]]:
    rows = house.connection.execute("SELECT tenant_id, sequence FROM audit_chain ORDER BY tenant_id, position")
    found: dict[str, list[int]] = {}
    for tenant, sequence in rows:
        found.setdefault(tenant, []).append(sequence)
    return found


@contextmanager
def written_behind(house: Audited, given: Facts) -> Iterator[None]:
    """A follower and the writer behind it, each in its thread, the writer with its lease.

    At the end the follower has passed everything.
    """
    following = Follower(house.connections, [])
    writer = Evidence(house.connections, given.store, lambda: following.position, house.signer, "sess_1")
    following.start()
    writer.start()
    try:
        deadline = time.monotonic() + 20
        while _epoch(house) is None:
            assert time.monotonic() < deadline, "the writer never took its lease"
        yield
        assert following.wait(house.end(), 20)
    finally:
        following.stop()
        writer.stop()


def test_fifty_writers_at_once_give_one_chain_a_tenant_without_a_gap(house: Audited, database: str) -> None:
    house.connection.execute("DELETE FROM coordination_leases")
    with facts(database, size=12) as given:

        def write() -> None:
            for _ in range(4):
                given.offer(given.pool(), 1, tenant="globex")

        with written_behind(house, given):
            assert at_once([write] * 50) == [None] * 50
        house.take_in(_fence(house))
    assert {tenant: len(run) for tenant, run in chains(house).items()} == {"acme": 400, "globex": 200, "root": 400}
    assert all(run == list(range(1, len(run) + 1)) for run in chains(house).values())
    assert house.faults() == []


def _epoch(house: Audited) -> int | None:
    row = house.connection.execute("SELECT epoch FROM coordination_leases WHERE name = %s", (LEASE,)).fetchone()
    return None if row is None else int(row[0])


def _fence(house: Audited) -> Fence:
    epoch = _epoch(house)
    assert epoch is not None
    return Fence(LEASE, epoch)


def test_a_writer_that_lost_its_lease_while_it_paused_writes_nothing(house: Audited) -> None:
    house.log(30)
    paused = Writer(house.connections, FENCE)
    paused.step(house.end(), 10)
    house.connection.execute("UPDATE coordination_leases SET epoch = 2")
    with pytest.raises(errors.Fenced):
        paused.step(house.end(), 10)
    assert evidence.progress(house.connection).size == 10
    house.take_in(Fence(LEASE, 2))
    assert house.faults() == []


def test_two_that_think_they_hold_it_write_no_event_twice(house: Audited) -> None:
    house.log(300)
    one, other = Writer(house.connections, FENCE), Writer(house.connections, FENCE)
    one.step(house.end(), 270)
    with pytest.raises(evidence.Lost):
        other.step(house.end(), 20)
    house.take_in()
    assert house.faults() == []


def test_a_connection_on_which_a_batch_was_lost_serves_the_next(house: Audited, database: str) -> None:
    house.log(30)
    with pool(database, 1, by_key=True) as only:
        late, wrong = Writer(only, FENCE), Writer(only, Fence(LEASE, 0))
        Writer(only, FENCE).step(house.end(), 10)
        for refused, writer in ((evidence.Lost, late), (errors.Fenced, wrong), (evidence.Lost, late)):
            with pytest.raises(refused):
                writer.step(house.end(), 10)
        assert Writer(only, FENCE).step(house.end(), 10) == 10
    house.take_in()
    assert house.faults() == []


@pytest.mark.parametrize("limit", [1, 7, 100, 256, 1000])
def test_one_that_was_killed_between_two_batches_is_followed_by_one_that_goes_on(house: Audited, limit: int) -> None:
    house.log(530)
    while Writer(house.connections, FENCE).step(house.end(), limit if limit > 1 else 90):
        pass
    if limit == 1:
        house.log(3)
        while Writer(house.connections, FENCE).step(house.end(), 1):
            pass
    assert house.faults() == []


def test_what_the_follower_has_not_passed_is_not_taken_in(house: Audited, database: str) -> None:
    house.connection.execute("DELETE FROM coordination_leases")
    with facts(database, size=2) as given:
        house.log(5)
        upto = house.end()
        house.log(5)
        taking = worker(house, given, lambda: upto, clock := Clock())
        assert taking.tick()
        assert (evidence.progress(house.connection).size, taking.position, taking.lag) == (5, upto, 0)
        upto = house.end()
        assert taking.lag > 0
        clock.now += LOOK_S
        assert taking.tick()
        assert (evidence.progress(house.connection).size, taking.lag) == (10, 0)


def test_a_checkpoint_is_signed_once_a_minute_while_the_log_grows(house: Audited, database: str) -> None:
    house.connection.execute("DELETE FROM coordination_leases")

    def sizes() -> list[int]:
        return [row[0] for row in house.connection.execute("SELECT size FROM audit_checkpoints ORDER BY size")]

    with facts(database, size=2) as given:
        house.log(5)
        taking = worker(house, given, house.end, clock := Clock())
        taking.tick()
        house.log(4)
        clock.now += CHECKPOINT_S / 2
        taking.tick()
        assert sizes() == [5]
        clock.now += CHECKPOINT_S / 2
        taking.tick()
        clock.now += CHECKPOINT_S
        taking.tick()
        assert sizes() == [5, 9]
    assert house.faults() == []


def test_a_checkpoint_asked_for_is_of_what_is_taken_in_and_the_same_until_there_is_more(
    house: Audited, database: str
) -> None:
    with facts(database, size=2) as given:
        taking = worker(house, given, house.end, Clock())
        assert checkpoint.opened(taking.sign(), house.signer.key, audit_key.verify).root == merkle.EMPTY
        house.log(300)
        house.take_in()
        first = taking.sign()
        assert taking.sign() == first
        house.log(9)
        house.take_in()
        key = checkpoint.key(taking.key)
        before, after = (checkpoint.opened(note, key, audit_key.verify) for note in (first, taking.sign()))
    proof = evidence.tree(house.connection).consistency(before.size, after.size)
    assert (before.size, after.size) == (300, 309)
    assert merkle.consistent(before.size, before.root, after.size, after.root, proof)


def test_a_new_key_signs_what_the_old_one_signed(house: Audited, database: str) -> None:
    house.log(3)
    house.take_in()
    house.sign()
    signer = audit_key.Signer(Ed25519PrivateKey.generate(), evidence.incarnation(house.connection))
    with facts(database, size=2) as given:
        taking = Evidence(house.connections, given.store, house.end, signer, "sess_1", Clock())
        assert checkpoint.opened(taking.sign(), signer.key, audit_key.verify).size == 3


def test_a_dump_that_was_restored_verifies(house: Audited, cluster: str, database: str, fresh: str) -> None:
    house.log(300)
    house.take_in()
    house.sign()
    programs = embedded_binaries._bin(embedded_binaries._installed())
    dump = subprocess.run([programs / "pg_dump", database], check=True, capture_output=True).stdout
    subprocess.run(
        [programs / "psql", "-q", "-v", "ON_ERROR_STOP=1", fresh],
        check=True,
        capture_output=True,
        input=dump,
    )
    with psycopg.connect(fresh, autocommit=True) as restored:
        restored_house = Audited.__new__(Audited)
        restored_house.connection, restored_house.signer = restored, house.signer
        told, report = restored_house.verified()
    assert (told, report.leaves, report.signed) == ([], 300, 1)


class TestKey:
    def test_it_is_made_once_and_is_its_owners_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "audit.key"
        keys = at_once([lambda: audit_key.read_or_make(path).private_bytes_raw()] * 8)
        assert len(set(keys)) == 1  # type: ignore[arg-type]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert [file.name for file in tmp_path.iterdir()] == ["audit.key"]

    def test_one_that_others_can_read_is_refused(self, tmp_path: Path) -> None:
        audit_key.read_or_make(path := tmp_path / "audit.key")
        path.chmod(0o640)
        with pytest.raises(KeyFileError, match="open to others"):
            audit_key.read_or_make(path)

    @pytest.mark.parametrize("text", ["", "-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n"])
    def test_what_is_no_key_is_refused(self, tmp_path: Path, text: str) -> None:
        (path := tmp_path / "audit.key").write_text(text)
        with pytest.raises(KeyFileError, match="no private key"):
            audit_key.read_or_make(path)

    def test_a_directory_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(KeyFileError, match="cannot be made: No such file"):
            audit_key.read_or_make(tmp_path / "no" / "audit.key")
