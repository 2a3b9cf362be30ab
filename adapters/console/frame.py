"""What every page shows around its own: who looks, where they can go, and whether it is the past."""

import time
from functools import cache
from typing import Any, Final
from urllib.parse import urlencode

from . import past, static_files, table
from .ask import Ask
from .page import Page
from .visit import Visit

NAVIGATION_S: Final = 60.0
MOST_CALLERS: Final = 1000


class Navigation:
    """Which pages a caller is offered; kept for a minute, since pages decide for themselves when they are asked.

    And when the log that the caller may see began, which never changes.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, tuple[Page, ...]]] = {}
        self._began: dict[tuple[str, str], int] = {}

    def began(self, ask: Ask) -> int | None:
        scope = ask.widest("audit.events")
        key = ask.session.tenant_id, scope
        if key not in self._began and ask.as_of is None:
            first = ask.if_may("audit.events", scope=scope, limit=1)
            if first is None or not first["items"]:
                return None
            if ask.look.guessing:
                return None
            self._began[key] = first["items"][0]["timestamp"]
        return self._began.get(key)

    def of(self, ask: Ask) -> tuple[Page, ...]:
        session, now = ask.session, time.monotonic()
        key = f"{session.tenant_id}/{session.identity_id}/{session.session_id}"
        until, pages = self._known.get(key, (0.0, ()))
        if until < now:
            pages = tuple(page for page in table.PAGES if page.nav and page.needs and ask.may(page.needs))
            if ask.look.guessing:
                return pages
            if len(self._known) >= MOST_CALLERS:
                self._known.clear()
            self._known[key] = now + NAVIGATION_S, pages
        return pages


def bare(visit: Visit, here: str, title: str = "") -> dict[str, Any]:
    """Around a page of nobody who is signed in."""
    return {
        "asset": static_files.address,
        "title": title,
        "here": here,
        "me": None,
        "nav": (),
        "page": None,
        "up": None,
        "as_of": None,
        "to": past.carried(None),
        "began": None,
        "live": "",
        "position": 0,
        "present": int(time.time() * 1000),
        "form": visit.ticket.form if visit.ticket else "",
        "plain": not visit.secure and visit.address not in ("127.0.0.1", "::1", ""),
    }


def around(page: Page, ask: Ask, visit: Visit, here: str, navigation: Navigation) -> dict[str, Any]:
    """`here` is the page's path; `as_of` the past that it shows, as the API spells it, with an instant where known."""
    session, nav, up = ask.session, navigation.of(ask), above(page)
    return {
        **bare(visit, here, page.title),
        "me": {
            "tenant": session.tenant_id,
            "identity": session.identity_id,
            "agent": session.agent_id,
            "platform": session.root_tenant,
        },
        "nav": nav,
        "up": up if up is None or not up.needs or up in nav else None,
        "page": page,
        "query": dict(ask.query),
        "as_of": past.told(ask.as_of),
        "to": past.carried(ask.as_of),
        "began": navigation.began(ask) if page.past else None,
        "live": "" if ask.as_of is not None else " ".join(page.live) or "*",
        "position": ask.position,
        "address": address,
    }


@cache
def above(page: Page) -> Page | None:
    """The page that this one is below, by its address, or else the one that the navigation has for it."""
    if not page.nav or page.needs:
        return None
    listed = [one for one in table.PAGES if one.nav == page.nav and "{" not in one.path and one.path != page.path]
    holds = [one for one in listed if page.path.startswith(f"{one.path}/")]
    return max(holds, key=lambda one: len(one.path), default=next((one for one in listed if one.needs), None))


def address(here: str, query: dict[str, str], **changed: str | None) -> str:
    """The page's own address with other parameters; None takes one out."""
    kept = {name: value for name, value in (query | changed).items() if value}
    kept.pop("waitFor", None)
    return f"{here}?{urlencode(kept)}" if kept else here
