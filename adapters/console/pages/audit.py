"""Audit: who did what, one thing's story, and how the log proves itself."""

from typing import Any, Final

from adapters.console import forms, render
from adapters.console.ask import Ask
from adapters.console.page import Page

FILTERS: Final = (
    ("resource", "Thing", "an id, or type/id"),
    ("identityId", "Who", "an identity, agent:node_… or controller:…"),
    ("action", "Action", "compute:reservations:*"),
    ("type", "Event", "reservation.*"),
    ("reason", "Reason", "NotResolved"),
    ("admissionId", "Decision", "adm_…"),
    ("requestId", "Request", ""),
)
A_PAGE: Final = 50


def search(ask: Ask) -> dict[str, Any]:
    scope = ask.widest("audit.events")
    asked: dict[str, Any] = {name: ask.query.get(name, "").strip() for name, _, _ in FILTERS}
    asked |= {"outcome": ask.query.get("outcome", ""), "order": ask.query.get("order", "desc")}
    asked |= {name: _instant(ask, name) for name in ("from", "until")}
    asked |= {"cursor": ask.query.get("cursor", ""), "limit": A_PAGE}
    found = ask("audit.events", scope=scope, **asked)
    return {
        "filters": FILTERS,
        "events": found["items"],
        "cursor": found.get("nextCursor"),
        "filtered": any(asked[name] for name in asked if name not in ("order", "cursor", "limit")),
        "scope": scope,
    }


def _instant(ask: Ask, name: str) -> int | None:
    text = ask.query.get(name, "")
    return forms.instant(text, name) if text else None


def story(ask: Ask) -> dict[str, Any]:
    id_, scope = ask.path["id"], ask.widest("audit.stream")
    order = ask.query.get("order", "desc")
    told = ask("audit.stream", id=id_, scope=scope, order=order, cursor=ask.query.get("cursor"), limit=A_PAGE)
    state = ask.if_may("audit.state", id=id_, scope=scope)
    return {
        "story": told,
        "state": state,
        "cursor": told.get("nextCursor"),
        "order": order,
        "id": id_,
        "paged": id_.partition("_")[0] in render.PAGES,
        "search": ask.may("audit.events", scope=ask.widest("audit.events")),
    }


def proof(ask: Ask) -> dict[str, Any]:
    """What the log's newest checkpoint says, and how a stretch of the chain stands against it."""
    scope = ask.widest("audit.verify")
    begins = {"fleet": "fromSize", "tenant": "fromSequence"}[scope]
    first = ask.query.get("first", "")
    return {
        "live": "",
        "checkpoint": ask("audit.checkpoint"),
        "verified": ask("audit.verify", scope=scope, limit=10_000, **{begins: first}),
        "scope": scope,
    }


PAGES: Final = (
    Page(
        path="/audit",
        name="console.audit",
        template="audit.html",
        build=search,
        title="Audit",
        nav="Audit",
        needs="audit.events",
    ),
    Page(
        path="/audit/proof",
        name="console.audit.proof",
        template="proof.html",
        build=proof,
        title="Proof of the log",
        nav="Audit",
        past=False,
    ),
    Page(
        path="/audit/streams/{id}",
        name="console.audit.story",
        template="story.html",
        build=story,
        title="Story",
        nav="Audit",
    ),
)
