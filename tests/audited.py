"""A log with its evidence: what tests of chains, tree and checkpoints start from."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

import psycopg
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from adapters import audit_key
from adapters.evidence import LEASE, Writer
from adapters.postgres import evidence, evidence_check
from adapters.postgres.mapper import EventMapper
from adapters.postgres.pool import Pool, pool
from domain import admission, clock, node
from domain import pool as pools
from domain.event import Event, Fence, Meta, Part, Recorded

FENCE = Fence(LEASE, 1)
CALLER = admission.Caller("acme", "alice", "user", "ses_1", "user")
DECIDED = (admission.Decided("pools:rename", "compute-pool/pool_1", True, "ALLOWED"),)
_numbers = count(1)
_INSERT = """
INSERT INTO stored_events (originator_id, originator_version, topic, state)
SELECT * FROM unnest(%s::text[], %s::bigint[], %s::text[], %s::bytea[])
"""


def events(number: int) -> list[Recorded]:
    """An act of acme on a thing of the platform, what an agent reported, and what is nobody's; in turns."""
    made = []
    for _ in range(number):
        n = next(_numbers)
        kinds: Sequence[tuple[str, Event, str, tuple[str, ...]]] = (
            (f"adm_{n}", admission.Admitted(CALLER, f"req-{n}", DECIDED, "d"), "identity:acme/alice", ("acme",)),
            (f"pool_{n}", pools.Renamed(f"p{n}", "p", "platform"), "identity:acme/alice", ("acme", "platform")),
            (f"node_{n}", node.SpecObserved(n), f"agent:node_{n}", ("platform",)),
            (f"clock_{n}", clock.Stepped("singleton:x", 7000, n), "controller:x", ()),
        )
        stream, event, actor, tenants = kinds[n % len(kinds)]
        meta = Meta(actor, f"adm_{n}", correlation=f"req-{n}")
        made.append(Recorded(stream, 1, event, meta, f"evt_{n}", part=Part(f"evt_{n}", 0, 1), tenants=tenants))
    return made


def put(connection: psycopg.Connection, recorded: Sequence[Recorded]) -> None:
    """Into the log, as an append would, without read models."""
    rows = [EventMapper().to_stored_event(one) for one in recorded]
    columns = zip(*((row.originator_id, row.originator_version, row.topic, row.state) for row in rows), strict=True)
    connection.execute(_INSERT, [list(column) for column in columns])


@dataclass
class Audited:
    """A database whose log has evidence, and what verifies it."""

    connections: Pool
    connection: psycopg.Connection
    private: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)

    def __post_init__(self) -> None:
        self.connection.execute(
            "INSERT INTO coordination_leases (name, holder, epoch, beats) VALUES (%s, 'test', 1, 0)", (LEASE,)
        )
        self.signer = audit_key.Signer(self.private, evidence.incarnation(self.connection))

    def log(self, number: int) -> None:
        """So many events, with a hole in the positions behind them, as a refused append leaves it."""
        put(self.connection, events(number))
        self.connection.execute("SELECT nextval('stored_events_position')")

    def end(self) -> int:
        row = self.connection.execute("SELECT coalesce(max(notification_id), 0) FROM stored_events").fetchone()
        assert row is not None
        return int(row[0])

    def take_in(self, fence: Fence = FENCE, limit: int = 100) -> None:
        writer = Writer(self.connections, fence)
        while writer.step(self.end(), limit):
            pass

    def begin_anew(self) -> None:
        """Forget all evidence, as somebody would who has something to hide."""
        for table in ("audit_chain", "audit_tiles", "audit_checkpoints"):
            self.connection.execute(f"DELETE FROM {table}")  # type: ignore[arg-type]
        self.connection.execute("UPDATE audit_progress SET position = 0, size = 0")

    def tree(self) -> tuple[int, bytes]:
        """Size and root."""
        size = evidence.progress(self.connection).size
        return size, evidence.tree(self.connection).root(size)

    def sign(self) -> None:
        size, root = self.tree()
        evidence.keep(self.connection, size, self.signer.note(size, root))

    def faults(self) -> list[str]:
        return self.verified()[0]

    def verified(self) -> tuple[list[str], evidence_check.Report]:
        told: list[str] = []
        verifier = evidence_check.Verifier(self.connection, told.append, [self.signer.key], audit_key.verify)
        report = verifier.run()
        assert report.faults == len(told)
        return told, report


@contextmanager
def audited(dsn: str) -> Iterator[Audited]:
    with pool(dsn, 4, by_key=True) as connections, psycopg.connect(dsn, autocommit=True) as connection:
        yield Audited(connections, connection)
