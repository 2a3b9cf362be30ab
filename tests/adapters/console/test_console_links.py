"""Whatever a page links to is there for whoever looks, and of the past it is the past: a crawl by everybody."""

import html
import re
from collections import deque

import pytest
from signed import Browser, signed

from adapters.console import frame, table
from given import Client, Plane

WHO = ("operator", "auditor", "acme", "acme_user", "globex")
MOST_OF_A_KIND = 2
TO_NOW = re.compile(r"<a\b[^>]*>(?:Back to now|Look at it now)</a>")
SLIDER = '<form class="time'
LIST = re.compile(r'<form\b(?! class="time)[^>]* method="get".*?</form>', re.DOTALL)
"""A form that narrows what its page shows."""


def world(plane: Plane) -> int:
    """Two tenants on one pool, hardware of a tenant's own, refusals of things that are another's or never were."""
    pool_id, (node_id, *_) = plane.fleet(nodes=2, gpus=4, quota=100)
    mine = plane.acme.reserve(pool_id).json()["id"]
    plane.activate(plane.acme, mine)
    plane.offer(pool_id, "globex")
    theirs = plane.globex.reserve(pool_id).json()["id"]
    users = plane.acme_user.reserve(pool_id).json()["id"]
    own(plane)
    for client in (plane.acme, plane.globex, plane.acme_user, plane.operator):
        for path in (f"/v1/reservations/{mine}", f"/v1/reservations/{theirs}", f"/v1/nodes/{node_id}"):
            client.get(path)
        client.get("/v1/nodes/node_01jzz0000000000000000000ab")
        client.get("/v1/pools/no%20such%20pool")
    plane.root.ok("POST", f"/v1/pools/{pool_id}/evict", {"reservationId": users, "reason": "it is ours"})
    plane.root.ok("POST", f"/v1/nodes/{node_id}/cordon", {"reason": "fan"})
    return plane.settle()


def own(plane: Plane) -> None:
    """Hardware of acme's, in a pool that is offered to globex, who has something there."""
    site_id = plane.site("cellar", by=plane.acme, kind="custom")
    pool_id = plane.pool(site_id, "own", by=plane.acme)
    plane.node(site_id, pool_id, "metal", gpus=4, by=plane.acme, trust="tenant-owned")
    plane.offer(pool_id, "globex", by=plane.acme)
    assert plane.globex.reserve(pool_id).status_code == 201
    assert plane.acme.reserve(pool_id, projectId=plane.project()).status_code == 201
    vps_id = plane.pool(site_id, "vps", by=plane.acme, **{"class": "vps-host"})
    plane.node(site_id, vps_id, "host", by=plane.acme, trust="tenant-owned")
    plane.instance(vps_id, by=plane.acme, imageId=plane.image(plane.acme), flavorId=plane.flavor(by=plane.acme))


class Crawl:
    """Pages by where they were linked from; of addresses that differ by ids and parameters only, a few.

    Stories lead to earlier pasts, where things name what had not begun; `not_yet` are those addresses.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._kinds: dict[str, int] = {}
        self._seen: set[str] = set()
        self._ahead: deque[tuple[str, str]] = deque()
        self.refused: list[tuple[str, str, int]] = []
        self.not_yet: list[str] = []
        self.left_past: set[tuple[str, str]] = set()

    def from_(self, *paths: str) -> "Crawl":
        for path in paths:
            self._add(path, "")
        while self._ahead:
            path, linked_from = self._ahead.popleft()
            answer = self._browser.get(path)
            if answer.status_code == 404 and "asOf=" in path:
                self.not_yet.append(path)
            elif answer.status_code != 200:
                self.refused.append((path, linked_from, answer.status_code))
            elif answer.headers["content-type"].startswith("text/html"):
                self._look(path, linked_from, answer.text)
        return self

    def _look(self, path: str, linked_from: str, page: str) -> None:
        if "asOf=" in linked_from and "asOf=" not in path and SLIDER in page:
            self.left_past.add((path, linked_from))
        if "asOf=" in path:
            self.left_past |= {(form[:80], path) for form in LIST.findall(page) if 'name="asOf"' not in form}
        for found in re.findall(r'\shref="(/[^"]*)"', TO_NOW.sub("", page)):
            self._add(html.unescape(found), path)

    def _add(self, path: str, linked_from: str) -> None:
        kind = " ".join(re.sub(r"=[^&]*|_[0-9a-z]{20,}.*", "", one) for one in (path, linked_from))
        if path in self._seen or path.startswith(("/static/", "/schema")):
            return
        self._seen.add(path)
        self._kinds[kind] = self._kinds.get(kind, 0) + 1
        if self._kinds[kind] <= MOST_OF_A_KIND:
            self._ahead.append((path, linked_from))

    @property
    def pages(self) -> int:
        return len(self._seen)


def test_every_link_leads_somewhere_and_following_it_is_no_refusal(plane: Plane) -> None:
    position = world(plane)
    before = len(plane.refusals())
    refused = {}
    for who in WHO:
        client: Client = getattr(plane, who)
        crawl = Crawl(signed(plane, client)).from_(f"/?waitFor={position}")
        assert crawl.pages > 15
        refused[who] = crawl.refused
    assert refused == {who: [] for who in WHO}
    assert len(plane.refusals()) == before


@pytest.mark.parametrize("who", ["auditor", "acme"])
def test_what_shows_the_past_leads_to_the_past(plane: Plane, who: str) -> None:
    """Until it is told to go back to now; a page that has no past is shown as it is."""
    position = world(plane)
    began = [f"{page.path}?asOf=@{position}" for page in table.PAGES if page.past and page.nav and "{" not in page.path]
    allowed = [path for path in began if signed(plane, getattr(plane, who)).get(path).status_code == 200]
    crawl = Crawl(signed(plane, getattr(plane, who))).from_(*allowed)
    assert crawl.pages > 30
    assert crawl.left_past == set()
    assert crawl.refused == []
    assert [path for path in crawl.not_yet if path.endswith(f"asOf=%40{position}")] == []


@pytest.mark.parametrize(
    ("path", "above"),
    [
        ("/", None),
        ("/nodes", None),
        ("/nodes/{id}", "/nodes"),
        ("/nodes/{id}/history", "/nodes"),
        ("/sites", "/nodes"),
        ("/sites/{id}", "/sites"),
        ("/flavors", "/instances"),
        ("/flavors/{id}", "/flavors"),
        ("/instances/new", "/instances"),
        ("/fleet/nodes", "/"),
        ("/audit/streams/{id}", "/audit"),
        ("/quotas/tenant/{id}", "/quotas"),
        ("/offerings/{id}", "/pools"),
    ],
)
def test_a_page_leads_up_to_the_one_that_it_is_below(path: str, above: str | None) -> None:
    (page,) = (one for one in table.PAGES if one.path == path)
    up = frame.above(page)
    assert (up.path if up else None) == above


def test_every_page_is_somewhere_in_the_navigation() -> None:
    led_to = {page.nav for page in table.PAGES if page.needs}
    assert {page.nav for page in table.PAGES} == led_to
