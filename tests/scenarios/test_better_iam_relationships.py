"""What goes out of a tenant's sight leaves no relationships behind in Better IAM (iam.md §7, §21)."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import given
from adapters import removals
from adapters.http import sse
from iam_server import faults
from iam_server.hooks import delivery, event
from iam_server.plane import SECRET, Plane, plane

KEEPER = {"kind": "api-key", "identity_kind": "service", "groups": ["iam-reader", "relationship-keeper"]}


@pytest.fixture
def better(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plane]:
    monkeypatch.setattr(sse, "SECONDS", 0.0)
    monkeypatch.setattr(removals, "EVERY_S", 0.02)
    monkeypatch.setattr(removals, "FIRST_WAIT_MS", 1)
    with plane(database, tmp_path) as made:
        key(made, tmp_path, "platform")
        key(made, tmp_path, "acme")
        yield made


def key(better: Plane, home: Path, tenant: str) -> str:
    """A service key of a tenant, in the file."""
    token = better.iam.sign_in(f"compute-{tenant}", tenant, **KEEPER)
    with (home / "iam-keys").open("a") as file:
        file.write(token + "\n")
    return token


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + given.DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def related(better: Plane, tenant: str) -> set[str]:
    return {one[4] for one in better.iam.relationships if one[0] == tenant}


def looked_through(better: Plane) -> None:
    """Everything up to now was looked at, and nothing is left to do."""
    head = better.wired.head()
    until(lambda: better.rows("SELECT position FROM relationship_progress")[0][0] >= head)
    until(lambda: better.rows("SELECT count(*) FROM relationship_removals")[0][0] == 0)


def test_withdrawn_retired_and_archived_things_lose_what_was_on_them_and_others_keep_theirs(better: Plane) -> None:
    pool_id, _ = better.fleet()
    project = better.project()
    for tenant, type, id in (
        ("acme", "compute-pool", pool_id),
        ("acme", "compute-pool", "pool_other"),
        ("acme", "compute-project", project),
    ):
        better.iam.relate(tenant, "alice", "user", type, id)
        better.iam.relate(tenant, "group:ops", "admin", type, id)
    better.root.ok("DELETE", f"/v1/pools/{pool_id}/offers/acme")
    until(lambda: related(better, "acme") == {"pool_other", project})
    better.acme.ok("POST", f"/v1/projects/{project}/archive", {})
    until(lambda: related(better, "acme") == {"pool_other"})
    looked_through(better)


def test_a_retired_pool_loses_them_in_every_tenant_that_sees_it(better: Plane) -> None:
    pool_id = better.pool(better.site())
    better.offer(pool_id)
    for tenant in ("acme", "platform", "globex"):
        better.iam.relate(tenant, "alice", "user", "compute-pool", pool_id)
    better.root.ok("DELETE", f"/v1/pools/{pool_id}")
    until(lambda: not related(better, "acme") | related(better, "platform"))
    assert related(better, "globex") == {pool_id}, "that one never saw it, and has no key"
    looked_through(better)


def test_what_cannot_be_removed_is_tried_again_and_nobody_waits_for_it(
    better: Plane, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pool_id = better.pool(better.site())
    better.offer(pool_id)
    better.offer(pool_id, "globex")
    better.iam.relate("acme", "alice", "user", "compute-pool", pool_id)
    better.iam.relate("globex", "gus", "user", "compute-pool", pool_id)
    better.server.fail("relationships/list", faults.error(403, "ACCESS_DENIED"), faults.hang_up)
    better.root.ok("DELETE", f"/v1/pools/{pool_id}")
    until(lambda: not related(better, "acme"))
    until(lambda: "none of the service keys is of globex" in caplog.text)
    assert better.app.get("/health/ready").status_code == 200
    assert "ACCESS_DENIED" in caplog.text
    key(better, tmp_path, "globex")
    until(lambda: not related(better, "globex"))
    looked_through(better)


def test_after_some_tries_it_is_left_until_the_next_start(
    better: Plane, monkeypatch: pytest.MonkeyPatch, database: str, tmp_path: Path
) -> None:
    monkeypatch.setattr(removals, "TRIES", 2)
    pool_id, _ = better.fleet()
    better.offer(pool_id, "globex")
    better.iam.relate("globex", "gus", "user", "compute-pool", pool_id)
    better.root.ok("DELETE", f"/v1/pools/{pool_id}/offers/globex")
    until(lambda: better.rows("SELECT 1 FROM relationship_removals WHERE due_at IS NULL AND tries = 2"))
    assert better.app.get("/health/ready").json()["checks"]["relationshipsToRemove"] == 1
    assert better.wired.removing is not None
    better.wired.removing.stop()
    key(better, tmp_path, "globex")
    again = removals.Removing(
        better.wired.reads, better.store, better.wired.head, better.wired.access.relationships, "next"
    )
    assert again.tick()
    assert not related(better, "globex")
    looked_through(better)


def test_what_is_offered_again_meanwhile_keeps_what_is_on_it(better: Plane) -> None:
    pool_id, _ = better.fleet()
    assert better.wired.removing is not None
    better.wired.removing.stop()
    better.root.ok("DELETE", f"/v1/pools/{pool_id}/offers/acme")
    better.offer(pool_id, "acme")
    better.iam.relate("acme", "alice", "user", "compute-pool", pool_id)
    again = removals.Removing(
        better.wired.reads, better.store, better.wired.head, better.wired.access.relationships, "next"
    )
    assert again.tick()
    assert related(better, "acme") == {pool_id}
    looked_through(better)


def test_tenants_below_lose_sight_of_a_pool_with_the_offering_that_reached_them(better: Plane, tmp_path: Path) -> None:
    better.iam.tenant("acme-lab", "acme")
    key(better, tmp_path, "acme-lab")
    raw, headers = delivery(event("tenant:create"), SECRET)
    assert better.app.post("/v1/iam/webhook", content=raw, headers=headers).status_code == 204
    pool_id, _ = better.fleet()
    better.offer(pool_id, "acme", includeDescendants=True)
    better.until_tenant("acme-lab", "active")
    for tenant in ("acme", "acme-lab"):
        better.iam.relate(tenant, "alice", "user", "compute-pool", pool_id)
    better.offer(pool_id, "acme", includeDescendants=False)
    until(lambda: not related(better, "acme-lab"))
    assert related(better, "acme") == {pool_id}
