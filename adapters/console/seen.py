"""What several pages look up: a thing as whoever looks may see it, a list as they asked for it, names behind ids."""

from typing import Any, Final

from domain import errors

from .ask import Ask

ROWS: Final = 50
"""On a page of a list."""

MOST_NAMES: Final = 1000


def one(ask: Ask, noun: str, id: str) -> Any:
    """A thing, for the platform also another tenant's, as its lists show it; else the refusal that `get` has."""
    if not id.isprintable():
        raise errors.NotFound(noun.removesuffix("s"), id.encode("unicode_escape").decode()[:80], "id")
    if not ask.may(f"{noun}.get", id=id) and ask.widest(f"{noun}.list") == "fleet":
        asked = {f"{noun.removesuffix('s')}Id": id}
        found = ask(f"{noun}.list", scope="fleet", limit=1, **asked)["items"]
        if found:
            return found[0]
    return ask(f"{noun}.get", id=id)


def page(ask: Ask, operation: str, *filters: str) -> dict[str, Any]:
    """A page of a list, newest first, by the parameters of the address that it knows, and what was chosen of them."""
    wide = ask.widest(operation) == "fleet"
    scope = "tenant" if not wide or ask.query.get("scope") == "tenant" else "fleet"
    order = "asc" if ask.query.get("order") == "asc" else "desc"
    chosen = {name: ask.query.get(name, "") for name in filters}
    found = ask(operation, scope=scope, order=order, limit=ROWS, cursor=ask.query.get("cursor"), **chosen)
    return {
        "items": found["items"],
        "cursor": found.get("nextCursor"),
        "chosen": chosen | {"scope": scope, "order": order},
        "wide": wide,
    }


def whole(ask: Ask, operation: str, pages: int, **fields: Any) -> tuple[list[Any], bool]:
    """Rows of a list by a thousand, of so many pages at most; and whether there are more."""
    rows: list[Any] = []
    cursor = None
    for _ in range(pages):
        found = ask(operation, limit=MOST_NAMES, cursor=cursor, **fields)
        rows += found["items"]
        cursor = found.get("nextCursor")
        if not cursor:
            break
    return rows, bool(cursor)


def several(ask: Ask, operation: str, **fields: Any) -> list[Any]:
    """Rows that a page shows beside its own; none where the caller may not ask for them."""
    found = ask.if_may(operation, scope=ask.widest(operation), **fields)
    return [] if found is None else list(found["items"])


def own(ask: Ask, operation: str, **fields: Any) -> list[Any]:
    """What a form offers: what is the caller's tenant's, or is offered to it, however wide the caller may look."""
    found = ask.if_may(operation, limit=MOST_NAMES, **fields)
    return [] if found is None else list(found["items"])


def name(ask: Ask, noun: str, id: str | None) -> str | None:
    """Of one of those that `names` are of."""
    found = several(ask, f"{noun}.list", limit=1, **{f"{noun.removesuffix('s')}Id": id}) if id else ()
    return next((str(row["name"]) for row in found), None)


def names(ask: Ask, noun: str) -> dict[str, str]:
    """By id; of sites, pools and projects, which people know by their names."""
    return {row["id"]: row["name"] for row in several(ask, f"{noun}.list", limit=MOST_NAMES)}
