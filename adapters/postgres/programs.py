"""PostgreSQL's own programs for clients, run on the embedded database."""

import os
import subprocess

from psycopg.conninfo import conninfo_to_dict

from adapters.postgres import embedded_binaries

_VARIABLES = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "dbname": "PGDATABASE"}


class ProgramError(Exception):
    """A program ended with an error; the message is what it said."""


def run(dsn: str, name: str, *arguments: str) -> None:
    """Run one to its end; what the environment says of another database does not reach it."""
    said = {_VARIABLES[key]: str(value) for key, value in conninfo_to_dict(dsn).items()}
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
    done = subprocess.run(
        [embedded_binaries.installed() / name, *arguments],
        env=kept | said,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise ProgramError(done.stderr.strip() or f"{name} ended with exit code {done.returncode}")
