"""What `better-compute reserve` asks a person: on standard error, each answer read at once and asked for again."""

import shutil
from collections.abc import Callable, Sequence
from typing import Any, Final

import click
from msgspec.structs import replace

from adapters.cli import claim_words, fitting, spans, tables
from adapters.cli.claim_preview import Next
from adapters.cli.claim_words import Row, Wanted

_POOL: Final = "Pool (number, name or id)"
_SPAN: Final = "For how long (90m, 8h, 2d)"
_START: Final = "From when (now, +2h, 2026-12-24T08:00Z)"


def fill(wanted: Wanted, pools: Sequence[Row], capacity: Sequence[Row], projects: Sequence[Row]) -> Wanted:
    """Ask for what is not said; when that is something, also from when and for which project."""
    if wanted.pool is None:
        wanted = replace(wanted, pool=_pool(pools, capacity, None))
    if not wanted.devices:
        wanted = _devices(wanted, capacity)
    if wanted.seconds is None:
        wanted = replace(wanted, seconds=_span(None))
    if wanted.at is None:
        wanted = replace(wanted, at=_start(None))
    return wanted if wanted.project is not None else replace(wanted, project=_project(projects, None))


def change(wanted: Wanted, pools: Sequence[Row], capacity: Sequence[Row], projects: Sequence[Row]) -> Wanted:
    """Ask for everything again; Enter leaves it as it is."""
    assert wanted.pool is not None
    pool = _pool(pools, capacity, wanted.pool)
    if pool["id"] != wanted.pool["id"]:
        wanted = replace(wanted, devices=(), nodes=1)
    wanted = _devices(replace(wanted, pool=pool), capacity)
    wanted = replace(wanted, seconds=_span(wanted.seconds), at=_start(wanted.at))
    return replace(wanted, project=_project(projects, wanted.project))


def decide(can: Sequence[Next]) -> Next:
    """One of what may be done."""
    for one in can:
        click.echo(f"  {one.key}  {one.said}", err=True)
    keys = [one.key for one in can]

    def read(text: str) -> Next:
        key = text.strip().lower()[:1]
        if key not in keys:
            raise click.BadParameter(f"one of {', '.join(keys)}")
        return can[keys.index(key)]

    return _ask("What now", read, keys[0])  # type: ignore[no-any-return]


def show_pools(pools: Sequence[Row], capacity: Sequence[Row]) -> None:
    rows = [
        {
            "no": n,
            "name": pool["name"],
            "model": pool["gpuModel"],
            "region": pool["region"],
            "free": claim_words.free(pool, capacity),
        }
        for n, pool in enumerate(pools, 1)
    ]
    width = shutil.get_terminal_size().columns
    click.echo(fitting.fit(rows, ("no", "name", "model", "region", "free"), width).text, err=True)


def _pool(pools: Sequence[Row], capacity: Sequence[Row], now: Row | None) -> Row:
    show_pools(pools, capacity)
    default = now["name"] if now else "1" if len(pools) == 1 else None
    if now and [pool["name"] for pool in pools].count(now["name"]) > 1:
        default = now["id"]
    return _ask(_POOL, lambda text: claim_words.chosen(text, pools, "pool"), default)  # type: ignore[no-any-return]


def _devices(wanted: Wanted, capacity: Sequence[Row]) -> Wanted:
    assert wanted.pool is not None
    main, *others = claim_words.classes(wanted.pool, capacity)
    beside = f"; beside it {', '.join(others)}" if others else ""
    gang = f", 2x {main}=8 on each of two nodes" if wanted.pool["class"] != "vps-host" else ""
    default = claim_words.shown(wanted.devices, wanted.nodes) if wanted.devices else None
    question = f"What ({main}=8{gang}{beside})"
    nodes, devices = _ask(question, lambda text: claim_words.lines(text, main), default)
    return replace(wanted, devices=devices, nodes=max(nodes, wanted.nodes) if default is None else nodes)


def _span(now: int | None) -> int:
    return _ask(_SPAN, claim_words.seconds, spans.exact(now) if now else None)  # type: ignore[no-any-return]


def _start(now: int | None) -> int | None:
    return _ask(_START, claim_words.start, "now" if now is None else tables.instant(now))  # type: ignore[no-any-return]


def _project(projects: Sequence[Row], now: str | None) -> str | None:
    if not projects:
        return None
    names = {project["id"]: project["name"] for project in projects}

    def read(text: str) -> str | None:
        return None if text == claim_words.NO_PROJECT else str(claim_words.chosen(text, projects, "project")["id"])

    known = ", ".join(tables.printable(name) for name in names.values())
    default = names.get(now or "", claim_words.NO_PROJECT)
    return _ask(f"Project ({claim_words.NO_PROJECT}, {known})", read, default)  # type: ignore[no-any-return]


def _ask(question: str, read: Callable[[str], Any], default: str | None) -> Any:
    """What is typed, read; click asks again after what read refuses, and would after an Enter say no word of why."""
    if default is None:
        return click.prompt(question, value_proc=read, default="", show_default=False, err=True)
    return click.prompt(question, value_proc=read, default=default, err=True)
