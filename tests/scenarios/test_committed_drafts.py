"""Where access is decided outside: the draft is stored first, decided on once, then admitted (domain.md §5)."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from msgspec.structs import replace

import delegated
from adapters.registry import OPERATIONS
from commands import extensions
from domain import extension, reservation
from domain.event import Append, Change, Fence, Meta
from facts import differences
from given import RESOLVER, Client, Plane
from outside import Outside, installed
from passing import HOUR, MINUTE, Ahead, pass_time, take_over
from wellformed import REQUESTS, fill, fresh, things

CREATE, EXTEND = "compute:reservations:create", "compute:reservations:extend"


@pytest.fixture
def outside(plane: Plane) -> Outside:
    return installed(plane)


@pytest.fixture
def agent(plane: Plane) -> Client:
    return delegated.agent(plane)


@pytest.fixture
def fence(plane: Plane) -> Fence:
    return take_over(plane)


def shown(plane: Plane, reservation_id: str) -> Any:
    return plane.acme.ok("GET", f"/v1/reservations/{reservation_id}")


def drafts(plane: Plane, of: str = "reservations") -> list[str]:
    plane.settle()
    return [row["id"] for row in plane.acme.ok("GET", f"/v1/{of}?state=draft")["items"]]


def extend(client: Client, made: Any, ends_at: int, key: str = "more") -> Any:
    return client.post(f"/v1/reservations/{made['id']}/extend", {"endsAt": ends_at}, Idempotency_Key=key)


def test_the_draft_is_stored_alone_then_decided_on_once_then_admitted(
    plane: Plane, outside: Outside, database: str
) -> None:
    pool_id, _ = plane.fleet()
    answer = plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 2}])
    made = answer.json()
    assert (answer.status_code, made["state"]) == (201, "placed")
    ((_, name, attributes),) = outside.of(CREATE)
    assert name == f"compute-reservation/{made['id']}"
    assert (attributes["gpuCount"], attributes["durationHours"]) == (2, 1.0)
    drafted, admitted = plane.store.history(made["id"])[:2]
    assert (drafted.part.count, drafted.meta.admission) == (1, None)
    assert drafted.meta.correlation == answer.headers["x-request-id"]
    assert (admitted.meta.admission, admitted.part.append != drafted.part.append) == (made["admissionId"], True)
    (record,) = plane.events(made["admissionId"])
    assert [one.attributes for one in record.decided] == [attributes], "what was read back is what was decided on"
    plane.wired.worker.stop()
    plane.settle()
    assert differences(database) == []


def test_a_decider_that_is_away_leaves_the_draft_and_it_is_decided_when_asked_again(
    plane: Plane, outside: Outside
) -> None:
    pool_id, _ = plane.fleet()
    outside.away = {CREATE, EXTEND}
    answer = plane.acme.reserve(pool_id, "job")
    assert (answer.status_code, answer.json()["code"]) == (503, "UNAVAILABLE")
    (reservation_id,) = drafts(plane)
    assert plane.acme.ok("GET", "/v1/reservations")["items"] == [], "hidden unless asked for"
    assert plane.rows("SELECT 1 FROM device_bookings") + plane.rows("SELECT 1 FROM quota_claims") == []
    assert plane.acme.reserve(pool_id, "job").status_code == 503
    other = plane.acme.reserve(pool_id, "job", durationSeconds=60)
    assert (other.status_code, other.json()["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert outside.of(CREATE) == []
    outside.away = set()
    made = plane.acme.reserve(pool_id, "job").json()
    assert (made["id"], made["state"]) == (reservation_id, "placed")
    again = plane.acme.reserve(pool_id, "job")
    assert (again.json(), again.headers["idempotency-replayed"]) == (made, "true")
    assert len(outside.of(CREATE)) == 1
    assert plane.rows("SELECT 1 FROM open_drafts") == []


def test_what_is_refused_is_denied_and_kept_so(plane: Plane, outside: Outside) -> None:
    pool_id, _ = plane.fleet()
    outside.refuses = "ACCESS_DENIED"
    refused = plane.acme.reserve(pool_id, "job")
    assert (refused.status_code, refused.json()["code"]) == (403, "ACCESS_DENIED")
    assert shown_as(plane, refused.json()["reservationId"]) == "denied"
    outside.refuses = ""
    again = plane.acme.reserve(pool_id, "job")
    assert (again.status_code, again.headers["idempotency-replayed"]) == (403, "true")
    assert len(outside.of(CREATE)) == 1
    assert len(plane.refusals()) == 1


def test_who_has_to_sign_in_anew_asks_the_same_again(plane: Plane, outside: Outside) -> None:
    pool_id, _ = plane.fleet()
    outside.refuses = "MFA_REQUIRED"
    refused = plane.acme.reserve(pool_id, "job")
    assert (refused.status_code, refused.json()["code"]) == (403, "MFA_REQUIRED")
    outside.refuses = ""
    (reservation_id,) = drafts(plane)
    made = plane.acme.reserve(pool_id, "job").json()
    assert (made["id"], made["state"]) == (reservation_id, "placed")


def shown_as(plane: Plane, reservation_id: str) -> Any:
    return plane.store.load(reservation_id).state.status


def test_an_agent_asks_again_once_its_person_approved_and_that_opens_one_decision(
    plane: Plane, outside: Outside, agent: Client
) -> None:
    pool_id, _ = plane.fleet()
    outside.held = {CREATE}
    first = agent.reserve(pool_id, "job")
    made = first.json()
    assert (first.status_code, made["state"], made["stateReason"]) == (201, "awaiting-confirmation", "DecisionRefused")
    outside.approved.add((CREATE, made["id"]))
    placed = agent.reserve(pool_id, "job").json()
    assert (placed["id"], placed["state"], outside.approved) == (made["id"], "placed", set())
    assert agent.reserve(pool_id, "job").json() == placed, "a replay decides nothing"
    assert len(outside.of(CREATE)) == 2
    assert agent.reserve(pool_id, "other").json()["state"] == "awaiting-confirmation"


def test_or_the_person_confirms(plane: Plane, outside: Outside, agent: Client) -> None:
    pool_id, _ = plane.fleet()
    outside.held = {CREATE}
    made = agent.reserve(pool_id).json()
    assert plane.acme.ok("POST", f"/v1/reservations/{made['id']}/confirm", {})["state"] == "placed"
    assert [action for action, _, _ in outside.asked[-2:]] == ["compute:reservations:confirm", CREATE]


def test_when_the_append_races_the_decision_is_reused(plane: Plane, outside: Outside) -> None:
    """The pool is offered anew while it is decided: what was looked up before is void."""
    pool_id, _ = plane.fleet()

    def offered_anew() -> None:
        assert plane.root.call("DELETE", f"/v1/pools/{pool_id}/offers/acme").status_code == 200
        plane.offer(pool_id)

    outside.meanwhile = [offered_anew]
    made = plane.acme.reserve(pool_id).json()
    assert made["state"] == "placed"
    assert len(outside.of(CREATE)) == 1


def test_a_draft_that_is_cancelled_while_it_is_decided_stays_so(plane: Plane, outside: Outside) -> None:
    pool_id, _ = plane.fleet()

    def cancelled() -> None:
        (reservation_id,) = drafts(plane)
        plane.acme.ok("POST", f"/v1/reservations/{reservation_id}/cancel", {})

    outside.meanwhile = [cancelled]
    answer = plane.acme.reserve(pool_id, "job")
    assert (answer.status_code, answer.json()["code"]) == (409, "CONFLICT")
    assert shown(plane, answer.json()["reservationId"])["state"] == "cancelled"
    assert plane.acme.reserve(pool_id, "job").json()["code"] == "CONFLICT"
    assert len(outside.of(CREATE)) == 1
    assert plane.rows("SELECT 1 FROM device_bookings") == []


def test_the_same_request_many_times_at_once_is_decided_on_once(plane: Plane, outside: Outside) -> None:
    pool_id, _ = plane.fleet()
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: plane.acme.reserve(pool_id, "job"), range(8)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len(outside.of(CREATE)) == 1


def test_an_identity_has_a_hundred_open_drafts_at_most_however_many_ask_at_once(
    plane: Plane, outside: Outside, fence: Fence
) -> None:
    pool_id, _ = plane.fleet()
    outside.away = {CREATE, EXTEND}
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda n: plane.acme.reserve(pool_id, f"job-{n}"), range(110)))
    assert Counter(answer.status_code for answer in answers) == {503: 100, 429: 10}
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert (refused.json()["code"], 0 < int(refused.headers["retry-after"]) <= 900) == ("RATE_LIMITED", True)
    assert plane.acme_user.reserve(pool_id).status_code == 503, "of others it is no matter"
    kept = next(n for n, answer in enumerate(answers) if answer.status_code == 503)
    outside.away = set()
    assert plane.acme.reserve(pool_id, f"job-{kept}").status_code == 201
    outside.away = {CREATE, EXTEND}
    assert plane.acme.reserve(pool_id, "one-more").status_code == 503, "one was decided on: there is room again"
    assert plane.acme.reserve(pool_id, "two-more").status_code == 429


def test_a_draft_that_nobody_decides_on_expires_after_a_quarter_of_an_hour(
    plane: Plane, outside: Outside, fence: Fence, database: str
) -> None:
    pool_id, _ = plane.fleet()
    outside.away = {CREATE, EXTEND}
    assert plane.acme.reserve(pool_id, "job").status_code == 503
    (reservation_id,) = drafts(plane)
    made = {"id": reservation_id}
    outside.away = set()
    assert pass_time(plane, made, 14 * MINUTE, fence)["state"] == "draft"
    expired = pass_time(plane, made, 15 * MINUTE, fence)
    assert (expired["state"], expired["stateReason"]) == ("expired", "NotDecided")
    again = plane.acme.reserve(pool_id, "job")
    assert (again.status_code, again.json()["reservationId"]) == (409, reservation_id)
    assert outside.of(CREATE) == []
    assert plane.rows("SELECT 1 FROM open_drafts") == []
    plane.settle()
    assert differences(database) == []


def test_the_worker_closes_both_kinds(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    made = plane.acme.reserve(pool_id, startsAt=plane.store.now() + HOUR).json()
    long_ago = plane.store.now() - 15 * MINUTE
    draft = replace(plane.store.load(made["id"]).state.draft, at=long_ago, committed=True)
    moved = extension.Drafted(made["id"], "acme", "acme", 2 * HOUR, HOUR, 2.0, "b", long_ago, committed=True)
    ids = [f"{prefix}_{'0' * 52}" for prefix in ("rsv", "ext")]
    for id_, event in zip(ids, (draft, moved), strict=True):
        plane.store.append(Append((Change(id_, 0, (event,)),), Meta("identity:acme/acme")))
    for id_ in ids:
        plane.until_state(id_, "expired", "draft")
        closed = plane.store.history(id_)[-1]
        assert (closed.event.reason, closed.meta.actor) == ("NotDecided", "controller:timekeeper")  # type: ignore[attr-defined]
    assert plane.rows("SELECT 1 FROM open_drafts") == []


def test_an_extension_is_decided_on_as_the_draft_that_it_is(plane: Plane, outside: Outside, database: str) -> None:
    pool_id, _ = plane.fleet()
    made = plane.acme.reserve(pool_id, startsAt=plane.store.now() + HOUR).json()
    host = Client(plane.app, RESOLVER)
    outside.away = {CREATE, EXTEND}
    assert extend(plane.acme, made, made["endsAt"] + HOUR).status_code == 503
    (extension_id,) = drafts(plane, "extensions")
    assert plane.acme.ok("GET", "/v1/extensions")["items"] == []
    asked = {"tenantId": "acme", "type": "compute-reservation", "id": extension_id}
    told = host.ok("POST", "/v1/iam/resolve", asked)["attributes"]
    assert (told["durationHours"], told["gpuCount"], told["parentId"]) == (2.0, 1, pool_id)
    assert shown(plane, made["id"]) == made, "a draft changes nothing"
    outside.away = set()
    assert extend(plane.acme, made, made["endsAt"] + HOUR).json()["endsAt"] == made["endsAt"] + HOUR
    ((_, name, attributes),) = outside.of(EXTEND)
    assert (name, attributes["durationHours"]) == (f"compute-reservation/{extension_id}", 2.0)
    assert host.post("/v1/iam/resolve", asked).status_code == 404, "what is over is no resource"
    assert host.ok("POST", "/v1/iam/resolve", asked | {"id": made["id"]})["attributes"]["durationHours"] == 2.0
    assert isinstance(plane.events(extension_id)[-1], extension.Applied)
    plane.wired.worker.stop()
    plane.settle()
    assert differences(database) == []


def test_an_extension_that_is_refused_changes_nothing_and_an_agent_may_ask_again(
    plane: Plane, outside: Outside, agent: Client, fence: Fence
) -> None:
    pool_id, _ = plane.fleet()
    made = plane.acme.reserve(pool_id, startsAt=plane.store.now() + HOUR).json()
    outside.refuses = "ACCESS_DENIED"
    refused = extend(plane.acme, made, made["endsAt"] + HOUR, "no").json()
    assert (refused["code"], plane.store.load(refused["extensionId"]).state.status) == ("ACCESS_DENIED", "denied")
    outside.refuses, outside.held = "", {EXTEND}
    held = extend(agent, made, made["endsAt"] + HOUR).json()
    assert (held["code"], plane.store.load(held["extensionId"]).state.status) == ("ACCESS_DENIED", "draft")
    assert shown(plane, made["id"]) == made
    outside.approved.add((EXTEND, held["extensionId"]))
    assert extend(agent, made, made["endsAt"] + HOUR).json()["endsAt"] == made["endsAt"] + HOUR
    left = extend(agent, made, made["endsAt"] + 2 * HOUR, "left").json()["extensionId"]
    assert extensions.expire(Ahead(plane.store, 14 * MINUTE), left, fence) is None  # type: ignore[arg-type]
    assert extensions.expire(Ahead(plane.store, 15 * MINUTE), left, fence) is not None  # type: ignore[arg-type]
    assert plane.acme.ok("GET", f"/v1/extensions/{left}")["stateReason"] == "NotDecided"
    again = extend(agent, made, made["endsAt"] + 2 * HOUR, "left")
    assert (again.status_code, again.headers["idempotency-replayed"]) == (409, "true")


def test_an_end_that_cannot_be_is_no_draft(plane: Plane, outside: Outside) -> None:
    pool_id, _ = plane.fleet()
    made = plane.acme.reserve(pool_id, startsAt=plane.store.now() + HOUR).json()
    assert extend(plane.acme, made, 1).json()["errors"][0]["field"] == "endsAt"
    plane.acme.ok("POST", f"/v1/reservations/{made['id']}/cancel", {})
    assert extend(plane.acme, made, made["endsAt"] + HOUR).json()["code"] == "ILLEGAL_TRANSITION"
    assert drafts(plane, "extensions") == []
    assert plane.rows("SELECT 1 FROM open_drafts") == []


def test_all_other_operations_are_decided_on_what_is_there(plane: Plane) -> None:
    """Whatever they make, they are decided on a thing that the resolver tells of."""
    known = things(plane)
    outside = Outside(plane)
    outside.install(plane)
    wrong = []
    for name, (path, body) in REQUESTS.items():
        operation = OPERATIONS[name]
        if operation.credential != "session" or operation.streaming:
            continue
        for client in (plane.root, plane.acme):
            sent = None if operation.in_url else fill(body, known)
            answer = client.call(operation.verb, fill(path, known), sent, Idempotency_Key=fresh())
            if answer.status_code >= 400 and "RESOURCE_MISMATCH" in answer.text:
                wrong.append((name, answer.text))
    assert wrong == []
    assert {asked[0] for asked in outside.asked} >= {CREATE, EXTEND, "compute:nodes:assign", "compute:sites:create"}


def test_inside_it_is_one_append_as_ever(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    made = plane.acme.reserve(pool_id, startsAt=plane.store.now() + HOUR).json()
    recorded = plane.store.history(made["id"])
    assert len({one.part.append for one in recorded}) == 1
    assert isinstance(recorded[0].event, reservation.Drafted)
    assert not recorded[0].event.committed
