"""`better-compute audit`: fold the log again, apart from the live tables (api.md §6)."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from adapters.cli import database


@click.group()
def audit() -> None:
    """Replay what happened, and compare the live tables with the log."""


@audit.command()
@click.option("--stream", required=True, help="the id of one thing, as rsv_…")
@click.option("--until", help="stop at this instant (epoch ms), or at this position (@1234)")
@click.option("--json", "as_json", is_flag=True, help="one JSON object a step, then the state")
@database.options
def replay(stream: str, until: str | None, as_json: bool, database_url: str | None, data_dir: Path | None) -> None:
    """Show each step of one thing and the state it came to."""
    import msgspec
    import psycopg

    from adapters.postgres.mapper import decode
    from domain import registry

    try:
        registry.kind(stream)
    except KeyError:
        raise click.UsageError(f"{stream!r} is not the id of anything that the log keeps") from None
    with database.reached(database_url, data_dir) as dsn, psycopg.connect(dsn) as connection:
        rows = connection.execute(
            """
            SELECT originator_id, originator_version, topic, state, notification_id, recorded_at
            FROM stored_events WHERE originator_id = %s ORDER BY originator_version
            """,
            (stream,),
        ).fetchall()
    history = [one for one in (decode(*row) for row in rows) if _before(one, until)]
    if not history:
        raise click.ClickException(f"the log has nothing of {stream}")
    state = registry.fold_recorded(stream, history)
    for step in history:
        data = msgspec.to_builtins(step.event)
        _step(step, data, as_json)
    shown = msgspec.json.encode(state)
    click.echo(shown if as_json else f"\nstate after version {history[-1].version}:")
    if not as_json:
        click.echo(msgspec.json.format(shown, indent=2))


def _before(recorded: Any, until: str | None) -> bool:
    if until is None:
        return True
    bound = until.removeprefix("@")
    if not bound.isascii() or not bound.isdigit():
        raise click.UsageError("--until takes an instant in epoch ms, or a position as @1234")
    reached: int = recorded.position if until.startswith("@") else recorded.recorded_at
    return reached <= int(bound)


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

    with database.reached(database_url, data_dir) as dsn:
        verdict = rebuild.compare(dsn, table.ALL)
    for difference in verdict.differences:
        click.echo(
            f"{difference.projection}.{difference.table}: {difference.only_live} rows only live, "
            f"{difference.only_log} only from the log"
        )
        for example in difference.examples:
            click.echo(f"    {example}")
    click.echo(
        f"{verdict.events} events folded, {verdict.rows} rows compared, {len(verdict.differences)} tables differ"
    )
    if verdict.differences:
        raise SystemExit(1)
