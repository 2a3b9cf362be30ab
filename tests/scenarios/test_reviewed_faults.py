"""Faults that reviewers and attackers found once, each as the rule it broke."""

import pytest

from adapters.postgres import rebuild
from commands import agents
from domain import errors
from given import Plane, inventory
from projections import table


def test_a_decision_counts_only_for_what_it_was_made_on(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that moves between the decision and the append is decided on again (architecture.md §4)."""
    site_id = plane.site()
    pool_a, pool_b = plane.pool(site_id, "a"), plane.pool(site_id, "b")
    node_id = plane.node(site_id, pool_a)
    authorizer, moved = plane.wired.authorizer, []
    decide = authorizer.authorize

    def moving(session, action, resource):  # type: ignore[no-untyped-def]
        decision = decide(session, action, resource)
        if action == "compute:nodes:cordon":
            moved.append(resource.parent_id)
            if len(moved) == 1:
                plane.root.ok("POST", f"/v1/nodes/{node_id}/assign", {"poolId": pool_b})
        return decision

    monkeypatch.setattr(authorizer, "authorize", moving)
    plane.root.ok("POST", f"/v1/nodes/{node_id}/cordon", {"reason": "fan"})
    assert moved == [pool_a, pool_b]


def test_a_node_is_not_retired_under_a_tenant_whose_end_is_merely_overdue(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet()
    made = plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 1}], durationSeconds=60).json()
    plane.until(plane.acme, made["id"], "binding")
    plane.report(node_id)
    plane.until(plane.acme, made["id"], "active")
    plane.wired.worker.stop()
    with plane.wired.reads.connection() as connection:
        connection.execute("UPDATE device_bookings SET during = int8range(lower(during), lower(during) + 1)")
    answer = plane.root.post(f"/v1/nodes/{node_id}/retire")
    assert answer.status_code == 409
    assert answer.json()["reservations"] == [made["id"]]


def test_a_pending_claim_does_not_outlive_the_offering_that_admitted_it(plane: Plane) -> None:
    pool_id, _ = plane.fleet(quota=16)
    plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 8}])
    waiting = plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 8}]).json()
    assert waiting["state"] == "pending"
    plane.root.ok("DELETE", f"/v1/pools/{pool_id}/offers/acme")
    plane.offer(pool_id, gpu=16)
    assert plane.until(plane.acme, waiting["id"], "failed")["stateReason"] == "OfferWithdrawn"


def test_the_log_gives_the_same_tables_after_one_machine_joined_twice(plane: Plane, database: str) -> None:
    site_id = plane.site()
    found = inventory("H100", 8, 4711)
    for name in ("first", "second", "third"):
        plane.join(site_id, name, found)
    plane.settle()
    assert rebuild.compare(database, table.ALL).differences == ()


def test_an_atom_that_was_never_given_back_is_not_sold_after_the_one_that_waited_for_it(plane: Plane) -> None:
    site_id = plane.site()
    pool_id = plane.pool(site_id, policy={"bindTimeout": 60})
    plane.offer(pool_id, gpu=8)
    node_id = plane.node(site_id, pool_id, gpus=1)
    now = plane.store.now()
    stuck = plane.acme.reserve(pool_id, durationSeconds=60).json()
    plane.until(plane.acme, stuck["id"], "binding")
    plane.report(node_id)
    plane.until(plane.acme, stuck["id"], "active")
    follower = plane.acme.reserve(pool_id, durationSeconds=60, startsAt=stuck["endsAt"]).json()
    assert follower["state"] == "placed", now
    plane.acme.ok("POST", f"/v1/reservations/{stuck['id']}/release")
    plane.acme.ok("POST", f"/v1/reservations/{follower['id']}/cancel")
    third = plane.acme.reserve(pool_id, durationSeconds=60, maxPendingSeconds=0)
    assert third.status_code == 409, third.text


def test_a_superseded_session_cannot_activate_anything(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet()
    made = plane.acme.reserve(pool_id).json()
    plane.until(plane.acme, made["id"], "binding")
    old = plane.store.load(node_id).state.session
    agents.open_session(plane.store, node_id)
    with pytest.raises(errors.Fenced):
        plane.report(node_id, old)
    assert plane.acme.ok("GET", f"/v1/reservations/{made['id']}")["state"] == "binding"


def test_joining_again_with_the_same_key_answers_the_same_node(plane: Plane) -> None:
    site_id = plane.site()
    token = plane.root.ok("POST", "/v1/join-tokens", {"siteId": site_id, "trust": "platform"})["token"]
    body = {"name": "n1", "inventory": inventory(), "publicKey": "A" * 43 + "="}
    headers = {"authorization": f"Bearer {token}"}
    first = plane.app.post("/v1/nodes/join", json=body, headers=headers)
    again = plane.app.post("/v1/nodes/join", json=body, headers=headers)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json()["id"] == again.json()["id"]


def test_what_comes_after_a_long_queue_of_claims_that_fit_nowhere_is_placed(plane: Plane) -> None:
    pool_id, _ = plane.fleet(quota=8)
    hopeless = [{"class": "gpu", "count": 1, "selector": "device.gpuModel == 'L4'"}]
    starts = plane.store.now() + 86_400_000
    for number in range(205):
        plane.acme.reserve(pool_id, devices=hopeless, durationSeconds=60, startsAt=starts + number * 60_000)
    last = plane.acme.reserve(pool_id).json()
    assert last["state"] == "pending"
    plane.until(plane.acme, last["id"], "placed", "binding")
