"""`better-compute reserve`: devices for a while; on a terminal it asks what is missing, and shows what would be."""

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import uuid4

import click
from msgspec.structs import replace

from adapters.cli import (
    claim_preview,
    claim_questions,
    claim_words,
    client,
    completing,
    server_options,
    tables,
    troubles,
    waiting,
)
from adapters.cli.claim_preview import Preview
from adapters.cli.claim_words import Row, Wanted
from adapters.cli.main import registered

LATER_TRIED: Final = 5
"""Ends of one's own reservations that are tried as starts where the quota is used up until then."""

HOLDING: Final = ("active", "binding", "placed")
CALLED_OFF: Final = ("draft", "awaiting-confirmation", "pending", "placed")
"""States that are left by `cancel`; later ones by `release`."""


def _read(read: Callable[[str], Any]) -> Callable[..., Any]:
    """What an option says, read at once, so that what cannot be read is refused before anything is asked."""

    def callback(ctx: click.Context, param: click.Parameter, said: Any) -> Any:
        if said is None:
            return None
        return tuple(map(read, said)) if isinstance(said, tuple) else read(said)

    return callback


def _scalar(text: str) -> tuple[str, int]:
    name, _, count = text.partition("=")
    if name not in claim_words.SCALARS or not count.isdecimal():
        raise click.BadParameter(f"{text!r} is not vcpu=COUNT or memoryMiB=COUNT")
    return name, int(count)


@click.command(params=[*waiting.option(waiting.WAITS["reservations.create"]), *server_options.asking()])
@click.option(
    "--pool",
    metavar="NAME|ID",
    shell_complete=completing.named("pools.list", registered),
    help="where: of those that you own or that are offered to you",
)
@click.option(
    "--devices",
    multiple=True,
    metavar="CLASS=COUNT[,SELECTOR]",
    callback=_read(claim_words.line),
    help="gpu=8, on each node; may be repeated",
)
@click.option("--for", "span", metavar="SPAN", callback=_read(claim_words.seconds), help="90m, 8h, 2d, 1d12h")
@click.option(
    "--at",
    metavar="INSTANT",
    callback=_read(claim_words.start),
    help="the start: now, +2h, 2026-12-24T08:00Z [default: now]",
)
@click.option(
    "--nodes",
    type=click.IntRange(1, 1024),
    default=1,
    show_default=True,
    help="number of nodes",
)
@click.option(
    "--project",
    metavar="NAME|ID",
    shell_complete=completing.named("projects.list", registered),
    help="the project that it is for",
)
@click.option(
    "--scalars",
    multiple=True,
    metavar="vcpu|memoryMiB=COUNT",
    callback=_read(_scalar),
    help="on each node; may be repeated",
)
@click.option("--spot", is_flag=True, help="only what nobody else needs; others may preempt it")
@click.option("--yes", "-y", is_flag=True, help="do not ask for confirmation")
@click.option("--idempotency-key", help="a retry with the same key acts only once; generated if left out")
def reserve(**given: Any) -> None:
    """Reserve devices of a pool.

    On a terminal it asks for what you do not give, shows where and when it would be placed and what it takes of your
    quotas, and asks for confirmation. Elsewhere it asks nothing: give --pool, --devices, --for and --yes.

    \b
      better-compute reserve
      better-compute reserve --pool h100 --devices gpu=8 --for 8h --yes --wait
      better-compute reserve --pool h100 --devices gpu=8 --nodes 2 --for 2d --at +12h
    """
    person = sys.stdin.isatty() and sys.stderr.isatty()
    missing = [name for name, said in _needed(given) if not said]
    if not person and (missing := [*missing, *([] if given["yes"] else ["--yes"])]):
        raise click.UsageError(f"missing {', '.join(missing)}: where there is no terminal nothing is asked")
    wanted = _said(given)
    asker = Asker(client.Client(given["_server"], given["_token"]))
    wanted = asker.settled(wanted, given)
    if missing:
        wanted = claim_questions.fill(wanted, asker.pools, asker.capacity(), asker.projects())
    wanted = _agreed(asker, wanted, sure=given["yes"], person=person, quiet=given["_json"])
    _reserve(asker.api, wanted, given)


class Asker:
    """What is asked of the server before anything is reserved."""

    def __init__(self, api: client.Client) -> None:
        self.api = api
        self.pools: list[Row] = []

    def settled(self, wanted: Wanted, given: Any) -> Wanted:
        """The names that were said become pool and project."""
        self.pools = [pool for pool in self._every("/v1/pools") if not pool["retired"]]
        if not self.pools:
            raise troubles.Refused("no pool is yours or offered to you, so there is nothing to reserve")
        if given["pool"]:
            wanted = replace(wanted, pool=claim_words.named(given["pool"], self.pools, "pool"))
        if given["project"]:
            wanted = replace(wanted, project=claim_words.named(given["project"], self.projects(), "project")["id"])
        return wanted

    def capacity(self) -> Sequence[Row]:
        return self._seen("/v1/capacity")

    def projects(self) -> list[Row]:
        return [project for project in self._seen("/v1/projects") if project["archivedAt"] is None]

    def preview(self, wanted: Wanted) -> Preview | None:
        """None where the caller may not look ahead."""
        try:
            found: Preview = self.api.send("POST", "/v1/reservations/preview", body=claim_words.body(wanted)).thing
        except troubles.Refused as refusal:
            if refusal.status != 403:
                raise
            return None
        return found

    def later(self, wanted: Wanted, found: Preview) -> int | None:
        """When one's own reservations have given back enough of the quota for this one."""
        if not claim_preview.may_fit_later(found):
            return None
        held = [row["endsAt"] for state in HOLDING for row in self._seen("/v1/reservations", state=state)]
        for end in sorted({end for end in held if end is not None})[:LATER_TRIED]:
            then = self.preview(replace(wanted, at=end))
            if then is not None and then["state"] == "placed":
                return int(end)
        return None

    def _seen(self, path: str, **query: str) -> Sequence[Row]:
        try:
            return self._every(path, **query)
        except troubles.Refused as refusal:
            if not refusal.unseen:
                raise
            return []

    def _every(self, path: str, **query: str) -> Sequence[Row]:
        paged = query if path == "/v1/capacity" else {"limit": "1000", **query}
        rows, cursor = self.api.send("GET", path, query=paged).page
        while cursor:
            more, cursor = self.api.send("GET", path, query=paged | {"cursor": cursor}).page
            rows += more
        return rows


def _needed(given: Any) -> Sequence[tuple[str, Any]]:
    return [("--pool", given["pool"]), ("--devices", given["devices"]), ("--for", given["span"])]


def _said(given: Any) -> Wanted:
    return Wanted(
        devices=given["devices"],
        nodes=given["nodes"],
        seconds=given["span"],
        at=given["at"],
        scalars=dict(given["scalars"]),
        spot=given["spot"],
    )


def _agreed(asker: Asker, wanted: Wanted, *, sure: bool, person: bool, quiet: bool) -> Wanted:
    """The claim that is to be made; raises Refused where it cannot be had, or is not wanted after all."""
    while True:
        found = asker.preview(wanted)
        now = round(time.time() * 1000)
        if found is None:
            click.echo("you may not look ahead, so nothing is known of what would come of it", err=True)
            if sure or click.confirm("Reserve it", default=True, err=True):
                return wanted
            raise troubles.Refused("nothing was reserved")
        if not quiet or person:
            click.echo(claim_preview.told(wanted, found, now), err=True)
        comes = found["state"] in claim_preview.COMES
        if sure and comes:
            return wanted
        later = None if comes else asker.later(wanted, found)
        can = claim_preview.choices(wanted, found, later, now)
        if not person:
            raise troubles.Refused(_cannot(found, can))
        chosen = claim_questions.decide(can)
        match chosen.key:
            case "y":
                return wanted
            case "e":
                wanted = replace(wanted, at=chosen.at)
            case "c":
                wanted = claim_questions.change(wanted, asker.pools, asker.capacity(), asker.projects())
            case _:
                raise troubles.Refused("nothing was reserved")


def _cannot(found: Preview, can: Sequence[claim_preview.Next]) -> str:
    starts = [f"; it could be had with --at {tables.instant(one.at)}" for one in can if one.at is not None]
    return f"nothing was reserved: it would be refused ({found['stateReason']})" + "".join(starts)


def _reserve(api: client.Client, wanted: Wanted, given: Any) -> None:
    key = given["idempotency_key"] or str(uuid4())
    try:
        body = api.send(
            "POST", "/v1/reservations", body=claim_words.body(wanted), headers={"Idempotency-Key": key}
        ).thing
    except troubles.Failed as failure:
        again = f"to ask again without doing it twice: --idempotency-key {key}"
        raise troubles.Failed(f"{failure.message}\n{again}") from None
    otherwise = None
    if given["_wait"]:
        body, otherwise = waiting.wait(api, registered(), "reservations.create", body, given["_timeout"])
    click.echo(json.dumps(body, indent=2) if given["_json"] else reserved(body))
    if otherwise is not None:
        raise troubles.Refused(f"the wait ended in {otherwise}")


def reserved(body: Row) -> str:
    """Its id, what it has come to, and how one is rid of it again."""
    nodes = claim_preview.nodes([one["nodeName"] for one in body["allocations"]])
    reason = f" ({body['stateReason']})" if body["stateReason"] else ""
    told = f"{body['id']} is {body['state']}{reason}" + (f" on {nodes}" if nodes else "")
    if body["state"] == "pending" and body["earliestStart"] is not None:
        told += f", begins {_second(body['earliestStart'])} at the latest as things stand"
    elif body["startsAt"] is not None and body["endsAt"] is not None:
        told += f", {_second(body['startsAt'])} to {_second(body['endsAt'])}"
    lines = [tables.printable(told)]
    if body["state"] == "awaiting-confirmation":
        lines.append(f"confirm it:    better-compute reservations confirm {body['id']}")
    if body["state"] in CALLED_OFF:
        lines.append(f"call it off:   better-compute reservations cancel {body['id']}")
    elif body["state"] not in waiting.WAITS["reservations.create"].final:
        lines.append(f"give it back:  better-compute reservations release {body['id']}")
    return "\n".join(lines)


def _second(at: int) -> str:
    return tables.instant(at // 1000 * 1000)
