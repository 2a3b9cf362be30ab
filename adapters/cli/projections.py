"""`better-compute projections`: where the read models stand, and making one anew."""

from pathlib import Path

import click

from adapters.cli import database


@click.group()
def projections() -> None:
    """List the projections, or rebuild them from the log."""


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
