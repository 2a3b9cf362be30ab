"""User data of instances: sealed with AES-256-GCM under the instance key, in a table beside the log (domain.md §6)."""

import secrets
from hashlib import sha256
from typing import Final, LiteralString

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from adapters.postgres.pool import Pool

_NONCE: Final = 12
_PUT: LiteralString = """
INSERT INTO instance_user_data (instance_id, sha256, sealed, kept_at) VALUES (%s, %s, %s, database_ms())
ON CONFLICT (instance_id, sha256) DO UPDATE SET sealed = excluded.sealed, kept_at = excluded.kept_at
"""
_GET: LiteralString = "SELECT sealed FROM instance_user_data WHERE instance_id = %s AND sha256 = %s"
_DROP: LiteralString = "DELETE FROM instance_user_data WHERE instance_id = %s"


class UserData:
    """The instance's id is bound in: what was sealed for one opens for no other.

    Two requests under one key can both bring theirs before one of them becomes the instance: the log says whose.
    """

    def __init__(self, pool: Pool, key: bytes) -> None:
        self._pool = pool
        self._cipher = AESGCM(key)

    def put(self, instance_id: str, content: bytes) -> None:
        nonce = secrets.token_bytes(_NONCE)
        sealed = nonce + self._cipher.encrypt(nonce, content, instance_id.encode())
        with self._pool.connection() as connection:
            connection.execute(_PUT, (instance_id, sha256(content).hexdigest(), sealed))

    def get(self, instance_id: str, digest: str) -> bytes | None:
        """What was kept under this SHA-256 (hex); raises cryptography's InvalidTag where key or bytes are others."""
        with self._pool.connection() as connection:
            row = connection.execute(_GET, (instance_id, digest)).fetchone()
        if row is None:
            return None
        sealed = bytes(row[0])
        return self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], instance_id.encode())

    def drop(self, instance_id: str) -> None:
        with self._pool.connection() as connection:
            connection.execute(_DROP, (instance_id,))
