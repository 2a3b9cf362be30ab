"""An image: a signed, content-addressed system or ramdisk, known as `name@version` (domain.md §6).

What a name and version stand for never changes: the digest is fixed before a byte comes.
"""

from collections.abc import Collection
from typing import Literal, assert_never

from msgspec import Struct
from msgspec.structs import replace

from domain.event import Event

Format = Literal["raw", "qcow2", "iso"]
Purpose = Literal["os", "ramdisk"]
Visibility = Literal["private", "public"]
Scheme = Literal["ed25519", "ecdsa-p256"]
"""`ed25519` signs the image statement, `ecdsa-p256` is what `cosign sign-blob` makes of the bytes."""


class Registered(Event, frozen=True, tag="image.registered.1"):
    """What the bytes will be: `sha256` in lower-case hex, `size_bytes` of the file as it is uploaded."""

    name: str
    version: str
    owner_tenant_id: str
    format: Format
    purpose: Purpose
    visibility: Visibility
    sha256: str
    size_bytes: int
    at: int


class Stored(Event, frozen=True, tag="image.stored.1"):
    """The bytes are kept, and are what was registered; `virtual_bytes` is the size of the disk that they make."""

    virtual_bytes: int
    at: int


class Missed(Event, frozen=True, tag="image.missed.1"):
    """The bytes are not where they were kept: they have to be uploaded again."""

    at: int


class Verified(Event, frozen=True, tag="image.verified.1"):
    """A signature that is good, of a signer who was on the allowlist in this version of it."""

    scheme: Scheme
    key_id: str
    signer: str
    signature: str
    allowlist_version: int
    at: int


class Retired(Event, frozen=True, tag="image.retired.1"):
    """Nothing new starts from it. Its name and version are never given to other bytes."""

    at: int


class Dropped(Event, frozen=True, tag="image.dropped.1"):
    """Retired and used by nobody any more: its bytes are deleted."""

    at: int


Events = Registered | Stored | Missed | Verified | Retired | Dropped


class Verdict(Struct, frozen=True, rename="camel"):
    """Who vouched for the image: signer and key, as the allowlist had them in this version."""

    scheme: Scheme
    key_id: str
    signer: str
    allowlist_version: int
    at: int


class State(Struct, frozen=True, rename="camel"):
    name: str = ""
    version: str = ""
    owner_tenant_id: str = ""
    format: Format = "raw"
    purpose: Purpose = "os"
    visibility: Visibility = "private"
    sha256: str = ""
    size_bytes: int = 0
    virtual_bytes: int | None = None
    stored_at: int | None = None
    verdicts: tuple[Verdict, ...] = ()
    created_at: int = 0
    retired_at: int | None = None

    @property
    def verified(self) -> bool:
        return bool(self.verdicts)


def evolve(state: State, event: Events) -> State:
    match event:
        case Registered():
            return State(
                name=event.name,
                version=event.version,
                owner_tenant_id=event.owner_tenant_id,
                format=event.format,
                purpose=event.purpose,
                visibility=event.visibility,
                sha256=event.sha256,
                size_bytes=event.size_bytes,
                created_at=event.at,
            )
        case Stored(virtual_bytes=virtual_bytes, at=at):
            return replace(state, virtual_bytes=virtual_bytes, stored_at=at)
        case Missed() | Dropped():
            return replace(state, stored_at=None)
        case Verified():
            verdict = Verdict(event.scheme, event.key_id, event.signer, event.allowlist_version, event.at)
            return replace(state, verdicts=(*state.verdicts, verdict))
        case Retired(at=at):
            return replace(state, retired_at=at)
        case _:
            assert_never(event)


def vouched(state: State, allowed: Collection[str]) -> Verdict | None:
    """The first verdict whose key is still allowed: what was verified stays so, but starts nothing new without one."""
    return next((verdict for verdict in state.verdicts if verdict.key_id in allowed), None)


class View(Struct, frozen=True, kw_only=True, rename="camel"):
    """`state` is `registered` until the bytes came, then `stored`, or `retired`. Instants in epoch ms."""

    id: str
    name: str
    image_version: str
    owner_tenant_id: str
    state: Literal["registered", "stored", "retired"]
    format: Format
    purpose: Purpose
    visibility: Visibility
    sha256: str
    size_bytes: int
    virtual_bytes: int | None
    verified: bool
    verdicts: tuple[Verdict, ...]
    stored_at: int | None
    created_at: int
    retired_at: int | None
    version: int


def view(id: str, state: State, version: int) -> View:
    return View(
        id=id,
        name=state.name,
        image_version=state.version,
        owner_tenant_id=state.owner_tenant_id,
        state="retired" if state.retired_at is not None else "registered" if state.stored_at is None else "stored",
        format=state.format,
        purpose=state.purpose,
        visibility=state.visibility,
        sha256=state.sha256,
        size_bytes=state.size_bytes,
        virtual_bytes=state.virtual_bytes,
        verified=state.verified,
        verdicts=state.verdicts,
        stored_at=state.stored_at,
        created_at=state.created_at,
        retired_at=state.retired_at,
        version=version,
    )
