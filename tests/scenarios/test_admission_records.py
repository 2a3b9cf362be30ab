"""Every allowed mutation has its record, every event names one, and every no is on record (domain.md §9)."""

from typing import Any

from adapters.registry import OPERATIONS
from domain import admission
from domain.event import Recorded, tag
from given import Plane
from wellformed import REQUESTS, fill, fresh, things

NO_SESSION = {"nodes.join"}
NEVER = {"instances.resize"}
"""Refused to everybody."""
MUTATIONS = sorted(name for name, one in OPERATIONS.items() if not one.is_query and name not in NO_SESSION | NEVER)
OF_AN_INSTANCE = ("instances.delete", "instances.reboot", "instances.start", "instances.stop")
OF_A_CUSTOMER = ("projects.archive", "reservations.", "extensions.", *OF_AN_INSTANCE)
"""What only the tenant does to which the thing belongs."""


def log(plane: Plane, after: int = 0) -> list[Recorded]:
    return list(plane.store.log(after, plane.head(), 100_000))


def eventful(plane: Plane) -> None:
    """Reservations run, wait, are extended, evicted and lost; nodes run commands, are drained and forced out."""
    pool_id, nodes = plane.fleet(nodes=2, quota=99)
    plane.root.ok("POST", f"/v1/nodes/{nodes[0]}/commands", {"name": "inspect"})
    later = plane.store.now() + 10**7
    whole = [{"class": "gpu", "count": 8}]
    ran = plane.activate(plane.acme, plane.acme.reserve(pool_id).json()["id"])
    plane.acme.ok("POST", f"/v1/reservations/{ran['id']}/release", {})
    plane.report(ran["allocations"][0]["nodeId"])
    first = plane.acme.reserve(pool_id, startsAt=later, devices=whole).json()
    plane.acme.reserve(pool_id, startsAt=later, devices=whole)
    assert plane.acme.reserve(pool_id, startsAt=later).json()["state"] == "pending"
    longer = {"endsAt": first["endsAt"] + 1}
    plane.acme.ok("POST", f"/v1/reservations/{first['id']}/extend", longer, Idempotency_Key="longer")
    plane.root.ok("POST", f"/v1/pools/{pool_id}/evict", {"reservationId": first["id"], "reason": "rack"})
    lost = plane.activate(plane.acme, plane.acme.reserve(pool_id).json()["id"])["allocations"][0]["nodeId"]
    other = next(node_id for node_id in nodes if node_id != lost)
    plane.root.ok("POST", f"/v1/nodes/{other}/drain", {"reason": "fan"})
    plane.root.ok("POST", f"/v1/nodes/{lost}/retire", {"force": True})
    plane.settle()


def as_the_catalog_has_them(plane: Plane) -> dict[str, Any]:
    return {f"{type}/{id}": found for type, id, found in plane.rows("SELECT type, id, attributes FROM catalog")}


def test_each_mutation_begins_with_the_record_of_its_decision(plane: Plane) -> None:
    known = things(plane)
    for name in MUTATIONS:
        operation, (path, body) = OPERATIONS[name], REQUESTS[name]
        client = plane.acme if name.startswith(OF_A_CUSTOMER) else plane.root
        attributes = as_the_catalog_has_them(plane)
        before = plane.head()
        answer = client.call(operation.verb, fill(path, known), fill(body, known), Idempotency_Key=fresh())
        assert answer.status_code < 300, (name, answer.text)
        request_id = answer.headers["x-request-id"]
        mine = [one for one in log(plane, before) if one.meta.correlation == request_id]
        first = mine[0]
        assert isinstance(first.event, admission.Admitted), name
        assert first.part.index == 0
        assert [one.meta.admission for one in mine if one.part.append == first.event_id] == [
            first.stream
        ] * first.part.count
        assert first.event.request_id == request_id
        assert operation.action in {decided.action for decided in first.event.decided}, name
        assert first.event.decided[-1].allowed
        assert (first.event.caller.session_kind, first.event.policy_digest) == (
            "api-key",
            plane.wired.authorizer.digest,
        )
        for decided in first.event.decided:
            if decided.resource in attributes and name != "reservations.extend":  # decided as a draft
                assert decided.attributes == attributes[decided.resource], name


def test_what_time_and_agents_bring_about_names_who_and_the_decision_it_goes_back_to(plane: Plane) -> None:
    eventful(plane)
    for path in (f"/v1/nodes/node_{'0' * 26}", "/v1/sites?scope=fleet"):
        assert plane.globex.get(path).status_code in (403, 404)
    positions = {one.stream: one.position for one in log(plane) if isinstance(one.event, admission.Admitted)}
    without = set()
    for one in log(plane):
        kind, _, who = one.meta.actor.partition(":")
        assert kind in ("identity", "agent", "controller", "join-token"), one
        assert who
        if one.meta.admission is None:
            without.add((kind, one.stream.partition(":")[0].partition("_")[0], tag(one.event)))
        else:
            assert positions[one.meta.admission] <= one.position
    assert without == {
        ("identity", "adm", "admission.refused.1"),
        ("controller", "tenant", "tenant.recorded.1"),
        ("controller", "access", "access.loaded.1"),
    }


def test_what_is_not_there_is_refused_on_record_whatever_it_is(plane: Plane) -> None:
    none = "0" * 26
    asked = (
        ("POST", "/v1/leases/singleton:nowhere/proceed", "lease/singleton:nowhere"),
        ("POST", f"/v1/nodes/node_{none}/cordon", f"compute-node/node_{none}"),
        ("GET", f"/v1/audit/streams/pool_{none}", f"compute-pool/pool_{none}"),
        ("GET", f"/v1/audit/streams/jt_{none}/state", f"join token/jt_{none}"),
        ("GET", f"/v1/extensions/ext_{none * 2}", f"extension/ext_{none * 2}"),
        ("GET", f"/v1/commands/cmd_{none}", None),
    )
    for verb, path, resource in asked:
        before = plane.head()
        answer = plane.root.call(verb, path, None if verb == "GET" else {"reason": "x"} if "cordon" in path else {})
        assert answer.status_code == 404, (path, answer.text)
        (refused,) = plane.refusals(before)
        assert refused.reason == "NotResolved"
        assert resource is None or refused.resource == resource
