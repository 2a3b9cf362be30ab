"""Requests for instances that come at the same time, and verbs that meet what time brings about."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from test_event_stream import events
from test_instances import act, placed, reserved, spec, until

from facts import differences
from given import Plane

EIGHT = 8


def at_once(asked: list[Any]) -> list[Any]:
    with ThreadPoolExecutor(len(asked)) as pool:
        return [future.result() for future in [pool.submit(one) for one in asked]]


def test_one_key_makes_one_instance_whatever_comes_at_once(plane: Plane, database: str) -> None:
    pool_id, _ = plane.hosts()
    flavor_id, image_id = plane.flavor(), plane.image()
    answers = at_once([lambda: plane.acme.launch(pool_id, flavor_id, image_id, "one")] * EIGHT)
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len({answer.json()["admissionId"] for answer in answers}) == 1
    assert plane.rows("SELECT count(*) FROM device_bookings") == [(1,)]
    plane.wired.worker.stop()
    plane.wired.instances.stop()
    plane.settle()
    assert differences(database) == []


def test_two_bodies_under_one_key_make_one_instance_with_its_own_user_data(plane: Plane) -> None:
    pool_id, _ = plane.hosts()
    flavor_id, image_id = plane.flavor(), plane.image()

    def ask(data: str) -> Any:
        return plane.acme.launch(pool_id, flavor_id, image_id, "one", userData=data)

    answers = at_once([partial(ask, data) for data in ("YQ==", "Yg==", "Yw==", "ZA==")])
    assert Counter(answer.status_code for answer in answers) == {201: 1, 422: 3}
    (made,) = [answer.json() for answer in answers if answer.status_code == 201]
    assert plane.wired.user_data.get(made["id"], made["userDataSha256"]) is not None


def test_of_rivals_for_the_last_gpus_some_run_and_the_others_wait(plane: Plane, database: str) -> None:
    pool_id, _ = plane.hosts(gpus=3, quota=99)
    flavor_id, image_id = plane.flavor(gpus={"class": "gpu", "count": 1}), plane.image()
    answers = at_once([lambda: plane.acme.launch(pool_id, flavor_id, image_id)] * EIGHT)
    made = [answer.json() for answer in answers]
    assert {answer.status_code for answer in answers} == {201}
    assert Counter(one["stateReason"] for one in made)[None] == 3
    until(plane, lambda: sum(plane.store.load(one["id"]).state.node_id is not None for one in made) == 3)
    for one in made:
        act(plane, one["id"], "delete")
    states = Counter(plane.store.load(one["id"]).state.status for one in made)
    assert states == {"deleting": 3, "deleted": 5}
    plane.wired.worker.stop()
    plane.wired.instances.stop()
    plane.settle()
    assert differences(database) == []


def test_of_rivals_for_one_reservation_one_gets_it(plane: Plane) -> None:
    pool_id, (node_id,) = plane.hosts()
    held = reserved(plane, pool_id)
    plane.activate(plane.acme, held["id"])
    flavor_id, image_id = plane.flavor(), plane.image()
    ask = [lambda: plane.acme.launch(pool_id, flavor_id, image_id, reservationId=held["id"])] * EIGHT
    answers = at_once(ask)
    assert Counter(answer.status_code for answer in answers) == {201: 1, 409: EIGHT - 1}
    (made,) = [answer.json() for answer in answers if answer.status_code == 201]
    assert list(spec(plane, node_id)) == [made["id"]]


def test_verbs_at_the_moment_of_binding_lose_nothing(plane: Plane) -> None:
    pool_id, (node_id,) = plane.hosts()
    for verb in ("stop", "delete"):
        made = [plane.instance(pool_id)["id"] for _ in range(4)]
        at_once([partial(act, plane, id, verb) for id in made])
        if verb == "stop":
            for id in made:
                placed(plane, id)
            assert {spec(plane, node_id)[id].desired for id in made} == {"stopped"}
        for id in made:
            act(plane, id, "delete")
    assert spec(plane, node_id) == {}


def test_events_of_an_instance_are_shown_to_whom_may_see_it(plane: Plane) -> None:
    pool_id, _ = plane.hosts()
    made = plane.instance(pool_id)["id"]
    placed(plane, made)
    plane.settle()

    def seen(client: Any) -> set[str]:
        shown = events(client.get("/v1/events/stream?after=0").text)
        return {event["type"] for event in shown if event["type"].startswith("instance.")}

    assert {"instance.drafted.1", "instance.admitted.1", "instance.placed.1"} <= seen(plane.acme)
    assert seen(plane.acme_user) == seen(plane.globex) == set()
