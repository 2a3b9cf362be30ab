"""Which things that a page names have a way to them for whoever looks: asked at once, and nothing is recorded.

Stories name what is another tenant's, what never was, and what is gone, and pages of the past what had not begun; a
link to it would be refused.
"""

from collections.abc import Callable, Collection
from typing import Any, Final

from commands.ports import Loaded
from domain import errors, flavor, offering, registry

from . import render
from .ask import Ask

LONGEST_ID: Final = 200

FLEETWIDE: Final = {
    "rsv": "reservations.list",
    "inst": "instances.list",
    "pool": "pools.list",
    "prj": "projects.list",
}
"""Pages that show the platform what is another tenant's too, as `seen.one` finds it."""


def of(ask: Ask, things: Collection[str], streams: Collection[str] = ()) -> render.Ways:
    """`things` are linked to by their pages, and those that have none by their stories, as `streams` are."""
    begun = ask.begun({id for id in {*things, *streams} if _is_kept(id)})
    known = begun & set(things)
    paged = {id for id in known if _prefix(id) in render.PAGES}
    stories = _stories(ask, (known - paged) | begun & set(streams))
    return render.Ways(_pages(ask, paged) | (stories - paged), stories)


def _pages(ask: Ask, ids: set[str]) -> set[str]:
    own = {id for id in ids if _prefix(id) in _OWN}
    gettable = ask.gettable(sorted(ids - own)) if ids - own else {}
    seen = {id for id, may in gettable.items() if may or _fleetwide(ask, id)}
    return seen | {id for id, state in _loaded(ask, own).items() if _OWN[_prefix(id)](ask, state.state)}


def _fleetwide(ask: Ask, id: str) -> bool:
    lists = FLEETWIDE.get(_prefix(id))
    return lists is not None and ask.widest(lists) == "fleet"


def _stories(ask: Ask, streams: set[str]) -> set[str]:
    """As `audit.stream` has it: of whose things they are now, or of everything for the platform."""
    scope = ask.widest("audit.stream")
    if not streams or not ask.may("audit.stream", scope=scope):
        return set()
    loaded = _loaded(ask, streams)
    if scope == "fleet":
        return set(loaded)
    mine = ask.session.tenant_id
    return {stream for stream, one in loaded.items() if mine in registry.kind(stream).tenants(one.state)}


def _loaded(ask: Ask, streams: set[str]) -> dict[str, Loaded]:
    wanted = sorted(streams)
    found = ask.load_all(wanted) if wanted else ()
    return {stream: one for stream, one in zip(wanted, found, strict=True) if one.version}


def _flavor(ask: Ask, state: flavor.State) -> bool:
    return ask.may("flavors.get") and state.visible(ask.session.tenant_id)


def _offering(ask: Ask, state: offering.State) -> bool:
    sides = (state.owner_tenant_id, state.tenant_id)
    return ask.session.tenant_id in sides and ask.may("offerings.get", poolId=state.pool_id)


_OWN: Final[dict[str, Callable[[Ask, Any], bool]]] = {"flv": _flavor, "poff": _offering}
"""Things that the catalog of what is decided on does not have."""


def _prefix(id: str) -> str:
    return id.partition("_")[0]


def _is_kept(id: str) -> bool:
    """Whether the log can have a stream of this name; refusals name whatever was asked for."""
    if not id.isprintable() or len(id) > LONGEST_ID:
        return False
    try:
        registry.kind(id)
    except (KeyError, errors.Refusal):
        return False
    return True
