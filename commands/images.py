"""Images: register, sign, retire (domain.md §6). What a name and version stand for never changes."""

import base64
import binascii
from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta

from commands.ports import Signatures
from commands.unit import Outcome, Unit, changed
from domain import catalog, errors, ids, image, image_signers
from domain.event import Change
from domain.operation import Operation, Request


class Create(Request, frozen=True, kw_only=True):
    """Says what the bytes will be before they come. A public image is the platform's, and every tenant sees it."""

    name: Annotated[str, Meta(max_length=63)]
    image_version: Annotated[str, Meta(max_length=63, description="of the name, in small letters, as 24.04")]
    format: image.Format
    sha256: Annotated[str, Meta(max_length=135, description="of the file, in hex")]
    size_bytes: Annotated[int, Meta(ge=1, le=2**44, description="of the file")]
    purpose: image.Purpose = "os"
    visibility: image.Visibility = "private"


class Act(Request, frozen=True, kw_only=True):
    id: str


class Sign(Request, frozen=True, kw_only=True):
    """An Ed25519 signature is over the image's statement, one of ECDSA P-256 over its bytes, as cosign makes it."""

    id: str
    signature: Annotated[str, Meta(min_length=1, max_length=1024, description="in base64")]
    key_id: Annotated[str, Meta(max_length=64, description="the signer's; else every signer is tried")] | None = None


def create(command: Create, unit: Unit) -> Outcome:
    tenant_id = unit.session.tenant_id
    public = command.visibility == "public"
    scope = ("compute-fleet", catalog.FLEET_ID) if public else ("compute-tenant", tenant_id)
    unit.decide(unit.resolve(*scope, "visibility"))
    event = image.Registered(
        name=ids.name(command.name),
        version=image.version_name(command.image_version),
        owner_tenant_id=tenant_id,
        format=command.format,
        purpose=command.purpose,
        visibility=command.visibility,
        sha256=image.digest(command.sha256),
        size_bytes=image.fitting(command.size_bytes, command.format, command.purpose),
        at=unit.now,
    )
    return Outcome((Change(unit.new_id("img"), 0, (event,)),))


def retire(command: Act, unit: Unit) -> Outcome:
    loaded = unit.existing(command.id)
    unit.only_owner(loaded.state.owner_tenant_id, f"{catalog.IMAGE}/{command.id}")
    return Outcome((changed(command.id, loaded, close(loaded.state, unit.now)),))


def close(state: image.State, now: int) -> list[image.Events]:
    return [] if state.retired_at is not None else [image.Retired(now)]


def sign(command: Sign, unit: Unit) -> Outcome:
    loaded = unit.existing(command.id)
    state: image.State = loaded.state
    unit.only_owner(state.owner_tenant_id, f"{catalog.IMAGE}/{command.id}")
    allowlist = unit.load(image_signers.STREAM)
    signer = found(command, state, candidates(command, allowlist.state), unit.ports.images.signatures)
    events = verified(state, signer, command.signature, allowlist.version, unit.now)
    return Outcome((changed(command.id, loaded, events),))


def candidates(command: Sign, allowlist: image_signers.State) -> tuple[image_signers.Signer, ...]:
    """The signers whose signature it may be."""
    if not allowlist.signers:
        raise errors.Conflict("nobody may vouch for images yet: the platform sets who may (PUT /v1/image-signers)")
    if command.key_id is None:
        return allowlist.signers
    named = tuple(signer for signer in allowlist.signers if signer.key_id == command.key_id.lower())
    if not named:
        raise errors.Invalid("keyId", "is no key of a signer that the platform allows")
    return named


def found(
    command: Sign, state: image.State, signers: Iterable[image_signers.Signer], signatures: Signatures
) -> image_signers.Signer:
    """Whose signature it is."""
    try:
        raw = base64.b64decode("".join(command.signature.split()), validate=True)
    except (binascii.Error, ValueError):
        raise errors.Invalid("signature", "is no base64") from None
    for signer in signers:
        if signatures.good(signer.scheme, signer.public_key, raw, state.statement, state.sha256):
            return signer
    raise errors.Invalid(
        "signature", "is good under no key of an allowed signer: Ed25519 signs the statement, ECDSA P-256 the bytes"
    )


def verified(
    state: image.State, signer: image_signers.Signer, signature: str, version: int, now: int
) -> list[image.Events]:
    """Nothing new where that key has vouched for it already: what was said of it then stays."""
    if state.retired_at is not None:
        raise errors.IllegalTransition("retired", "sign", ())
    if any(verdict.key_id == signer.key_id for verdict in state.verdicts):
        return []
    written = "".join(signature.split())
    return [image.Verified(signer.scheme, signer.key_id, signer.name, written, version, now)]


OPERATIONS = (
    Operation(
        name="images.create",
        verb="POST",
        path="/v1/images",
        request=Create,
        response=image.View,
        on=("compute-fleet/global", "compute-tenant/{acting}"),
        decided_inside=True,
        handle=create,
        view=image.view,
        summary="Register an image: its name, version and digest, fixed for ever; the bytes come next",
        status=201,
        refusals=(errors.AccessDenied, errors.Conflict, errors.KeyReused),
        key="accepted",
    ),
    Operation(
        name="images.sign",
        verb="POST",
        path="/v1/images/{id}/signatures",
        request=Sign,
        response=image.View,
        on=("compute-image/{id}",),
        handle=sign,
        view=image.view,
        summary="Give an image the signature of an allowed signer",
        refusals=(errors.AccessDenied, errors.NotFound, errors.Conflict, errors.StaleVersion),
    ),
    Operation(
        name="images.retire",
        verb="DELETE",
        path="/v1/images/{id}",
        request=Act,
        response=image.View,
        on=("compute-image/{id}",),
        handle=retire,
        view=image.view,
        summary="Retire an image for good: nothing new starts from it, its name and version stay taken",
        refusals=(errors.AccessDenied, errors.NotFound, errors.StaleVersion),
    ),
)
