"""Faults of instances that a review found, and what it tried."""

from typing import Any

from test_instances import reserved, spec

from given import Plane


def held(plane: Plane, gpus: int = 0, **fields: Any) -> tuple[str, str, Any]:
    pool_id, (node_id,) = plane.hosts()
    made = reserved(plane, pool_id, devices=[{"class": "gpu", "count": gpus}], **fields)
    return pool_id, node_id, plane.activate(plane.acme, made["id"])


def test_a_reservation_of_a_withdrawn_offer_still_carries_an_instance(plane: Plane) -> None:
    pool_id, node_id, of = held(plane)
    plane.root.ok("DELETE", f"/v1/pools/{pool_id}/offers/acme")
    made = plane.instance(pool_id, reservationId=of["id"])
    assert list(spec(plane, node_id)) == [made["id"]]
