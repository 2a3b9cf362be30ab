"""Asking again: Idempotency-Key, If-Match, ETag, and reading what was just written."""

from concurrent.futures import ThreadPoolExecutor

from given import Plane


def test_one_key_is_one_reservation_with_one_answer(plane: Plane) -> None:
    """O40: also while the first is under way, and whatever became of it since."""
    pool_id, _ = plane.fleet(quota=99)
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: plane.acme.reserve(pool_id, "job"), range(8)))
    assert {a.status_code for a in answers} == {201}
    assert len({a.content for a in answers}) == 1
    assert sorted("idempotency-replayed" in a.headers for a in answers) == [False] + [True] * 7
    made = answers[0].json()
    plane.until(plane.acme, made["id"], "binding")
    again = plane.acme.reserve(pool_id, "job")
    assert again.json() == made, "as of the version that the first answer showed"
    assert again.headers["etag"] == answers[0].headers["etag"]
    assert len(plane.rows("SELECT 1 FROM device_bookings")) == 1


def test_one_key_with_another_body_is_refused_and_of_another_caller_is_another_reservation(plane: Plane) -> None:
    """O40."""
    pool_id, _ = plane.fleet(quota=99)
    plane.offer(pool_id, "globex", gpu=9)
    first = plane.acme.reserve(pool_id, "job").json()
    reused = plane.acme.reserve(pool_id, "job", durationSeconds=60)
    assert (reused.status_code, reused.json()["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    others = [client.reserve(pool_id, "job").json()["id"] for client in (plane.globex, plane.acme_user)]
    assert len({first["id"], *others}) == 3
    denied = plane.acme.reserve(pool_id, "no", devices=[{"class": "gpu", "count": 100}], maxPendingSeconds=0)
    assert denied.status_code == 409
    assert plane.acme.reserve(pool_id, "no").json()["code"] == "IDEMPOTENCY_KEY_REUSED"
    site = {"name": "a", "kind": "shared", "iamRegion": "eu"}
    plane.root.ok("POST", "/v1/sites", site, Idempotency_Key="s")
    assert plane.root.post("/v1/sites", site | {"name": "b"}, Idempotency_Key="s").status_code == 422
    missing = plane.acme.call("POST", "/v1/reservations", {"poolId": pool_id})
    assert missing.status_code == 422


def test_if_match_is_honoured_and_a_refused_change_leaves_the_version(plane: Plane) -> None:
    """O10."""
    pool_id, _ = plane.fleet()
    path = f"/v1/pools/{pool_id}"
    etag = plane.root.get(path).headers["etag"]
    stale = plane.root.call("PATCH", path, {"name": "other"}, If_Match='"9"')
    assert (stale.status_code, stale.json()["code"]) == (412, "STALE_VERSION")
    assert plane.root.call("PATCH", path, {"name": "other", "colour": 1}).status_code == 422
    assert plane.root.get(path).headers["etag"] == etag
    renamed = plane.root.call("PATCH", path, {"name": "other"}, If_Match=etag)
    assert (renamed.status_code, renamed.json()["name"]) == (200, "other")
    assert plane.root.call("PATCH", path, {"name": "third"}, If_Match=etag).status_code == 412
    assert plane.root.call("PATCH", path, {"name": "third"}, If_Match="other").status_code == 400


def test_what_was_not_changed_is_not_sent_again(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    for path in (f"/v1/pools/{pool_id}", "/v1/pools", "/v1/nodes"):
        etag = plane.root.get(path).headers["etag"]
        assert plane.root.get(path, If_None_Match=etag).status_code == 304
    plane.root.ok("PATCH", f"/v1/pools/{pool_id}", {"name": "other"})
    plane.settle()
    assert plane.root.get("/v1/pools", If_None_Match=etag).status_code == 200


def test_a_write_is_read_at_once_and_lists_wait_for_it(plane: Plane) -> None:
    """O44: a position that the lists do not show yet is no "not found"."""
    pool_id, _ = plane.fleet(quota=99)
    for n in range(20):
        made = plane.acme.reserve(pool_id, startsAt=plane.store.now() + 60_000 * (n + 60))
        got = plane.acme.get(f"/v1/reservations/{made.json()['id']}")
        assert (got.status_code, got.json()["version"]) == (200, made.json()["version"])
        position = made.headers["x-position"]
        listed = plane.acme.get(f"/v1/reservations?waitFor={position}&limit=1000")
        assert made.json()["id"] in {row["id"] for row in listed.json()["items"]}
        assert int(listed.headers["x-position"]) >= int(position)
    for path in ("/v1/reservations", "/v1/capacity", "/v1/bookings"):
        ahead = plane.acme.get(f"{path}?waitFor={int(position) + 1000}")
        assert (ahead.status_code, ahead.json()["code"]) == (503, "PROJECTION_BEHIND")
        assert "retry-after" in ahead.headers


def test_a_create_that_is_refused_for_its_headers_holds_nothing(plane: Plane) -> None:
    pool_id, _ = plane.fleet(gpus=1)
    stale = plane.acme.call(
        "POST",
        "/v1/reservations",
        {"poolId": pool_id, "devices": [{"class": "gpu", "count": 1}], "durationSeconds": 60},
        Idempotency_Key="job",
        If_Match='"7"',
    )
    assert stale.status_code == 412
    assert plane.acme.reserve(pool_id, "job", durationSeconds=60, maxPendingSeconds=0).status_code == 201
