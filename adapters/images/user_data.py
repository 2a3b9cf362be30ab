"""User data of instances: sealed with AES-256-GCM under the instance key, in a table beside the log (domain.md §6)."""

import secrets
from typing import Final, LiteralString

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from adapters.postgres.pool import Pool

_NONCE: Final = 12
_PUT: LiteralString = """
INSERT INTO instance_user_data (instance_id, sealed, kept_at) VALUES (%s, %s, database_ms())
ON CONFLICT (instance_id) DO UPDATE SET sealed = excluded.sealed, kept_at = excluded.kept_at
"""
_GET: LiteralString = "SELECT sealed FROM instance_user_data WHERE instance_id = %s"
_DROP: LiteralString = "DELETE FROM instance_user_data WHERE instance_id = %s"


class UserData:
    """The instance's id is bound in: what was sealed for one opens for no other."""

    def __init__(self, pool: Pool, key: bytes) -> None:
        self._pool = pool
        self._cipher = AESGCM(key)

    def put(self, instance_id: str, content: bytes) -> None:
        nonce = secrets.token_bytes(_NONCE)
        sealed = nonce + self._cipher.encrypt(nonce, content, instance_id.encode())
        with self._pool.connection() as connection:
            connection.execute(_PUT, (instance_id, sealed))

    def get(self, instance_id: str) -> bytes | None:
        """Raises cryptography's InvalidTag for what was changed, or sealed with another key."""
        with self._pool.connection() as connection:
            row = connection.execute(_GET, (instance_id,)).fetchone()
        if row is None:
            return None
        sealed = bytes(row[0])
        return self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], instance_id.encode())

    def drop(self, instance_id: str) -> None:
        with self._pool.connection() as connection:
            connection.execute(_DROP, (instance_id,))
