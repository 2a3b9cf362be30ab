"""`better-compute migrate`: bring a database's schema up to date, or say what it lacks."""

from pathlib import Path

import click

from adapters.cli import database


@click.command()
@database.options
@click.option("--check", is_flag=True, help="change nothing; exit 1 unless the database is at this program's head")
def migrate(database_url: str | None, data_dir: Path | None, check: bool) -> None:
    """Bring the database's schema up to date."""
    from adapters.postgres import migrate, runner
    from projections import table

    with database.reached(database_url, data_dir) as dsn:
        try:
            if check:
                migrate.check(dsn)
                click.echo("the database is at this program's head")
                return
            applied = migrate.migrate(dsn)
        except migrate.MigrationError as problem:
            raise click.ClickException(str(problem)) from problem
        runner.create_tables(dsn, table.ALL)
        click.echo("\n".join(f"applied {one.label}" for one in applied) or "nothing to do")
