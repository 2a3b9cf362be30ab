"""`better-compute audit`: fold the log again, apart from the live tables (api.md §6)."""

import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from adapters.cli import audit_export, audit_verify, database, progress

_UNREAD = """
WITH read AS (SELECT coalesce(max(t), 0) AS t, coalesce(max(position), 0) AS position FROM log_time)
SELECT max(position) FROM (
    SELECT notification_id AS position, greatest(read.t, max(recorded_at) OVER (ORDER BY notification_id)) AS t
    FROM stored_events, read WHERE notification_id > read.position
) AS labelled
WHERE t <= %s
"""


@click.group()
def audit() -> None:
    """Who did what: search, replay, export, and prove it."""


@audit.command()
@click.option("--stream", help="only this thing, such as rsv_…, and its resulting state")
@click.option("--tenant", help="only events in this tenant's audit log")
@click.option(
    "--until", help="stop at this instant (2026-12-01T06:00Z, epoch ms, or -10m for ago), or at this position (@1234)"
)
@click.option("--summary", is_flag=True, help="no steps, only the result for each kind of thing")
@click.option("--json", "as_json", is_flag=True, help="one JSON object a step, then the state, or one a kind")
@database.options
def replay(
    stream: str | None,
    tenant: str | None,
    until: str | None,
    summary: bool,
    as_json: bool,
    database_url: str | None,
    data_dir: Path | None,
) -> None:
    """Fold the log again, apart from the live tables, and show each step and the result.

    It calls nothing outside and writes nothing: the database is opened to read.
    """
    from eventsourcing.persistence import MapperDeserialisationError

    from adapters.cli import audit_replay

    bound = _bound(until)
    if stream is not None and (tenant is not None or summary):
        raise click.UsageError("--stream is one thing: it takes neither --tenant nor --summary")
    with database.reached(database_url, data_dir) as dsn, audit_replay.opened(dsn) as connection:
        database.check_tenant(connection, tenant)
        upto = bound(connection)
        upto = audit_replay.END if upto is None else upto
        try:
            if stream is not None:
                _one(connection, stream, upto, until, as_json)
            else:
                _all(connection, tenant, upto, summary, as_json)
        except MapperDeserialisationError as unreadable:
            raise click.ClickException(str(unreadable)) from unreadable


def _one(connection: Any, stream: str, upto: int, until: str | None, as_json: bool) -> None:
    import msgspec

    from adapters.cli import audit_replay
    from domain import registry

    try:
        kind = registry.kind(stream)
    except KeyError:
        raise click.UsageError(f"{stream!r} is not the id of anything that the log keeps") from None
    state, version = kind.initial, 0
    for step in audit_replay.of_stream(connection, stream, upto):
        state, version = kind.evolve(state, step.event), step.version
        _step(step, as_json)
    if not version:
        raise click.ClickException(f"the log has nothing of {stream}" + (f" up to {until}" if until else ""))
    shown = msgspec.json.encode(state)
    click.echo(shown if as_json else f"\nstate after version {version}:")
    if not as_json:
        click.echo(msgspec.json.format(shown, indent=2))


def _all(connection: Any, tenant: str | None, upto: int, summary: bool, as_json: bool) -> None:
    import msgspec

    from adapters.cli import audit_replay, tables

    if not summary:
        for step in audit_replay.steps(connection, upto, tenant):
            _step(step, as_json, of=step.stream)
    with progress.Progress("audit replay", sys.stderr) as shown:
        kinds = audit_replay.came_to(connection, upto, tenant, shown)
    if as_json:
        for kind in kinds:
            click.echo(msgspec.json.encode(kind))
        return
    rows = [
        {
            "kind": kind.noun,
            "things": kind.things,
            "events": kind.events,
            "states": ", ".join(f"{count} {name}" for name, count in kind.states.most_common()),
        }
        for kind in kinds
    ]
    click.echo(tables.table(rows, ("kind", "things", "events", "states"), None))
    events = sum(kind.events for kind in kinds)
    click.echo(f"{events:,} events folded in {progress.total(events, shown.seconds)}")


def _bound(until: str | None) -> Callable[[Any], int | None]:
    """What --until says, as a log position once there is a connection to ask; None is the log's end."""
    if until is None:
        return lambda _: None
    if re.fullmatch(r"@[0-9]{1,18}", until):
        return lambda _: int(until[1:])
    from adapters.cli import instants

    try:
        instant = instants.instant(until)
    except ValueError as wrong:
        raise click.UsageError(f"--until takes an instant, or a position as @1234: {wrong}") from None
    return lambda connection: _as_of(connection, instant)


def _as_of(connection: Any, instant: int) -> int:
    """The position that an instant stands for: time only labels. What log_time has not read yet is labelled here."""
    from projections import log_time

    unread = connection.execute(_UNREAD, (instant,)).fetchone()
    read = connection.execute(log_time.AS_OF, (instant,)).fetchone()
    return max(unread[0] or 0, read[0] if read else 0)


def _step(recorded: Any, as_json: bool, of: str | None = None) -> None:
    """One event; `of` names its thing where there are several."""
    import msgspec

    data = msgspec.to_builtins(recorded.event)
    kind = data.pop("type")
    if as_json:
        meta = msgspec.to_builtins(recorded.meta)
        line = {
            "position": recorded.position,
            **({} if of is None else {"stream": of}),
            "version": recorded.version,
            "type": kind,
            "recordedAt": recorded.recorded_at,
            **meta,
            "data": data,
        }
        click.echo(msgspec.json.encode(line))
        return
    at = datetime.fromtimestamp(recorded.recorded_at / 1000, UTC).isoformat(timespec="milliseconds")
    under = f" under {recorded.meta.admission}" if recorded.meta.admission else ""
    click.echo(f"@{recorded.position} v{recorded.version} {at} {kind}" + ("" if of is None else f" of {of}"))
    click.echo(f"    by {recorded.meta.actor}{under}")


@audit.command()
@database.options
def diff(database_url: str | None, data_dir: Path | None) -> None:
    """Rebuild every projection from the log beside the live one, and compare row by row; exit 1 on a difference."""
    from adapters.postgres import rebuild
    from projections import table

    with database.reached(database_url, data_dir) as dsn, progress.Progress("audit diff", sys.stderr) as shown:
        try:
            verdict = rebuild.compare(dsn, table.ALL, shown)
        except rebuild.RebuildError as problem:
            raise click.ClickException(str(problem)) from problem
    for difference in verdict.differences:
        click.echo(
            f"{difference.projection}.{difference.table}: {difference.only_live} rows only live, "
            f"{difference.only_log} only from the log"
        )
        for example in difference.examples:
            click.echo(f"    {example}")
    click.echo(
        f"{verdict.events:,} events folded in {progress.total(verdict.events, shown.seconds)}, "
        f"{verdict.rows:,} rows compared, {len(verdict.differences)} tables differ"
    )
    if verdict.differences:
        raise SystemExit(1)


audit.add_command(audit_verify.verify)
audit.add_command(audit_export.export)
audit.add_command(audit_export.checkpoint)
