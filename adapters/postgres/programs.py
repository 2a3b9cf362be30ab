"""PostgreSQL's own programs for clients, run on a database that a connection string names."""

import os
import subprocess

import psycopg
from psycopg.conninfo import conninfo_to_dict

from adapters.postgres import embedded_binaries


class ProgramError(Exception):
    """A program ended with an error; the message is what it said last."""


def run(dsn: str, name: str, *arguments: str) -> None:
    """Run one to its end; how to connect goes by the environment, where others cannot read a password."""
    done = subprocess.run(
        [embedded_binaries.installed() / name, "--no-password", *arguments],
        env={**os.environ, **_environment(dsn)},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise ProgramError(done.stderr.strip() or f"{name} ended with exit code {done.returncode}")


def database(dsn: str) -> str:
    """The name of the database alone."""
    return _environment(dsn)["PGDATABASE"]


def _environment(dsn: str) -> dict[str, str]:
    """The connection string as libpq's environment variables, defaults of its own left to it."""
    names = {option.keyword.decode(): option.envvar for option in psycopg.pq.Conninfo.get_defaults()}
    said = conninfo_to_dict(dsn)
    user = said.get("user") or os.environ.get("PGUSER")
    told = {"dbname": os.environ.get("PGDATABASE") or user, **said}
    variables = {names[key]: str(value) for key, value in told.items() if value is not None and names.get(key)}
    return {variable.decode(): value for variable, value in variables.items() if variable is not None}
