"""The console's routes: a route for each page of the table, one door for all that changes something, signing in."""

import re
import secrets
import time
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, quote

import msgspec
from litestar import Request, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from adapters.http import decode, respond, routes, sse
from adapters.telemetry import REQUEST_ID
from domain import errors
from domain.operation import Call, Operation

from . import answers, cookie, forms, frame, live, static_files, table, visit
from .ask import Ask, Desk
from .page import File, Page
from .visit import Visit

_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
SIGN_IN: Final = "/sign-in"
Asked = Request[Any, Any, Any]


def handlers(desk: Desk, cookies: cookie.Cookies, wiring: routes.Wiring) -> Sequence[HTTPRouteHandler]:
    console = Console(desk, cookies, wiring)
    every: list[Page | File] = [*table.PAGES, *table.PARTS, *table.FILES]
    return [*map(console.page, every), *console.signing(), console.doing(), console.living(), *static_files.handlers()]


class Console:
    def __init__(self, desk: Desk, cookies: cookie.Cookies, wiring: routes.Wiring) -> None:
        self._desk = desk
        self._cookies = cookies
        self._wiring = wiring
        self._navigation = frame.Navigation()

    def page(self, of: Page | File) -> HTTPRouteHandler:
        @get(_PLACEHOLDER.sub(r"{\1:str}", of.path), name=of.name)
        async def show(request: Asked) -> ASGIApp:
            here = request.scope["path"]
            try:
                at = await self._arrive(request, read=True)
                if at.session is None:
                    return _to_sign_in(at, here, request.scope["query_string"])
                return await self._wiring.workers.run(lambda: self._shown(of, at, request, here))
            except errors.Refusal as refusal:
                return answers.refusal(
                    refusal, _nobody(here), part=visit.is_part(request.scope) or isinstance(of, File)
                )

        return show

    def _shown(self, of: Page | File, at: Visit, request: Asked, here: str) -> respond.Reply:
        query = _query(request.scope["query_string"])
        try:
            ask = self._ask(at, query, request.scope["path_params"])
        except errors.Refusal as refusal:
            return answers.refusal(refusal, {**frame.bare(at, here, "Problem"), "form": ""}, part=at.part)
        try:
            if isinstance(of, File):
                packed = "gzip" in at.headers.get(b"accept-encoding", "")
                return answers.file(of.media_type, of.build(ask), of.filename, packed)
            shown = of.build(ask)
            return answers.page(of.template, {**frame.around(of, ask, at, here, self._navigation), **shown})
        except errors.Refusal as refusal:
            page = of if isinstance(of, Page) else table.PAGES[0]
            around = frame.around(page, ask, at, here, self._navigation)
            return answers.refusal(refusal, around, part=at.part or isinstance(of, File))

    def doing(self) -> HTTPRouteHandler:
        """Every operation that changes something, by a form whose fields are the operation's own."""

        @post("/do/{name:str}", name="console.do", status_code=200)
        async def do(request: Asked) -> ASGIApp:
            at, back = None, visit.HOME
            try:
                at = await self._arrive(request, read=False)
                if at.session is None:
                    return _to_sign_in(at, visit.HOME, b"")
                pairs = await visit.form(request.receive, at)
                own = {name: value for name, value in pairs if name.startswith("_")}
                back = visit.within(own.get("_back"))
                made = self._form(request.scope["path_params"]["name"], pairs)
                return await self._wiring.workers.run(lambda: self._done(*made, at, own))
            except errors.Refusal as refusal:
                around = frame.bare(at, back, "Refused") if at else _nobody(back)
                return answers.refusal(refusal, around, part=at is not None and at.part)

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

    def living(self) -> HTTPRouteHandler:
        operation = self._desk.operations["events.stream"]

        @get("/live", name="console.live")
        async def listen(request: Asked) -> ASGIApp:
            try:
                at = await self._arrive(request, read=True)
                if at.session is None:
                    raise errors.Unauthenticated("sign in again")
                session, ask = at.session, self._ask(at, {}, {})
                after = routes.resumed(dict(at.headers), _number(_query(request.scope["query_string"]).get("after")))
                call = Call(session=session, request_id=REQUEST_ID.get() or "")

                def feed() -> Any:
                    found = {"scope": ask.widest(operation.name), "after": after}
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
            try:
                at = await self._arrive(request, read=True)
            except errors.Refusal as refusal:
                return answers.refusal(refusal, _nobody(SIGN_IN), part=False)
            then = visit.within(_query(request.scope["query_string"]).get("then"))
            if at.session is not None:
                return answers.see(then, part=at.part)
            return answers.page("sign-in.html", {**frame.bare(at, SIGN_IN, "Sign in"), "then": then, "wrong": ""})

        @post(SIGN_IN, name="console.signing-in", status_code=200)
        async def sign_in(request: Asked) -> ASGIApp:
            at = Visit({}, "", False, False)
            try:
                at = visit.stranger(request.scope)
                fields = dict(await visit.form(request.receive, at))
                return await self._signed_in(at, fields.get("token", "").strip(), visit.within(fields.get("then")))
            except errors.Refusal as refusal:
                shown = {**frame.bare(at, SIGN_IN, "Sign in"), "then": visit.HOME, "wrong": refusal.detail}
                return answers.page("sign-in.html", shown, answers.status_of(refusal))

        @post("/sign-out", name="console.sign-out", status_code=200)
        async def sign_out(request: Asked) -> ASGIApp:
            try:
                at = await self._arrive(request, read=True)
                await visit.form(request.receive, at)
                gone = cookie.header("", at.secure, seconds=0)
                return answers.see(SIGN_IN, part=at.part, headers=[(b"set-cookie", gone)])
            except errors.Refusal as refusal:
                return answers.refusal(refusal, _nobody(SIGN_IN), part=False)

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

    async def _arrive(self, request: Asked, *, read: bool) -> Visit:
        return await visit.arrive(self._wiring, self._cookies, request.scope, read=read)

    def _ask(self, at: Visit, query: dict[str, str], path: dict[str, str]) -> Ask:
        assert at.session is not None
        return Ask(self._desk, at.session, REQUEST_ID.get() or "", query, path)


def _nobody(here: str) -> dict[str, Any]:
    return frame.bare(Visit({}, "", False, False), here, "Problem")


def _to_sign_in(at: Visit, here: str, query: bytes) -> respond.Reply:
    then = here + (f"?{query.decode('ascii', 'replace')}" if query else "")
    return answers.see(f"{SIGN_IN}?then={quote(then, safe='')}", part=at.part)


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
