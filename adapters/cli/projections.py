"""`better-compute projections`: where the read models stand, and making one anew."""

from pathlib import Path

import click

from adapters.cli import database


@click.group()
def projections() -> None:
    """List the projections, retry stopped ones, or rebuild them from the log."""


@projections.command("list")
@database.options
def list_(database_url: str | None, data_dir: Path | None) -> None:
    """Show each projection's kind, position and failure."""
    import psycopg

    from adapters.cli import tables
    from projections import table
    from projections.projection import Inline

    with database.reached(database_url, data_dir) as dsn, psycopg.connect(dsn) as connection:
        rows = connection.execute("SELECT name, position, failure FROM projection_positions").fetchall()
    known = {name: (position, failure) for name, position, failure in rows}
    items = [
        {
            "name": projection.name,
            "kind": "inline" if isinstance(projection, Inline) else "async",
            "position": None if isinstance(projection, Inline) else known.get(projection.name, (0, None))[0],
            "failure": known.get(projection.name, (0, None))[1],
        }
        for projection in table.ALL
    ]
    click.echo(tables.table(items, ("name", "kind", "position", "failure"), None))


@projections.command()
@click.argument("names", nargs=-1, required=True)
@database.options
def retry(names: tuple[str, ...], database_url: str | None, data_dir: Path | None) -> None:
    """Go on with stopped projections from where they stand; exit 1 if one stops again.

    Processes that run beside this go on with them by themselves at their next event.
    """
    from adapters.postgres.pool import pool
    from adapters.postgres.runner import Runner
    from projections import table

    known = [projection.name for projection in table.ASYNC]
    if strange := [name for name in names if name not in known]:
        raise click.UsageError(f"no such async projection: {', '.join(strange)} (there are {', '.join(known)})")
    again = False
    with database.reached(database_url, data_dir) as dsn, pool(dsn, 2, application_name="projections retry") as reads:
        runner = Runner(reads, table.ASYNC)
        for name in names:
            failure = runner.retry(name)
            again = again or failure is not None
            click.echo(f"{name}: stopped at {failure}" if failure else f"{name}: at {runner.positions[name]}")
    if again:
        raise SystemExit(1)


@projections.command()
@click.argument("names", nargs=-1)
@click.option("--all", "every", is_flag=True, help="rebuild every projection")
@database.options
def rebuild(names: tuple[str, ...], every: bool, database_url: str | None, data_dir: Path | None) -> None:
    """Make projections anew from the log."""
    from adapters.postgres import rebuild
    from projections import table

    known = {projection.name: projection for projection in table.ALL}
    strange = [name for name in names if name not in known]
    if strange or not (names or every):
        raise click.UsageError(f"name projections ({', '.join(known)}), or say --all")
    with database.reached(database_url, data_dir) as dsn:
        for name in known if every else names:
            read = rebuild.rebuild(dsn, known[name])
            click.echo(f"{name}: {read} events")
