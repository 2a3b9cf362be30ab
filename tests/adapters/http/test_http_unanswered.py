"""Who gets a page of what no handler answered, and who a problem document."""

from typing import Any

import fake_api
import pytest
from litestar import get

from adapters.http import problems, unanswered
from adapters.http.app import People
from adapters.http.respond import Reply

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8"


@pytest.mark.parametrize(
    ("accept", "page"),
    [
        (BROWSER, True),
        ("text/html", True),
        ("TEXT/HTML ; q=0.9, */*;q=0.5", True),
        ("application/json;q=0.5, text/html;q=0.6", True),
        ("", False),
        ("*/*", False),
        ("text/*", False),
        ("application/json", False),
        ("application/json, text/html", False),
        ("text/html, application/json", False),
        ("text/html;q=0.5, */*", False),
        ("text/html;q=0.5, application/*;q=0.9", False),
        ("text/html;q=0", False),
        ("text/html;q=much", False),
        (";;,,q=1", False),
    ],
)
def test_html_has_to_be_wanted_more_than_json(accept: str, page: bool) -> None:
    assert unanswered.prefers_html(accept) == page


@pytest.fixture(scope="module")
def http() -> Any:
    @get("/crashes")
    async def crashes() -> str:
        raise RuntimeError("secret of the inside")

    async def show(scope: Any, refusal: Any) -> Any:
        return Reply(problems.status_of(refusal), b"a page", [(b"content-type", b"text/html")])

    with fake_api.client(extra=[crashes], console=lambda operations, wiring: People((), show)) as client:
        yield client


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "NOT_FOUND"),
        ("HEAD", "/nowhere", 404, "NOT_FOUND"),
        ("DELETE", "/crashes", 405, "METHOD_NOT_ALLOWED"),
        ("GET", "/crashes", 500, "INTERNAL"),
    ],
)
def test_a_browser_gets_a_page_of_the_same_status(http: Any, method: str, path: str, status: int, code: str) -> None:
    page = http.request(method, path, headers={"accept": BROWSER})
    assert (page.status_code, page.headers["content-type"]) == (status, "text/html")
    part = http.request(method, path, headers={"accept": "*/*", "hx-request": "true"})
    assert (part.status_code, part.headers["content-type"]) == (status, "text/html")
    told = http.request(method, path, headers={"accept": "*/*"})
    assert (told.status_code, told.headers["content-type"]) == (status, "application/problem+json")
    assert method == "HEAD" or told.json()["code"] == code


@pytest.mark.parametrize("path", ["/v1/nope", "/v1", "/schema/nope", "/metrics/x", "/health/nope"])
def test_where_only_programs_ask_everybody_gets_a_document(http: Any, path: str) -> None:
    answer = http.get(path, headers={"accept": BROWSER})
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")


def test_without_a_console_a_browser_gets_the_document() -> None:
    with fake_api.client() as plain:
        fake_api.assert_problem(plain.get("/nowhere", headers={"accept": BROWSER}), 404, "NOT_FOUND")
