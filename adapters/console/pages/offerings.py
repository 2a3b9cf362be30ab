"""An offering: a pool as one tenant has it, for that tenant and for the pool's owner."""

from typing import Any, Final

from adapters.console.ask import Ask
from adapters.console.page import Page
from adapters.console.pages import pools


def one(ask: Ask) -> dict[str, Any]:
    shown = ask("offerings.get", id=ask.path["id"])
    owns = shown["ownerTenantId"] == ask.session.tenant_id
    pool = ask.if_may("pools.get", id=shown["poolId"])
    runs = owns and not shown["withdrawn"]
    return {
        "of": shown,
        "owns": owns,
        "pool": pool,
        "sold": pools.sold(pool) if pool else pools.RESOURCES,
        "may": ask.offered("pools.offer", "pools.withdraw", id=shown["poolId"]) if runs else set(),
        "title": f"Offering to {shown['tenantId']}",
        "live": f"{shown['id']} rsv",
    }


PAGES: Final = (
    Page(
        path="/offerings/{id}",
        name="console.offering",
        template="offering.html",
        build=one,
        title="Offering",
        nav="Pools",
    ),
)
