"""Relationships on things that are Better Compute's: Better IAM keeps them when the thing goes (iam.md §7)."""

import logging
from collections.abc import Callable, Sequence

from msgspec import Struct

from adapters.iam.better.client import Client
from adapters.iam.better.identity import Id
from adapters.iam.better.tenants import by_tenant

log = logging.getLogger(__name__)


class NoKey(Exception):
    """None of the service keys is one of this tenant."""


class _Relationship(Struct, frozen=True):
    id: Id


class Relationships:
    """Acts with a tenant's own service key, which may `iam:relationships:read` and `:delete` on the thing."""

    def __init__(self, client: Client, keys: Callable[[], Sequence[str]]) -> None:
        self._client = client
        self._keys = keys

    def remove(self, tenant_id: str, type: str, id: str, gone: Callable[[], bool]) -> int:
        """Delete all on a thing, expired ones too, if it is gone when they are listed; returns how many.

        Raises NoKey, Failed, or a Refusal where there is no telling.
        """
        key = by_tenant(self._client, self._keys()).get(tenant_id)
        if key is None:
            raise NoKey(f"none of the service keys is of {tenant_id}")
        body = {"tenantId": tenant_id, "type": type, "id": id, "includeExpired": True}
        found = self._client.call("relationships/list", body, list[_Relationship], key)
        if not gone():
            return 0
        for one in found:
            self._client.call(
                "relationships/delete", {"tenantId": tenant_id, "relationshipId": one.id}, dict[str, object], key
            )
        return len(found)
