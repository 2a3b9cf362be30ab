"""Signing in to the console: who may, what the cookie tells, and what other sites cannot do with it."""

import re
from typing import Any

import pytest
from hypothesis import given as cases
from hypothesis import strategies as st
from litestar.testing import TestClient
from signed import signed

import given
from adapters.console import cookie, live, static_files, table, visit
from adapters.console.page import Page
from adapters.http.limits import Limits
from adapters.iam import tokens

KEY = b"k" * 32


def test_who_is_not_signed_in_is_led_to_the_form_and_back(plane: given.Plane) -> None:
    answer = plane.app.get("/audit?order=desc", follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/sign-in?then=%2Faudit%3Forder%3Ddesc"
    form = plane.app.get(answer.headers["location"])
    assert 'name="then" value="/audit?order=desc"' in form.text
    part = plane.app.get("/audit", headers={"hx-request": "true"}, follow_redirects=False)
    assert part.headers["hx-redirect"] == "/sign-in?then=%2Faudit"


def test_the_cookie_is_for_this_server_alone_and_tells_no_token(plane: given.Plane) -> None:
    token = plane.acme.headers["authorization"].removeprefix("Bearer ")
    answer = plane.app.post("/sign-in", data={"token": token, "then": "/usage"}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/usage")
    said = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= {part.strip() for part in said.split(";")}
    assert token not in said


def test_over_https_the_cookie_is_bound_to_host_and_transport() -> None:
    said = cookie.header("x", secure=True).decode()
    assert said.startswith("__Host-better-compute=x;")
    assert said.endswith("; Secure")
    assert cookie.value_of("better-compute=x", secure=True) is None


@pytest.mark.parametrize("token", ["", "no token at all", "biam_key_unknown", "x" * 5000, "ключ", "a\x00b"])
def test_what_is_no_good_token_signs_nobody_in(plane: given.Plane, token: str) -> None:
    answer = plane.app.post("/sign-in", data={"token": token}, follow_redirects=False)
    assert answer.status_code in (401, 422)
    assert "set-cookie" not in answer.headers
    assert "token" in answer.text


@pytest.mark.parametrize(
    "then",
    ["//evil.example/", "/\\evil.example", "https://evil.example/", "javascript:alert(1)", "", "/a\nb: c", "/ü"],
)
def test_signing_in_leads_nowhere_else(plane: given.Plane, then: str) -> None:
    token = plane.acme.headers["authorization"].removeprefix("Bearer ")
    answer = plane.app.post("/sign-in", data={"token": token, "then": then}, follow_redirects=False)
    assert answer.headers["location"] == "/"


def test_a_cookie_that_was_changed_or_is_too_old_opens_nothing() -> None:
    cookies = cookie.Cookies(KEY)
    sealed = cookies.seal("biam_key_x", 1000)
    opened = cookies.open(sealed, 1000 + cookie.SECONDS - 1)
    assert opened is not None
    assert opened.token == "biam_key_x"
    assert cookies.open(sealed, 1000 + cookie.SECONDS) is None
    assert cookies.open(sealed, 900) is None
    assert cookie.Cookies(b"j" * 32).open(sealed, 1000) is None
    for place in range(len(sealed)):
        other = "A" if sealed[place] != "A" else "B"
        found = cookies.open(sealed[:place] + other + sealed[place + 1 :], 1000)
        assert found is None or place >= len(sealed.rstrip("=")) - 1


@cases(st.text(max_size=200))
def test_no_text_is_a_cookie_by_chance(text: str) -> None:
    assert cookie.Cookies(KEY).open(text, 1000) is None


@cases(st.text(max_size=50))
def test_a_place_to_go_to_is_always_on_this_server(text: str) -> None:
    place = visit.within(text)
    assert place.startswith("/")
    assert not place.startswith(("//", "/\\"))


def test_who_asks_too_often_to_sign_in_is_told_so_by_a_page(plane: given.Plane) -> None:
    app = TestClient(plane.wired.app(Limits(anonymous=1)))  # type: ignore[arg-type]
    refused = [app.get("/sign-in") for _ in range(3)][-1]
    assert (refused.status_code, refused.headers["content-type"]) == (429, "text/html; charset=utf-8")
    assert "RATE_LIMITED" in refused.text


def test_a_refusal_before_anybody_is_known_is_a_page_too(plane: given.Plane) -> None:
    """With its styles, and with the script that loads it again once the server can."""
    app = TestClient(plane.wired.app(Limits(anonymous=1)))  # type: ignore[arg-type]
    refused = [app.get("/nodes", follow_redirects=False) for _ in range(3)][-1]
    assert refused.status_code == 429
    assert 'data-refused="429"' in refused.text
    assert "console.js" in refused.text
    part = app.get("/nodes", headers={"hx-request": "true"}, follow_redirects=False)
    assert (part.status_code, "<html" in part.text) == (429, False)


def test_a_token_that_is_revoked_ends_the_session_at_once(plane: given.Plane) -> None:
    browser = signed(plane, plane.acme)
    browser.page("/")
    plane.access.write_text(plane.access.read_text().replace(_digest(plane.acme), "0" * 64))
    plane.wired.authorizer.reload()  # type: ignore[attr-defined]
    assert browser.get("/").headers["location"].startswith("/sign-in")
    assert browser.get("/live").status_code == 401


def _digest(client: given.Client) -> str:
    return tokens.digest(client.headers["authorization"].removeprefix("Bearer "))


def test_a_form_without_the_sessions_own_word_changes_nothing(plane: given.Plane) -> None:
    browser = signed(plane, plane.root)
    browser.page("/")
    for word in ("", "0" * 64, signed_elsewhere(plane)):
        browser.form = word or "-"
        refused = browser.do("sites.create", name="intruder", kind="shared", iamRegion="eu")
        assert refused.status_code == 403
        assert "another session" in refused.text
    assert "intruder" not in plane.root.get("/v1/sites").text


def signed_elsewhere(plane: given.Plane) -> str:
    other = signed(plane, plane.operator)
    other.page("/")
    return other.form


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://[evil"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
@pytest.mark.parametrize("path", ["/do/sites.create", "/sign-in", "/sign-out"])
def test_a_form_of_another_site_is_refused(plane: given.Plane, path: str, headers: dict[str, str]) -> None:
    browser = signed(plane, plane.root)
    browser.page("/")
    token = plane.root.headers["authorization"].removeprefix("Bearer ")
    sent = {"_form": browser.form, "name": "intruder", "token": token}
    answer = plane.app.post(path, data=sent, headers={"cookie": browser.cookie, **headers}, follow_redirects=False)
    assert answer.status_code == 403
    assert "another site" in answer.text
    assert "set-cookie" not in answer.headers


def test_signing_out_takes_the_cookie_back(plane: given.Plane) -> None:
    browser = signed(plane, plane.acme)
    browser.page("/")
    answer = browser._send("POST", "/sign-out", {"_form": browser.form})
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
    assert "Max-Age=0" in answer.headers["set-cookie"]


def test_what_is_asked_for_through_a_page_is_decided_as_anywhere(plane: given.Plane) -> None:
    """And the decision is in the log, with the request that the page names."""
    browser = signed(plane, plane.acme_user)
    browser.page("/reserve")
    refused = browser.do("sites.create", name="mine", kind="shared", iamRegion="eu")
    assert refused.status_code == 403
    assert re.search(r"<code>ACCESS_DENIED</code> · request \w+", refused.text)
    last = plane.refusals()[-1]
    assert (last.action, last.reason) != ("", "")
    assert last.request_id in refused.text


@pytest.mark.parametrize("name", ["sites.list", "nodes.join", "iam.resolve", "images.upload", "nothing.at-all", "%00"])
def test_only_what_a_form_can_send_has_a_door(plane: given.Plane, name: str) -> None:
    browser = signed(plane, plane.root)
    browser.page("/")
    assert browser.do(name).status_code == 404


def test_wrong_fields_are_named_in_the_page(plane: given.Plane) -> None:
    browser = signed(plane, plane.root)
    browser.page("/")
    refused = browser.do("sites.create", nmae="x")
    assert refused.status_code == 422
    assert "nmae: there is no such field" in refused.text


@pytest.mark.parametrize(
    "fields",
    [{"a" + ".a" * 10_000: "1"}, {"a" + "[1]" * 17: "1"}, {"_version": "9" * 5000}, {"_version": "first"}],
    ids=["nested", "lists", "long version", "no version"],
)
def test_a_form_that_no_page_sends_is_malformed(plane: given.Plane, fields: dict[str, Any]) -> None:
    browser = signed(plane, plane.root)
    refused = browser.do("sites.create", kind="shared", iamRegion="eu", **{"name": "odd", **fields})
    assert (refused.status_code, "MALFORMED" in refused.text) == (400, True)
    assert "odd" not in plane.root.get("/v1/sites").text


def test_what_was_done_says_where_in_the_log_and_a_plain_form_comes_back(plane: given.Plane) -> None:
    browser = signed(plane, plane.root)
    browser.page("/")
    done = browser.do("sites.create", name="north", kind="shared", iamRegion="eu")
    assert done.status_code == 200
    assert re.fullmatch(r'\{"changed":\{"position":\d+\}\}', done.headers["hx-trigger"])
    plain = browser.do("sites.create", part=False, name="south", kind="shared", iamRegion="eu", _back="/nodes")
    assert re.fullmatch(r"/nodes\?waitFor=\d+", plain.headers["location"])


def test_every_answer_says_that_nothing_comes_from_elsewhere(plane: given.Plane) -> None:
    browser = signed(plane, plane.root)
    for page in [one for one in table.PAGES if "{" not in one.path]:
        answer = browser.get(page.path)
        assert answer.status_code == 200, (page.path, answer.text)
        assert "default-src 'none'; script-src 'self'; style-src 'self';" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"
        assert re.findall(r'(?:src|href|action)="(?!/|#)[^"]*"', answer.text) == [], page.path
        assert re.findall(r"<script>|<style|\sstyle=|\son[a-z]+=", answer.text) == [], page.path


def test_styles_and_scripts_may_be_kept_for_ever_by_their_content(plane: given.Plane) -> None:
    for name in static_files.names():
        answer = plane.app.get(static_files.address(name))
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        assert answer.content == static_files.content(name)
        other = plane.app.get(f"/static/{name}?v=of-another-release")
        assert other.headers["cache-control"] == "no-cache"
    for missing in ("console.py", "LICENSE.htmx", "..%2Fconsole.py", "%00"):
        assert plane.app.get(f"/static/{missing}").status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "/nodes/%00",
        "/reservations/%F0%28",
        "/?asOf=yesterday",
        "/?asOf=@999999999",
        "/usage?asOf=%00",
        "/calendar?asOf=0001-01-01",
        "/calendar?asOf=9999-12-31",
        "/calendar?asOf=253402300799999",
    ],
)
def test_a_hostile_address_is_refused_as_a_page(plane: given.Plane, path: str) -> None:
    answer = signed(plane, plane.root).get(path)
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.headers["content-type"].startswith("text/html")


def test_the_live_stream_names_things_and_nothing_of_what_happened(plane: given.Plane) -> None:
    class Entry:
        position, stream = 7, "node_1"

    assert live.spell([Entry(), Entry()]) == b'id: 7\nevent: log\ndata: ["node_1"]\n\n'
    assert live.spell([]) == b""


@pytest.mark.parametrize(
    "page", [one for one in table.PAGES if one.past and "{" not in one.path], ids=lambda page: page.path
)
def test_every_page_that_has_a_past_shows_it(plane: given.Plane, page: Page) -> None:
    """The time slider stands on it: it may refuse no position that the log has."""
    plane.fleet()
    answer = signed(plane, plane.root).get(f"{page.path}?asOf=@{plane.settle()}")
    assert answer.status_code == 200, answer.text
    assert "As it was known at position" in answer.text
