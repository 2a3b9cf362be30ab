"""What may come in, and how each wrong thing is refused: by name, never with a 500 (api.md §2)."""

import json
from typing import Any, Literal

import fake_api
import pytest
from fake_api import ALICE, KEYED, Fake, Part, Shelf, assert_problem
from msgspec import Struct, ValidationError, convert

from adapters.http import explain

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def fake() -> Fake:
    return Fake()


@pytest.fixture(scope="module")
def http(fake: Fake) -> Any:
    with fake_api.client(fake) as client:
        client.headers.update(KEYED)
        yield client


def post(http: Any, body: bytes | dict[str, Any], **headers: str) -> Any:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return http.post("/v1/widgets", content=raw, headers=JSON | headers)


def test_a_body_becomes_the_request(http: Any, fake: Fake) -> None:
    body = {
        "name": "w",
        "parts": [{"count": 2, "partClass": "axle"}],
        "place": {"type": "shelf", "rowNumber": 1},
    }
    assert post(http, body).status_code == 201
    assert fake.last.parts == (Part(count=2, part_class="axle"),)
    assert fake.last.place == Shelf(1)


def test_a_whole_number_is_an_integer_however_it_is_written(http: Any, fake: Fake) -> None:
    assert post(http, b'{"name": "w", "size": 8.0, "weight": 2.0}').status_code == 201
    assert (fake.last.size, fake.last.weight) == (8, 2.0)
    assert_problem(post(http, b'{"name": "w", "size": 8.5}'), 422, "INVALID")


def test_path_and_body_are_joined_in_one_request(http: Any, fake: Fake) -> None:
    response = http.put("/v1/widgets/wdg_7/slots/12", json={"note": "n"})
    assert response.status_code == 200
    assert (fake.last.id, fake.last.slot_number, fake.last.note) == ("wdg_7", 12, "n")


def test_path_text_is_percent_decoded_once() -> None:
    fake = Fake()
    assert fake_api.ask(fake, "GET", "/v1/widgets/a%2541%20%C3%A9", headers=ALICE).status_code == 200
    assert fake.last.id == "a%41 é"


def test_a_query_becomes_the_request(http: Any, fake: Fake) -> None:
    response = http.get("/v1/widgets?limit=5&color=red&names=a,b&heavier=1.5&spare=true&waitFor=7")
    assert response.status_code == 200
    asked = fake.last
    assert (asked.limit, asked.color, asked.names, asked.heavier) == (5, "red", ("a", "b"), 1.5)
    assert (asked.spare, asked.wait_for) == (True, 7)


@pytest.mark.parametrize(
    ("body", "field", "says"),
    [
        ({}, "name", "required"),
        ({"name": 1}, "name", "text"),
        ({"name": ""}, "name", "length >= 1"),
        ({"name": "w", "nam": 1}, "nam", "known are: name, parts"),
        ({"name": "w", "parts": [{"count": 0}]}, "parts[0].count", ">= 1"),
        ({"name": "w", "parts": [{"count": 1}, {"count": "2"}]}, "parts[1].count", "an integer"),
        ({"name": "w", "parts": [{"count": 1, "kind": 1}]}, "parts[0].kind", "known are: count, partClass"),
        ({"name": "w", "parts": [{}]}, "parts[0].count", "required"),
        ({"name": "w", "parts": [{"count": 1, "partClass": "x"}]}, "parts[0].partClass", "gear, axle"),
        ({"name": "w", "labels": {"a": "1", "b": 2}}, "labels.b", "text"),
        ({"name": "w", "place": {"type": "box"}}, "place.type", "shelf, crate"),
        ({"name": "w", "place": {"rowNumber": 1}}, "place.type", "required"),
        ({"name": "w", "place": {"type": "shelf", "rowNumber": 13}}, "place.rowNumber", "there is no row 13"),
        ({"name": "w", "place": {"type": "crate", "rowNumber": 1}}, "place.rowNumber", "known are: side"),
        ({"name": "w", "place": {"type": "crate", "side": "up"}}, "place.side", "left, right"),
        ({"name": "w", "size": 1 << 63}, "size", "64 bits"),
        ({"name": "w", "free": {"deep": [1, -(1 << 70)]}}, "free.deep[1]", "64 bits"),
        ({"name": "w\0"}, "name", "NUL"),
        ({"name": "w", "labels": {"a": "\0"}}, "labels.a", "NUL"),
        ({"name": "w", "labels": {"a\0": "b"}}, "labels", "NUL"),
        ({"name": "w", "parts": "none"}, "parts", "array"),
        ({"name": "w", "size": True}, "size", "an integer"),
        ({"name": "w", "size": "5"}, "size", "an integer"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named_with_what_would_be_right(
    http: Any, body: dict[str, Any], field: str, says: str
) -> None:
    problem = assert_problem(post(http, body), 422, "INVALID")
    assert [error["field"] for error in problem["errors"]] == [field]
    assert says in problem["errors"][0]["message"]


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"", 422),
        (b"{", 400),
        (b"nope", 400),
        (b"\xff\xfe", 400),
        (b"\xef\xbb\xbf{}", 400),
        (b"{'name': 'w'}", 400),
        (b'{"name": "w"} x', 400),
        (b'{"name": "w",}', 400),
        (b'{"name": NaN}', 400),
        (b'{"weight": Infinity, "name": "w"}', 400),
        (b'{"name": "w", "weight": 1e400}', 422),
        (b'{"name": "w", "size": ' + b"9" * 5000 + b"}", 422),
        (b'{"name": "\\ud800 lone"}', 400),
        (b'{"name": "\\udfff lone"}', 400),
        (b'{"name": "\xed\xa0\x80"}', 400),
        (b'{"name": "a\x00b"}', 400),
        (b'{"name": "a\nb"}', 400),
        (b'{"name": "a", "name": "b"}', 400),
        (b'{"name": "a", "labels": {"x": "1", "x": "2"}}', 400),
        (b"[" * 100_000, 400),
        (b'{"free": ' * 5_000 + b"1" + b"}" * 5_000, 400),
        (b'{"name": "w", "free": ' + b"[" * 80 + b"]" * 80 + b"}", 400),
        (b"[]", 422),
        (b"null", 422),
        (b'"text"', 422),
        (b"5", 422),
    ],
)
def test_a_hostile_body_is_refused(http: Any, raw: bytes, status: int) -> None:
    assert_problem(post(http, raw), status, "MALFORMED" if status == 400 else "INVALID")


@pytest.mark.parametrize("raw", [b'{"name": "a:b::c"}', b'{"name": "w", "free": {"a:": ":"}}'])
def test_a_colon_in_a_text_is_no_repeated_member(http: Any, raw: bytes) -> None:
    assert post(http, raw).status_code == 201


def test_a_path_field_in_the_body_is_refused(http: Any) -> None:
    problem = assert_problem(http.patch("/v1/widgets/wdg_1", json={"id": "wdg_2", "name": "n"}), 422, "INVALID")
    assert problem["errors"][0]["field"] == "id"


@pytest.mark.parametrize(
    ("query", "status", "says"),
    [
        ("colour=red", 400, "known are: waitFor, limit, cursor, "),
        ("limit=1&limit=2", 400, "twice"),
        ("color=%FF", 400, "UTF-8"),
        ("&".join(f"p{i}=1" for i in range(200)), 400, "100 parameters"),
        ("limit=0", 422, ">= 1"),
        ("limit=1001", 422, "<= 1000"),
        ("limit=ten", 422, "an integer"),
        ("limit=", 422, "an integer"),
        ("limit=" + "9" * 5000, 422, ""),
        ("waitFor=" + "9" * 30, 422, "64 bits"),
        ("color=green", 422, "red, blue"),
        ("heavier=nan", 422, "finite"),
        ("heavier=-inf", 422, "finite"),
        ("spare=maybe", 422, "true or false"),
        ("cursor=%00", 422, "NUL"),
    ],
)
def test_a_wrong_query_is_refused(http: Any, query: str, status: int, says: str) -> None:
    code = "MALFORMED" if status == 400 else "INVALID"
    assert says in assert_problem(http.get("/v1/widgets?" + query), status, code)["detail"]


def test_a_command_takes_no_query_parameters(http: Any) -> None:
    response = http.post("/v1/widgets?dryRun=true", json={"name": "w"})
    assert "known are: none" in assert_problem(response, 400, "MALFORMED")["detail"]


@pytest.mark.parametrize("path", ["/v1/widgets/%00", "/v1/widgets/%FF", "/v1/widgets/a%00b"])
def test_a_path_that_cannot_be_stored_is_refused(http: Any, path: str) -> None:
    assert_problem(http.get(path), 422, "INVALID")


@pytest.mark.parametrize("slot", ["x", "1.5", "", "9" * 40, "%00", "-"])
def test_a_path_field_of_the_wrong_type_is_refused(http: Any, slot: str) -> None:
    response = http.put(f"/v1/widgets/wdg_1/slots/{slot}", json={})
    if slot:
        assert assert_problem(response, 422, "INVALID")["errors"][0]["field"] == "slotNumber"
    else:
        assert_problem(response, 404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 201),
        ("application/json; charset=utf-8", 201),
        ('Application/JSON;charset="UTF-8"', 201),
        ("application/json; charset=latin-1", 415),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data", 415),
        ("", 415),
    ],
)
def test_a_body_comes_as_json(http: Any, kind: str, status: int) -> None:
    response = http.post("/v1/widgets", content=b'{"name": "w"}', headers={"Content-Type": kind})
    if status == 415:
        assert_problem(response, 415, "UNSUPPORTED_MEDIA_TYPE")
    assert response.status_code == status


def test_a_large_body_is_refused_with_and_without_its_length(http: Any) -> None:
    large = b'{"name": "' + b"w" * (1 << 20) + b'"}'
    assert_problem(post(http, large), 413, "PAYLOAD_TOO_LARGE")
    chunks = (large[at : at + 65536] for at in range(0, len(large), 65536))
    assert_problem(http.post("/v1/widgets", content=chunks, headers=JSON), 413, "PAYLOAD_TOO_LARGE")


def test_a_body_of_just_the_limit_is_read(http: Any) -> None:
    body = b'{"name": "w"' + b" " * ((1 << 20) - 13) + b"}"
    assert len(body) == 1 << 20
    assert post(http, body).status_code == 201


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("If-Match", '"3"', 200),
        ("If-Match", "*", 200),
        ("If-Match", "3", 400),
        ("If-Match", 'W/"3"', 400),
        ("If-Match", '"3", "4"', 400),
        ("If-Match", '"abc"', 400),
        ("If-Match", f'"{10**30}"', 400),
        ("If-Match", "", 400),
        ("Content-Length", "-1", 200),
        ("X-Forwarded-For", "a" * 9000, 200),
        ("Accept", "text/html", 200),
    ],
)
def test_headers_are_read_or_refused(http: Any, header: str, value: str, status: int) -> None:
    response = http.patch("/v1/widgets/wdg_1", json={"name": "n"}, headers={header: value})
    assert response.status_code == status
    if status == 400:
        assert_problem(response, 400, "MALFORMED")


def test_the_version_of_if_match_reaches_the_handler(http: Any, fake: Fake) -> None:
    http.patch("/v1/widgets/wdg_1", json={"name": "n"}, headers={"If-Match": '"3"'})
    assert fake.call.if_match == 3
    http.patch("/v1/widgets/wdg_1", json={"name": "n"}, headers={"If-Match": "*"})
    assert fake.call.if_match is None


@pytest.mark.parametrize("name", ["Idempotency-Key", "If-Match", "Authorization"])
def test_a_header_that_must_mean_one_thing_comes_once(name: str) -> None:
    headers = [
        ("Authorization", "Bearer good"),
        ("Content-Type", "application/json"),
        (name, '"3"'),
        (name, '"3"'),
    ]
    response = fake_api.ask(Fake(), "PATCH", "/v1/widgets/wdg_1", content=b'{"name": "n"}', headers=headers)
    assert name.lower() in assert_problem(response, 400, "MALFORMED")["detail"]


def test_a_key_that_is_none_of_those_possible_is_told_which_are() -> None:
    class Wants(Struct):
        scalars: dict[Literal["vcpu", "memoryMiB"], int]

    given = {"scalars": {"cpu": 1}}
    with pytest.raises(ValidationError) as wrong:
        convert(given, Wants)
    refusal = explain.invalid(str(wrong.value), Wants, given, ["scalars"])
    assert refusal.detail == "scalars: in a key: expected one of vcpu, memoryMiB"
