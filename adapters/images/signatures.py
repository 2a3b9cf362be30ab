"""Signatures of images: Ed25519 over the statement, ECDSA P-256 as `cosign sign-blob` makes them (domain.md §6)."""

import hashlib

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from commands.ports import PublicKey
from domain import errors, image


def _load(pem: str, field: str = "publicKey") -> Ed25519PublicKey | ec.EllipticCurvePublicKey:
    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise errors.Invalid(field, "is no public key in PEM (-----BEGIN PUBLIC KEY-----)") from None
    if isinstance(key, Ed25519PublicKey):
        return key
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
        return key
    raise errors.Invalid(field, "expected a key of Ed25519 or of ECDSA on P-256")


class Signatures:
    """The port `Signatures` with the library `cryptography`."""

    def key(self, pem: str, field: str) -> PublicKey:
        key = _load(pem, field)
        raw = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        canonical = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
        scheme: image.Scheme = "ed25519" if isinstance(key, Ed25519PublicKey) else "ecdsa-p256"
        return PublicKey(scheme, hashlib.sha256(raw).hexdigest(), canonical)

    def good(self, scheme: image.Scheme, pem: str, signature: bytes, statement: bytes, sha256: str) -> bool:
        key = _load(pem)
        try:
            if isinstance(key, Ed25519PublicKey):
                key.verify(signature, statement)
            else:
                key.verify(signature, bytes.fromhex(sha256), ec.ECDSA(utils.Prehashed(SHA256())))
        except InvalidSignature:
            return False
        return True
