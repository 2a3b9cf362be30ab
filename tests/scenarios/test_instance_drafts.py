"""Instances where access is decided outside: the draft is stored, decided on once, then admitted (domain.md §5)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import delegated
from adapters.http import sse
from commands import instances
from domain import ids
from facts import differences
from given import Client, Plane
from iam_server import plane as iam_plane
from outside import Outside, installed
from passing import MINUTE, Ahead, take_over

CREATE = "compute:instances:create"


@pytest.fixture
def outside(plane: Plane) -> Outside:
    return installed(plane)


@pytest.fixture
def agent(plane: Plane) -> Client:
    return delegated.agent(plane)


def drafts(plane: Plane) -> list[str]:
    plane.settle()
    return [row["id"] for row in plane.acme.ok("GET", "/v1/instances?state=draft")["items"]]


def instance_of(plane: Plane, key: str) -> str:
    return ids.derive("inst", "acme", "acme", key)


def test_the_draft_is_stored_alone_then_decided_on_once_then_admitted(
    plane: Plane, outside: Outside, database: str
) -> None:
    pool_id, _ = plane.hosts()
    flavor_id, image_id = plane.flavor(), plane.image()
    answer = plane.acme.launch(pool_id, flavor_id, image_id)
    made = answer.json()
    assert (answer.status_code, made["state"]) == (201, "pending")
    ((_, name, attributes),) = outside.of(CREATE)
    assert name == f"compute-instance/{made['id']}"
    assert (attributes["vcpu"], attributes["imageVerified"]) == (2, True)
    drafted, admitted = plane.store.history(made["id"])[:2]
    assert (drafted.part.count, drafted.meta.admission) == (1, None)
    assert (admitted.meta.admission, admitted.part.append != drafted.part.append) == (made["admissionId"], True)
    (record,) = plane.events(made["admissionId"])
    assert [one.attributes for one in record.decided] == [attributes], "what was read back is what was decided on"
    assert plane.rows("SELECT 1 FROM open_drafts") == []
    plane.wired.worker.stop()
    plane.settle()
    assert differences(database) == []


def test_a_decider_that_is_away_leaves_the_draft_and_it_is_decided_when_asked_again(
    plane: Plane, outside: Outside
) -> None:
    pool_id, _ = plane.hosts()
    flavor_id, image_id = plane.flavor(), plane.image()
    outside.away = {CREATE}
    answer = plane.acme.launch(pool_id, flavor_id, image_id, "job", userData="YQ==")
    assert (answer.status_code, answer.json()["code"]) == (503, "UNAVAILABLE")
    (instance_id,) = drafts(plane)
    assert plane.acme.ok("GET", "/v1/instances")["items"] == [], "hidden unless asked for"
    tables = ("device_bookings", "quota_claims", "instance_user_data")
    assert [plane.rows(f"SELECT 1 FROM {table}") for table in tables] == [[], [], []]
    other = plane.acme.launch(pool_id, flavor_id, image_id, "job", name="db")
    assert (other.status_code, other.json()["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    outside.away = set()
    made = plane.acme.launch(pool_id, flavor_id, image_id, "job", userData="YQ==")
    assert (made.json()["id"], made.json()["state"]) == (instance_id, "pending")
    assert plane.wired.user_data.get(instance_id, made.json()["userDataSha256"]) == b"a"
    again = plane.acme.launch(pool_id, flavor_id, image_id, "job", userData="YQ==")
    assert (again.json(), again.headers["idempotency-replayed"]) == (made.json(), "true")
    assert len(outside.of(CREATE)) == 1
    assert plane.rows("SELECT 1 FROM open_drafts") == []


def test_what_is_refused_is_denied_and_kept_so(plane: Plane, outside: Outside) -> None:
    pool_id, _ = plane.hosts()
    flavor_id, image_id = plane.flavor(), plane.image()
    outside.refuses = "ACCESS_DENIED"
    refused = plane.acme.launch(pool_id, flavor_id, image_id, "job")
    assert (refused.status_code, refused.json()["code"]) == (403, "ACCESS_DENIED")
    outside.refuses = ""
    assert plane.acme.ok("GET", f"/v1/instances/{refused.json()['instanceId']}")["state"] == "denied"
    again = plane.acme.launch(pool_id, flavor_id, image_id, "job")
    assert (again.status_code, again.headers["idempotency-replayed"]) == (403, "true")
    assert plane.rows("SELECT 1 FROM open_drafts") == []


def test_who_has_to_sign_in_anew_asks_the_same_again(plane: Plane, outside: Outside) -> None:
    pool_id, _ = plane.hosts()
    flavor_id, image_id = plane.flavor(), plane.image()
    outside.refuses = "MFA_REQUIRED"
    assert plane.acme.launch(pool_id, flavor_id, image_id, "job").json()["code"] == "MFA_REQUIRED"
    outside.refuses = ""
    (instance_id,) = drafts(plane)
    assert plane.acme.launch(pool_id, flavor_id, image_id, "job").json()["id"] == instance_id


def test_an_agent_asks_again_once_its_person_approved(plane: Plane, outside: Outside, agent: Client) -> None:
    pool_id, _ = plane.hosts()
    flavor_id, image_id = plane.flavor(), plane.image()
    outside.held = {CREATE}
    refused = agent.launch(pool_id, flavor_id, image_id, "job")
    assert (refused.status_code, refused.json()["code"]) == (403, "ACCESS_DENIED")
    (instance_id,) = drafts(plane)
    outside.approved = {(CREATE, instance_id)}
    made = agent.launch(pool_id, flavor_id, image_id, "job")
    assert (made.status_code, made.json()["id"]) == (201, instance_id)


def test_a_draft_that_nobody_decides_on_is_denied_in_time(plane: Plane, outside: Outside, database: str) -> None:
    pool_id, _ = plane.hosts()
    flavor_id, image_id = plane.flavor(), plane.image()
    outside.away = {CREATE}
    plane.acme.launch(pool_id, flavor_id, image_id, "job")
    plane.acme.launch(pool_id, flavor_id, image_id, "deleted")
    first = instance_of(plane, "job")
    second = instance_of(plane, "deleted")
    assert set(drafts(plane)) == {first, second}
    gone = plane.acme.ok("POST", f"/v1/instances/{second}/delete", {})
    assert gone["state"] == "deleted"
    fence = take_over(plane)
    late = Ahead(plane.store, 15 * MINUTE)
    assert instances.expire(plane.store, first, fence) is None, "it is not late yet"
    assert instances.expire(late, first, fence) is not None
    assert instances.expire(late, second, fence) is None
    shown = plane.acme.ok("GET", f"/v1/instances/{first}")
    assert (shown["state"], shown["stateReason"]) == ("denied", "NotDecided")
    outside.away = set()
    again = plane.acme.launch(pool_id, flavor_id, image_id, "job")
    assert (again.status_code, "new key" in again.json()["detail"]) == (409, True)
    assert plane.acme.launch(pool_id, flavor_id, image_id, "deleted").status_code == 409
    assert plane.rows("SELECT 1 FROM open_drafts") == []


@pytest.fixture
def better(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[iam_plane.Plane]:
    monkeypatch.setattr(sse, "SECONDS", 0.0)
    with iam_plane.plane(database, tmp_path) as made:
        yield made


def test_better_iam_decides_on_it_as_it_stands_in_the_log(better: iam_plane.Plane) -> None:
    pool_id, _ = better.hosts()
    flavor_id, image_id = better.flavor(), better.image()
    better.iam.asked.clear()
    made = better.acme_user.launch(pool_id, flavor_id, image_id, "mine")
    assert made.status_code == 201, made.text
    asked = [(body["action"], body["resource"]) for method, body, _ in better.iam.asked if method == "authorize"]
    assert asked == [(CREATE, {"type": "compute-instance", "id": made.json()["id"]})]
    others = better.acme.launch(pool_id, flavor_id, image_id).json()["id"]
    better.settle()

    def seen(client: Any) -> set[str]:
        return {row["id"] for row in client.ok("GET", "/v1/instances")["items"]}

    assert seen(better.acme_user) == {made.json()["id"]}
    assert seen(better.acme) == {made.json()["id"], others}
    assert better.acme_user.get(f"/v1/instances/{others}").status_code == 403
    assert better.globex.get(f"/v1/instances/{others}").status_code == 404
