"""What a preview of a claim says to the person who asks, and what may be done next."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from adapters.cli import claim_words, spans, tables
from adapters.cli.claim_words import Wanted

MOST_OBSTACLES: Final = 6
MOST_NODES: Final = 8

_STATES: Final = {
    "placed": "it can be had",
    "pending": "it would wait",
    "awaiting-confirmation": "it would wait to be confirmed",
    "denied": "it would be refused",
    "expired": "it cannot be had",
}
COMES: Final = ("placed", "pending", "awaiting-confirmation")
"""States in which a create comes to something."""

Preview = Mapping[str, Any]


class Next(NamedTuple):
    """What may be done, under which key; `at` is the start that it would have in place of the one asked for."""

    key: str
    said: str
    at: int | None = None


def told(wanted: Wanted, found: Preview, now: int) -> str:
    """Lines of what it is, whether it can be had, where and when, what it takes of quotas, and what is in the way."""
    assert wanted.pool is not None
    assert wanted.seconds is not None
    hours = found["gpuCount"] * wanted.seconds / 3600
    what = (
        f"{claim_words.shown(wanted.devices, wanted.nodes)} of {wanted.pool['name']} for {spans.exact(wanted.seconds)}"
    )
    reason = f" ({found['stateReason']})" if found["stateReason"] else ""
    rows = [("what", what + (f", {hours:,.6g} GPU-hours" if hours else "")), ("now", _STATES[found["state"]] + reason)]
    if found["placement"] and found["state"] in COMES:
        rows += [("where", _where(found)), ("when", _when(wanted, found, now))]
    elif found["earliestStart"] is not None and found["state"] != "denied":
        rows.append(("earliest", _instant(found["earliestStart"], now)))
    if _is_in_vain(found):
        rows.append(("earliest", "never, as the pool is: it would wait in vain"))
    if found["preempts"]:
        rows.append(("preempts", tables.counted(found["preempts"], "spot reservation")))
    rows += [("quota", _quota(peak)) for peak in found["quota"] if peak["limit"] is not None]
    rows += [("budget", _budget(one)) for one in found["budget"]]
    rows += [("in the way", each) for each in _obstacles(found, now)]
    width = max(len(name) for name, _ in rows)
    names = [name if n == 0 or rows[n - 1][0] != name else "" for n, (name, _) in enumerate(rows)]
    return "\n".join(
        f"  {name:<{width}}  {tables.printable(text)}" for name, (_, text) in zip(names, rows, strict=True)
    )


def choices(wanted: Wanted, found: Preview, later: int | None, now: int) -> list[Next]:
    """The first is what Enter does. `later` is a start at which it could be had, if the server does not name one."""
    can = []
    start = found["earliestStart"] if later is None else later
    if start is not None and (later is not None or (wanted.at is not None and not found["placement"])):
        can.append(Next("e", f"reserve from {_instant(start, now)}", start))
    if found["state"] in COMES:
        waits = found["state"] == "pending"
        can.append(Next("y", "reserve it and wait in the queue" if waits else "reserve it"))
    change = Next("c", "change it")
    return [change, *can, Next("n", "leave it")] if _is_in_vain(found) else [*can, change, Next("n", "leave it")]


def may_fit_later(found: Preview) -> bool:
    """Whether quota alone is in the way, and only for as long as others of one's own have it."""
    over = [peak for peak in found["quota"] if peak["limit"] is not None and peak["after"] > peak["limit"]]
    return found["stateReason"] == "QuotaExceeded" and all(_taken(peak) <= peak["limit"] for peak in over)


def _is_in_vain(found: Preview) -> bool:
    """Who has more ahead than the server reckons with is promised no start either, but not for ever."""
    queued = any(one["kind"] == "queue" for one in found["obstacles"])
    return found["state"] == "pending" and found["earliestStart"] is None and not queued


def _taken(peak: Mapping[str, int]) -> int:
    return peak["after"] - peak["before"]


def nodes(names: Sequence[str]) -> str:
    more = len(names) - MOST_NODES
    return ", ".join(names[:MOST_NODES]) + (f" and {more} more" if more > 0 else "")


def _where(found: Preview) -> str:
    """A create may take others that are as good."""
    names = [one["nodeName"] for one in found["placement"]]
    return nodes(names) + (", or one like it" if len(names) == 1 else ", or others like them")


def _when(wanted: Wanted, found: Preview, now: int) -> str:
    begins = "now" if wanted.at is None and found["startsAt"] <= now + 1_000 else _instant(found["startsAt"], now)
    return f"{begins}, until {tables.instant(found['endsAt'] // 1000 * 1000)}"


def _instant(at: int, now: int) -> str:
    whole = -(-at // 1000) * 1000
    return f"{tables.instant(whole)}, in {spans.brief(whole - now)}" if whole > now else tables.instant(whole)


def _quota(peak: Mapping[str, Any]) -> str:
    before, after, limit = peak["before"], peak["after"], peak["limit"]
    text = f"of {limit} {peak['resource']} the {peak['kind']} grants, {before} taken, {after} with it"
    return text if after <= limit else f"{text}: {max(0, limit - before)} left"


def _budget(one: Mapping[str, Any]) -> str:
    text = f"of {one['gpuHours']:,.6g} GPU-hours the {one['kind']} may spend, {one['leftGpuHours']:,.6g} left"
    return f"{text}, {one['neededGpuHours']:,.6g} needed"


def _obstacles(found: Preview, now: int) -> Sequence[str]:
    said = []
    for one in found["obstacles"]:
        until = one.get("until")
        text = "others' bookings" if one["kind"] == "busy" else one["message"]
        said.append(f"{text} until {_instant(until, now)}" if until is not None else text)
    more = len(said) - MOST_OBSTACLES
    return said if more <= 0 else [*said[:MOST_OBSTACLES], f"and {more} more"]
