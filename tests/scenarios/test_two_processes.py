"""Two processes on one database: each keeps its own agents' sessions (architecture.md §5)."""

import time
from collections.abc import Callable
from pathlib import Path

import given
from adapters.agent.ownership import NOBODY
from adapters.postgres.leases import TTL_S, Lease
from commands import agents
from domain import admission


def until(condition: Callable[[], object], seconds: float = 2 * TTL_S) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def until_beat(rival: Lease) -> None:
    """Until the process that watches this lease has looked and seen a new beat."""
    seen = rival._seen
    until(lambda: rival._seen != seen)


def held(plane: given.Plane) -> set[str]:
    return set(plane.wired.gateway._leases._held)


def test_a_second_process_leaves_the_firsts_nodes_alone_until_it_stops(plane: given.Plane, tmp_path: Path) -> None:
    until(lambda: NOBODY not in plane.wired.ownership._others)  # it has looked; what comes now is somebody's
    _, (node_id,) = plane.fleet()
    (tmp_path / "first").mkdir()
    with given.plane(plane.wired.reads.conninfo, tmp_path / "first") as first:
        agents.open_session(plane.store, node_id, first.wired.gateway.id)
        plane.settle()
        until(lambda: first.wired.gateway.id in plane.wired.ownership._others)
        rival = plane.wired.ownership._others[first.wired.gateway.id]
        for _ in range(3):
            until_beat(rival)
            assert node_id not in held(plane)
    until(lambda: node_id in held(plane), 3)


def test_refusals_that_nobody_came_to_count_are_recorded_at_a_clean_stop(database: str, tmp_path: Path) -> None:
    for run in ("first", "second"):
        (tmp_path / run).mkdir()
    with given.plane(database, tmp_path / "first") as first:
        for _ in range(130):
            assert first.acme.get("/v1/sites?scope=fleet").status_code == 403
    with given.plane(database, tmp_path / "second") as second:
        refused = second.refusals()
    listed = [r for r in refused if isinstance(r, admission.Refused)]
    counted = [r.count for r in refused if isinstance(r, admission.RefusalsCounted)]
    assert len(listed) + sum(counted) == 130
    assert counted
