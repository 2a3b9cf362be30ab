"""Several tenants on one GPU: each has its slots, and what is left is counted once (cases O21 and O24)."""

from typing import Any

import pytest

from given import Plane, inventory

TWO = [{"class": "gpu.slot", "count": 2}]


@pytest.fixture
def slots(plane: Plane) -> str:
    """A pool of L4s, four slots each, offered to acme and globex."""
    pool_id = plane.pool(
        plane.site(), "l4", gpuModel="L4", gpuMemoryGb=24, sharing="timeslice", policy={"sharing": {"replicas": 4}}
    )
    for tenant in ("acme", "globex"):
        plane.root.ok("PUT", f"/v1/pools/{pool_id}/offers/{tenant}", {"quota": {"gpu.slot": 8}})
    return pool_id


def capacity(plane: Plane, pool_id: str) -> dict[str, Any]:
    plane.settle()
    return {row["resource"]: row for row in plane.root.ok("GET", f"/v1/capacity?poolId={pool_id}")["items"]}


def parents(made: Any) -> list[str]:
    return [atom.partition("/")[0] for allocation in made["allocations"] for atom in allocation["atoms"]]


def node(plane: Plane, pool_id: str, gpus: int) -> list[str]:
    """A node in the pool; its GPUs."""
    found = inventory("L4", gpus, 7000)
    for place, card in enumerate(found["gpus"], 1):
        card["pciBusId"] = f"0000:{place:02}:00.0"
    site_id = plane.root.ok("GET", f"/v1/pools/{pool_id}")["siteId"]
    plane.node(site_id, pool_id, gpus=gpus, model="L4", found=found)
    return [card["uuid"] for card in found["gpus"]]


def test_a_shared_gpu_is_counted_by_its_slots_and_never_below_none(plane: Plane, slots: str) -> None:
    """O21."""
    node(plane, slots, 1)
    for client in (plane.acme, plane.globex):
        made = client.reserve(slots, devices=[{"class": "gpu.slot", "count": 1}]).json()
        plane.activate(client, made["id"])
    shown = capacity(plane, slots)
    assert "gpu" not in shown, "the whole GPU is not sold beside its slots"
    row = shown["gpu.slot"]
    assert (row["total"], row["allocated"], row["reserved"], row["available"]) == (4, 2, 0, 2)
    plane.acme.reserve(slots, devices=TWO)
    waits = plane.globex.reserve(slots, devices=TWO).json()
    assert (waits["state"], capacity(plane, slots)["gpu.slot"]["available"]) == ("pending", 0)


def test_two_slots_are_of_two_gpus_where_that_is_asked_and_else_of_any(plane: Plane, slots: str) -> None:
    """O24."""
    first, second = node(plane, slots, 2)
    apart = [
        {"class": "gpu.slot", "count": 1, "selector": f"device.attributes.pciBusId == '{bus}'"}
        for bus in ("0000:01:00.0", "0000:02:00.0")
    ]
    made = plane.acme.reserve(slots, devices=apart).json()
    assert made["state"] == "placed", made
    assert sorted(parents(made)) == sorted([first, second])
    anywhere = plane.acme.reserve(slots, devices=TWO).json()
    assert len(parents(anywhere)) == 2
    assert set(parents(anywhere)) <= {first, second}
