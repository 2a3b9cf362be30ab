"""What people say of a claim, read: a pool by its name, devices, how long, from when (domain.md §5)."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click
from msgspec import Struct, inspect

from adapters.cli import fields, instants, spans, tables
from domain.claim import DeviceLine

Row = Mapping[str, Any]

SCALARS: Final = ("vcpu", "memoryMiB")
LEAST_SECONDS: Final = 60
NO_PROJECT: Final = "none"
MAIN: Final = {"exclusive": "gpu", "mig": "gpu.mig", "timeslice": "gpu.slot", "mps": "gpu.slot"}
"""The class that a pool is there for, by how it is shared."""

_LINES: Final = fields.Piece(inspect.type_info(tuple[DeviceLine, ...]))
_GANG: Final = re.compile(r"([0-9]{1,4})\s*x\s+(.*)")


class Wanted(Struct, frozen=True, kw_only=True):
    """A claim as far as it is said. `at` is its start in epoch ms, None for now; `project` is an id."""

    pool: Row | None = None
    devices: tuple[Row, ...] = ()
    nodes: int = 1
    seconds: int | None = None
    at: int | None = None
    project: str | None = None
    scalars: Mapping[str, int] = {}
    spot: bool = False


def body(wanted: Wanted) -> dict[str, Any]:
    """The request of a create, and of a preview; only what instances run on is bound by them."""
    assert wanted.pool is not None
    request: dict[str, Any] = {
        "poolId": wanted.pool["id"],
        "devices": list(wanted.devices),
        "durationSeconds": wanted.seconds,
        "nodes": wanted.nodes,
        "startsAt": wanted.at,
        "projectId": wanted.project,
        "scalars": dict(wanted.scalars),
        "spot": wanted.spot,
        "binding": "instance" if wanted.pool["class"] == "vps-host" else None,
    }
    return {name: value for name, value in request.items() if value}


def named(text: str, rows: Sequence[Row], noun: str) -> Row:
    """The one with this id or name; raises UsageError that names those that it could be."""
    if same := [row for row in rows if row["id"] == text]:
        return same[0]
    found = [row for row in rows if row["name"] == text]
    if len(found) == 1:
        return found[0]
    said = tables.printable(text)
    if found:
        ids = ", ".join(tables.printable(row["id"]) for row in found)
        raise click.UsageError(f"{len(found)} {noun}s are named {said!r}; give the id of one: {ids}")
    there = ", ".join(sorted({tables.printable(row["name"]) for row in rows})) or "none"
    raise click.UsageError(f"no {noun} {said!r} is visible to you; there are: {there}")


def chosen(text: str, rows: Sequence[Row], noun: str) -> Row:
    """As `named`, or by its number in the list that was shown."""
    if not text.strip():
        raise click.BadParameter(f"say which {noun}, such as 1 for {tables.printable(rows[0]['name'])}")
    if text.isdecimal() and 1 <= int(text) <= len(rows):
        return rows[int(text) - 1]
    return named(text, rows, noun)


def lines(text: str, main: str) -> tuple[int, tuple[Row, ...]]:
    """Nodes and device lines: `gpu=8 disk=1`, `2x gpu=8` on two nodes, `8` of what the pool is there for."""
    gang = _GANG.fullmatch(text.strip())
    nodes, rest = (int(gang[1]), gang[2]) if gang else (1, text)
    try:
        words = shlex.split(rest)
    except ValueError as wrong:
        raise click.BadParameter(f"{rest!r}: {wrong}") from None
    if not words or nodes < 1:
        raise click.BadParameter(f"say how many of what, such as {main}=1")
    return nodes, tuple(line(f"{main}={word}" if word.isdecimal() else word) for word in words)


def line(text: str) -> Row:
    """One line of devices, as every command takes it."""
    read: Row = _LINES.convert(text, None, None)
    return read


def seconds(text: str) -> int:
    if not text.strip():
        raise click.BadParameter("say how long, such as 8h")
    try:
        found = spans.seconds(text)
    except ValueError as wrong:
        raise click.BadParameter(str(wrong)) from None
    if found < LEAST_SECONDS:
        raise click.BadParameter(f"{text!r} is too short: a reservation is for a minute at least")
    return found


def start(text: str) -> int | None:
    """None for now: then the server's clock says when that is."""
    if text.strip().lower() == "now":
        return None
    try:
        return instants.instant(text.strip())
    except ValueError as wrong:
        raise click.BadParameter(str(wrong)) from None


def classes(pool: Row, capacity: Sequence[Row]) -> list[str]:
    """What a pool's devices are, that for which it is there first."""
    has = {row["resource"] for row in capacity if row["poolId"] == pool["id"]} - set(SCALARS)
    main = main_class(pool)
    return [main, *sorted(has - {main})]


def main_class(pool: Row) -> str:
    return "node" if pool["class"] == "metal-dedicated" else MAIN[pool["sharing"]]


def free(pool: Row, capacity: Sequence[Row]) -> str:
    """`gpu 47 of 160, disk 160 of 160`: of all there is, or of what one's quota grants."""
    rows = {row["resource"]: row for row in capacity if row["poolId"] == pool["id"]}
    told = [
        f"{name} {rows[name]['available']} of {_whole(rows[name])}" for name in classes(pool, capacity) if name in rows
    ]
    return ", ".join(told) or "-"


def shown(devices: Sequence[Row], nodes: int) -> str:
    """As it would be typed."""
    words = []
    for one in devices:
        selector = f",{one['selector']}" if one.get("selector") else ""
        words.append(shlex.quote(f"{one['class']}={one['count']}{selector}"))
    return (f"{nodes}x " if nodes > 1 else "") + " ".join(words)


def _whole(row: Row) -> int:
    whole: int = row["total"] if "total" in row else row["limit"]
    return whole
