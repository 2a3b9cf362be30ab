"""The tenant tree is Better IAM's, as far as keys reach; what cannot be read stays as it is (iam.md §15)."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from adapters import directory
from adapters.iam.better.client import Client
from adapters.iam.better.tenants import TenantTree, WrongTree
from adapters.ids import Mint
from adapters.postgres.pool import pool
from adapters.postgres.store import EventStore
from domain import errors
from domain.access import Tenant
from domain.tenant import AccessLoaded, stream
from iam_server import faults
from iam_server.http import Server, serving
from iam_server.model import Iam
from projections import table


@dataclass
class World:
    """A server with a platform of two customers, one of which has a project, and a tree with keys to it."""

    server: Server
    keys: list[str]
    tree: TenantTree
    recorded: list[tuple[list[Tenant], set[str]]] = field(default_factory=list)

    def key(self, tenant: str) -> str:
        token = self.server.iam.sign_in(f"key-{tenant}", tenant, kind="api-key", groups=["iam-reader"])
        self.keys.append(token)
        return token

    def read(self) -> tuple[list[Tenant], set[str]]:
        self.tree.sync()
        return self.recorded[-1]


@pytest.fixture
def world() -> Iterator[World]:
    iam = Iam(frozenset())
    for id, parent in (("platform", None), ("acme", "platform"), ("globex", "platform"), ("acme-lab", "acme")):
        iam.tenant(id, parent)
    with serving(iam) as server:
        client = Client(server.url, total_s=2, wait=lambda seconds: None)
        keys: list[str] = []
        recorded: list[tuple[list[Tenant], set[str]]] = []
        tree = TenantTree(
            client, "platform", lambda: keys, lambda tenants, unread: recorded.append((list(tenants), set(unread)))
        )
        yield World(server, keys, tree, recorded)
        client.close()


def test_the_root_comes_first_and_children_of_tenants_without_a_key_are_not_known(world: World) -> None:
    world.key("platform")
    tenants, unread = world.read()
    assert tenants[0] == Tenant("platform", None, "active", "organization")
    assert {one.id for one in tenants} == {"platform", "acme", "globex"}
    assert unread == {"acme", "globex"}


def test_a_key_of_a_tenant_shows_what_is_below_it(world: World) -> None:
    world.key("platform")
    world.key("acme")
    world.server.iam.tenants["acme"].status = "suspended"
    tenants, unread = world.read()
    assert {(one.id, one.parent, one.status) for one in tenants} == {
        ("platform", None, "active"),
        ("acme", "platform", "suspended"),
        ("globex", "platform", "active"),
        ("acme-lab", "acme", "active"),
    }
    assert unread == {"globex", "acme-lab"}


def test_a_key_that_is_no_longer_good_is_passed_over(world: World) -> None:
    world.keys.append("biam_key_gone")
    world.key("platform")
    del world.server.iam.sessions[world.key("acme")]
    _, unread = world.read()
    assert unread == {"acme", "globex"}


def test_without_a_key_of_the_root_nothing_is_recorded(world: World) -> None:
    world.key("acme")
    with pytest.raises(WrongTree, match="platform"):
        world.read()
    assert world.recorded == []


def test_what_stands_in_the_way_of_reading_it_is_told_until_it_is_gone(world: World) -> None:
    def until(trouble: str | None) -> None:
        deadline = time.monotonic() + 20
        while world.tree.trouble != trouble:
            assert time.monotonic() < deadline, world.tree.trouble
            threading.Event().wait(0.02)

    assert world.tree.trouble == "not read yet"
    world.tree.start()
    until("could not be read; an earlier one is in force")
    world.key("platform")
    world.tree.changed()
    until(None)
    world.keys.clear()
    world.tree.changed()
    until("could not be read; an earlier one is in force")
    world.tree.stop()


WRONG: list[Any] = [
    [{"id": "acme", "type": "x", "parentId": "globex", "status": "active"}],
    [{"id": "platform", "type": "x", "parentId": "platform", "status": "active"}],
    [{"id": "a", "type": "x", "parentId": "platform", "status": "active"}] * 2,
    [{"id": "a", "type": "x", "parentId": "platform", "status": "frozen"}],
    [{"id": "", "type": "x", "parentId": "platform", "status": "active"}],
    {"items": []},
    None,
]


@pytest.mark.parametrize("children", WRONG)
def test_children_that_are_none_leave_the_tree_as_it_is(world: World, children: Any) -> None:
    world.key("platform")
    world.read()
    world.server.fail("tenants/listChildren", faults.data(children))
    with pytest.raises((WrongTree, errors.Unavailable)):
        world.read()
    assert len(world.recorded) == 1


def test_a_root_that_has_a_parent_is_another_platforms(world: World) -> None:
    world.key("platform")
    world.server.iam.tenants["platform"].parent = "acme"
    with pytest.raises(WrongTree, match="parent"):
        world.read()


@pytest.fixture
def store(database: str) -> Iterator[EventStore]:
    with pool(database, 2, by_key=True) as connections:
        yield EventStore(connections, table.INLINE, "platform", Mint())


def tenant(id: str, parent: str | None = "platform", status: Any = "active") -> Tenant:
    return Tenant(id, parent, status, "organization")


def statuses(store: EventStore, *ids: str) -> list[str]:
    return [store.load(stream(id)).state.status for id in ids]


def test_only_what_differs_is_appended_and_what_is_gone_is_deleted(store: EventStore) -> None:
    tree = [tenant("platform", None), tenant("acme"), tenant("globex")]
    directory.record(store, tree)
    directory.record(store, tree)
    assert [store.load(stream(id)).version for id in ("platform", "acme", "globex")] == [1, 1, 1]
    directory.record(store, [tenant("platform", None), tenant("acme", status="suspended")])
    assert statuses(store, "acme", "globex") == ["suspended", "deleted"]


def test_what_lies_below_a_tenant_that_could_not_be_looked_into_stays(store: EventStore) -> None:
    deep = [tenant("lab", "acme"), tenant("bench", "lab")]
    directory.record(store, [tenant("platform", None), tenant("acme"), tenant("globex"), *deep])
    directory.record(store, [tenant("platform", None), tenant("acme")], unread={"acme"})
    assert statuses(store, "acme", "lab", "bench", "globex") == ["active", "active", "active", "deleted"]
    directory.record(store, [tenant("platform", None), tenant("acme")])
    assert statuses(store, "lab", "bench") == ["deleted", "deleted"]


def test_the_digest_of_an_access_file_is_recorded_where_there_is_one(store: EventStore) -> None:
    directory.record(store, [tenant("platform", None)])
    assert store.load("access").version == 0
    directory.record(store, [tenant("platform", None)], "d1")
    directory.record(store, [tenant("platform", None)], "d1")
    assert [one.event for one in store.history("access")] == [AccessLoaded("d1")]
