"""Flavors: the sizes that instances have."""

import secrets
from typing import Any, Final

from adapters.console import seen
from adapters.console.ask import Ask
from adapters.console.page import Page


def listed(ask: Ask) -> dict[str, Any]:
    return {
        "list": seen.page(ask, "flavors.list", "retired"),
        "may": ask.offered("flavors.create"),
        "key": secrets.token_hex(16),
    }


def one(ask: Ask) -> dict[str, Any]:
    shown = ask("flavors.get", id=ask.path["id"])
    mine = shown["ownerTenantId"] == ask.session.tenant_id and shown["retiredAt"] is None
    return {
        "of": shown,
        "may": ask.offered("flavors.retire") if mine else set(),
        "title": f"Flavor {shown['name']}",
        "live": shown["id"],
    }


PAGES: Final = (
    Page(
        path="/flavors",
        name="console.flavors",
        template="flavors.html",
        build=listed,
        title="Flavors",
        nav="Instances",
        live=("flv",),
    ),
    Page(
        path="/flavors/{id}",
        name="console.flavor",
        template="flavor.html",
        build=one,
        title="Flavor",
        nav="Instances",
    ),
)
