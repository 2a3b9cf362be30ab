"""The key that signs checkpoints of the log: Ed25519, in a file that its owner alone can read (api.md §6)."""

import os
import secrets
import stat
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from domain import checkpoint

NAME = "audit.key"


class KeyFileError(Exception):
    """The key file cannot be used; the message says why and what to do."""


class Signer:
    """Signs in the name of one log, and says with what its notes are verified."""

    def __init__(self, private: Ed25519PrivateKey, incarnation: str) -> None:
        self._private = private
        public = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.key = checkpoint.Key(checkpoint.origin(incarnation), public)

    def note(self, size: int, root: bytes) -> str:
        return checkpoint.signed(checkpoint.Checkpoint(self.key.name, size, root), self.key, self._private.sign)

    def signed(self, note: str) -> bool:
        """Whether a note is good and of this key."""
        try:
            checkpoint.opened(note, self.key, verify)
        except checkpoint.Unsound:
            return False
        return True


def verify(public: bytes, signature: bytes, text: bytes) -> bool:
    """Whether it is a good signature of Ed25519."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, text)
    except InvalidSignature:
        return False
    return True


def read(path: Path) -> Ed25519PrivateKey:
    """Raises KeyFileError for a file that is missing, open to others, or no private key of Ed25519."""
    try:
        mode, text = path.stat().st_mode, path.read_bytes()
        private = load_pem_private_key(text, password=None)
    except OSError as problem:
        raise KeyFileError(f"the audit key {path} cannot be read: {problem.strerror}") from problem
    except (ValueError, TypeError, UnsupportedAlgorithm) as problem:
        raise KeyFileError(f"the audit key {path} is no private key in PEM without a password") from problem
    if not isinstance(private, Ed25519PrivateKey):
        raise KeyFileError(f"the audit key {path} is not one of Ed25519")
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise KeyFileError(f"the audit key {path} is open to others: chmod 600 it, or take a new one if it was read")
    return private


def read_or_make(path: Path) -> Ed25519PrivateKey:
    """The key in the file, which is made if there is none; of several processes one makes it."""
    if not path.exists():
        _make(path)
    return read(path)


def _make(path: Path) -> None:
    pem = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(fresh, path)
        except FileExistsError:
            pass  # another process was first: its key is the one
        finally:
            fresh.unlink()
    except OSError as problem:
        raise KeyFileError(f"the audit key {path} cannot be made: {problem.strerror}") from problem
