"""What is wrong in the fleet, since when, and where to look: worst first."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from msgspec import Struct

from adapters.console.ask import Ask

NAMED: Final = 4
"""Nodes that an alert names; its link leads to all of them."""

LOOKED_AT: Final = 100

LAG: Final = 1000
"""Positions that the read models may be behind without a word; a busy plane writes as many in a second or two."""

RETRY: Final = (
    "better-compute projections list names the event and the error. With a program that can apply it, it goes on at "
    "the next start, or at once after better-compute projections retry NAME."
)
MEND: Final = (
    "A row of the log cannot be decoded: the server's log names it. Once it is mended, reading goes on by itself."
)
LAGS: Final = "If the number does not fall, the server or its database is too slow for what is written."
MEND_FILE: Final = "Mend the file; it is read again within a second. Until then the earlier one decides."

Row = Mapping[str, Any]


class Kind(Struct, frozen=True):
    """An alert about the nodes that `filter` finds in `nodes.list`; since when `reason` holds.

    A node that is not in service yet need not be connected, and a drain cordons.
    """

    said: str
    tone: str
    filter: Mapping[str, str]
    reason: str

    def holds(self, row: Row) -> bool:
        """Of a row of `nodes.count`."""
        return all(_is(row, field, value) for field, value in self.filter.items())


def _is(row: Row, field: str, value: str) -> bool:
    match field:
        case "reason":
            return value in row.get("reasons", {})
        case "condition":
            return value in row.get("conditions", {})
        case "drain":
            return bool(row.get("drain", "none") == value)
        case _:
            return bool(row[field] == value)


KINDS: Final = (
    Kind(
        "lost: what ran on it alone failed, and what was only placed there is placed elsewhere",
        "bad",
        {"connectivity": "lost"},
        "NotConnected",
    ),
    Kind("unreachable: nothing was heard from the agent", "bad", {"connectivity": "unreachable"}, "NotConnected"),
    Kind("failed in provisioning or at the checks", "bad", {"provisionState": "failed"}, "NotProvisioned"),
    Kind("without a device that is booked", "bad", {"condition": "BookedDeviceMissing"}, "BookedDeviceMissing"),
    Kind("disconnected: the agent has no session", "warn", {"connectivity": "disconnected"}, "NotConnected"),
    Kind("with hardware that another node has too", "warn", {"reason": "DuplicateHardware"}, "DuplicateHardware"),
    Kind("did not pass the checks", "warn", {"reason": "AcceptanceFailed"}, "AcceptanceFailed"),
    Kind("with other GPUs than the pool takes", "warn", {"reason": "GpuModelMismatch"}, "GpuModelMismatch"),
    Kind("with GPUs of a model that nobody knows", "warn", {"reason": "GpuModelUnknown"}, "GpuModelUnknown"),
    Kind("with fewer GPUs than before", "warn", {"condition": "GpuCountMismatch"}, "GpuCountMismatch"),
    Kind("with something else than they should have", "warn", {"condition": "SpecDrift"}, "SpecDrift"),
    Kind("with a clock that is off", "warn", {"condition": "ClockSkew"}, "ClockSkew"),
    Kind("without an inventory for a day", "warn", {"condition": "InventoryStale"}, "InventoryStale"),
    Kind("draining", "warn", {"drain": "draining"}, "Cordoned"),
    Kind("drained, and still cordoned", "info", {"drain": "drained"}, "Cordoned"),
    Kind("in maintenance", "info", {"reason": "Maintenance"}, "Maintenance"),
    Kind("cordoned", "info", {"reason": "Cordoned", "drain": "none"}, "Cordoned"),
)


class Alert(Struct, frozen=True):
    """`since` in epoch ms where it is known; `nodes` are some of those that it is about, `more` how many others.

    `advice` is what to do where the link does not show it.
    """

    said: str
    tone: str
    since: int | None = None
    link: str = ""
    nodes: Sequence[tuple[str, str]] = ()
    more: int = 0
    advice: str = ""


def found(ask: Ask, counts: Sequence[Row], sites: Sequence[Row], scope: str) -> list[Alert]:
    made = [*_read_models(ask), *_unserved(sites, counts), *_workers(ask), *_nodes(ask, counts, scope), *_degraded(ask)]
    return sorted(made, key=lambda alert: ("bad", "warn", "info").index(alert.tone))


def _nodes(ask: Ask, counts: Sequence[Row], scope: str) -> Iterator[Alert]:
    for kind in KINDS:
        rows = [row for row in counts if kind.holds(row)]
        if not rows:
            continue
        count = sum(row["count"] for row in rows)
        some = ask("nodes.map", scope=scope, limit=NAMED, **kind.filter)["items"]
        yield Alert(
            said=f"{count:,} node{'s' if count > 1 else ''} {kind.said}",
            tone=kind.tone,
            since=_since(rows, kind.reason),
            link=f"/fleet/nodes?{urlencode(kind.filter)}",
            nodes=[(one["id"], one["name"]) for one in some],
            more=max(0, count - len(some)),
        )


def _since(rows: Iterable[Row], name: str) -> int | None:
    """The earliest of what holds now."""
    known = ({**row.get("reasons", {}), **row.get("conditions", {})}.get(name) for row in rows)
    return min((at for at in known if at is not None), default=None)


def _unserved(sites: Sequence[Row], counts: Sequence[Row]) -> Iterator[Alert]:
    """A site whose agents are away has lost something; one that has none yet only lacks it."""
    for site in sites:
        if site["served"]:
            continue
        agents = [row for row in counts if row["siteId"] == site["id"] and row["role"] == "site"]
        why = "none of its site agents is connected" if agents else "it has no site agent"
        said = f"Site {site['name']} is not served: {why}, so nothing can boot there"
        yield Alert(said, "warn" if agents else "info", since=_since(agents, "NotConnected"))


def _workers(ask: Ask) -> Iterator[Alert]:
    """What the plane does by itself goes on while somebody holds its lease; of that there is no past."""
    leases = ask.if_may("leases.list")
    for lease in leases["items"] if leases else ():
        kind, _, job = lease["name"].partition(":")
        if kind == "singleton" and "holder" not in lease:
            yield Alert(f"No worker looks after {job}: what time brings there waits for one", "bad", link="/audit")
        if "steppedAt" in lease:
            by = lease["steppedByMs"] / 1000
            said = f"The clock of the worker of {lease['name']} stepped by {by:g} s: its deadlines are held"
            yield Alert(said, "bad", since=lease["steppedAt"])


def _read_models(ask: Ask) -> Iterator[Alert]:
    """What shows less than the log has: lists, and this page itself."""
    checks = ask.checks()
    stopped = checks.get("projections", "ok")
    if stopped != "ok":
        yield Alert(f"What lists show grows old, a read model stopped: {stopped}", "bad", advice=RETRY)
    follower = checks.get("follower", "ok")
    if follower != "ok":
        yield Alert(f"What lists show grows old, nothing of the log is read: {follower}", "bad", advice=MEND)
    lag = int(checks.get("projectionLag", 0))
    if lag >= LAG:
        yield Alert(f"What lists show is {lag:,} positions behind the log", "warn", advice=LAGS)
    file = checks.get("accessFile", "ok")
    if file != "ok":
        yield Alert(f"The access file on disk is not in force: {file}", "warn", advice=MEND_FILE)


def _degraded(ask: Ask) -> Iterator[Alert]:
    """Reservations that run with less than they booked, as far as one page of those that run tells."""
    scope = ask.widest("reservations.list")
    page = ask.if_may("reservations.list", scope=scope, state="active", order="desc", limit=LOOKED_AT)
    less = [row for row in (page["items"] if page else ()) if row["degraded"]]
    if less:
        said = f"{len(less):,} reservation{'s run' if len(less) > 1 else ' runs'} with less than was booked"
        some = [(row["id"], row["degraded"]) for row in less[:NAMED]]
        yield Alert(said, "warn", nodes=some, more=len(less) - len(some))
