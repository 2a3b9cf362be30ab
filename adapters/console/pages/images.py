"""Images: what instances start from, and who vouches for each."""

import secrets
from typing import Any, Final, get_args

from adapters.console import seen
from adapters.console.ask import Ask
from adapters.console.page import Page
from domain import image


def listed(ask: Ask) -> dict[str, Any]:
    return {
        "list": seen.page(ask, "images.list", "state", "purpose", "verified"),
        "states": get_args(image.Status),
        "formats": get_args(image.Format),
        "purposes": get_args(image.Purpose),
        "visibilities": [("private", "my tenant")] + ([("public", "every tenant")] if _public(ask) else []),
        "may": ask.offered("images.create"),
        "key": secrets.token_hex(16),
    }


def _public(ask: Ask) -> bool:
    return ask.may("images.create", scope="fleet")


def one(ask: Ask) -> dict[str, Any]:
    id = ask.path["id"]
    shown = ask("images.get", id=id)
    mine = shown["ownerTenantId"] == ask.session.tenant_id
    there = shown["state"] != "retired"
    return {
        "of": shown,
        "may": ask.offered("images.sign", "images.retire", id=id) if mine and there else set(),
        "may_upload": ask.as_of is None and mine and shown["state"] == "registered" and ask.may("images.upload", id=id),
        "may_start": ask.as_of is None and shown["state"] == "stored" and ask.may("instances.create"),
        "title": f"Image {shown['name']} {shown['imageVersion']}",
        "live": id,
    }


PAGES: Final = (
    Page(
        path="/images",
        name="console.images",
        template="images.html",
        build=listed,
        title="Images",
        nav="Instances",
        live=("img",),
    ),
    Page(
        path="/images/{id}",
        name="console.image",
        template="image.html",
        build=one,
        title="Image",
        nav="Instances",
    ),
)
