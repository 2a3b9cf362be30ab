"""Health, metrics and the schema's page: what is there without a token (api.md §2)."""

import re
from typing import Any

import fake_api
import pytest
from litestar import get
from prometheus_client import CollectorRegistry, Gauge

from adapters.http.app import People
from adapters.http.health import Health


@pytest.fixture(scope="module")
def http() -> Any:
    with fake_api.client() as client:
        yield client


def test_live_says_that_the_process_answers(http: Any) -> None:
    assert http.get("/health/live").json() == {"status": "live"}


def test_ready_says_what_was_checked(http: Any) -> None:
    response = http.get("/health/ready")
    assert response.status_code == 200
    assert response.json() == {"status": "ready", "checks": {"database": "ok", "projectionLag": 3}}


def test_not_ready_is_503_with_the_reason() -> None:
    with fake_api.client(health=lambda: Health(ready=False, checks={"database": "refused"})) as http:
        response = http.get("/health/ready")
    assert response.status_code == 503
    assert response.json()["checks"] == {"database": "refused"}


def test_a_check_that_crashes_is_not_ready_and_tells_nothing() -> None:
    def broken() -> Health:
        raise RuntimeError("dsn=secret")

    with fake_api.client(health=broken) as http:
        response = http.get("/health/ready")
    assert response.status_code == 503
    assert "secret" not in response.text


def test_gauges_of_others_are_shown_too() -> None:
    registry = CollectorRegistry()
    Gauge("projection_lag", "Events behind.", ("projection",), registry=registry).labels("nodes").set(7)
    with fake_api.client(registry=registry) as http:
        response = http.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=")
    assert 'projection_lag{projection="nodes"} 7.0' in response.text


def test_the_page_names_no_other_host(http: Any) -> None:
    page = http.get("/schema").text
    assert not re.search(r"https?://|//[a-z]", page)
    assert not re.search(r"https?://", http.get("/schema/start.js").text)
    for needed in re.findall(r'(?:src|href)="(/[^"]+)"', page):
        assert http.get(needed).status_code == 200, needed


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/schema", "text/html; charset=utf-8"),
        ("/schema/start.js", "text/javascript; charset=utf-8"),
        ("/schema/swagger-ui-bundle.js", "text/javascript; charset=utf-8"),
        ("/schema/swagger-ui.css", "text/css; charset=utf-8"),
        ("/schema/openapi.json", "application/json"),
    ],
)
def test_the_pages_files_may_load_from_here_only_and_are_revalidated(http: Any, path: str, kind: str) -> None:
    response = http.get(path, headers={"Accept-Encoding": "identity"})
    assert response.headers["content-type"] == kind
    assert "script-src 'self';" in response.headers["content-security-policy"]
    assert http.get(path, headers={"If-None-Match": response.headers["etag"]}).status_code == 304
    packed = http.get(path, headers={"Accept-Encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.content == response.content


def test_the_front_door_leads_to_the_schema_until_there_is_a_console(http: Any) -> None:
    response = http.get("/", follow_redirects=False)
    assert (response.status_code, response.headers["location"]) == (307, "/schema")

    @get("/", name="console", media_type="text/html")
    async def console() -> str:
        return "console"

    with fake_api.client(console=lambda operations, wiring: People((console,))) as other:
        assert other.get("/").text == "console"
