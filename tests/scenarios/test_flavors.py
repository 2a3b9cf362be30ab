"""Flavors: named sizes, the platform's for everybody, a tenant's for itself."""

from typing import Any

import pytest

from adapters.ids import Mint
from given import Plane

SMALL = {"name": "small", "vcpu": 2, "memoryGiB": 4, "diskGiB": 10}


def names(plane: Plane, client: Any, query: str = "") -> list[str]:
    plane.settle()
    return [one["name"] for one in client.ok("GET", f"/v1/flavors?{query}")["items"]]


def test_a_flavor_is_its_owners_and_the_platforms_is_everybodys(plane: Plane) -> None:
    made = plane.root.ok("POST", "/v1/flavors", SMALL | {"gpus": {"class": "gpu", "count": 1}})
    assert made["public"]
    assert made["gpus"] == {"class": "gpu", "count": 1}
    assert made["memoryGiB"] == 4
    mine = plane.acme.ok("POST", "/v1/flavors", SMALL)
    assert not mine["public"]
    assert mine["gpus"] is None
    assert plane.globex.ok("GET", f"/v1/flavors/{made['id']}") == made
    assert plane.acme_user.ok("GET", f"/v1/flavors/{mine['id']}") == mine
    for foreign in (plane.globex, plane.root):
        answer = foreign.get(f"/v1/flavors/{mine['id']}")
        assert answer.status_code == 404
    assert names(plane, plane.acme) == ["small", "small"]
    assert names(plane, plane.globex) == ["small"]
    assert names(plane, plane.globex, "public=false") == []
    assert names(plane, plane.root) == ["small"]
    assert names(plane, plane.root, "scope=fleet") == ["small", "small"]


def test_a_name_is_taken_once_and_free_after_retirement(plane: Plane) -> None:
    flavor = plane.acme.ok("POST", "/v1/flavors", SMALL)
    taken = plane.acme.post("/v1/flavors", SMALL)
    assert (taken.status_code, taken.json()["errors"][0]["field"]) == (409, "name")
    before = plane.settle()
    retired = plane.acme.ok("DELETE", f"/v1/flavors/{flavor['id']}")
    assert retired["retiredAt"]
    assert plane.acme.ok("DELETE", f"/v1/flavors/{flavor['id']}") == retired
    plane.acme.ok("POST", "/v1/flavors", SMALL | {"vcpu": 4})
    assert names(plane, plane.acme, "retired=true") == ["small"]
    assert names(plane, plane.acme, f"retired=true&asOf=@{before}") == []
    assert plane.acme.ok("GET", f"/v1/flavors/{flavor['id']}?asOf=@{before}")["retiredAt"] is None


def test_the_platforms_flavor_is_retired_by_the_platform_alone(plane: Plane) -> None:
    flavor = plane.flavor()
    assert plane.acme.call("DELETE", f"/v1/flavors/{flavor}").status_code == 403
    assert plane.acme.call("DELETE", f"/v1/flavors/{Mint()('flv')}").status_code == 404
    assert plane.root.ok("DELETE", f"/v1/flavors/{flavor}")["retiredAt"]


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("vcpu", {"vcpu": 0}),
        ("memoryGiB", {"memoryGiB": 1 << 40}),
        ("diskGiB", {"diskGiB": "1"}),
        ("gpus.count", {"gpus": {"class": "gpu", "count": 0}}),
        ("gpus.class", {"gpus": {"class": "node", "count": 1}}),
        ("name", {"name": "Small"}),
        ("name", {"name": "../small"}),
    ],
)
def test_a_size_that_cannot_be_is_refused_by_field(plane: Plane, field: str, fields: dict[str, Any]) -> None:
    answer = plane.acme.post("/v1/flavors", SMALL | fields)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)
