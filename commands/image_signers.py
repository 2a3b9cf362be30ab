"""The allowlist of image signers: set it (domain.md §6). It is set whole; who added whom stays known."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from commands.ports import Signatures
from commands.unit import Outcome, Unit, changed
from domain import errors, ids, image_signers
from domain.image_signers import Signer
from domain.operation import Operation, Request


class Given(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A public key of Ed25519 or of ECDSA on P-256, in PEM; several keys may bear one name."""

    name: Annotated[str, Meta(max_length=63)]
    public_key: Annotated[str, Meta(max_length=4096)]


class Set(Request, frozen=True, kw_only=True):
    """The whole list. Who is taken off starts nothing new; what was verified stays so."""

    signers: Annotated[tuple[Given, ...], Meta(max_length=64)]


def set_(command: Set, unit: Unit) -> Outcome:
    tenant_id = unit.session.tenant_id
    loaded = unit.load(image_signers.STREAM)
    wanted = signers(command.signers, unit.ports.images.signatures, unit.session.identity_id, unit.now)
    events = change(loaded.state, wanted, tenant_id, unit.session.identity_id, unit.now)
    return Outcome((changed(image_signers.STREAM, loaded, events),))


def signers(given: Sequence[Given], signatures: Signatures, by: str, now: int) -> list[Signer]:
    """Raises errors.Invalid for what is no key, or there twice."""
    seen: dict[str, int] = {}
    found = []
    for index, one in enumerate(given):
        at = f"signers[{index}]"
        key = signatures.key(one.public_key, f"{at}.publicKey")
        first = seen.setdefault(key.key_id, index)
        if first != index:
            raise errors.Invalid(f"{at}.publicKey", f"is the key of signers[{first}] again")
        found.append(Signer(ids.name(one.name, f"{at}.name"), key.scheme, key.key_id, key.pem, by, now))
    return found


def change(
    state: image_signers.State, wanted: Sequence[Signer], tenant_id: str, by: str, now: int
) -> list[image_signers.Events]:
    """Those who stay keep who added them and when; a key under another name is added anew."""
    kept = {(signer.key_id, signer.name) for signer in state.signers}
    named = {(signer.key_id, signer.name) for signer in wanted}
    added = tuple(signer for signer in wanted if (signer.key_id, signer.name) not in kept)
    removed = tuple(signer.key_id for signer in state.signers if (signer.key_id, signer.name) not in named)
    return [image_signers.Changed(tenant_id, added, removed, by, now)] if added or removed else []


OPERATIONS = (
    Operation(
        name="imageSigners.set",
        verb="PUT",
        path="/v1/image-signers",
        request=Set,
        response=image_signers.View,
        on=("compute-fleet/global",),
        handle=set_,
        view=image_signers.view,
        summary="Set whose signatures make images verified",
        refusals=(errors.AccessDenied, errors.StaleVersion),
    ),
)
