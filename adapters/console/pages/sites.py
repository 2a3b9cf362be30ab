"""Sites: where machines stand, and the join tokens by which they come."""

from typing import Any, Final, get_args

from adapters.console.ask import Ask
from adapters.console.page import Page
from domain import join_token

MOST: Final = "1000"


def list_(ask: Ask) -> dict[str, Any]:
    scope = ask.widest("sites.list")
    found = ask("sites.list", scope=scope, limit="100", cursor=ask.query.get("cursor"))
    return {
        "sites": found["items"],
        "more_after": found.get("nextCursor"),
        "may": ask.offered("sites.create"),
        "kinds": _kinds(ask),
    }


def _kinds(ask: Ask) -> list[tuple[str, str]]:
    """The platform's own hardware is shared or dedicated; a tenant's is custom."""
    own = [("custom", "custom: of your own tenant")]
    platform = [("shared", "shared: of many tenants"), ("dedicated", "dedicated: of one tenant")]
    return [*platform, *own] if ask.session.root_tenant else own


def get(ask: Ask) -> dict[str, Any]:
    of = ask("sites.get", id=ask.path["id"])
    scope = ask.widest("nodes.list")
    agents = ask.if_may("nodes.list", siteId=of["id"], role="site", limit=MOST, scope=scope)
    pools = ask.if_may("pools.list", siteId=of["id"], limit=MOST, scope=ask.widest("pools.list"))
    tokens = ask.if_may("joinTokens.list", siteId=of["id"], order="desc", limit="50", cursor=ask.query.get("cursor"))
    return {
        "site": of,
        "title": of["name"],
        "agents": agents["items"] if agents else [],
        "pools": [one for one in pools["items"] if not one.get("retired")] if pools else [],
        "tokens": [{**one, "unusable": _unusable(one, ask.now)} for one in tokens["items"]] if tokens else None,
        "more_after": tokens.get("nextCursor") if tokens else None,
        "may": ask.offered("sites.update", id=of["id"]) | ask.offered("joinTokens.create", "joinTokens.revoke"),
        "trusts": [(one, one) for one in get_args(join_token.Trust)],
        "pool_names": {one["id"]: one["name"] for one in pools["items"]} if pools else {},
        "pool_choices": [(one["id"], one["name"]) for one in pools["items"]] if pools else [],
        "roles": [(one, one) for one in get_args(join_token.Role)],
    }


def _unusable(token: dict[str, Any], now: int) -> str:
    state = join_token.State(
        uses=token["uses"], used=token["used"], expires_at=token["expiresAt"], revoked=token["revoked"]
    )
    return (join_token.unusable(state, now) or "").removeprefix("it ").removeprefix("was ")


PAGES: Final = (
    Page(
        path="/sites",
        name="console.sites",
        template="sites.html",
        build=list_,
        title="Sites",
        nav="Nodes",
        live=("site", "node"),
    ),
    Page(
        path="/sites/{id}",
        name="console.site",
        template="site.html",
        build=get,
        title="Site",
        nav="Nodes",
        live=("site", "node", "jt"),
    ),
)
