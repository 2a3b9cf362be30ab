"""`better-compute audit`: fold the log again, apart from the live tables (api.md §6)."""

import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from adapters.cli import audit_verify, database, progress

_STREAM = """
SELECT originator_id, originator_version, topic, state, notification_id, recorded_at
FROM stored_events WHERE originator_id = %s AND notification_id <= coalesce(%s, 9223372036854775807)
ORDER BY originator_version
"""
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
    """Replay what happened, compare the live tables with the log, and the log with its evidence."""


@audit.command()
@click.option("--stream", required=True, help="the id of one thing, as rsv_…")
@click.option(
    "--until", help="stop at this instant (epoch ms, or ISO 8601 with its offset), or at this position (@1234)"
)
@click.option("--json", "as_json", is_flag=True, help="one JSON object a step, then the state")
@database.options
def replay(stream: str, until: str | None, as_json: bool, database_url: str | None, data_dir: Path | None) -> None:
    """Show each step of one thing and the state it came to."""
    import msgspec
    import psycopg

    from adapters.postgres.mapper import decode
    from domain import registry

    bound = _bound(until)
    try:
        registry.kind(stream)
    except KeyError:
        raise click.UsageError(f"{stream!r} is not the id of anything that the log keeps") from None
    with database.reached(database_url, data_dir) as dsn, psycopg.connect(dsn) as connection:
        rows = connection.execute(_STREAM, (stream, bound(connection))).fetchall()
    history = [decode(*row) for row in rows]
    if not history:
        raise click.ClickException(f"the log has nothing of {stream}" + (f" up to {until}" if until else ""))
    state = registry.fold_recorded(stream, history)
    for step in history:
        data = msgspec.to_builtins(step.event)
        _step(step, data, as_json)
    shown = msgspec.json.encode(state)
    click.echo(shown if as_json else f"\nstate after version {history[-1].version}:")
    if not as_json:
        click.echo(msgspec.json.format(shown, indent=2))


def _bound(until: str | None) -> Callable[[Any], int | None]:
    """What --until says, as a log position once there is a connection to ask; None is the log's end."""
    if until is None:
        return lambda _: None
    if re.fullmatch(r"@[0-9]{1,18}", until):
        return lambda _: int(until[1:])
    from adapters.cli import fields

    try:
        instant = fields.instant(until)
    except ValueError as wrong:
        raise click.UsageError(f"--until takes an instant, or a position as @1234: {wrong}") from None
    return lambda connection: _as_of(connection, instant)


def _as_of(connection: Any, instant: int) -> int:
    """The position that an instant stands for: time only labels. What log_time has not read yet is labelled here."""
    from projections import log_time

    unread = connection.execute(_UNREAD, (instant,)).fetchone()
    read = connection.execute(log_time.AS_OF, (instant,)).fetchone()
    return max(unread[0] or 0, read[0] if read else 0)


def _step(recorded: Any, data: dict[str, Any], as_json: bool) -> None:
    import msgspec

    kind = data.pop("type")
    if as_json:
        meta = msgspec.to_builtins(recorded.meta)
        line = {
            "position": recorded.position,
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
    click.echo(f"@{recorded.position} v{recorded.version} {at} {kind}")
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
