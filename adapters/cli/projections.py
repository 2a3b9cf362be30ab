"""`better-compute projections`: where the read models stand, and making one anew."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from adapters.cli import database, progress

# One statement, so one moment: a projection is never ahead of the end that it is compared with.
_STAND = """
SELECT asked.name, coalesce(stands.position, 0), stands.failure, log.end_ - coalesce(stands.position, 0)
FROM unnest(%s::text[]) WITH ORDINALITY AS asked (name, place)
LEFT JOIN projection_positions AS stands ON stands.name = asked.name
CROSS JOIN (SELECT coalesce(max(notification_id), 0) AS end_ FROM stored_events) AS log
ORDER BY asked.place
"""


@click.group()
def projections() -> None:
    """List the read models, retry stopped ones, or rebuild them from the log."""


@projections.command("list")
@database.options
def list_(database_url: str | None, data_dir: Path | None) -> None:
    """Show each projection's kind; of async ones also the position, its lag behind the log's end, and the failure."""
    import psycopg

    from adapters.cli import tables
    from adapters.postgres.runner import digest
    from projections import table
    from projections.projection import Inline

    with database.reached(database_url, data_dir) as dsn, psycopg.connect(dsn) as connection:
        rows = connection.execute(_STAND, ([projection.name for projection in table.ALL],)).fetchall()
        digests: dict[str, str] = dict(
            connection.execute("SELECT name, tables_digest FROM projection_positions").fetchall()
        )
    changed = {of.name for of in table.ALL if digests.get(of.name, digest(of)) != digest(of)}
    inline = {projection.name for projection in table.ALL if isinstance(projection, Inline)}
    items = [
        {"name": name, "kind": "inline", "failure": failure}
        if name in inline
        else {"name": name, "kind": "async", "position": position, "lag": lag, "failure": failure}
        for name, position, said, lag in rows
        for failure in ["its tables changed: rebuild it" if name in changed else said]
    ]
    click.echo(tables.table(items, ("name", "kind", "position", "lag", "failure"), None))


@projections.command()
@click.argument("names", nargs=-1, required=True)
@database.options
def retry(names: tuple[str, ...], database_url: str | None, data_dir: Path | None) -> None:
    """Continue stopped projections from where they stopped; exit 1 if one stops again.

    Other running processes continue with them by themselves.
    """
    import logging

    from eventsourcing.persistence import MapperDeserialisationError

    from adapters.postgres.pool import pool
    from adapters.postgres.runner import Runner
    from projections import table

    known = [projection.name for projection in table.ASYNC]
    if strange := [name for name in names if name not in known]:
        raise click.UsageError(f"no such async projection: {', '.join(strange)} (there are {', '.join(known)})")
    again = False
    with database.reached(database_url, data_dir) as dsn, pool(dsn, 2, application_name="projections retry") as reads:
        runner = Runner(reads, table.ASYNC)
        logging.getLogger(Runner.__module__).setLevel(logging.CRITICAL)  # what it has to say is said below
        for name in names:
            try:
                failure = runner.retry(name)
            except MapperDeserialisationError as fault:
                raise click.ClickException(str(fault)) from fault
            again = again or failure is not None
            click.echo(f"{name}: stopped at {failure}" if failure else f"{name}: at {runner.positions[name]}")
    if again:
        raise SystemExit(1)


@projections.command()
@click.argument("names", nargs=-1)
@click.option("--all", "every", is_flag=True, help="rebuild every projection")
@database.options
def rebuild(names: tuple[str, ...], every: bool, database_url: str | None, data_dir: Path | None) -> None:
    """Rebuild projections from the log, one after the other; exit 1 at the first that fails."""
    from projections import table

    known = [projection.name for projection in table.ALL]
    if strange := [name for name in names if name not in known]:
        raise click.UsageError(f"no such projection: {', '.join(strange)} (there are {', '.join(known)})")
    if not (names or every):
        raise click.UsageError(f"name projections ({', '.join(known)}), or say --all")
    wanted = known if every else names
    with database.reached(database_url, data_dir) as dsn:
        for place, name in enumerate(wanted, start=1):
            _rebuild(dsn, name, wanted[place:])


def _rebuild(dsn: str, name: str, then: Sequence[str]) -> None:
    """Whatever goes wrong, the live tables are whole: they change over in one transaction."""
    import psycopg

    from adapters.postgres import rebuild
    from projections import table

    (projection,) = (of for of in table.ALL if of.name == name)
    left = f"; not begun: {' '.join(then)}" if then else ""
    with progress.Progress(name, sys.stderr) as shown:
        try:
            read = rebuild.rebuild(dsn, projection, shown)
        except rebuild.RebuildError as problem:
            raise click.ClickException(f"{problem}; its live tables are as they were{left}") from problem
        except psycopg.OperationalError as problem:
            live = "its live tables are whole, as they were or made anew"
            raise click.ClickException(f"{name}: {str(problem).strip()}; {live}{left}") from problem
    click.echo(f"{name}: {read:,} events in {progress.total(read, shown.seconds)}")
