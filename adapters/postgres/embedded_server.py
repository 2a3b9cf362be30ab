"""One PostgreSQL server: its cluster made, the process started as our child, the wait until it answers."""

import ctypes
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from adapters.postgres import embedded_account, embedded_binaries, embedded_directory

NAME = "better_compute"  # of the database and of its superuser

_SCRATCH = "cluster.new-"
_SILENCE_SECONDS = 60.0
_ATTACHED_SECONDS = 15.0
_POLL_SECONDS = 0.02
_LOG_BYTES = 10_000_000
_TAIL_BYTES = 2_000
_PR_SET_PDEATHSIG = 1
_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None

_SETTINGS = {
    "listen_addresses": "",
    "port": "5432",
    "unix_socket_permissions": "0700",
    "jit": "off",
    "shared_buffers": "256MB",
    "log_line_prefix": "%m [%p] ",
    "log_error_verbosity": "terse",  # a DETAIL quotes rows,
    "log_min_error_statement": "panic",  # and a statement may hold a secret
}
_NOT_DURABLE = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Server:
    """What starting takes: places, programs, account, and whether a commit must survive power loss."""

    layout: embedded_directory.Layout
    programs: Path
    account: embedded_account.Account
    durable: bool

    def dsn(self, database: str = NAME) -> str:
        return dsn(self.layout, database)


def dsn(layout: embedded_directory.Layout, database: str = NAME) -> str:
    """A libpq connection string; it names the port because PGPORT may be set in our environment."""
    return make_conninfo(host=str(layout.run), port=5432, user=NAME, dbname=database)


def initialise(server: Server) -> None:
    """Make the cluster when there is none, aside and then renamed, so that a kill leaves no half of one.

    The initdb of a killed supervisor may still be at work: hence a name of our own each time.
    """
    cluster = server.layout.cluster
    for half in cluster.parent.glob(f"{_SCRATCH}*"):
        shutil.rmtree(half, ignore_errors=True)
    if cluster.exists():
        _refuse_other_version(server)
        return
    scratch = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=cluster.parent))
    if server.account.switched:
        os.chown(scratch, server.account.uid, server.account.gid, follow_symlinks=False)
    encoding = ("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
    trust = ("--auth-local=trust", "--auth-host=reject", f"--username={NAME}")
    sync = () if server.durable else ("--no-sync",)
    arguments = (*encoding, *trust, *sync, "--data-checksums", "--no-instructions", "-D", scratch)
    made = embedded_account.run(server.account, server.programs / "initdb", *arguments)
    if made.returncode != 0:
        raise embedded_account.EmbeddedError(f"initdb failed in {scratch}:\n{made.stdout[-_TAIL_BYTES:]}")
    scratch.rename(cluster)


def spawn(server: Server) -> subprocess.Popen[bytes]:
    """Start the server as our child, in a session of its own so that Ctrl-C reaches us and not it.

    Linux sends the child the death signal when the *thread* that made it ends: call from one that lives as
    long.
    """
    settings = _SETTINGS | ({} if server.durable else _NOT_DURABLE)
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    parent = os.getpid()
    output = os.open(server.layout.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        return subprocess.Popen(
            [server.programs / "postgres", "-D", server.layout.cluster, "-k", server.layout.run, *options],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=embedded_account.ENVIRONMENT,
            cwd="/",
            start_new_session=True,
            preexec_fn=lambda: _die_with(parent),
            **server.account.identity(),
        )
    finally:
        os.close(output)


def boot(server: Server, start: Callable[[], subprocess.Popen[bytes] | None]) -> bool:
    """Start the server and return once it answers; False when `start` refused because we are stopping.

    Backends that outlive a killed postmaster for a moment hold its memory: PostgreSQL then refuses, and we
    try again.
    """
    embedded_directory.clear(server.layout)
    _rotate(server.layout.log)
    embedded_directory.prepare_run(server.layout, server.account)
    deadline = time.monotonic() + _ATTACHED_SECONDS
    while True:
        offset = server.layout.log.stat().st_size if server.layout.log.exists() else 0
        process = start()
        if process is None:
            return False
        if _answers(server, process):
            return True
        tail = _tail(server.layout.log, offset)
        if "is still in use" not in tail or time.monotonic() > deadline:
            raise embedded_account.EmbeddedError(
                f"PostgreSQL on {server.layout.home} {ending(process.returncode)} before it answered:\n{tail}"
            )


def create_database(server: Server) -> None:
    """Create our database when a first start, or a kill right after it, left the cluster without."""
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [NAME]).fetchone() is None:
            connection.execute(f"CREATE DATABASE {NAME}".encode())


def ending(code: int | None) -> str:
    """How a process ended, for people."""
    if code is not None and code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def _answers(server: Server, process: subprocess.Popen[bytes]) -> bool:
    """Wait for the server; recovery takes as long as it takes, silence does not. False when it died."""
    conninfo = make_conninfo(server.dsn("postgres"), connect_timeout=2).encode()
    deadline = time.monotonic() + _SILENCE_SECONDS
    while True:
        answer = psycopg.pq.PGconn.ping(conninfo)
        if answer == psycopg.pq.Ping.OK:
            return True
        if answer == psycopg.pq.Ping.REJECT:
            deadline = time.monotonic() + _SILENCE_SECONDS
        if time.monotonic() > deadline:
            process.send_signal(signal.SIGQUIT)
            raise embedded_account.EmbeddedError(
                f"PostgreSQL on {server.layout.home} did not answer for {_SILENCE_SECONDS:.0f} s;"
                f" see {server.layout.log}"
            )
        try:
            process.wait(_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        return False


def _die_with(parent: int) -> None:
    """In the child, before exec: have the kernel stop us when the parent is killed, or already was."""
    if _PRCTL is not None:
        _PRCTL(_PR_SET_PDEATHSIG, int(signal.SIGINT))
        if os.getppid() != parent:
            os._exit(1)


def _refuse_other_version(server: Server) -> None:
    version_file = server.layout.cluster / "PG_VERSION"
    found = version_file.read_text().strip() if version_file.exists() else "an unknown version"
    ours = embedded_binaries.major(server.account, server.programs)
    if found != ours:
        raise embedded_account.EmbeddedError(
            f"{server.layout.cluster} was made by PostgreSQL {found}, this program brings {ours}:"
            " move the data with pg_upgrade or pg_dump, or choose another --data-dir"
        )


def _rotate(path: Path) -> None:
    if path.exists() and path.stat().st_size > _LOG_BYTES:
        path.replace(path.with_name(path.name + ".1"))


def _tail(path: Path, offset: int) -> str:
    with path.open("rb") as file:
        file.seek(max(offset, path.stat().st_size - _TAIL_BYTES))
        return file.read().decode(errors="replace").strip() or "(it printed nothing)"
