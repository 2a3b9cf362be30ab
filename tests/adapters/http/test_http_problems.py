"""Every refusal has its status, and its document says what to do (api.md §2; RFC 9457)."""

from collections.abc import Iterator
from typing import Any

import fake_api
import pytest
from fake_api import ALICE, Fake, assert_problem

from adapters.http import problems
from domain import errors


def tree(kind: type[errors.Refusal]) -> Iterator[type[errors.Refusal]]:
    yield kind
    for below in kind.__subclasses__():
        yield from tree(below)


class BudgetExceeded(errors.Conflict):
    code = "BUDGET_EXCEEDED"


class HistoryPruned(errors.Refusal):
    code = "HISTORY_PRUNED"


class Unheard(errors.Fenced):
    code = "NEVER_HEARD_OF"


CASES = [
    (errors.Malformed("m"), 400, "MALFORMED"),
    (errors.Unauthenticated("m"), 401, "UNAUTHENTICATED"),
    (errors.AccessDenied("m"), 403, "ACCESS_DENIED"),
    (errors.NotFound("pool", "pool_1", "poolId"), 404, "NOT_FOUND"),
    (errors.Conflict("m"), 409, "CONFLICT"),
    (errors.IllegalTransition("retired", "drain", ()), 409, "ILLEGAL_TRANSITION"),
    (errors.DoubleBooked("m"), 409, "DOUBLE_BOOKED"),
    (errors.QuotaExceeded("tenant", "gpu", 8, 9), 409, "QUOTA_EXCEEDED"),
    (BudgetExceeded("m"), 409, "BUDGET_EXCEEDED"),
    (errors.Fenced("m"), 409, "FENCED"),
    (Unheard("m"), 409, "NEVER_HEARD_OF"),
    (HistoryPruned("m"), 410, "HISTORY_PRUNED"),
    (errors.StaleVersion("m"), 412, "STALE_VERSION"),
    (problems.TooLarge("m"), 413, "PAYLOAD_TOO_LARGE"),
    (problems.UnsupportedMediaType("m"), 415, "UNSUPPORTED_MEDIA_TYPE"),
    (errors.Invalid("name", "m"), 422, "INVALID"),
    (errors.KeyReused("m"), 422, "IDEMPOTENCY_KEY_REUSED"),
    (errors.TooManyRequests("m", 7), 429, "RATE_LIMITED"),
    (errors.Unavailable("m"), 503, "UNAVAILABLE"),
    (errors.ProjectionBehind("m"), 503, "PROJECTION_BEHIND"),
]


@pytest.fixture(scope="module")
def fake() -> Fake:
    return Fake()


@pytest.fixture(scope="module")
def http(fake: Fake) -> Any:
    with fake_api.client(fake) as client:
        client.headers.update(ALICE)
        yield client


@pytest.mark.parametrize(("refusal", "status", "code"), CASES)
def test_a_refusal_becomes_its_status(http: Any, fake: Fake, refusal: Exception, status: int, code: str) -> None:
    fake.raises = refusal
    response = http.get("/v1/widgets/wdg_1")
    assert_problem(response, status, code)
    assert ("retry-after" in response.headers) == (status in (429, 503))
    assert ("www-authenticate" in response.headers) == (status == 401)


@pytest.mark.parametrize("kind", list(tree(errors.Refusal)))
def test_every_refusal_of_the_domain_has_a_status_of_its_own(kind: type[errors.Refusal]) -> None:
    if kind.__module__ == "domain.errors":
        assert kind.code in problems.STATUS


def test_what_a_refusal_adds_joins_the_document_and_replaces_nothing(http: Any, fake: Fake) -> None:
    fake.raises = errors.Conflict("m", extra={"limit": 8, "allowed": ("a", "b"), "status": 200, "requestId": "x"})
    problem = assert_problem(http.get("/v1/widgets/wdg_1"), 409, "CONFLICT")
    assert (problem["limit"], problem["allowed"]) == (8, ["a", "b"])


def test_a_missing_thing_named_in_a_body_is_named_with_its_field(http: Any, fake: Fake) -> None:
    fake.raises = errors.NotFound("pool", "pool_1", "poolId")
    assert assert_problem(http.get("/v1/widgets/wdg_1"), 404, "NOT_FOUND")["errors"][0]["field"] == "poolId"


def test_when_to_come_back_is_what_the_refusal_says(http: Any, fake: Fake) -> None:
    fake.raises = errors.TooManyRequests("m", 7)
    assert http.get("/v1/widgets/wdg_1").headers["retry-after"] == "7"
    fake.raises = errors.Unavailable("m", extra={"retryAfterSeconds": 3})
    assert http.get("/v1/widgets/wdg_1").headers["retry-after"] == "3"


def test_a_detail_that_utf8_cannot_carry_is_still_an_answer(http: Any, fake: Fake) -> None:
    fake.raises = errors.Invalid("na\udcffme", "bad \ud800 é")
    assert "é" in assert_problem(http.get("/v1/widgets/wdg_1"), 422, "INVALID")["detail"]


@pytest.mark.parametrize("error", [RuntimeError("SELECT secret FROM x"), KeyError("token"), RecursionError()])
def test_a_crash_tells_nothing_of_the_inside(
    http: Any, fake: Fake, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    fake.raises = error
    response = http.get("/v1/widgets/wdg_1")
    assert_problem(response, 500, "INTERNAL")
    assert "secret" not in response.text
    assert any(record.exc_info for record in caplog.records)
