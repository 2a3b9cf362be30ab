"""What agents fetch for the instances that their node is told to have: the image's bytes and the seed.

They bear a token of the allocation (instance_key.py), which is good for as long as the instance is on it.
"""

import base64
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, TypeVar

import msgspec
import psycopg
from cryptography.exceptions import InvalidTag
from litestar import Litestar, Request, get
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp
from msgspec import Struct

from adapters.http.ranges import Ranged
from adapters.http.respond import Reply
from adapters.http.routes import bearer_of, headers_of
from adapters.http.slots import Slots
from adapters.http.threads import Workers
from adapters.images.blobs import Directory
from adapters.images.instance_key import InstanceKey
from adapters.images.user_data import UserData
from adapters.postgres.refusals import translate
from commands import image_content
from commands.ports import Store
from domain import errors, instance

T = TypeVar("T")

THREADS: Final = 8
WAITING: Final = 2048
SLOTS: Final = Slots("downloads of images", most=256, of_one=128)


class Seed(Struct, frozen=True, rename="camel"):
    """What an instance is told of itself; `user_data` in base64, empty where there is none."""

    name: str
    instance_id: str
    ssh_keys: tuple[str, ...]
    user_data: str


class Serving:
    """`routes` are the handlers for the HTTP application, `running` its lifespan: they have threads of their own."""

    def __init__(self, store: Store, blobs: Directory, key: InstanceKey, user_data: UserData) -> None:
        self._store = store
        self._blobs = blobs
        self._key = key
        self._user_data = user_data
        self._workers = Workers(THREADS, WAITING)
        self.routes = [self._image(), self._seed()]

    @contextlib.asynccontextmanager
    async def running(self, _: Litestar) -> AsyncIterator[None]:
        try:
            yield
        finally:
            self._workers.close()

    def _image(self) -> HTTPRouteHandler:
        @get("/v1/agent/images/{sha256:str}", name="agent.image")
        async def fetch(request: Request[Any, Any, Any]) -> ASGIApp:
            headers, sha256 = headers_of(request.scope), request.scope["path_params"]["sha256"]
            found, handle = await self._workers.run(lambda: _asked(lambda: self._opened(headers, sha256)))
            draft = found.draft
            assert draft is not None
            try:
                SLOTS.check(draft.tenant_id)
                return Ranged(handle, sha256, headers, self._workers.run, SLOTS, draft.tenant_id)
            except BaseException:
                os.close(handle)
                raise

        return fetch

    def _seed(self) -> HTTPRouteHandler:
        @get("/v1/agent/instances/{instance_id:str}/seed", name="agent.seed")
        async def fetch(request: Request[Any, Any, Any]) -> ASGIApp:
            headers, instance_id = headers_of(request.scope), request.scope["path_params"]["instance_id"]
            seed = await self._workers.run(lambda: _asked(lambda: self._seed_of(headers, instance_id)))
            return Reply(200, msgspec.json.encode(seed))

        return fetch

    def _opened(self, headers: dict[bytes, str], sha256: str) -> tuple[instance.State, int]:
        state = self._admitted(headers)[1]
        assert state.draft is not None
        if sha256 != state.draft.image.sha256:
            raise errors.AccessDenied("the token is not for these bytes")
        try:
            return state, os.open(self._blobs.path(sha256), os.O_RDONLY)
        except FileNotFoundError:
            image_content.missed(self._store, state.draft.image.id, self._blobs.has)
            raise errors.NotFound("content", sha256, "sha256", ": its bytes have to be uploaded again") from None
        except OSError as fault:
            raise errors.Unavailable("the bytes cannot be read just now; try again") from fault

    def _seed_of(self, headers: dict[bytes, str], instance_id: str) -> Seed:
        bearer_id, state = self._admitted(headers)
        if instance_id != bearer_id:
            raise errors.AccessDenied("the token is not for this instance")
        draft = state.draft
        assert draft is not None
        user_data = b"" if draft.user_data is None else self._sealed(instance_id, draft.user_data.sha256)
        return Seed(draft.name, instance_id, draft.ssh_keys, base64.b64encode(user_data).decode())

    def _sealed(self, instance_id: str, digest: str) -> bytes:
        """An instance that was given user data never begins without them."""
        try:
            kept = self._user_data.get(instance_id, digest)
        except InvalidTag:
            raise errors.NotFound("user data of", instance_id, when=" that this plane's key opens") from None
        if kept is None:
            raise errors.NotFound("user data of", instance_id)
        return kept

    def _admitted(self, headers: dict[bytes, str]) -> tuple[str, instance.State]:
        """The instance that the token is for, while it is on the token's allocation."""
        token = bearer_of(headers)
        opened = self._key.opened(token) if token else None
        if opened is None:
            raise errors.Unauthenticated("send the token of the allocation as `Authorization: Bearer <token>`")
        allocation_id, instance_id = opened
        state: instance.State = self._store.load(instance_id).state
        if state.draft is None or state.ended_at is not None or state.allocation_id != allocation_id:
            raise errors.Unauthenticated("the instance is not on this allocation any more")
        return instance_id, state


def _asked(question: Callable[[], T]) -> T:
    try:
        return question()
    except psycopg.Error as fault:
        translate(fault)
