"""`better-compute migrate`: bring a database's schema up to date, or say what it lacks."""

from pathlib import Path

import click

from adapters.cli import database


@click.command()
@database.options
@click.option("--check", is_flag=True, help="change nothing; exit 1 unless the database is at this program's head")
def migrate(database_url: str | None, data_dir: Path | None, check: bool) -> None:
    """Bring the database's schema up to date."""
    from adapters.postgres import migrate

    with database.reached(database_url, data_dir) as dsn:
        try:
            changed = _check(dsn) if check else _bring(dsn)
        except migrate.MigrationError as problem:
            raise click.ClickException(str(problem)) from problem
    if changed:
        names = " ".join(changed)
        raise click.ClickException(f"the tables of {names} changed: run `better-compute projections rebuild {names}`")
    if check:
        click.echo("the database is at this program's head")


def standing(dsn: str) -> tuple[list[str], list[str]]:
    """Which projections have no tables here, and which have others than this program's; a read alone."""
    import psycopg

    from adapters.postgres import runner
    from projections import table

    with psycopg.connect(dsn) as connection:
        rows = connection.execute("SELECT name, tables_digest FROM projection_positions").fetchall()
    made: dict[str, str] = dict(rows)
    missing = [p.name for p in table.ALL if p.name not in made]
    return missing, [p.name for p in table.ALL if p.name in made and made[p.name] != runner.digest(p)]


def _check(dsn: str) -> list[str]:
    """The projections to rebuild; what is not there at all is refused by name."""
    from adapters.postgres import migrate

    migrate.check(dsn)
    missing, changed = standing(dsn)
    if missing:
        raise migrate.MigrationError(
            f"the database lacks the tables of {' '.join(missing)}: run `better-compute migrate` first"
        )
    return changed


def _bring(dsn: str) -> list[str]:
    """Make what is missing and say so; the projections to rebuild."""
    from adapters.postgres import migrate, runner
    from projections import table

    applied = migrate.migrate(dsn)
    missing, _ = standing(dsn)
    changed = runner.create_tables(dsn, table.ALL)
    told = [f"applied {one.label}" for one in applied]
    told += [f"made the tables of {' '.join(missing)}"] if missing else []
    if told or not changed:
        click.echo("\n".join(told) or "nothing to do")
    return changed
