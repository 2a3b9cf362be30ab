"""The console's routes: a route for each page of the table, one door for all that changes something, signing in."""

import logging
import re
import secrets
import time
from typing import Any, Final
from urllib.parse import parse_qsl, quote

import msgspec
from litestar import Request, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, Scope

from adapters.http import decode, respond, routes, sse
from adapters.http.app import People
from adapters.telemetry import REQUEST_ID
from domain import errors
from domain.operation import Call, Operation

from . import answers, cookie, forms, frame, live, static_files, table, visit, ways
from .ask import Ask, Desk
from .page import File, Page
from .visit import Visit

_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
_PROBLEM: Final = Page(path="", name="console.problem", template="problem.html", build=lambda ask: {}, past=False)
_log: Final = logging.getLogger("better_compute.http")
SIGN_IN: Final = "/sign-in"
NOBODY: Final = Visit({}, "", False, False)
_ENDED: Final = {
    "page": "The token that you signed in with is expired or revoked. Sign in with a new one.",
    "form": "The token that you signed in with is expired or revoked, so what you sent was not done. Sign in anew.",
}
Asked = Request[Any, Any, Any]


def people(desk: Desk, cookies: cookie.Cookies, wiring: routes.Wiring) -> People:
    console = Console(desk, cookies, wiring)
    every: list[Page | File] = [*table.PAGES, *table.PARTS, *table.FILES]
    pages = [*map(console.page, every), *console.signing(), console.doing(), console.living()]
    return People([*pages, static_files.show], console.unanswered)


class Console:
    def __init__(self, desk: Desk, cookies: cookie.Cookies, wiring: routes.Wiring) -> None:
        self._desk = desk
        self._cookies = cookies
        self._wiring = wiring
        self._navigation = frame.Navigation()

    def page(self, of: Page | File) -> HTTPRouteHandler:
        @get(_PLACEHOLDER.sub(r"{\1:str}", of.path), name=of.name)
        async def show(request: Asked) -> ASGIApp:
            at, here = NOBODY, request.scope["path"]
            address = _address(here, request.scope["query_string"])
            try:
                at = visit.bearing(self._cookies, request.scope)
                seen = await visit.arrive(self._wiring, at, request.scope, read=True)
                if seen.session is None:
                    return _to_sign_in(at, address)
                return await self._wiring.workers.run(lambda: self._shown(of, seen, request, here))
            except errors.Unauthenticated:
                return _to_sign_in(at, address)
            except errors.Refusal as refusal:
                part = isinstance(of, File) or visit.is_part(request.scope)
                return answers.refusal(refusal, frame.bare(at, here), part=part)

        return show

    def _shown(self, of: Page | File, at: Visit, request: Asked, here: str) -> respond.Reply:
        query = _query(request.scope["query_string"])
        try:
            ask = self._ask(at, query, request.scope["path_params"])
        except errors.Refusal as refusal:
            return answers.refusal(refusal, self._around_no_page(at, here), part=at.part or isinstance(of, File))
        try:
            if isinstance(of, File):
                packed = "gzip" in at.headers.get(b"accept-encoding", "")
                return answers.file(of.media_type, ask.look.run(lambda: of.build(ask)), of.filename, packed)
            shown = ask.look.run(lambda: self._built(of, ask, at, here))
            return answers.linked(of.template, shown, lambda *ids: ask.look.run(lambda: ways.of(ask, *ids)))
        except errors.Unauthenticated:
            raise
        except errors.Refusal as refusal:
            page = of if isinstance(of, Page) else table.PAGES[0]
            return answers.refusal(refusal, self._around(page, ask, at, here), part=at.part or isinstance(of, File))

    def _built(self, of: Page, ask: Ask, at: Visit, here: str) -> dict[str, Any]:
        around = frame.around(of, ask, at, here, self._navigation)
        shown = of.build(ask)
        return {**around, "position": ask.position, **shown}

    def _around(self, of: Page, ask: Ask, at: Visit, here: str) -> dict[str, Any]:
        """Around a refusal; bare where nobody tells what else there is to see."""
        try:
            return ask.look.run(lambda: frame.around(of, ask, at, here, self._navigation))
        except errors.Refusal:
            return frame.bare(at, here)

    def _around_no_page(self, at: Visit, here: str) -> dict[str, Any]:
        """Around a refusal of what could not be asked: no page that has a past, or that changes."""
        return self._around(_PROBLEM, self._ask(at, {}, {}), at, here) | {"live": ""}

    def doing(self) -> HTTPRouteHandler:
        """Every operation that changes something, by a form whose fields are the operation's own."""

        @post("/do/{name:str}", name="console.do", status_code=200)
        async def do(request: Asked) -> ASGIApp:
            at, back = NOBODY, visit.HOME
            try:
                at = visit.bearing(self._cookies, request.scope)
                back = visit.came_from(at)
                at = await visit.arrive(self._wiring, at, request.scope, read=False)
                if at.session is None:
                    return _to_sign_in(at, back, ended="form")
                pairs = await visit.form(request.receive, at)
                own = {name: value for name, value in pairs if name.startswith("_")}
                back = visit.within(own.get("_back") or back)
                made = self._form(request.scope["path_params"]["name"], pairs)
                return await self._wiring.workers.run(lambda: self._done(*made, at, own))
            except errors.Refusal as refusal:
                return answers.refusal(refusal, frame.bare(at, back), part=visit.is_part(request.scope), back=back)

        return do

    def _form(self, name: str, pairs: list[tuple[str, str]]) -> tuple[Operation, Any]:
        operation = self._desk.operations.get(name)
        if operation is None or operation.is_query or operation.content or operation.credential != "session":
            raise errors.NotFound("operation", name[:80], "name")
        return operation, decode.request_of_text(self._desk.shapes[name], forms.document(pairs))

    def _done(self, operation: Operation, request: Any, at: Visit, own: dict[str, str]) -> respond.Reply:
        call = Call(
            session=at.session,
            request_id=REQUEST_ID.get() or "",
            idempotency_key=own.get("_key") or (secrets.token_hex(16) if operation.key == "required" else None),
            if_match=_version(own.get("_version", "")),
        )
        answer = self._desk.dispatch(operation, request, call)
        body = msgspec.json.decode(msgspec.json.encode(answer.body)) if answer.status != 204 else {}
        position = answer.position or 0
        if then := own.get("_then"):
            place = visit.within(then.replace("{id}", quote(str(body.get("id", "")), safe="")))
            return answers.see(_waiting(place, position), part=at.part)
        shown = {"operation": operation, "position": position, "body": body}
        if not at.part and "token" in body:  # shown once, and a redirect would lose it
            return answers.page("done.html", {**frame.bare(at, visit.within(own.get("_back")), "Done"), **shown})
        if not at.part:
            return answers.see(_waiting(visit.within(own.get("_back")), position), part=False)
        changed = msgspec.json.encode({"changed": {"position": position}})
        return answers.page("part/done.html", shown, headers=[(b"hx-trigger", changed)])

    async def unanswered(self, scope: Scope, refusal: errors.Refusal) -> ASGIApp:
        """What no page answered. Of a frame that cannot be made either, what a stranger gets is left."""
        around = frame.bare(NOBODY, visit.HOME)
        try:
            at = await visit.arrive(self._wiring, visit.bearing(self._cookies, scope), scope, read=True)
            if at.session is not None:
                around = await self._wiring.workers.run(lambda: self._around_no_page(at, visit.HOME))
        except Exception:
            _log.warning("the page of a refusal has no frame", exc_info=True)
        part, again = visit.is_part(scope), scope.get("method") == "GET"
        return answers.refusal(refusal, around, part=part, again=again)

    def living(self) -> HTTPRouteHandler:
        operation = self._desk.operations["events.stream"]

        @get("/live", name="console.live")
        async def listen(request: Asked) -> ASGIApp:
            try:
                at = visit.bearing(self._cookies, request.scope)
                at = await visit.arrive(self._wiring, at, request.scope, read=True)
                if at.session is None:
                    raise errors.Unauthenticated("sign in again")
                session, ask = at.session, self._ask(at, {}, {})
                after = routes.resumed(dict(at.headers), _number(_query(request.scope["query_string"]).get("after")))
                call = Call(session=session, request_id=REQUEST_ID.get() or "")

                def feed() -> Any:
                    found = {"scope": ask.look.run(lambda: ask.widest(operation.name)), "after": after}
                    asked = decode.request_of_text(self._desk.shapes[operation.name], found)
                    return self._desk.dispatch(operation, asked, call).body

                heard = await self._wiring.workers.run(feed)
                return sse.Streaming(heard, self._wiring.workers, session.tenant_id, live.spell, live.PING, live.SLOTS)
            except errors.Refusal as refusal:
                return respond.refuse(refusal, REQUEST_ID.get() or "")

        return listen

    def signing(self) -> list[HTTPRouteHandler]:
        @get(SIGN_IN, name="console.sign-in")
        async def show(request: Asked) -> ASGIApp:
            at, query = NOBODY, _query(request.scope["query_string"])
            then = visit.within(query.get("then"))
            try:
                at = visit.bearing(self._cookies, request.scope)
                at = await visit.arrive(self._wiring, at, request.scope, read=True)
            except errors.Refusal as refusal:
                return answers.refusal(refusal, frame.bare(at, SIGN_IN), part=False)
            ended = _ENDED.get(query.get("ended", ""), "")
            if at.session is not None and not ended:
                return answers.see(then, part=at.part)
            said = {"then": then, "wrong": "", "ended": ended}
            return answers.page("sign-in.html", {**frame.bare(at, SIGN_IN, "Sign in"), **said})

        @post(SIGN_IN, name="console.signing-in", status_code=200)
        async def sign_in(request: Asked) -> ASGIApp:
            at, then = NOBODY, visit.HOME
            try:
                at = visit.stranger(request.scope)
                fields = dict(await visit.form(request.receive, at))
                then = visit.within(fields.get("then"))
                return await self._signed_in(at, fields.get("token", "").strip(), then)
            except errors.Refusal as refusal:
                said = {"then": then, "wrong": refusal.detail, "ended": ""}
                shown = {**frame.bare(at, SIGN_IN, "Sign in"), **said}
                return answers.page("sign-in.html", shown, answers.status_of(refusal), answers.kept(refusal))

        @post("/sign-out", name="console.sign-out", status_code=200)
        async def sign_out(request: Asked) -> ASGIApp:
            """Nobody is asked whose the cookie was: it goes, whoever decides and whatever the token still opens."""
            try:
                at = visit.bearing(self._cookies, request.scope)
                if at.ticket is None:
                    self._wiring.limiter.admit_stranger(at.address)
                await visit.form(request.receive, at)
                gone = cookie.header("", at.secure, seconds=0)
                return answers.see(SIGN_IN, part=at.part, headers=[(b"set-cookie", gone)])
            except errors.Refusal as refusal:
                return answers.refusal(refusal, frame.bare(NOBODY, SIGN_IN), part=False)

        return [show, sign_in, sign_out]

    async def _signed_in(self, at: Visit, token: str, then: str) -> respond.Reply:
        if not routes.is_token(token):
            raise errors.Unauthenticated("paste a token, such as biam_key_…: the one that the command line uses")
        if await visit.whose(self._wiring, token, at.address, read=False) is None:
            raise errors.Unauthenticated("this token is unknown, expired or revoked; get a new one")
        sealed = self._cookies.seal(token, int(time.time()))
        if len(sealed) > cookie.LARGEST:
            raise errors.Unauthenticated("this token is too long for a cookie; use one of fewer claims")
        return answers.see(then, part=at.part, headers=[(b"set-cookie", cookie.header(sealed, at.secure))])

    def _ask(self, at: Visit, query: dict[str, str], path: dict[str, str]) -> Ask:
        assert at.session is not None
        return Ask(self._desk, at.session, REQUEST_ID.get() or "", query, path)


def _to_sign_in(at: Visit, address: str, ended: str = "page") -> respond.Reply:
    """And from there back; whoever has a cookie is told that its token is none any more."""
    why = f"&ended={ended}" if at.ticket is not None else ""
    return answers.see(f"{SIGN_IN}?then={quote(address, safe='')}{why}", part=at.part)


def _address(here: str, query: bytes) -> str:
    return here + (f"?{query.decode('ascii', 'replace')}" if query else "")


def _query(raw: bytes) -> dict[str, str]:
    """Lenient, as addresses that people write are; of a name that came twice the last counts."""
    try:
        return dict(parse_qsl(raw.decode("ascii", "replace"), max_num_fields=300))
    except ValueError:
        return {}


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and len(text) < 16 else None


def _version(text: str) -> int | None:
    """Raises Malformed: a form whose version means nothing must not be taken for one that names none."""
    if not text:
        return None
    version = _number(text)
    if version is None:
        raise errors.Malformed("the form's _version is no version; load the page again")
    return version


def _waiting(path: str, position: int) -> str:
    """Lists there show what was done here."""
    if not position:
        return path
    return f"{path}{'&' if '?' in path else '?'}waitFor={position}"
