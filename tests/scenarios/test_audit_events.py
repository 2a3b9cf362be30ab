"""Who did what, and who was refused: `audit.events`, `audit.stream` and `audit.state` (api.md §6)."""

import re
from typing import Any

import msgspec

import delegated
from commands import gatekeeper
from domain import access, admission, project, registry
from domain.event import Append, Change, Meta
from given import Client, Plane
from wellformed import things

ERRAND = """
[[boundaries.errand.statements]]
effect = "allow"
actions = ["compute:reservations:*", "compute:*:get"]
resources = ["*"]
"""
SECRETS = re.compile(r"\wsha256|secret\b|bcjoin|\"replay\":\{[^}]*\"(key|body)\"", re.IGNORECASE)


def events(client: Client, plane: Plane, **asked: Any) -> list[dict[str, Any]]:
    """All pages of what is found, once the read models show all that has happened."""
    query = "&".join(f"{name}={value}" for name, value in asked.items())
    found: list[dict[str, Any]] = []
    cursor = f"&waitFor={plane.settle()}"
    while cursor:
        page = client.ok("GET", f"/v1/audit/events?{query}{cursor}")
        found += page["items"]
        cursor = f"&cursor={page['nextCursor']}" if "nextCursor" in page else ""
    return found


def test_who_reserved_and_what_the_scheduler_did_on_whose_behalf(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet()
    answer = plane.acme.reserve(pool_id)
    made, request_id = answer.json(), answer.headers["x-request-id"]
    plane.activate(plane.acme, made["id"])

    (asked,) = events(plane.acme, plane, action="compute:reservations:*", outcome="allow")
    assert (asked["actorId"], asked["resourceId"]) == ("acme", made["id"])
    assert asked["sessionContext"]["kind"] == "api-key"
    assert asked["metadata"]["requestId"] == request_id
    admission_id = asked["metadata"]["stream"]

    followed = events(plane.acme, plane, admissionId=admission_id)
    assert [one["action"] for one in followed] == [
        "compute:reservations:create",
        *(f"reservation.{what}.1" for what in ("drafted", "admitted", "placed", "binding_started")),
        *(f"reservation.{what}.1" for what in ("prepared", "activated", "ending")),
    ]
    assert {one["actorId"] for one in followed} == {"acme", "controller:timekeeper", f"agent:{node_id}"}
    assert {one["decision"]["identityId"] for one in followed[1:]} == {"acme"}
    assert {one["outcome"] for one in followed} == {"allow"}

    by_controller = events(plane.acme, plane, identityId="controller:timekeeper")
    assert {one["metadata"]["admissionId"] for one in by_controller} == {admission_id}


def test_who_was_refused_is_found_also_of_what_does_not_resolve(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet()
    evict = {"reservationId": f"rsv_{'0' * 52}", "reason": "no"}
    assert plane.acme_user.post(f"/v1/pools/{pool_id}/evict", evict).status_code == 403
    assert plane.acme.get(f"/v1/nodes/{node_id}").status_code == 404

    refused = events(plane.acme, plane, outcome="deny")
    assert [(one["actorId"], one["action"], one["metadata"]["reason"]) for one in refused] == [
        ("acme-user", "compute:pools:evict", "no-grant"),
        ("acme", "compute:nodes:get", "NotResolved"),
    ]
    assert [one["resourceId"] for one in refused] == [pool_id, node_id]
    assert events(plane.acme, plane, resource=f"compute-node/{node_id}") == refused[1:]
    assert events(plane.acme, plane, admissionId=refused[0]["metadata"]["stream"]) == refused[:1]
    assert events(plane.acme, plane, resource=refused[0]["metadata"]["stream"]) == refused[:1]
    assert events(plane.acme, plane, reason="NotResolved", identityId="acme") == refused[1:]
    assert [one for one in events(plane.root, plane) if one["outcome"] == "deny"] == []
    assert events(plane.auditor, plane, scope="fleet", outcome="deny", identityId="acme") == [
        one | {"tenantId": "acme"} for one in refused[1:]
    ]


def test_an_act_on_anothers_thing_is_in_both_lists_and_does_not_tell_who_there(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    offered = plane.root.ok("PUT", f"/v1/pools/{pool_id}/offers/acme", {"quota": {"gpu": 3}, "priority": 2})
    (at_home,) = events(plane.root, plane, type="offering.changed.1")
    (abroad,) = events(plane.acme, plane, type="offering.changed.1")
    assert at_home["id"] == abroad["id"]
    assert (at_home["tenantId"], at_home["actorId"]) == ("platform", "root")
    assert (abroad["tenantId"], abroad["actorId"]) == ("acme", "platform")
    assert at_home["decision"]["action"] == "compute:pools:offer"
    assert "requestId" in at_home["metadata"]
    assert {"requestId", "reason"}.isdisjoint(abroad["metadata"])
    assert {"decision", "sessionContext"}.isdisjoint(abroad)

    assert events(plane.acme, plane, identityId="root") == [], "who acted there cannot be searched for either"
    assert events(plane.acme, plane, requestId=at_home["metadata"]["requestId"]) == []
    assert len(events(plane.root, plane, requestId=at_home["metadata"]["requestId"])) == 2
    assert {one["actorId"] for one in events(plane.acme, plane, resource=offered["id"])} == {"platform"}
    assert events(plane.globex, plane) == []


def test_pages_are_by_position_both_ways_and_of_one_moment(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    later = plane.store.now() + 10**7
    plane.acme.reserve(pool_id, startsAt=later)
    position = plane.settle()
    whole = events(plane.acme, plane)
    positions = [one["metadata"]["position"] for one in whole]
    assert positions == sorted(positions)
    assert events(plane.acme, plane, limit=3) == whole
    assert events(plane.acme, plane, limit=3, order="desc") == whole[::-1]

    moment = f"/v1/audit/events?limit=2&order=desc&asOf=@{position}"
    first = plane.acme.ok("GET", moment)
    plane.acme.reserve(pool_id, startsAt=later)
    plane.settle()
    assert plane.acme.get(moment).headers["x-position"] == str(position)
    assert plane.acme.ok("GET", moment) == first
    assert plane.acme.ok("GET", f"{moment}&cursor={first['nextCursor']}")["items"] == whole[::-1][2:4]
    mixed = plane.acme.get(f"/v1/audit/events?limit=2&order=desc&cursor={first['nextCursor']}")
    assert (mixed.status_code, mixed.json()["errors"][0]["field"]) == (422, "cursor")
    cut = positions[2]
    assert events(plane.acme, plane, asOf=f"@{cut}") == whole[:3]


def test_a_window_of_time_is_a_stretch_of_the_log(plane: Plane) -> None:
    plane.acme.ok("POST", "/v1/projects", {"name": "one"})
    middle = plane.store.now() + 1
    while plane.store.now() <= middle:
        pass
    plane.acme.ok("POST", "/v1/projects", {"name": "two"})
    before, after = events(plane.acme, plane, until=middle), events(plane.acme, plane, **{"from": middle})
    assert before + after == events(plane.acme, plane)
    assert len(before) == len(after) == 2
    assert {one["timestamp"] < middle for one in before} == {True}
    wrong = plane.acme.get("/v1/audit/events?from=5&until=5")
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (422, "until")


def test_globs_are_anchored_and_what_is_none_is_refused_by_its_field(plane: Plane) -> None:
    plane.acme.ok("POST", "/v1/projects", {"name": "one"})
    counts = {
        "compute:projects:*": 1,
        "compute:*:create": 1,
        "*projects*": 1,
        "*": 2,
        "**": 2,
        "compute:project?:create": 1,
        "compute:projects": 0,
        "project.created._": 0,
        "project.created.1": 1,
    }
    assert {glob: len(events(plane.acme, plane, action=glob)) for glob in counts} == counts
    types = {"project.*": 1, "project.created.1": 1, "*.1": 2, "a*": 1, "admission.*": 1, "project.recorded.1": 0}
    assert {glob: len(events(plane.acme, plane, type=glob)) for glob in types} == types
    for field in ("action", "type"):
        for bad in ("", "a b", "[a-z]*", "%25", "a%5C", "${x}", "a/b"):
            answer = plane.acme.get(f"/v1/audit/events?{field}={bad}")
            assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field), bad
    assert plane.acme.get("/v1/audit/events?admissionId=rsv_1").json()["errors"][0]["field"] == "admissionId"


def test_a_stream_comes_in_pages_of_its_versions(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet()
    whole = plane.root.ok("GET", f"/v1/audit/streams/{node_id}?limit=1000")["items"]
    for order in ("asc", "desc"):
        seen, cursor = [], ""
        while True:
            page = plane.root.ok("GET", f"/v1/audit/streams/{node_id}?limit=2&order={order}{cursor}")
            seen += page["items"]
            if "nextCursor" not in page:
                break
            cursor = f"&cursor={page['nextCursor']}"
        assert seen == (whole if order == "asc" else whole[::-1])
    plane.settle()
    middle = whole[3]["position"]
    assert plane.root.ok("GET", f"/v1/audit/streams/{node_id}?asOf=@{middle}")["items"] == whole[:4]
    foreign = plane.root.get(f"/v1/audit/streams/{pool_id}?limit=2{cursor}&order=desc")
    assert (foreign.status_code, foreign.json()["errors"][0]["field"]) == (422, "cursor")
    later = whole[-1]["recordedAt"] + 1
    assert plane.root.ok("GET", f"/v1/audit/streams/{node_id}?from={later}")["items"] == []
    assert plane.root.ok("GET", f"/v1/audit/streams/{node_id}?until={later}")["items"] == whole


def test_a_state_is_what_its_events_came_to_at_any_time(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    made = plane.activate(plane.acme, plane.acme.reserve(pool_id).json()["id"])
    position = plane.settle()
    path = f"/v1/audit/streams/{made['id']}/state"
    for recorded in plane.store.history(made["id"]):
        was = plane.acme.ok("GET", f"{path}?asOf=@{recorded.position}")
        assert (was["version"], was["position"]) == (recorded.version, recorded.position)
        loaded = plane.store.load(made["id"], recorded.version)
        assert was["state"] == msgspec.json.decode(msgspec.json.encode(loaded.state))
        assert was["decision"]["action"] == "compute:reservations:create"
    now = plane.acme.get(path)
    assert (now.json(), now.headers["x-position"]) == (was, str(was["position"]))
    first = plane.store.history(made["id"])[0].position
    assert plane.acme.get(f"{path}?asOf=@{first - 1}").status_code == 404
    assert plane.globex.get(path).status_code == 404
    assert plane.auditor.ok("GET", f"{path}?scope=fleet")["state"] == was["state"]
    assert plane.head() >= position


def test_the_log_is_not_forgotten_with_the_versions_of_lists(plane: Plane) -> None:
    project_id = plane.project()
    early = plane.settle()
    plane.acme.ok("POST", f"/v1/projects/{project_id}/archive", {})
    plane.settle()
    with plane.wired.reads.connection() as connection:
        connection.execute("UPDATE history_horizon SET position = %s", (early + 1,))
    assert plane.acme.get(f"/v1/projects/{project_id}?asOf=@{early}").status_code == 410
    state = plane.acme.ok("GET", f"/v1/audit/streams/{project_id}/state?asOf=@{early}")
    assert (state["version"], state["state"]["archivedAt"]) == (1, None)
    assert len(plane.acme.ok("GET", f"/v1/audit/streams/{project_id}?asOf=@{early}")["items"]) == 1
    assert len(plane.acme.ok("GET", f"/v1/audit/events?resource={project_id}&asOf=@{early}")["items"]) == 1


def test_every_kind_of_thing_has_a_state_and_none_shows_a_secret(plane: Plane) -> None:
    things(plane)
    plane.root.ok("PUT", "/v1/quotas/tenant/acme", {"limits": {"gpu": 50}})
    plane.root.ok("PUT", "/v1/budgets/tenant/acme", {"gpuHours": 10})
    seen = set()
    for (stream,) in plane.rows("SELECT DISTINCT originator_id FROM stored_events"):
        for path in (f"/v1/audit/streams/{stream}", f"/v1/audit/streams/{stream}/state"):
            told = plane.root.get(f"{path}?scope=fleet")
            assert told.status_code == 200, (path, told.text)
            assert not SECRETS.search(told.text), (path, told.text)
        seen.add(told.json()["kind"])
    assert seen == {kind.noun for kind in registry.KINDS.values()}


def test_a_delegated_session_names_person_agent_and_delegation(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet()
    robot = delegated.agent(plane, ERRAND)
    assert robot.reserve(pool_id, startsAt=plane.store.now() + 10**7).status_code == 201
    assert robot.post("/v1/projects", {"name": "more"}).status_code == 403
    assert robot.get(f"/v1/nodes/{node_id}").status_code == 404

    acts = events(plane.acme, plane, agentId="robot")
    assert [(one["action"], one["outcome"]) for one in acts] == [
        ("compute:reservations:create", "allow"),
        ("compute:projects:create", "deny"),
        ("compute:nodes:get", "deny"),
    ]
    for one in acts:
        session = one["sessionContext"]
        assert (one["actorId"], session["kind"]) == ("acme", "delegated")
        assert (session["agentId"], session["delegationId"]) == ("robot", "dlg_1")
    assert events(plane.acme, plane, delegationId="dlg_1") == acts
    made = events(plane.acme, plane, type="reservation.placed.1")[-1]
    assert (made["decision"]["identityId"], made["decision"]["agentId"]) == ("acme", "robot")
    assert made["decision"]["delegationId"] == "dlg_1"


def test_a_root_override_and_who_stood_behind_a_session_are_visible(plane: Plane) -> None:
    """What Better IAM may say of a session, and its root administrator's way past every policy."""
    decided = admission.Decided("compute:projects:create", "compute-tenant/acme", True, "ROOT_OVERRIDE")
    who = gatekeeper.caller(
        access.Session(
            *("acme", "acme", "user", "ses_1", "role"), impersonator_id="support", role_id="role_1", trust_id="trust_1"
        )
    )
    record = admission.Admitted(who, "request-1", (decided,), "")
    adm, prj = plane.wired.ports.new_id("adm"), plane.wired.ports.new_id("prj")
    made = project.Created("by-root", "acme", {}, plane.store.now())
    changes = (Change(adm, 0, (record,)), Change(prj, 0, (made,)))
    plane.store.append(Append(changes, Meta("identity:acme/acme", adm, correlation="request-1")))

    (over,) = events(plane.acme, plane, reason="ROOT_OVERRIDE")
    assert over["rootOverride"] is True
    assert over["impersonatorId"] == "support"
    assert (over["sessionContext"]["roleId"], over["sessionContext"]["trustId"]) == ("role_1", "trust_1")
    assert events(plane.acme, plane, requestId="request-1")[0] == over
    (after,) = events(plane.acme, plane, resource=prj)
    assert (after["decision"]["reason"], after["decision"]["impersonatorId"]) == ("ROOT_OVERRIDE", "support")
    state = plane.acme.ok("GET", f"/v1/audit/streams/{prj}/state")
    assert (state["decision"]["roleId"], state["decision"]["trustId"]) == ("role_1", "trust_1")
