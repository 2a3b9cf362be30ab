"""Whether a tenant may begin anything new: a suspended one may not, nor may those below it (domain.md §9)."""

from collections.abc import Iterable
from typing import Final

from commands.ports import Store
from domain import tenant

MAX_DEPTH: Final = 16


def usable(store: Store, tenant_id: str) -> bool:
    """Whether the tenant and all above it are active, as the log knows the tree."""
    return not barred(store, [tenant_id])


def barred(store: Store, tenant_ids: Iterable[str]) -> frozenset[str]:
    """Those of the tenants that may begin nothing: a few queries for all of them, one for each level of the tree."""
    at: dict[str, str | None] = {tenant_id: tenant_id for tenant_id in tenant_ids}
    found: set[str] = set()
    for _ in range(MAX_DEPTH):
        level = list(dict.fromkeys(one for one in at.values() if one is not None))
        states: dict[str, tenant.State] = {
            one: loaded.state
            for one, loaded in zip(level, store.load_all(list(map(tenant.stream, level))), strict=True)
        }
        found |= {id for id, one in at.items() if one is not None and states[one].status != "active"}
        at = {id: states[one].parent for id, one in at.items() if one is not None and id not in found}
        if not any(at.values()):
            return frozenset(found)
    return frozenset(found | at.keys())
