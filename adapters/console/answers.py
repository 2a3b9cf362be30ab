"""Answers of the console: pages, parts of pages for htmx, and the way to somewhere else."""

import gzip
from collections.abc import Mapping
from typing import Any, Final

from adapters.http import problems, respond
from adapters.telemetry import REQUEST_ID
from domain import errors

from . import render

CSP: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HTML: Final = [  # with no referrer at all, browsers say of a form that it comes from nowhere
    (b"content-type", b"text/html; charset=utf-8"),
    (b"content-security-policy", CSP),
    (b"referrer-policy", b"same-origin"),
    (b"vary", b"cookie, hx-request"),
]
Headers = list[tuple[bytes, bytes]]

status_of = problems.status_of


def page(template: str, shown: Mapping[str, Any], status: int = 200, headers: Headers | None = None) -> respond.Reply:
    return respond.Reply(status, render.html(template, shown), [*HTML, *(headers or [])])


def linked(template: str, shown: Mapping[str, Any], find: render.Find) -> respond.Reply:
    """A page that links to things, as far as `find` says that they are there for whoever looks."""
    return respond.Reply(200, render.html(template, shown, find), HTML)


def file(media_type: str, content: bytes, filename: str | None, packed: bool) -> respond.Reply:
    """Packed where the browser takes it: a fleet's map is long, and holds nothing that a form must bear."""
    headers = [(b"content-type", media_type.encode()), (b"vary", b"accept-encoding, cookie")]
    if filename:
        headers.append((b"content-disposition", f'attachment; filename="{filename}"'.encode()))
    if packed:
        return respond.Reply(200, gzip.compress(content, 3, mtime=0), [*headers, (b"content-encoding", b"gzip")])
    return respond.Reply(200, content, headers)


def see(path: str, *, part: bool, headers: Headers | None = None) -> respond.Reply:
    """Go there: as a redirect after a form, and for htmx as the header that it follows."""
    if part:
        return respond.Reply(200, b"", [*HTML, (b"hx-redirect", path.encode()), *(headers or [])])
    return respond.Reply(303, b"", [(b"location", path.encode()), *(headers or [])])


def refusal(
    found: errors.Refusal, shown: Mapping[str, Any], *, part: bool, back: str | None = None, again: bool = True
) -> respond.Reply:
    """What went wrong and what to do, as a page or as a part of one.

    `back` is where the form stands that was sent, `again` whether its address may be loaded once more.
    """
    status = status_of(found)
    said = {
        "status": status,
        "code": found.code,
        "detail": found.detail,
        "errors": found.errors,
        "request_id": REQUEST_ID.get() or "",
        "advice": _ADVICE.get(found.code, ""),
        "back": back,
        "again": again and status in _PASSING,
    }
    if isinstance(found, problems.NoSuchRoute):
        said |= {"detail": f"there is no page at {found.path!r}", "advice": _NO_PAGE}
    template = "part/problem.html" if part else "problem.html"
    titled = {**shown, "title": _HEADINGS.get(status, "This did not work"), "problem": said}
    return page(template, titled, status, [*kept(found), (b"vary", b"accept")])


def kept(found: errors.Refusal) -> Headers:
    """What a refusal says in headers, such as when to come back."""
    return [(name, value) for name, value in problems.headers(found) if name != b"content-type"]


_HEADINGS: Final = {403: "Not allowed", 404: "Not found", 405: "Not possible here", 503: "Not just now"}
_PASSING: Final = frozenset((429, 500, 503))
_NO_PAGE: Final = "The address may be mistyped, or of another release. The pages that there are begin at Fleet."
_ADVICE: Final = {
    "NOT_FOUND": "It may be another tenant's, or gone. If it was there before, look at the page as of then.",
    "METHOD_NOT_ALLOWED": "Nothing was changed. What may be changed is offered on the pages of the things themselves.",
    "ACCESS_DENIED": "Ask whoever administers your tenant for this action.",
    "STALE_VERSION": "Somebody else changed it meanwhile. Look at it again, then decide again.",
    "PROJECTION_BEHIND": "The lists are catching up with the log. Load the page again in a moment.",
    "UNAVAILABLE": "If it lasts, tell whoever runs the platform: the log says more.",
    "RATE_LIMITED": "Wait a moment, then load the page again.",
    "HISTORY_PRUNED": "Lists keep their past for a limited time. A thing's story, under Audit, begins at its start.",
    "INTERNAL": "Load the page again. If that does not help, its log tells the cause by this request's id.",
}
