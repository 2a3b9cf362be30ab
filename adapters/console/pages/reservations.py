"""Reservations: the list, and one as it goes from asked for to released, with what may be done to it."""

from collections.abc import Mapping
from typing import Any, Final, get_args

from adapters.console import seen
from adapters.console.ask import Ask
from adapters.console.page import Page
from domain import reservation, reservation_life

WAY: Final[tuple[reservation.Status, ...]] = ("placed", "binding", "active", "releasing", "released")
"""What is ahead of one that is in none of its final states."""
ENDED: Final = reservation_life.FINAL
HOUR_MS: Final = 3_600_000


def listed(ask: Ask) -> dict[str, Any]:
    return {
        "list": seen.page(ask, "reservations.list", "state", "poolId", "projectId"),
        "pools": seen.names(ask, "pools"),
        "projects": seen.names(ask, "projects"),
        "states": get_args(reservation.Status),
        "may_create": ask.as_of is None and ask.may("reservations.create"),
    }


def one(ask: Ask) -> dict[str, Any]:
    id = ask.path["id"]
    shown = seen.one(ask, "reservations", id)
    mine = shown["tenantId"] == ask.session.tenant_id
    scope = "tenant" if mine else "fleet"
    pool = ask.if_may("pools.get", id=shown["poolId"])
    extensions = ask.if_may("extensions.list", reservationId=id, scope=scope, order="desc", limit=20)
    return {
        "of": shown,
        "now": ask.now,
        "mine": mine,
        "pool": pool,
        "project": seen.name(ask, "projects", shown["projectId"]),
        "steps": way(shown, ask.if_may("reservations.states", id=id)),
        "final": shown["state"] in ENDED,
        "may": _offered(ask, shown, pool, mine),
        "may_again": ask.as_of is None and mine and ask.may("reservations.create"),
        "extensions": None if extensions is None else extensions["items"],
        "spent": _spent(ask, id, scope),
        "booked": _booked(shown),
        "title": f"Reservation {id[:12]}…",
        "live": f"{id} ext {shown['instanceId'] or ''}",
    }


def takes(of: Mapping[str, Any], identity_id: str, *, delegated: bool = False) -> list[str]:
    """The operations that its state takes of this identity; what came with an instance ends with that alone."""
    state = of["state"]
    verbs = [verb for verb, states in reservation_life.VERBS.items() if state in states]
    if of["instanceId"] and of["durationSeconds"] is None:
        verbs = [verb for verb in verbs if verb == "confirm"]
    if "release" in verbs and "cancel" in verbs:
        verbs.remove("cancel")  # bound, the two are one
    if "renew" in verbs and of["leaseSeconds"] is None:
        verbs.remove("renew")
    if "confirm" in verbs and (delegated or of["ownerId"] != identity_id):
        verbs.remove("confirm")
    return [f"reservations.{verb}" for verb in verbs]


def _offered(ask: Ask, of: Mapping[str, Any], pool: Mapping[str, Any] | None, mine: bool) -> set[str]:
    session = ask.session
    if mine:
        return ask.offered(*takes(of, session.identity_id, delegated=session.session_kind == "delegated"), id=of["id"])
    owns = pool is not None and pool["ownerTenantId"] == session.tenant_id
    evictable = of["state"] in ("pending", "placed", "binding", "active")
    return ask.offered("pools.evict", id=of["poolId"]) if owns and evictable else set()


def way(of: Mapping[str, Any], so_far: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Where it has been with since when, where it is, and what is ahead of it."""
    known = so_far["items"] if so_far else ()
    been = [step for step in known if step["state"] != "draft" or of["state"] == "draft"]
    steps: list[dict[str, Any]] = [{"name": step["state"], "since": step["since"], "at": "past"} for step in been]
    if not steps:
        steps = [{"name": of["state"], "since": None, "at": "past"}]
    steps[-1]["at"] = "now"
    if of["state"] not in ENDED:
        ahead = WAY[WAY.index(of["state"]) + 1 :] if of["state"] in WAY else WAY
        steps += [{"name": state, "since": None, "at": "ahead"} for state in ahead]
    return steps


def _spent(ask: Ask, id: str, scope: str) -> float | None:
    """GPU-hours that ran so far, as usage counts them."""
    found = ask.if_may("usage.list", reservationId=id, scope=scope, groupBy=["tenant"])
    return None if found is None else sum(row["gpuHours"] for row in found["items"])


def _booked(of: Mapping[str, Any]) -> float | None:
    """GPU-hours of its whole window; None where it has no end."""
    if of["startsAt"] is not None and of["endsAt"] is not None:
        return float(of["gpuCount"] * (of["endsAt"] - of["startsAt"]) / HOUR_MS)
    return None if of["durationSeconds"] is None else float(of["gpuCount"] * of["durationSeconds"] / 3600)


PAGES: Final = (
    Page(
        path="/reservations",
        name="console.reservations",
        template="reservations.html",
        build=listed,
        title="Reservations",
        nav="Reservations",
        needs="reservations.list",
        live=("rsv",),
    ),
    Page(
        path="/reservations/{id}",
        name="console.reservation",
        template="reservation.html",
        build=one,
        title="Reservation",
        nav="Reservations",
        live=("rsv", "ext"),
    ),
)
