"""Who is at a page: the cookie's token, asked about anew at every request."""

import hmac
import time
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from litestar.types import Receive, Scope
from msgspec import Struct
from msgspec.structs import replace

from adapters.http import body, routes
from domain import errors
from domain.access import Session

from . import cookie

LONGEST_FORM: Final = 1 << 16
HOME: Final = "/"


class Visit(Struct, frozen=True):
    """One request. `part` is whether htmx asks, who takes a part of a page; `secure` whether it came by HTTPS."""

    headers: Mapping[bytes, str]
    address: str
    secure: bool
    part: bool
    ticket: cookie.Ticket | None = None
    session: Session | None = None


async def arrive(wiring: routes.Wiring, visit: Visit, scope: Scope, *, read: bool) -> Visit:
    """Counts the request against whoever makes it; raises TooManyRequests."""
    if visit.ticket is None:
        wiring.limiter.admit_stranger(visit.address)
        return visit
    session = await whose(wiring, visit.ticket.token, visit.address, read=read)
    if session is None:
        return visit
    wiring.limiter.admit(session.tenant_id, session.identity_id, read=read)
    scope["better_compute.caller"] = f"{session.tenant_id}/{session.identity_id}"  # type: ignore[typeddict-unknown-key]
    return replace(visit, session=session)


def bearing(cookies: cookie.Cookies, scope: Scope) -> Visit:
    """A request with the ticket that its cookie holds, before anybody is asked whose it is."""
    visit = stranger(scope)
    value = cookie.value_of(visit.headers.get(b"cookie", ""), visit.secure)
    return visit if value is None else replace(visit, ticket=cookies.open(value, int(time.time())))


def stranger(scope: Scope) -> Visit:
    """A request before anybody looked at its cookie."""
    client = scope.get("client")
    return Visit(routes.headers_of(scope), client[0] if client else "", scope.get("scheme") == "https", is_part(scope))


def is_part(scope: Scope) -> bool:
    """Whether htmx asks, also of a request whose headers are refused."""
    return any(name == b"hx-request" for name, _ in scope["headers"])


async def whose(wiring: routes.Wiring, token: str, address: str, *, read: bool) -> Session | None:
    """Whose token it is; who shows one that nobody knows counts as a stranger."""
    identify = wiring.identify_reads if read else wiring.identify
    session, counted = await routes.identified(wiring, token, identify, address)
    if session is None and not counted:
        wiring.limiter.admit_stranger(address)
    return session


async def form(receive: Receive, visit: Visit) -> list[tuple[str, str]]:
    """The form's fields, if a page of this server sent it. Raises AccessDenied of one from elsewhere."""
    raw = await body.read_form(receive, dict(visit.headers), LONGEST_FORM)
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=300)
    except ValueError:
        raise errors.Malformed("the form is not percent-encoded UTF-8, or has more than 300 fields") from None
    _check_origin(visit)
    if visit.ticket is not None:
        given = dict(pairs).get("_form", "")
        if not hmac.compare_digest(given.encode(), visit.ticket.form.encode()):
            raise errors.AccessDenied("this form is of another session; load the page again, then send it again")
    return pairs


def _check_origin(visit: Visit) -> None:
    """Browsers say where a form comes from; one that does not is stopped by the form's own token and the cookie."""
    site, origin = visit.headers.get(b"sec-fetch-site"), visit.headers.get(b"origin")
    elsewhere = origin is not None and _host(origin) != visit.headers.get(b"host")
    if site not in (None, "same-origin") or elsewhere:
        raise errors.AccessDenied("this form was sent by a page of another site")


def _host(origin: str) -> str | None:
    """None of what is no address, such as `http://[x`."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def came_from(visit: Visit) -> str:
    """The page of this server that a form was sent from, the front page where the browser does not say."""
    said = visit.headers.get(b"referer", "")
    if not said or _host(said) != visit.headers.get(b"host"):
        return HOME
    place = urlsplit(said)
    return within(place.path + (f"?{place.query}" if place.query else ""))


def within(path: str | None) -> str:
    """A place on this server, whatever a form or an address says; the front page where it is none."""
    if not path or not path.startswith("/") or path.startswith(("//", "/\\")) or not path.isprintable():
        return HOME
    return path if path.isascii() and len(path) < 2000 else HOME
