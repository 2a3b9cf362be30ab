"""Tenants below tenants: an offer to the one above can reach them, and the nearest counts."""

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
