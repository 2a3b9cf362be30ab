"""A page of a list as it was, against the same page as it is, over HTTP: 10,000 nodes of 60 versions each.

Every node's connection was lost and found again, all through the log. Rounds go through the same pages now and then in
turn, from the list's beginning, each with a client of one connection; what is compared is a page's median.
"""

import http.client
import json
import random
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import psycopg

from adapters.iam import demo
from adapters.ids import Mint
from adapters.postgres import embedded, envelope, migrate, runner
from adapters.postgres.follower import Follower
from adapters.postgres.mapper import EventMapper
from adapters.postgres.pool import pool
from adapters.postgres.runner import Runner
from adapters.postgres.store import EventStore
from domain import node, registry
from domain import pool as pools
from domain.device import Device
from domain.event import Append, Change, Meta
from projections import table
from tests.bench import figures
from tests.bench.plane import Plane, serving

NODES: Final = 10_000
VERSIONS: Final = 60
ROUNDS: Final = 9
PAGES: Final = 20
OWNER: Final = "platform"
POOL: Final = f"pool_{0:026d}"
_POOL: Final = pools.Created(
    "bench", "site_1", OWNER, "eu-north", "metal-host", "H100", 80, "exclusive", "bcd", pools.Policy(), 1
)
_READ: Final = ["nodes", "devices", "log_time"]
"""What the lists read; the other read models are passed over, they would take most of the time."""
_META: Final = Meta("controller:bench")
_TOGETHER: Final = 100
"""Nodes an append: they join beside nobody."""
_COPY: Final = "COPY stored_events (originator_id, originator_version, topic, state, recorded_at) FROM STDIN"

ASKED: Final = {
    "nodes": "/v1/nodes?limit=100",
    "nodes that are connected": "/v1/nodes?limit=100&connectivity=connected",
}


def report(place: Path, nodes: int = NODES, versions: int = VERSIONS) -> str:
    """What was filled before in this place is measured again."""
    data, access, filled = place / "data", place / "access.toml", place / "filled.json"
    text, tokens = demo.demo_access()
    access.write_text(text)
    if not filled.exists():
        with embedded.running(data) as dsn:
            filled.write_text(json.dumps(_filled(dsn, nodes, versions)))
    rate, events, middle = json.loads(filled.read_text())
    middle += nodes // 2  # in the midst of a round, where half of the nodes have taken their turn
    with serving(data, "--access-file", str(access)) as plane:
        rows = [(f"these read models caught up with {events:,} events, events a second", f"{rate:,.0f}")]
        for what, path in ASKED.items():
            rows += _compared(plane, tokens["root"], what, path, middle)
    return figures.table(f"As it was known then: {nodes:,} nodes of {versions} versions", rows)


def _compared(plane: Plane, token: str, what: str, path: str, position: int) -> Iterator[tuple[str, str]]:
    paths = {"now": path, "as of the middle": f"{path}&asOf=@{position}"}
    for asked in paths.values():
        _walk(plane, token, asked)
    found: dict[str, list[float]] = {name: [] for name in paths}
    for number in range(ROUNDS):
        for name in sorted(paths, reverse=number % 2 == 1):
            found[name].append(statistics.median(_walk(plane, token, paths[name])))
    for name, medians in found.items():
        yield f"a page of 100 {what}, {name}, ms", figures.spread(medians, 1)
    yield f"a page of 100 {what}: as of the middle to now", figures.ratio(found["as of the middle"], found["now"])


def _walk(plane: Plane, token: str, path: str) -> list[float]:
    """Milliseconds of each page."""
    connection = http.client.HTTPConnection(plane.host, plane.port, timeout=30)
    took, cursor = [], None
    try:
        for _ in range(PAGES):
            began = time.perf_counter()
            more = "" if cursor is None else f"&cursor={quote(cursor)}"
            connection.request("GET", path + more, headers={"authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            shown: Any = answer.read()
            took.append((time.perf_counter() - began) * 1000)
            if answer.status != 200:
                raise RuntimeError(f"{path}: {answer.status} {shown!r}")
            cursor = json.loads(shown).get("nextCursor")
            if cursor is None:
                break
    finally:
        connection.close()
    return took


def _filled(dsn: str, nodes: int, versions: int) -> tuple[float, int, int]:
    """Nodes and their pasts, read: events a second of that, events, and the log's middle."""
    migrate.migrate(dsn)
    runner.create_tables(dsn, table.ALL)
    mint = Mint()
    with pool(dsn, 4, by_key=True) as connections:
        store = EventStore(connections, table.INLINE, OWNER, mint)
        ids = [mint("node") for _ in range(nodes)]
        store.append(Append((Change(POOL, 0, (_POOL,)),), _META))
        for first in range(0, nodes, _TOGETHER):
            store.append(Append(tuple(map(_joined, ids[first : first + _TOGETHER])), _META))
        with psycopg.connect(dsn, autocommit=True) as connection:
            _connections(connection, ids, versions, mint)
            middle, last = _span(connection)
            connection.execute("UPDATE projection_positions SET position = %s WHERE NOT name = ANY(%s)", (last, _READ))
        running = Runner(connections, [of for of in table.ASYNC if of.name in _READ])
        running.load()
        following = Follower(connections, [running.apply])
        began = time.monotonic()
        following.catch_up()
        took = time.monotonic() - began
        assert not running.failures, running.failures
        return last / took, last, middle


def _joined(id: str) -> Change:
    joined = node.Joined(f"n{id[-12:]}", "site_1", OWNER, "eu-north", "host", "platform", id, "jt_1", {}, 1)
    devices = tuple(Device(f"{id}/g{n}", "gpu", True, gpu_model="H100", memory_gb=80) for n in range(8))
    first = (joined, node.Assigned("host", POOL, OWNER), node.DevicesChanged(POOL, 1, devices, {"vcpu": 64}))
    return Change(id, 0, (*first, node.SchedulabilityChanged({})))


def _connections(connection: psycopg.Connection[Any], ids: list[str], versions: int, mint: Mint) -> None:
    """Each node's connection goes and comes, in an order of its own each time."""
    mapper, dice = EventMapper(), random.Random(1)
    states = {id: registry.fold(id, _joined(id).events) for id in ids}
    with connection.cursor() as cursor, cursor.copy(_COPY) as copy:
        for version in range(5, versions + 3):
            for id in dice.sample(ids, len(ids)):
                event = node.ConnectivityChanged("lost" if version % 2 else "connected", version, version)
                states[id] = registry.fold(id, [event], states[id])
                append = Append((Change(id, version - 1, (event,)),), _META)
                for recorded in envelope.seal(append, [states[id]], mint):
                    row = mapper.to_stored_event(recorded)
                    at = 1_700_000_000_000 + version * 60_000
                    copy.write_row((row.originator_id, row.originator_version, row.topic, row.state, at))
    connection.execute("SELECT setval('stored_events_position', max(notification_id)) FROM stored_events")
    connection.execute("VACUUM ANALYZE stored_events")


def _span(connection: psycopg.Connection[Any]) -> tuple[int, int]:
    row = connection.execute("SELECT max(notification_id) / 2, max(notification_id) FROM stored_events").fetchone()
    assert row is not None
    return int(row[0]), int(row[1])
