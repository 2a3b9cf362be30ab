"""Lists show what `get` would: whatever the policies say, their pages are full and nothing else is on them."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from test_event_stream import events

from domain.access import Session
from given import Client, Plane

HOUR = 3_600_000
LISTS = ("/v1/reservations", "/v1/allocations", "/v1/bookings", "/v1/extensions")


def allow(resources: str = "compute-*/*", **conditions: Any) -> dict[str, Any]:
    known = {"conditions": conditions} if conditions else {}
    actions = ["compute:*:list", "compute:events:stream"] if resources == "compute-tenant/*" else ["compute:*"]
    return {"effect": "allow", "actions": actions, "resources": [resources], **known}


def deny(**conditions: Any) -> dict[str, Any]:
    return {**allow("compute-reservation/*", **conditions), "effect": "deny"}


SCOPES = (allow("compute-tenant/*"), allow("compute-pool/*"), allow("compute-project/*"))
NUMBER = [*SCOPES, allow("compute-reservation/*", NumericLessThan={"resource.gpuCount": 3})]
ROLES: dict[str, tuple[list[dict[str, Any]], Callable[[dict[str, Any]], bool]]] = {
    "by number": (NUMBER, lambda made: made["count"] < 3),
    "by owner, but not": (
        [allow(), deny(StringEquals={"resource.ownerId": "acme"})],
        lambda made: made["by"] != "acme",
    ),
    "by relation to the pool": (
        [*SCOPES, allow("compute-reservation/*", ArrayContains={"resource.parentRelations": "user"})],
        lambda made: made["pool"] == 0,
    ),
    "by an attribute that is another": (
        [*SCOPES, allow("compute-reservation/*", StringEquals={"resource.ownerId": "${resource.region}"})],
        lambda made: False,
    ),
    "by no attribute that is another": (
        [
            allow(),
            deny(StringNotEquals={"resource.ownerId": "${resource.region}"}, NumericEquals={"resource.gpuCount": 1}),
        ],
        lambda made: made["count"] != 1,
    ),
    "nothing": (list(SCOPES), lambda made: False),
    "everything": ([allow()], lambda made: True),
}  # fmt: skip


def given_role(plane: Plane, statements: list[dict[str, Any]], pool_id: str) -> None:
    text = plane.access.read_text().split("\n[roles.")[0]
    text = text.replace('roles = ["tenant-user"]', 'roles = ["custom"]')
    related = f'\n[[relationships]]\ntenant = "acme"\nidentity = "acme-user"\nrelation = "user"\n{of_pool(pool_id)}'
    plane.access.write_text(f"{text}\n[roles.custom]\nversion = 1\n{_written(statements)}{related}")
    plane.wired.authorizer.reload()


def of_pool(pool_id: str) -> str:
    return f'type = "compute-pool"\nid = "{pool_id}"\n'


def _written(statements: list[dict[str, Any]]) -> str:
    return "".join(
        "\n[[roles.custom.statements]]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in statement.items())
        for statement in statements
    )


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(one)}" for key, one in value.items()) + " }"
    return json.dumps(value)


def walk(client: Client, path: str) -> list[list[dict[str, Any]]]:
    pages, cursor = [], ""
    while True:
        page = client.ok("GET", f"{path}{cursor}")
        pages.append(page["items"])
        if "nextCursor" not in page:
            return pages
        cursor = f"&cursor={page['nextCursor']}"


def of(rows: list[list[dict[str, Any]]]) -> list[str]:
    return [row.get("reservationId") or row["id"] for page in rows for row in page]


@pytest.fixture
def made(plane: Plane) -> list[dict[str, Any]]:
    """Reservations of one to four GPUs by two people in two pools, some extended."""
    pool_id, _ = plane.fleet(gpus=8, quota=99)
    (site_id,) = {row["siteId"] for row in plane.root.ok("GET", "/v1/pools")["items"]}
    other = plane.pool(site_id, "other")
    plane.offer(other, gpu=99)
    plane.node(site_id, other, "o1")
    known = []
    start = plane.store.now() + HOUR
    for n in range(12):
        by = "acme" if n % 3 else "acme-user"
        client = plane.acme if n % 3 else plane.acme_user
        devices = [{"class": "gpu", "count": n % 4 + 1}]
        answer = client.reserve((pool_id, other)[n % 2], startsAt=start + n * 4 * HOUR, devices=devices)
        known.append({"id": answer.json()["id"], "by": by, "count": n % 4 + 1, "pool": n % 2, "starts": start})
        body = {"endsAt": answer.json()["endsAt"] + HOUR}
        path, key = f"/v1/reservations/{known[-1]['id']}/extend", {"Idempotency-Key": f"extend-{n}"}
        plane.acme.ok("POST", path, body, **key)
    plane.settle()
    return [{**one, "poolId": pool_id} for one in known]


@pytest.mark.parametrize("name", ROLES)
def test_lists_show_what_get_shows(plane: Plane, made: list[dict[str, Any]], name: str) -> None:
    statements, may = ROLES[name]
    given_role(plane, statements, made[0]["poolId"])
    seen = {one["id"] for one in made if may(one)}
    for one in made:
        expected = 200 if one["id"] in seen else 403
        assert plane.acme_user.get(f"/v1/reservations/{one['id']}").status_code == expected
    position = plane.settle()
    for path in LISTS:
        past = f"&asOf=@{position}" if path in ("/v1/reservations", "/v1/extensions") else ""
        for asked in {"", past}:
            pages = walk(plane.acme_user, f"{path}?limit=2{asked}")
            assert set(of(pages)) == seen, (path, asked)
            full = all(len(page) == 2 for page in pages[:-1])
            assert full or "another" in name, "pages are full, whatever stands between, where there is a plan"
        assert set(of(walk(plane.acme_user, f"{path}?limit=2&order=desc"))) == seen
        assert len(set(of(walk(plane.acme, f"{path}?limit=5")))) == 12
    streamed = {event["position"] for event in events(plane.acme_user.get("/v1/events/stream?after=0").text)}
    told = {one["id"]: {event.position for event in plane.store.history(one["id"])} for one in made}
    assert {id for id, positions in told.items() if positions <= streamed} == seen
    assert {id for id, positions in told.items() if positions & streamed} == seen


def test_a_page_that_is_planned_decides_on_none_of_its_rows(
    plane: Plane, made: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    given_role(plane, NUMBER, made[0]["poolId"])
    decided: list[str] = []
    authorize = plane.wired.authorizer.authorize

    def counting(session: Session, action: str, resource: Any) -> Any:
        decided.append(f"{resource.type}/{resource.id}")
        return authorize(session, action, resource)

    monkeypatch.setattr(plane.wired.authorizer, "authorize", counting)
    assert len(plane.acme_user.ok("GET", "/v1/reservations")["items"]) == 6
    assert decided == ["compute-tenant/acme"], "whether it may list at all"


def test_devices_and_commands_are_seen_with_their_node(plane: Plane) -> None:
    site_id = plane.site()
    pool_id = plane.pool(site_id)
    small, large = plane.node(site_id, pool_id, "small", gpus=2), plane.node(site_id, pool_id, "large", gpus=4)
    for node_id in (small, large):
        plane.root.ok("POST", f"/v1/nodes/{node_id}/commands", {"name": "collect-diagnostics"})
    reads = [{**allow("compute-tenant/*"), "actions": ["compute:*:list"]}]
    of_small = {**allow("compute-node/*", NumericLessThan={"resource.gpuCount": 3}), "actions": ["compute:nodes:get"]}
    text = plane.access.read_text().replace('roles = ["platform-operator"]', 'roles = ["custom"]')
    plane.access.write_text(f"{text}\n[roles.custom]\nversion = 1\n{_written([*reads, of_small])}")
    assert plane.wired.authorizer.reload()
    position = plane.settle()
    for asked in ("", f"?asOf=@{position}"):
        for name in ("devices", "commands"):
            rows = plane.operator.ok("GET", f"/v1/{name}{asked}")["items"]
            assert {row["nodeId"] for row in rows} == {small}, (name, asked)
        assert {row["nodeId"] for row in plane.root.ok("GET", f"/v1/devices{asked}")["items"]} == {small, large}
