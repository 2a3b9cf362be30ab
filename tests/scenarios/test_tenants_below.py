"""Tenants below tenants: an offer to the one above can reach them, and the nearest counts."""

import psycopg

from adapters.iam import tokens
from given import Client, Plane

LABS = """
[tenants.labs]
parent = "acme"

[identities.labs]
tenant = "labs"
kind = "user"
roles = ["tenant-admin"]
token_sha256 = ["{digest}"]
"""


def labs(plane: Plane) -> Client:
    token = tokens.mint()
    plane.access.write_text(plane.access.read_text() + LABS.format(digest=tokens.digest(token)))
    assert plane.wired.authorizer.reload()
    return Client(plane.app, token)


def test_the_nearest_offer_gives_visibility_priority_and_a_shared_quota(plane: Plane) -> None:
    client = labs(plane)
    pool_id, _ = plane.fleet(quota=4)
    assert client.get(f"/v1/pools/{pool_id}").status_code == 404
    plane.offer(pool_id, gpu=4, includeDescendants=True)
    assert client.get(f"/v1/pools/{pool_id}").status_code == 200
    plane.settle()
    assert [row["id"] for row in client.ok("GET", "/v1/pools")["items"]] == [pool_id]
    three = [{"class": "gpu", "count": 3}]
    assert plane.acme.reserve(pool_id, devices=three).status_code == 201
    over = client.reserve(pool_id, devices=three).json()
    assert (over["code"], over["limit"], over["peak"]) == ("QUOTA_EXCEEDED", 4, 6), "one quota for all below"
    assert client.ok("GET", f"/v1/capacity?poolId={pool_id}")["items"][0]["available"] == 1
    plane.offer(pool_id, "labs", gpu=3)
    assert client.reserve(pool_id, devices=three).status_code == 201, "its own offer is nearer"
    assert client.reserve(pool_id).json()["limit"] == 3


def test_what_is_above_suspended_begins_nothing_below(plane: Plane) -> None:
    client = labs(plane)
    pool_id, _ = plane.fleet(quota=4)
    plane.offer(pool_id, gpu=4, includeDescendants=True)
    site_id = client.ok("POST", "/v1/sites", {"name": "own", "kind": "custom", "iamRegion": "eu"})["id"]
    made = client.ok("POST", "/v1/join-tokens", {"siteId": site_id, "trust": "tenant-owned"})
    text = plane.access.read_text()
    plane.access.write_text(text.replace("[tenants.acme]\n", '[tenants.acme]\nstatus = "suspended"\n'))
    assert plane.wired.authorizer.reload()
    assert client.reserve(pool_id).status_code == 403
    join = {"inventory": {"schema": "NodeInventory/v1"}, "publicKey": "A" * 43 + "=", "name": "n1"}
    refused = plane.app.post("/v1/nodes/join", json=join, headers={"authorization": f"Bearer {made['token']}"})
    assert (refused.status_code, "suspended" in refused.json()["detail"]) == (401, True)


def test_the_line_of_a_tenant_is_nearest_first_and_ends_even_where_the_log_has_a_circle(
    connection: psycopg.Connection,
) -> None:
    rows = [("platform", None), ("acme", "platform"), ("labs", "acme"), ("a", "b"), ("b", "a"), ("lost", "nobody")]
    for id, parent in rows:
        connection.execute("INSERT INTO catalog_tenants (id, parent, status) VALUES (%s, %s, 'active')", (id, parent))

    def line(tenant: str | None) -> list[tuple[str, int]]:
        return connection.execute("SELECT id, depth FROM tenant_line(%s) ORDER BY depth", (tenant,)).fetchall()

    assert line("labs") == [("labs", 0), ("acme", 1), ("platform", 2)]
    assert line("lost") == [("lost", 0)]
    assert line("stranger") == line(None) == []
    assert len(line("a")) == 17
