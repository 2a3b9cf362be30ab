"""The console where a Better IAM decides: few questions for a page, and a plain word when it gets no answer."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from offers import offered
from signed import Browser, signed

import given
from adapters.console import look, table
from adapters.iam.better.authorizer import BetterIam
from iam_server import faults
from iam_server.jwts import Issuer
from iam_server.model import Session
from iam_server.plane import Plane, plane

DEEP = 4
"""Questions of a page in sequence at most: whose token it is, what it may show, and twice what follows from that."""


@pytest.fixture
def better(database: str, tmp_path: Path) -> Iterator[Plane]:
    with plane(database, tmp_path) as made:
        yield made


def asked(better: Plane, browser: Browser, path: str) -> list[str]:
    """What a page asks of Better IAM, by name, when the navigation is known."""
    browser.page("/")
    better.iam.asked.clear()
    browser.page(path)
    return sorted(method for method, _, _ in better.iam.asked)


def projects(client: given.Client, prefix: str, count: int) -> list[str]:
    return [client.ok("POST", "/v1/projects", {"name": f"{prefix}-{n}"})["id"] for n in range(count)]


@pytest.mark.parametrize("path", ["/", "/calendar", "/reservations", "/instances/new", "/nodes", "/quotas", "/usage"])
@pytest.mark.parametrize("who", ["operator", "acme"])
def test_a_page_asks_once_what_it_asks_together(better: Plane, path: str, who: str) -> None:
    better.site()
    browser = signed(better, getattr(better, who))
    found = asked(better, browser, path)
    assert (found.count("sts/getCallerIdentity"), found.count("authorize")) == (1, 0)
    assert found.count("authorizeMany") < DEEP
    plans = [str(body) for method, body, _ in better.iam.asked if method == "filters/plan"]
    assert len(set(plans)) == len(plans)


def test_what_a_page_asks_does_not_grow_with_its_rows(better: Plane) -> None:
    browser = signed(better, better.acme)
    projects(better.acme, "few", look.FEW + 1)
    better.settle()
    few = [asked(better, browser, path) for path in ("/projects", "/quotas")]
    projects(better.acme, "more", 30)
    better.settle()
    assert [asked(better, browser, path) for path in ("/projects", "/quotas")] == few


def test_a_refusal_is_decided_and_recorded_once(better: Plane) -> None:
    browser = signed(better, better.acme)
    browser.page("/")
    better.iam.sessions[better.tokens["acme"]].refuses["compute:audit:events"] = "MFA_REQUIRED"
    before = len(better.refusals())
    assert browser.get("/audit").status_code == 403
    assert browser.get("/reservations/rsv_none").status_code in (404, 422)
    assert better.iam.count("authorize") <= 1
    assert len(better.refusals()) - before <= 2


def test_without_an_answer_the_page_says_so_and_shows_nothing_as_if_it_were_refused(better: Plane) -> None:
    browser = signed(better, better.acme)
    browser.page("/projects")
    for method in ("sts/getCallerIdentity", "authorizeMany", "filters/plan"):
        better.server.fail(method, faults.hang_up)
        answer = browser.get("/projects?order=asc")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1"), method
        assert ">Not just now</h1>" in answer.text
        assert "Better IAM, who decides what you may, cannot be asked just now" in answer.text
        assert '<a class="button" href="">Load it again</a>' in answer.text
        assert "New project" not in answer.text
        better.server.forgive()
    assert "New project" in browser.page("/projects?order=asc")


def test_a_part_of_a_page_gets_a_part_that_says_so(better: Plane) -> None:
    browser = signed(better, better.acme)
    browser.page("/projects")
    better.server.fail("authorize", faults.hang_up)
    answer = browser.do("projects.create", name="research")
    assert answer.status_code == 503
    assert "<html" not in answer.text
    assert "nothing was done, try again" in answer.text
    assert browser.do("projects.create", name="research").status_code == 200


def test_who_gives_no_answer_is_not_asked_again_for_the_same_page(better: Plane) -> None:
    browser = signed(better, better.acme)
    better.server.fail("authorizeMany", *[faults.hang_up] * 9)
    better.iam.asked.clear()
    assert browser.get("/").status_code == 503
    assert better.iam.count("authorizeMany") == 1


def test_signing_out_asks_nobody(better: Plane) -> None:
    browser = signed(better, better.acme)
    form = re.search(r'action="/sign-out"><input type="hidden" name="_form" value="(\w+)"', browser.page("/projects"))
    assert form is not None
    better.server.stop()
    assert 'action="/sign-out"' in browser.get("/projects").text
    answer = signing_out(better, browser, form[1])
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert signing_out(better, browser, "another").status_code == 403


def signing_out(better: Plane, browser: Browser, form: str) -> Any:
    headers = {"cookie": browser.cookie}
    return better.app.post("/sign-out", data={"_form": form}, headers=headers, follow_redirects=False)


def test_a_token_that_ended_leads_to_signing_in_which_says_so(better: Plane) -> None:
    browser = signed(better, better.acme)
    browser.page("/projects")
    del better.iam.sessions[better.tokens["acme"]]
    answer = browser.get("/projects?order=asc")
    assert answer.headers["location"] == "/sign-in?then=%2Fprojects%3Forder%3Dasc&ended=page"
    assert "expired or revoked" in browser.page(answer.headers["location"])
    sent = browser.do("projects.create", name="research")
    assert sent.headers["hx-redirect"] == "/sign-in?then=%2F&ended=form"
    assert "what you sent was not done" in browser.page(sent.headers["hx-redirect"])


def test_a_token_that_ends_while_a_page_is_made_leads_there_too(better: Plane) -> None:
    browser = signed(better, better.acme)
    better.server.fail("authorizeMany", faults.error(401, "UNAUTHENTICATED"))
    assert browser.get("/projects").headers["location"] == "/sign-in?then=%2Fprojects&ended=page"


def told(answer: Any) -> tuple[Any, ...]:
    """What a page shows of things and offers to do with them."""
    headings = re.findall(r"<h[123][^>]*>(.*?)</h", answer.text, re.S)
    return answer.status_code, sorted(offered(answer.text)), headings, set(re.findall(r'href="(/[^"?]*)', answer.text))


def test_pages_show_what_they_would_if_each_question_were_asked_by_itself(better: Plane) -> None:
    pool, (node, *_) = better.fleet(nodes=2)
    project, flavor = better.project(), better.flavor()
    held = better.acme.reserve(pool, projectId=project).json()["id"]
    better.until(better.acme, held, "placed", "binding", "active")
    better.settle()
    things = {"pools": pool, "nodes": node, "projects": project, "flavors": flavor, "reservations": held}
    paths = [page.path for page in table.PAGES if "{" not in page.path]
    paths += [f"/{noun}/{id}" for noun, id in things.items()] + [f"/nodes/{node}/commands", f"/calendar?poolId={pool}"]
    browsers = [signed(better, who) for who in (better.operator, better.acme_user)]
    decider, codes = better.wired.authorizer, set()
    assert isinstance(decider, BetterIam)
    for browser in browsers:
        for path in paths:
            together = told(browser.get(path))
            decider.needs_committed_draft = False  # asked as one in memory is
            assert told(browser.get(path)) == together, path
            decider.needs_committed_draft = True
            codes.add(together[0])
    assert codes == {200, 403, 404}


def test_a_token_that_proves_itself_and_is_revoked_leads_to_the_form_and_not_in_a_circle(
    database: str, tmp_path: Path
) -> None:
    with plane(database, tmp_path, jwt_audience="better-compute") as better:
        token = Issuer(better.server).token(sub="alice", tid="acme", sid="ses_jwt", jti="ses_jwt")
        better.iam.sessions[token] = Session("ses_jwt", "alice", "acme", "role", roles=["tenant-admin"])
        browser = signed(better, better.client(token))
        assert "New project" in browser.page("/projects")
        del better.iam.sessions[token]
        place = browser.get("/projects").headers["location"]
        assert "expired or revoked" in browser.page(place)
