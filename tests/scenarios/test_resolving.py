"""What Better IAM is told of a thing before it decides: where it may be seen, and nowhere else (iam.md §8)."""

import statistics
import time
from typing import Any

import pytest
from litestar.testing import TestClient

from adapters import main
from adapters.http.limits import Limits
from adapters.iam import demo, resolver_key
from domain import catalog
from given import RESOLVER, Client, Plane

PATH = "/v1/iam/resolve"


@pytest.fixture
def host(plane: Plane) -> Client:
    return Client(plane.app, RESOLVER)


def ask(host: Client, tenant: str, type_: str, id_: str) -> Any:
    """The thing, or None where there is nothing."""
    answer = host.post(PATH, {"tenantId": tenant, "type": f"compute-{type_}", "id": id_})
    if answer.status_code == 404:
        assert answer.json()["code"] == "NOT_FOUND"
        return None
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["tenantId"], found["type"], found["id"]) == (tenant, f"compute-{type_}", id_)
    assert None not in found["attributes"].values()
    return found["attributes"]


def test_a_thing_is_told_with_its_parent_and_real_types(plane: Plane, host: Client) -> None:
    pool_id, (node_id,) = plane.fleet()
    project_id = plane.project()
    asked = {"durationSeconds": 5400, "projectId": project_id, "devices": [{"class": "gpu", "count": 2}]}
    made = plane.acme.reserve(pool_id, **asked).json()["id"]
    assert ask(host, "acme", "reservation", made) == {
        "region": "eu-north",
        "gpuModel": "H100",
        "gpuCount": 2,
        "durationHours": 1.5,
        "binding": "hold",
        "projectId": project_id,
        "ownerId": "acme",
        "spot": False,
        "parentType": "compute-pool",
        "parentId": pool_id,
    }
    node = ask(host, "platform", "node", node_id)
    assert (node["gpuCount"], node["lifecycle"], node["parentId"]) == (8, "adopted", pool_id)
    assert "dedicatedTo" not in node, "what is unknown is absent"
    assert ask(host, "platform", "pool", pool_id)["class"] == "metal-host"


def test_everything_that_is_told_is_declared(plane: Plane, host: Client) -> None:
    pool_id, (node_id,) = plane.fleet()
    made = plane.acme.reserve(pool_id, projectId=plane.project()).json()
    site_id = plane.root.ok("GET", f"/v1/pools/{pool_id}")["siteId"]
    told = {
        "pool": ask(host, "platform", "pool", pool_id),
        "node": ask(host, "platform", "node", node_id),
        "site": ask(host, "platform", "site", site_id),
        "project": ask(host, "acme", "project", made["projectId"]),
        "reservation": ask(host, "acme", "reservation", made["id"]),
    }
    kinds = {"string": str, "number": int | float, "boolean": bool}
    for name, attributes in told.items():
        declared = catalog.BY_NAME[f"compute-{name}"]
        for key, value in attributes.items():
            if key == "parentType":
                assert value == declared.parent
            elif key != "parentId":
                assert isinstance(value, kinds[declared.attributes[key]]), key


def test_each_resolves_where_it_may_be_seen_and_nowhere_else(plane: Plane, host: Client) -> None:
    pool_id, (node_id,) = plane.fleet()
    made = plane.acme.reserve(pool_id).json()["id"]
    project_id = plane.project()
    site_id = plane.root.ok("GET", f"/v1/pools/{pool_id}")["siteId"]
    seen = {
        ("fleet", "global"): {"platform"},
        ("fleet", "other"): set(),
        ("tenant", "acme"): {"acme"},
        ("tenant", "platform"): {"platform"},
        ("project", project_id): {"acme"},
        ("site", site_id): {"platform"},
        ("pool", pool_id): {"platform", "acme"},
        ("node", node_id): {"platform"},
        ("reservation", made): {"acme"},
        ("pool", "pool_01m8mae4xcnm3fz16dkpe00gay"): set(),
        ("moon", "1"): set(),
    }
    for (type_, id_), tenants in seen.items():
        found = {t for t in ("platform", "acme", "globex", "nobody") if ask(host, t, type_, id_) is not None}
        assert found == tenants, (type_, id_)


def test_an_offer_makes_a_pool_resolve_and_ends_with_it(plane: Plane, host: Client) -> None:
    text = plane.access.read_text() + '[tenants.acme-labs]\nparent = "acme"\n'
    plane.access.write_text(text)
    assert plane.wired.authorizer.reload()
    pool_id = plane.pool(plane.site())
    assert ask(host, "acme", "pool", pool_id) is None
    plane.offer(pool_id)
    assert ask(host, "acme", "pool", pool_id) is not None
    assert ask(host, "acme-labs", "pool", pool_id) is None
    plane.offer(pool_id, includeDescendants=True)
    assert ask(host, "acme-labs", "pool", pool_id) is not None
    assert ask(host, "globex", "pool", pool_id) is None
    assert plane.root.call("DELETE", f"/v1/pools/{pool_id}/offers/acme").status_code == 200
    assert [ask(host, tenant, "pool", pool_id) for tenant in ("acme", "acme-labs")] == [None, None]
    plane.root.ok("DELETE", f"/v1/pools/{pool_id}")
    assert ask(host, "platform", "pool", pool_id) is not None, "retired, it is still its owner's to see"


def test_an_archived_project_still_resolves(plane: Plane, host: Client) -> None:
    project_id = plane.project()
    plane.acme.ok("POST", f"/v1/projects/{project_id}/archive")
    assert ask(host, "acme", "project", project_id) == {}


def test_the_key_alone_opens_it_and_opens_nothing_else(plane: Plane, host: Client) -> None:
    body = {"tenantId": "acme", "type": "compute-tenant", "id": "acme"}
    for token in (plane.root.headers["authorization"], "Bearer ", f"Bearer {RESOLVER}x", f"Bearer {RESOLVER[:-1]}"):
        answer = plane.app.post(PATH, json=body, headers={"authorization": token})
        assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHENTICATED")
        assert RESOLVER not in answer.text
    assert plane.app.post(PATH, json=body).status_code == 401
    assert host.get("/v1/pools").status_code == 401
    assert host.get(PATH).status_code == 405


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"tenantId": "acme", "type": "compute-pool"}, 422),
        ({"tenantId": "acme", "type": "compute-pool", "id": ""}, 422),
        ({"tenantId": "acme", "type": "compute-pool", "id": "x" * 257}, 422),
        ({"tenantId": "a" * 129, "type": "compute-pool", "id": "x"}, 422),
        ({"tenantId": "acme", "type": 7, "id": "x"}, 422),
        ({"tenantId": "acme", "type": "compute-pool", "id": "x", "more": 1}, 422),
        ({"tenantId": "acme", "type": "compute-pool", "id": "x\x00"}, 422),
        ({"tenantId": "acme", "type": "compute-pool", "id": "'; DROP TABLE catalog; --"}, 404),
        ({"tenantId": "acme", "type": "compute-tenant/acme", "id": "*"}, 404),
        ([], 422),
    ],
)
def test_what_makes_no_sense_is_told_so(plane: Plane, host: Client, body: Any, status: int) -> None:
    assert host.post(PATH, body).status_code == status


def test_without_a_key_it_is_not_there(database: str, tmp_path: Any) -> None:
    text, tokens = demo.demo_access()
    access = tmp_path / "access.toml"
    access.write_text(text)
    with main.running(database, access) as wired, TestClient(wired.app()) as app:  # type: ignore[arg-type]
        for token in (RESOLVER, tokens["root"]):
            answer = Client(app, token).post(PATH, {"tenantId": "acme", "type": "compute-tenant", "id": "acme"})
            assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")
        assert PATH not in app.get("/schema/openapi.json").json()["paths"]


def test_it_takes_milliseconds(plane: Plane, host: Client) -> None:
    pool_id, _ = plane.fleet()
    made = plane.acme.reserve(pool_id).json()["id"]
    took = []
    for _ in range(100):
        began = time.perf_counter()
        assert ask(host, "acme", "reservation", made)
        took.append(time.perf_counter() - began)
    assert statistics.median(took) < 0.1


def test_nobody_counts_its_requests_but_those_with_a_wrong_key(database: str, tmp_path: Any) -> None:
    access = tmp_path / "access.toml"
    access.write_text(demo.demo_access()[0])
    known = resolver_key.knows(RESOLVER)
    with main.running(database, access, resolver=known) as wired, TestClient(wired.app(Limits(anonymous=20))) as app:  # type: ignore[arg-type]
        assert all(ask(Client(app, RESOLVER), "acme", "tenant", "acme") == {} for _ in range(60))
        strangers = {Client(app, RESOLVER + "x").post(PATH, {}).status_code for _ in range(60)}
    assert strangers == {401, 429}


@pytest.mark.parametrize("text", ["", "short", "x" * 31, "x" * 40 + "\n" + "y" * 40, "ü" * 40])
def test_a_file_without_a_good_key_is_refused_without_showing_it(text: str, tmp_path: Any) -> None:
    file = tmp_path / "key"
    file.write_text(text)
    with pytest.raises(resolver_key.ResolverKeyError) as refused:
        resolver_key.read(file)
    assert not text or text not in str(refused.value)


def test_the_key_of_a_file_is_known_with_or_without_its_last_newline(tmp_path: Any) -> None:
    file = tmp_path / "key"
    file.write_text(RESOLVER + "\n")
    assert resolver_key.read(file)(RESOLVER)
    assert not resolver_key.read(file)(RESOLVER + "\n")
    with pytest.raises(resolver_key.ResolverKeyError):
        resolver_key.read(tmp_path / "none")
