"""The OpenAPI document says what the server does (api.md §1)."""

from typing import Any

import fake_api
import msgspec
import pytest
import schemathesis
from fake_api import ALICE, OPERATIONS
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from adapters.http import openapi
from adapters.registry import OPERATIONS as REAL

DOCUMENT: dict[str, Any] = msgspec.json.decode(openapi.encoded(OPERATIONS))


def of(name: str) -> dict[str, Any]:
    operation = OPERATIONS[name]
    found: dict[str, Any] = DOCUMENT["paths"][operation.path][operation.verb.lower()]
    return found


def test_the_document_is_openapi_31() -> None:
    assert [error.message for error in OPENAPI_31_VALIDATOR.iter_errors(DOCUMENT)] == []


def test_the_document_is_the_same_each_time() -> None:
    assert openapi.encoded(OPERATIONS) == openapi.encoded(dict(reversed([*OPERATIONS.items()])))


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_says_its_action_and_what_it_is_decided_on(name: str) -> None:
    entry = of(name)
    assert entry["operationId"] == name
    assert entry["x-iam-action"] == OPERATIONS[name].action
    assert entry["x-iam-resource"] == list(OPERATIONS[name].on)


def test_references_lead_somewhere() -> None:
    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if "$ref" in value:
                target: Any = DOCUMENT
                for step in value["$ref"].removeprefix("#/").split("/"):
                    target = target[step]
            for member in value.values():
                walk(member)
        elif isinstance(value, list):
            for member in value:
                walk(member)

    walk(DOCUMENT)


def test_no_component_is_named_after_a_module() -> None:
    """Also of the real registry, where many modules have a Create and a View."""
    schemas = openapi.document(REAL)["components"]["schemas"]
    assert {"PoolsCreate", "PoolView", "PoolViewPage", "ReservationsCreate", "DeviceLine"} <= set(schemas)
    assert all(name.isalnum() for name in schemas)


def test_the_example_of_a_reservation_is_a_request() -> None:
    body = openapi.document(REAL)["paths"]["/v1/reservations"]["post"]["requestBody"]["content"]["application/json"]
    asked = msgspec.convert(body["example"], REAL["reservations.create"].request)
    assert asked.devices[0].count == 8


def test_requests_refuse_unknown_fields_and_leave_out_the_path() -> None:
    reference = of("widgets.put")["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    schema = DOCUMENT["components"]["schemas"][reference.rpartition("/")[2]]
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == {"note"}
    assert of("widgets.put")["requestBody"]["required"] is False
    assert [p["name"] for p in of("widgets.put")["parameters"] if p.get("in") == "path"] == [
        "id",
        "slotNumber",
    ]


def test_a_query_has_parameters_and_no_body() -> None:
    entry = of("widgets.list")
    query = {p["name"]: p for p in entry["parameters"] if p.get("in") == "query"}
    assert set(query) >= {"limit", "cursor", "waitFor", "color", "names", "heavier", "spare"}
    limit = query["limit"]["schema"]
    assert (limit["minimum"], limit["maximum"], limit["default"]) == (1, 1000, 100)
    assert query["waitFor"]["schema"]["maximum"] == (1 << 63) - 1
    assert query["names"]["explode"] is False
    assert "requestBody" not in entry


def test_refusals_are_answers_with_their_codes() -> None:
    responses = of("widgets.create")["responses"]
    assert set(responses) == {"201", "400", "401", "403", "409", "412", "413", "415", "422", "429", "503"}
    content = responses["409"]["content"]["application/problem+json"]["schema"]
    assert content["allOf"][1]["properties"]["code"]["enum"] == ["CONFLICT", "QUOTA_EXCEEDED"]
    assert "Retry-After" in responses["429"]["headers"]
    assert {"304", "404"} <= set(of("widgets.get")["responses"])
    assert {"X-Position", "ETag", "X-Request-Id"} <= set(responses["201"]["headers"])


def test_the_key_is_required_where_the_operation_says_so() -> None:
    (key,) = [p for p in of("widgets.create")["parameters"] if p.get("name") == "Idempotency-Key"]
    assert key["required"] is True
    assert of("widgets.join")["security"] == [{"joinToken": []}]
    assert of("widgets.get")["security"] == [{"bearer": []}]


@pytest.fixture(scope="module")
def api() -> Any:
    """No NUL in what should be accepted: no text may hold one, which a schema cannot well say of each."""
    config = schemathesis.Config.from_dict({"generation": {"allow-x00": False}})
    return schemathesis.openapi.from_asgi("/schema/openapi.json", fake_api.application(), config=config)


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("name", OPERATIONS)
def test_generated_requests_are_answered_as_documented(api: Any, name: str, mode: GenerationMode) -> None:
    """Wrong requests: only that the answer is documented and no 500. Some are right again once they are a URL."""
    operation = api[OPERATIONS[name].path][OPERATIONS[name].verb]
    unsure = [negative_data_rejection] if mode is GenerationMode.NEGATIVE else []

    @settings(max_examples=15, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def run(case: Any) -> None:
        case.call_and_validate(headers=ALICE, excluded_checks=unsure)

    run()
