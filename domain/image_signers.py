"""The allowlist of the platform: whose signatures make images verified, and who put them there (domain.md §6, §10)."""

from typing import Final, assert_never

from msgspec import Struct

from domain.event import Event
from domain.image import Scheme


class Signer(Struct, frozen=True, rename="camel"):
    """`key_id` is the SHA-256 of the public key's DER (SubjectPublicKeyInfo) in hex, `public_key` its PEM."""

    name: str
    scheme: Scheme
    key_id: str
    public_key: str
    added_by: str
    added_at: int


class Changed(Event, frozen=True, tag="image_signers.changed.1"):
    """The version of the allowlist is that of its stream."""

    tenant_id: str
    added: tuple[Signer, ...]
    removed: tuple[str, ...]
    by: str
    at: int


Events = Changed


class State(Struct, frozen=True, rename="camel"):
    tenant_id: str = ""
    signers: tuple[Signer, ...] = ()
    changed_at: int = 0

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(signer.key_id for signer in self.signers)


def evolve(state: State, event: Events) -> State:
    match event:
        case Changed():
            kept = tuple(signer for signer in state.signers if signer.key_id not in event.removed)
            return State(event.tenant_id, (*kept, *event.added), event.at)
        case _:
            assert_never(event)


STREAM: Final = "signers:platform"
"""There is one list, whoever owns an image."""


class View(Struct, frozen=True, rename="camel"):
    signers: tuple[Signer, ...]
    changed_at: int
    version: int


def view(stream: str, state: State, version: int) -> View:
    return View(state.signers, state.changed_at, version)
