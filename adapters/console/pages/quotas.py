"""Quotas and budgets: one's own tenant's and its projects', and for the platform every tenant's."""

from typing import Any, Final, get_args

from adapters.console import seen
from adapters.console.ask import Ask
from adapters.console.page import Page
from domain import offering

RESOURCES: Final = get_args(offering.Resource)
ROWS: Final = 25


def standing(ask: Ask, kind: str, id: str, *, seen: bool = True) -> dict[str, Any]:
    """A quota and a budget with what is used of them; None where they are not the caller's to see."""
    asked = {"kind": kind, "id": id}
    may = {name: seen and ask.may(name) for name in ("quotas.get", "budgets.get")}
    return {
        "quota": ask("quotas.get", **asked) if may["quotas.get"] else None,
        "budget": ask("budgets.get", **asked) if may["budgets.get"] else None,
    }


def grants(ask: Ask, operation: str, kind: str) -> bool:
    """Whether the caller limits its own projects (`tenant`), or every tenant (`fleet`)."""
    return ask.may(operation, scope=kind)


def listed(ask: Ask) -> dict[str, Any]:
    wide = ask.widest("quotas.list") == "fleet"
    whole = wide and ask.query.get("scope") != "tenant"
    scope = "fleet" if whole else "tenant"
    found = ask("quotas.list", scope=scope, limit=ROWS, cursor=ask.query.get("cursor"))
    return {
        "rows": [row | {"budget": _budget(ask, row)} for row in found["items"]],
        "cursor": found.get("nextCursor"),
        "wide": wide,
        "whole": whole,
        "projects": seen.names(ask, "projects"),
    }


def _budget(ask: Ask, row: dict[str, Any]) -> Any:
    own = row["tenantId"] == ask.session.tenant_id
    return ask.if_may("budgets.get", kind=row["kind"], id=row["id"]) if own or row["kind"] == "tenant" else None


def one(ask: Ask) -> dict[str, Any]:
    """Of a tenant; a project's stands on the project's page."""
    id = ask.path["id"]
    may = ask.offered("quotas.set", "budgets.set")
    return {
        "tenant": id,
        **standing(ask, "tenant", id),
        "may": {name for name in may if ask.may(name, scope="fleet")},
        "resources": RESOURCES,
        "title": f"Quota of {id}",
        "live": f"rsv quota:tenant:{id} budget:tenant:{id}",
    }


PAGES: Final = (
    Page(
        path="/quotas",
        name="console.quotas",
        template="quotas.html",
        build=listed,
        title="Quotas",
        nav="Quotas",
        needs="quotas.list",
        live=("rsv", "quota", "budget"),
    ),
    Page(
        path="/quotas/tenant/{id}",
        name="console.quota",
        template="quota.html",
        build=one,
        title="Quota",
        nav="Quotas",
    ),
)
