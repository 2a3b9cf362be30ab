"""Quotas of offerings, tenants and projects: the peak of overlapping claims, at every instant (domain.md §5)."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from domain import registry, reservation, reservation_life
from domain.event import Recorded
from given import Client, Plane

HOUR = 3_600_000


def gpus(count: int) -> list[dict[str, Any]]:
    return [{"class": "gpu", "count": count}]


def limit(client: Client, kind: str, id: str, **limits: int) -> Any:
    return client.ok("PUT", f"/v1/quotas/{kind}/{id}", {"limits": limits})


def use(client: Client, kind: str, id: str, resource: str = "gpu") -> tuple[Any, ...]:
    """Limit, used now, peak, and when the peak is."""
    shown = client.ok("GET", f"/v1/quotas/{kind}/{id}")["resources"]
    row = next((one for one in shown if one["resource"] == resource), None)
    return (row["limit"], row["used"], row["peak"], row["peakAt"]) if row else (None, 0, 0, None)


def refused(answer: Any) -> tuple[Any, ...]:
    no = answer.json()
    assert (answer.status_code, no["code"]) == (409, "QUOTA_EXCEEDED"), no
    return no["kind"], no["resource"], no["limit"], no["peak"]


def test_a_tenants_quota_counts_all_its_pools_and_what_it_does_not_name_is_unlimited(plane: Plane) -> None:
    first, _ = plane.fleet()
    second = plane.pool(plane.site("south"), "more")
    plane.offer(second, quota={"gpu": 8, "vcpu": 64})
    plane.node(plane.root.ok("GET", f"/v1/pools/{second}")["siteId"], second, "m1")
    limit(plane.root, "tenant", "acme", gpu=6)
    assert plane.acme.reserve(first, devices=gpus(4)).status_code == 201
    assert refused(plane.acme.reserve(second, devices=gpus(3))) == ("tenant", "gpu", 6, 7)
    assert plane.acme.reserve(second, devices=gpus(2), scalars={"vcpu": 32}).status_code == 201
    assert use(plane.acme, "tenant", "acme", "vcpu")[:3] == (None, 32, 32)
    assert use(plane.acme, "tenant", "acme")[:3] == (6, 6, 6)
    limit(plane.root, "tenant", "acme")
    assert plane.acme.reserve(second, devices=gpus(3)).status_code == 201, "an empty map takes the quota away"


def test_what_a_get_shows_is_what_if_match_names(plane: Plane) -> None:
    for path, body in (
        ("/v1/quotas/tenant/acme", {"limits": {"gpu": 4}}),
        ("/v1/budgets/tenant/acme", {"gpuHours": 4}),
    ):
        unset = plane.root.get(path).headers["etag"]
        assert plane.root.call("PUT", path, body, If_Match=unset).status_code == 200
        stale = plane.root.call("PUT", path, body, If_Match=unset)
        assert (stale.status_code, stale.json()["code"]) == (412, "STALE_VERSION"), stale.text
        current = plane.root.get(path).headers["etag"]
        assert plane.root.call("PUT", path, body, If_Match=current).status_code == 200


def test_the_owners_own_claims_count_in_its_tenant(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    limit(plane.root, "tenant", "platform", gpu=2)
    assert refused(plane.root.reserve(pool_id, devices=gpus(3))) == ("tenant", "gpu", 2, 3)
    assert plane.root.reserve(pool_id, devices=gpus(2)).status_code == 201
    assert use(plane.root, "tenant", "platform")[:3] == (2, 2, 2)


def test_offering_tenant_and_project_must_all_hold(plane: Plane) -> None:
    pool_id, _ = plane.fleet(nodes=2, quota=7)
    project_id = plane.project()
    limit(plane.root, "tenant", "acme", gpu=6)
    limit(plane.acme, "project", project_id, gpu=5)
    mine = {"projectId": project_id}
    assert refused(plane.acme.reserve(pool_id, devices=gpus(8), **mine)) == ("offering", "gpu", 7, 8)
    assert refused(plane.acme.reserve(pool_id, devices=gpus(7), **mine)) == ("tenant", "gpu", 6, 7)
    assert refused(plane.acme.reserve(pool_id, devices=gpus(6), **mine)) == ("project", "gpu", 5, 6)
    assert plane.acme.reserve(pool_id, devices=gpus(5), **mine).status_code == 201
    assert plane.acme.reserve(pool_id, devices=gpus(1)).status_code == 201, "no project, none of its quota"
    assert use(plane.acme, "project", project_id)[:3] == (5, 5, 5)


def test_a_quota_holds_at_every_instant_and_shows_when_its_peak_is(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    limit(plane.root, "tenant", "acme", gpu=4)
    at = plane.store.now() + 10 * HOUR
    for start, hours, count in ((at, 2, 2), (at + HOUR, 2, 2), (at + 4 * HOUR, 1, 3)):
        made = plane.acme.reserve(pool_id, startsAt=start, durationSeconds=hours * 3600, devices=gpus(count))
        assert made.status_code == 201
    assert use(plane.acme, "tenant", "acme") == (4, 0, 4, at + HOUR)
    long = plane.acme.reserve(pool_id, startsAt=at, durationSeconds=5 * 3600, devices=gpus(1))
    assert refused(long) == ("tenant", "gpu", 4, 5)
    touching = plane.acme.reserve(pool_id, startsAt=at + 3 * HOUR, durationSeconds=3600, devices=gpus(4))
    assert touching.status_code == 201, "ends come before starts"
    assert plane.acme.reserve(pool_id, durationSeconds=3600, devices=gpus(4)).status_code == 201


def test_of_five_rivals_for_a_tenants_or_projects_quota_no_more_pass_than_it_holds(plane: Plane) -> None:
    """O16: they come through two pools, so that no offering orders them."""
    pools = [plane.fleet(nodes=2)[0]]
    pools.append(plane.pool(plane.site("south"), "more"))
    plane.offer(pools[1])
    plane.node(plane.root.ok("GET", f"/v1/pools/{pools[1]}")["siteId"], pools[1], "m1")
    project_id = plane.project()
    ahead: dict[str, Any] = {"devices": gpus(2), "startsAt": plane.store.now() + HOUR}
    for kind, id, client in (("tenant", "acme", plane.root), ("project", project_id, plane.acme)):
        limit(client, kind, id, gpu=4)
        with ThreadPoolExecutor(6) as threads:
            jobs = threads.map(lambda n: plane.acme.reserve(pools[n % 2], projectId=project_id, **ahead), range(6))
            answers = list(jobs)
        assert sorted(answer.status_code for answer in answers) == [201, 201, 409, 409, 409, 409]
        assert {refused(answer) for answer in answers if answer.status_code == 409} == {(kind, "gpu", 4, 6)}
        assert use(plane.acme, kind, id) == (4, 0, 4, ahead["startsAt"])
        for made in (answer.json() for answer in answers if answer.status_code == 201):
            plane.acme.ok("POST", f"/v1/reservations/{made['id']}/cancel", {})
        limit(client, kind, id)


def test_a_lowered_limit_moves_nothing_and_admits_nothing(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    made = plane.acme.reserve(pool_id, devices=gpus(4)).json()
    limit(plane.root, "tenant", "acme", gpu=2)
    assert plane.acme.ok("GET", f"/v1/reservations/{made['id']}")["state"] in ("placed", "binding")
    assert refused(plane.acme.reserve(pool_id)) == ("tenant", "gpu", 2, 5)
    assert use(plane.acme, "tenant", "acme")[:3] == (2, 4, 4)


def test_what_ends_without_having_run_gives_its_quota_back_and_holds_it_once_until_then(plane: Plane) -> None:
    """O17."""
    site_id = plane.site()
    pool_id = plane.pool(site_id, policy={"bindTimeout": 1})
    plane.offer(pool_id)
    plane.node(site_id, pool_id)
    limit(plane.root, "tenant", "acme", gpu=2)
    for attempt in range(3):
        made = plane.acme.reserve(pool_id, f"try-{attempt}", devices=gpus(2))
        assert plane.acme.reserve(pool_id, f"try-{attempt}", devices=gpus(2)).json()["id"] == made.json()["id"]
        assert use(plane.acme, "tenant", "acme")[:3] == (2, 2, 2)
        assert plane.until(plane.acme, made.json()["id"], "failed")["stateReason"] == "BindTimeout"
        assert use(plane.acme, "tenant", "acme")[:3] == (2, 0, 0)


def test_an_archived_project_takes_nothing_new_and_keeps_what_it_has(plane: Plane) -> None:
    pool_id, _ = plane.fleet(gpus=1, quota=9)
    project_id = plane.project()
    ahead: dict[str, Any] = {"projectId": project_id, "startsAt": plane.store.now() + HOUR}
    placed, waiting = plane.acme.reserve(pool_id, **ahead).json(), plane.acme.reserve(pool_id, **ahead).json()
    shown = plane.acme.ok("POST", f"/v1/projects/{project_id}/archive", {})
    assert shown["archivedAt"] > 0
    assert plane.acme.ok("POST", f"/v1/projects/{project_id}/archive", {}) == shown
    no = plane.acme.reserve(pool_id, projectId=project_id)
    assert (no.status_code, no.json()["code"], no.json()["errors"][0]["field"]) == (409, "CONFLICT", "projectId")
    plane.acme.ok("POST", f"/v1/reservations/{placed['id']}/cancel", {})
    assert plane.until(plane.acme, waiting["id"], "placed")["projectId"] == project_id
    assert plane.project() != project_id, "its name is free again"


def test_a_project_is_its_tenants_alone(plane: Plane) -> None:
    project_id = plane.project()
    assert plane.acme.call("POST", "/v1/projects", {"name": "research"}).status_code == 409
    assert plane.globex.ok("POST", "/v1/projects", {"name": "research"})["ownerTenantId"] == "globex"
    pool_id, _ = plane.fleet()
    plane.offer(pool_id, "globex")
    foreign = plane.globex.reserve(pool_id, projectId=project_id)
    assert (foreign.status_code, foreign.json()["errors"][0]["field"]) == (404, "projectId")
    path = f"/v1/quotas/project/{project_id}"
    assert plane.acme.get(path).status_code == 200
    for client in (plane.globex, plane.root):
        assert client.get(path).status_code == 404
        assert client.call("PUT", path, {"limits": {}}).status_code == 404
    assert plane.acme_user.call("PUT", path, {"limits": {}}).status_code == 403
    plane.settle()
    assert [row["id"] for row in plane.acme.ok("GET", "/v1/projects")["items"]] == [project_id]
    assert plane.acme.ok("GET", "/v1/projects?archived=true")["items"] == []


def test_a_tenants_quota_is_the_platforms_to_set_and_the_tenants_to_read(plane: Plane) -> None:
    path = "/v1/quotas/tenant/acme"
    assert plane.acme.call("PUT", path, {"limits": {"gpu": 99}}).status_code == 403
    first = limit(plane.root, "tenant", "acme", gpu=1)
    assert limit(plane.root, "tenant", "acme", gpu=1)["version"] == first["version"], "the same changes nothing"
    assert plane.acme.ok("GET", path)["setAt"] == first["setAt"]
    assert plane.globex.get(path).status_code == 404
    for client, verb in ((plane.root, "PUT"), (plane.root, "GET")):
        answer = client.call(verb, "/v1/quotas/tenant/nobody", {"limits": {}} if verb == "PUT" else None)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (404, "id")
    story = plane.acme.ok("GET", "/v1/audit/streams/quota:tenant:acme")
    assert [event["type"] for event in story["items"]] == ["quota.set.1"]


def test_capacity_shows_the_nearest_limit_and_what_all_of_them_leave(plane: Plane) -> None:
    pool_id, _ = plane.fleet(quota=6)
    project_id = plane.project()
    limit(plane.root, "tenant", "acme", gpu=5)
    limit(plane.acme, "project", project_id, gpu=3)
    assert plane.acme.reserve(pool_id, devices=gpus(2), projectId=project_id).status_code == 201
    position = plane.settle()

    def shown(more: str = "") -> tuple[int, int]:
        row = plane.acme.ok("GET", f"/v1/capacity?poolId={pool_id}&waitFor={position}{more}")["items"][0]
        return row["limit"], row["available"]

    assert shown() == (5, 3)
    assert shown(f"&projectId={project_id}") == (3, 1)
    foreign = plane.globex.get(f"/v1/capacity?projectId={project_id}")
    assert (foreign.status_code, foreign.json()["errors"][0]["field"]) == (404, "projectId")


HOLDING = ("pending", "placed", "binding", "active", "releasing")


def prefixes(plane: Plane) -> Iterator[dict[str, reservation.State]]:
    """The reservations as they were at every position of the log."""
    states: dict[str, reservation.State] = {}
    recorded: list[Recorded] = plane.store.log(0, plane.head(), 100_000)
    for one in recorded:
        if one.stream.startswith("rsv_"):
            states[one.stream] = registry.fold(one.stream, [one.event], states.get(one.stream))
            yield states


def peak(states: dict[str, reservation.State], scope: str) -> int:
    held = [s.claimed for s in states.values() if s.status in HOLDING and s.claimed and scope in s.claimed.scopes]
    return max(
        (sum(c.resources["gpu"] for c in held if c.from_ <= at.from_ < c.until) for at in held),
        default=0,
    )


def test_at_every_position_quota_used_is_the_sum_over_live_claims_and_final_states_hold_none(plane: Plane) -> None:
    """O18, with O16 after the fact."""
    pool_id, (node_id,) = plane.fleet(quota=6)
    project_id = plane.project()
    limit(plane.root, "tenant", "acme", gpu=5)
    limit(plane.acme, "project", project_id, gpu=4)

    def live(n: int) -> None:
        made = plane.acme.reserve(pool_id, devices=gpus(1 + n % 3), projectId=project_id if n % 2 else None)
        if made.status_code == 201 and n % 4:
            plane.acme.post(f"/v1/reservations/{made.json()['id']}/cancel")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(live, range(24)))
    plane.report(node_id)
    plane.wired.worker.stop()
    plane.settle()
    scopes = {"tenant:acme": 5, project_id: 4}
    for states in prefixes(plane):
        assert {scope: peak(states, scope) for scope in scopes if peak(states, scope) > scopes[scope]} == {}
    expected = {
        (id, scope, state.claimed.resources["gpu"])
        for id, state in states.items()
        if state.status in HOLDING and state.claimed
        for scope in state.claimed.scopes
    }
    rows = plane.rows("SELECT reservation_id, scope, amount FROM quota_claims WHERE resource = 'gpu'")
    assert set(rows) == expected
    assert {state.status for state in states.values()} & reservation_life.FINAL, "some ended"
