"""What a browser is told of an address that is not there, of a wrong verb, and of a page that fails."""

from collections.abc import Iterator
from typing import Any

import pytest
from litestar.testing import TestClient
from signed import Browser, signed

import given
from adapters.http.app import create_app
from adapters.http.limits import Limits
from adapters.registry import OPERATIONS

HTML = "text/html,application/xhtml+xml,*/*;q=0.8"
HOSTILE = "/no/%3Cscript%3Ealert(1)%3C/script%3E%22%27"


def framed(answer: Any, status: int) -> str:
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert '<a class="button" href="/">' in answer.text
    return str(answer.text)


def test_an_address_that_is_not_there_is_a_page_for_whoever_asks(plane: given.Plane) -> None:
    page = framed(signed(plane, plane.acme_user).get("/nodez", accept=HTML), 404)
    assert "there is no page at &#39;/nodez&#39;" in page
    assert "<title>Not found" in page
    assert 'aria-label="Pages"' in page
    assert "data-time-slider" not in page
    stranger = framed(plane.app.get("/nodez", headers={"accept": HTML}), 404)
    assert 'aria-label="Pages"' not in stranger
    assert ">Home</a>" in stranger


def test_nothing_of_the_address_becomes_markup(plane: given.Plane) -> None:
    for page in (
        framed(signed(plane, plane.root).get(HOSTILE, accept=HTML), 404),
        framed(plane.app.get(f"{HOSTILE}?x=%3Cscript%3E", headers={"accept": HTML}), 404),
    ):
        assert "<script>" not in page
        assert "&lt;script&gt;alert(1)" in page


@pytest.mark.parametrize(("verb", "path"), [("GET", "/do/sites.create"), ("POST", "/nodes"), ("DELETE", "/")])
def test_a_wrong_verb_is_a_page_that_names_the_right_ones(plane: given.Plane, verb: str, path: str) -> None:
    answer = plane.app.request(verb, path, headers={"accept": HTML})
    page = framed(answer, 405)
    assert answer.headers["allow"]
    assert "METHOD_NOT_ALLOWED" in page
    assert "Load it again" not in page


@pytest.fixture
def broken(plane: given.Plane) -> Iterator[TestClient[Any]]:
    """The console of a product whose operations crash."""

    def crash(*_: Any) -> Any:
        raise RuntimeError("secret of the inside")

    wired: Any = plane.wired
    wired.dispatcher.reading = lambda *_: crash
    identify = wired.authorizer.identify
    app = create_app(OPERATIONS, crash, identify, wired.health, limits=Limits(anonymous=100), console=wired._console)
    with TestClient(app, raise_server_exceptions=False) as client:  # type: ignore[arg-type]
        yield client


def test_a_page_that_fails_says_so_in_the_frame_and_nothing_of_why(plane: given.Plane, broken: Any) -> None:
    browser = Browser(broken, plane.acme.headers["authorization"].removeprefix("Bearer "))
    page = framed(browser.get("/pools", accept=HTML), 500)
    assert "INTERNAL" in page
    assert "secret" not in page
    assert 'aria-label="Pages"' in page
    assert '<a class="button" href="">Load it again</a>' in page
    part = browser.get("/pools", part=True)
    assert (part.status_code, "<html" in part.text, 'role="alert"' in part.text) == (500, False, True)


def test_what_limits_a_page_is_said_in_the_frame(plane: given.Plane) -> None:
    app: Any = TestClient(plane.wired.app(Limits(anonymous=1)))  # type: ignore[arg-type]
    refused = [app.get("/pools", follow_redirects=False) for _ in range(3)][-1]
    assert "RATE_LIMITED" in framed(refused, 429)
    assert "no page at" in framed(app.get("/nodez", headers={"accept": HTML}), 404)


def test_a_form_that_is_refused_leads_back_to_where_it_stands(plane: given.Plane) -> None:
    browser = signed(plane, plane.acme_user)
    browser.page("/")
    refused = browser.do("sites.create", part=False, name="x", kind="shared", iamRegion="eu", _back="/pools?a=b")
    assert '<a class="button" href="/pools?a=b">Back</a>' in framed(refused, 403)


@pytest.mark.parametrize("path", ["/nodes?asOf=junk", "/?asOf=99999999999999999999", "/audit/proof?asOf=@x"])
def test_a_past_that_is_none_is_said_in_the_frame_of_who_is_signed_in(plane: given.Plane, path: str) -> None:
    page = framed(signed(plane, plane.root).get(path, accept=HTML), 422)
    assert "asOf: " in page
    assert 'aria-label="Pages"' in page
    assert ">Home</a>" not in page
    assert "data-time-slider" not in page


@pytest.mark.parametrize("name", ["from", "until"])
def test_a_search_names_the_time_that_it_does_not_understand(plane: given.Plane, name: str) -> None:
    page = framed(signed(plane, plane.root).get(f"/audit?{name}=junk", accept=HTML), 422)
    assert f"{name}: &#39;junk&#39; is no date and time" in page
