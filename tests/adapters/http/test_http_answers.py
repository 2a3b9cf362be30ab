"""What goes out: status, position, version, location, and who may ask at all (api.md §2)."""

from typing import Any

import fake_api
import pytest
from fake_api import ALICE, KEYED, Fake, assert_problem

from domain.operation import Answer


@pytest.fixture
def fake() -> Fake:
    return Fake()


@pytest.fixture
def http(fake: Fake) -> Any:
    with fake_api.client(fake) as client:
        client.headers.update(KEYED)
        yield client


def test_a_command_answers_with_position_and_version(http: Any) -> None:
    response = http.post("/v1/widgets", json={"name": "w"})
    assert response.status_code == 201
    assert response.json() == {"id": "wdg_1", "name": "w"}
    assert response.headers["x-position"] == "41"
    assert response.headers["etag"] == '"1"'
    assert response.headers["location"] == "/v1/widgets/wdg_1"
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["content-type"] == "application/json"
    assert "idempotency-replayed" not in response.headers


def test_what_a_verb_makes_is_found_below_the_collection(http: Any) -> None:
    assert http.post("/v1/widgets/join", json={"serial": "s"}).headers["location"] == "/v1/widgets/wdg_9"


def test_a_replay_says_so(http: Any, fake: Fake) -> None:
    fake.answer = Answer(body={"id": "wdg_1"}, status=201, position=5, version=1, replayed=True)
    response = http.post("/v1/widgets", json={"name": "w"}, headers={"Idempotency-Key": "k 1"})
    assert response.headers["idempotency-replayed"] == "true"
    assert fake.call.idempotency_key == "k 1"


def test_an_answer_without_content_has_no_body(http: Any) -> None:
    response = http.delete("/v1/widgets/wdg_1")
    assert response.status_code == 204
    assert response.content == b""
    assert "content-type" not in response.headers
    assert response.headers["x-position"] == "43"


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ('"3"', 304),
        ('W/"3"', 304),
        ('"1", "3"', 304),
        ("*", 304),
        ('"4"', 200),
        ("3", 200),
        ("", 200),
        ('"3', 200),
    ],
)
def test_a_query_that_changed_nothing_is_304(http: Any, header: str, status: int) -> None:
    response = http.get("/v1/widgets/wdg_1", headers={"If-None-Match": header})
    assert response.status_code == status
    assert response.headers["etag"] == '"3"'
    assert (response.content == b"") == (status == 304)


def test_a_list_is_known_by_its_content(http: Any, fake: Fake) -> None:
    tag = http.get("/v1/widgets").headers["etag"]
    assert tag.startswith('W/"')
    assert http.get("/v1/widgets", headers={"If-None-Match": tag}).status_code == 304
    fake.answer = Answer(body={"items": []})
    assert http.get("/v1/widgets", headers={"If-None-Match": tag}).status_code == 200


def test_a_command_takes_no_if_none_match(http: Any) -> None:
    response = http.patch("/v1/widgets/wdg_1", json={"name": "n"}, headers={"If-None-Match": '"3"'})
    assert response.status_code == 200


NO_CREDENTIAL = [
    None,
    "",
    "good",
    "Basic good",
    "Bearer",
    "Bearer ",
    "Bearer wrong",
    "Bearer a b",
    "Bearer good\x80",
    "Bearer " + "x" * 5000,
    "bearer  wrong=",
]


@pytest.mark.parametrize("header", NO_CREDENTIAL)
def test_who_bears_no_good_token_is_unauthenticated(http: Any, fake: Fake, header: str | None) -> None:
    del http.headers["Authorization"]
    headers = [] if header is None else [(b"authorization", header.encode("latin-1"))]
    response = http.get("/v1/widgets/wdg_1", headers=headers)
    assert_problem(response, 401, "UNAUTHENTICATED")
    assert response.headers["www-authenticate"] == "Bearer"
    assert not fake.asked


def test_the_caller_is_judged_before_the_body_is_read(http: Any) -> None:
    response = http.post("/v1/widgets", content=b"{", headers={"Authorization": "Bearer wrong"})
    assert_problem(response, 401, "UNAUTHENTICATED")


def test_a_session_reaches_the_handler_and_its_token_does_not(http: Any, fake: Fake) -> None:
    http.get("/v1/widgets/wdg_1", headers={"X-Request-Id": "r-1", "Authorization": "bearer bob"})
    assert fake.call.session is not None
    assert fake.call.session.identity_id == "bob"
    assert fake.call.bearer is None
    assert fake.call.request_id == "r-1"


def test_a_join_token_is_passed_on_and_nobody_is_identified(http: Any, fake: Fake) -> None:
    http.post("/v1/widgets/join", json={"serial": "s"}, headers={"Authorization": "Bearer good"})
    assert fake.call.session is None
    assert fake.call.bearer == "good"
    del http.headers["Authorization"]
    assert_problem(http.post("/v1/widgets/join", json={"serial": "s"}), 401, "UNAUTHENTICATED")


def test_identify_may_block_where_the_caller_says_so(fake: Fake) -> None:
    with fake_api.client(fake, identify_blocks=True) as http:
        assert http.get("/v1/widgets/wdg_1", headers=ALICE).status_code == 200
        assert http.get("/v1/widgets/wdg_1").status_code == 401
