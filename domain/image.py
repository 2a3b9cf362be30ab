"""An image: a signed, content-addressed system or ramdisk, known as `name@version` (domain.md §6).

What a name and version stand for never changes: the digest is fixed before a byte comes.
"""

import re
from collections.abc import Collection
from typing import Final, Literal, assert_never

from msgspec import Struct
from msgspec.structs import replace

from domain import errors, image_statement
from domain.event import Event

Format = Literal["raw", "qcow2", "iso"]
Purpose = Literal["os", "ramdisk"]
Visibility = Literal["private", "public"]
Status = Literal["registered", "stored", "retired"]
Scheme = Literal["ed25519", "ecdsa-p256"]
"""`ed25519` signs the image statement, `ecdsa-p256` is what `cosign sign-blob` makes of the bytes."""


_VERSION: Final = re.compile(r"[a-z0-9]([a-z0-9._+-]{0,61}[a-z0-9])?")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
SECTOR: Final = 512
_OTHERS: Final = {32: "MD5", 40: "SHA-1", 56: "SHA-224", 96: "SHA-384", 128: "SHA-512"}
"""Digests by their length in hex, to name what was given instead."""


def version_name(text: str, field: str = "imageVersion") -> str:
    """The version as it is: another letter case would be another version of the same name."""
    if not _VERSION.fullmatch(text):
        message = "expected 1 to 63 of a-z, 0-9 and . _ + -, beginning and ending with a letter or digit"
        raise errors.Invalid(field, message)
    return text


def digest(text: str, field: str = "sha256") -> str:
    """A SHA-256 in lower-case hex, of one in either letter case, with or without `sha256:` before it."""
    algorithm, mark, hex = text.rpartition(":")
    hex = hex.lower()
    if mark and algorithm.lower() != "sha256":
        raise errors.Invalid(field, f"expected a SHA-256, got one that says it is {algorithm[:20]!r}")
    if not _SHA256.fullmatch(hex):
        other = _OTHERS.get(len(hex))
        hint = f", which is the length of {other}" if other else ""
        raise errors.Invalid(field, f"expected the SHA-256 as 64 hex digits, got {len(hex)} characters{hint}")
    return hex


def fitting(size_bytes: int, format: Format, purpose: Purpose, field: str = "sizeBytes") -> int:
    """The size, where bytes of the format can have it: a name is not taken for ever by what can never be uploaded."""
    if format == "raw" and purpose == "os" and size_bytes % SECTOR:
        raise errors.Invalid(field, f"a raw disk is a multiple of {SECTOR} bytes, this is {size_bytes}")
    return size_bytes


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

    @property
    def statement(self) -> bytes:
        """What an Ed25519 signature of it is over."""
        return image_statement.written(
            owner_tenant_id=self.owner_tenant_id,
            name=self.name,
            version=self.version,
            format=self.format,
            purpose=self.purpose,
            sha256=self.sha256,
            size_bytes=self.size_bytes,
        )

    @property
    def status(self) -> Status:
        if self.retired_at is not None:
            return "retired"
        return "registered" if self.stored_at is None else "stored"


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
    """`state` is `registered` until the bytes came, then `stored`, or `retired`. Instants in epoch ms.

    `statement` is what an Ed25519 signature is over, byte for byte.
    """

    id: str
    name: str
    image_version: str
    owner_tenant_id: str
    state: Status
    format: Format
    purpose: Purpose
    visibility: Visibility
    sha256: str
    size_bytes: int
    virtual_bytes: int | None
    statement: str
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
        state=state.status,
        format=state.format,
        purpose=state.purpose,
        visibility=state.visibility,
        sha256=state.sha256,
        size_bytes=state.size_bytes,
        virtual_bytes=state.virtual_bytes,
        statement=state.statement.decode(),
        verified=state.verified,
        verdicts=state.verdicts,
        stored_at=state.stored_at,
        created_at=state.created_at,
        retired_at=state.retired_at,
        version=version,
    )
