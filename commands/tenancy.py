"""Whether a tenant may begin anything new: a suspended one may not, nor may those below it (domain.md §9)."""

from typing import Final

from commands.ports import Store
from domain import tenant

MAX_DEPTH: Final = 16


def usable(store: Store, tenant_id: str) -> bool:
    """Whether the tenant and all above it are active, as the log knows the tree."""
    at: str | None = tenant_id
    for _ in range(MAX_DEPTH):
        if at is None:
            return True
        state: tenant.State = store.load(tenant.stream(at)).state
        if state.status != "active":
            return False
        at = state.parent
    return False
