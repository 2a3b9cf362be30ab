"""The key of instances: user data is sealed with it, and tokens of allocations are made of it.

It is a file of 32 random bytes that its owner alone can read. Processes that serve one database share it.
"""

import hmac
import os
import secrets
import stat
from hashlib import sha256
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from adapters.audit_key import KeyFileError

NAME: Final = "instance.key"
SIZE: Final = 32


class InstanceKey:
    """What is derived from the key, each for one use alone."""

    def __init__(self, secret: bytes) -> None:
        self.sealing = self._derived(secret, b"user data")
        self.cookies = self._derived(secret, b"console cookies")
        self._tokens = self._derived(secret, b"allocation tokens")

    @staticmethod
    def _derived(secret: bytes, use: bytes) -> bytes:
        return HKDF(SHA256(), SIZE, salt=None, info=b"better-compute/instance-key/v1 " + use).derive(secret)

    def token(self, allocation_id: str, instance_id: str) -> str:
        """With what an agent fetches the image and the seed of an instance on an allocation, while it is there."""
        return f"{instance_id}.{allocation_id}.{self._mac(allocation_id, instance_id)}"

    def opened(self, token: str) -> tuple[str, str] | None:
        """Allocation and instance of a token that is good, None of any other."""
        parts = token.split(".")
        if len(parts) != 3 or not token.isascii():
            return None
        instance_id, allocation_id, mac = parts
        good = hmac.compare_digest(mac, self._mac(allocation_id, instance_id))
        return (allocation_id, instance_id) if good else None

    def _mac(self, allocation_id: str, instance_id: str) -> str:
        return hmac.new(self._tokens, f"{allocation_id}\n{instance_id}".encode(), sha256).hexdigest()


def read_or_make(path: Path) -> InstanceKey:
    """The key in the file, which is made if there is none; of several processes one makes it."""
    try:
        if not path.exists():
            _make(path)
        mode, secret = path.stat().st_mode, path.read_bytes()
    except OSError as problem:
        raise KeyFileError(f"the instance key {path} cannot be used: {problem.strerror}") from problem
    if len(secret) != SIZE:
        raise KeyFileError(f"the instance key {path} is not {SIZE} bytes")
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise KeyFileError(f"the instance key {path} is open to others: chmod 600 it")
    return InstanceKey(secret)


def _make(path: Path) -> None:
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secrets.token_bytes(SIZE))
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(fresh, path)
    except FileExistsError:
        pass  # another process was first: its key is the one
    finally:
        fresh.unlink()
