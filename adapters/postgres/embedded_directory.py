"""The embedded server's places on disk, the lock on them, and the orphan an earlier supervisor left.

<home>/                  ours (root's, when root): the account may pass through, not write
  supervisor.lock        flock; its text names the holder
  postgres.log           what the server prints
  cluster/               PGDATA, the account's, 0700
  pg-<version>/          a copy of the programs, only when it is needed
<run>/.s.PGSQL.5432      the socket, elsewhere: its path must be short, and pg_basebackup must not copy it
"""

import fcntl
import hashlib
import logging
import os
import signal
import stat
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg

from adapters.postgres import embedded_account

SOCKET = ".s.PGSQL.5432"
_SOCKET_BYTES = 100  # sun_path holds 108 on Linux and 104 on macOS
_POLL_SECONDS = 0.02

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Layout:
    """Every path the supervisor uses; all follow from the data directory."""

    home: Path
    run: Path

    @property
    def cluster(self) -> Path:
        return self.home / "cluster"

    @property
    def log(self) -> Path:
        return self.home / "postgres.log"

    @property
    def postmaster_file(self) -> Path:
        return self.cluster / "postmaster.pid"


def locate(data_dir: Path | None, account: embedded_account.Account) -> Layout:
    """Where everything of a data directory is or would be; touches nothing."""
    home = (data_dir or _default_home(account)).expanduser().resolve()
    return Layout(home, _run_directory(home, account))


def prepare(data_dir: Path | None, account: embedded_account.Account) -> Layout:
    """Create the data directory when it is missing, and refuse one that the account cannot reach."""
    layout = locate(data_dir, account)
    home = layout.home
    try:
        _create(home, account)
    except OSError as problem:
        raise embedded_account.EmbeddedError(
            f"cannot create the data directory {home}: {problem.strerror}; choose another --data-dir"
        ) from problem
    _refuse_unreachable(home, home, account)
    return layout


def lock(layout: Layout) -> int:
    """Take the data directory for this process; returns the descriptor that holds it until it is closed."""
    path = layout.home / "supervisor.lock"
    try:
        held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as problem:
        raise embedded_account.EmbeddedError(
            f"cannot write in the data directory {layout.home}: {problem.strerror}; choose another --data-dir"
        ) from problem
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(held, 1000, 0).decode(errors="replace").strip() or "another process"
        os.close(held)
        raise embedded_account.EmbeddedError(
            f"the data directory {layout.home} is in use by {holder}; stop that process or choose another --data-dir"
        ) from None
    os.ftruncate(held, 0)
    os.pwrite(held, f"pid {os.getpid()} ({Path(sys.argv[0]).name or 'python'})\n".encode(), 0)
    return held


def prepare_run(layout: Layout, account: embedded_account.Account) -> None:
    """Make the private socket directory, empty of what a killed server left; the caller holds the lock."""
    run = layout.run
    try:
        run.mkdir(mode=0o700)
    except FileExistsError:
        found = run.lstat()
        private = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) & 0o077 == 0
        if not private or found.st_uid not in (account.uid, os.geteuid()):
            raise embedded_account.EmbeddedError(
                f"{run} is not a private directory of {account.name!r}; remove it and start again"
            ) from None
    if account.switched:
        os.chown(run, account.uid, account.gid, follow_symlinks=False)
    for left in (SOCKET, f"{SOCKET}.lock"):
        (run / left).unlink(missing_ok=True)


def clear(layout: Layout) -> None:
    """End what a killed supervisor or a killed server left running, and drop its pid file; we hold the lock.

    A busy backend outlives its postmaster, and PostgreSQL refuses to start beside it. A pid file whose pid
    was reused would stop it too. Removing the file is safe: the shared memory key, made from the directory's
    inode, still keeps two servers apart.
    """
    pid = _postmaster(layout)
    if pid is not None and _is_server_of(pid, layout):
        log.warning("stopping the PostgreSQL server that a killed parent left behind", extra={"pid": pid})
        _end({pid}, layout, ((signal.SIGINT, 30.0), (signal.SIGQUIT, 10.0)))
    _end(_servers(layout), layout, ((signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0)))
    layout.postmaster_file.unlink(missing_ok=True)


def _end(pids: set[int], layout: Layout, steps: tuple[tuple[signal.Signals, float], ...]) -> None:
    for step, seconds in steps:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, step)
        deadline = time.monotonic() + seconds
        while pids and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            pids = {pid for pid in pids if _is_server_of(pid, layout)}
        if not pids:
            return
    raise embedded_account.EmbeddedError(
        f"PostgreSQL (pid {min(pids)}) still runs on {layout.home} and does not stop;"
        " end that process, then start again"
    )


def _postmaster(layout: Layout) -> int | None:
    try:
        return int(layout.postmaster_file.read_text().split("\n", 1)[0])
    except (FileNotFoundError, ValueError):
        return None


def _servers(layout: Layout) -> set[int]:
    """Every process of a server on our cluster; where there is no /proc, backends must end themselves."""
    processes = (int(entry.name) for entry in Path("/proc").glob("[1-9]*") if entry.name.isdigit())
    return {pid for pid in processes if _is_server_of(pid, layout)} if sys.platform == "linux" else set()


def _is_server_of(pid: int, layout: Layout) -> bool:
    """Whether that process is a live server on our cluster; a pid alone may be a zombie's or reused."""
    if sys.platform == "linux":
        process = Path("/proc", str(pid))
        try:
            program = os.readlink(process / "exe").removesuffix(" (deleted)")
            return Path(program).name == "postgres" and os.readlink(process / "cwd") == str(layout.cluster)
        except OSError:
            return False
    lines = layout.postmaster_file.read_text().split("\n") if layout.postmaster_file.exists() else []
    host = lines[4] if len(lines) > 4 else str(layout.run)
    answer = psycopg.pq.PGconn.ping(f"host='{host}' port=5432 connect_timeout=2".encode())
    return answer in (psycopg.pq.Ping.OK, psycopg.pq.Ping.REJECT)


def _default_home(account: embedded_account.Account) -> Path:
    if account.switched:
        return Path("/var/lib/better-compute")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "better-compute"


def _create(home: Path, account: embedded_account.Account) -> None:
    """Make what is missing of the path; only what we make gets a mode from us."""
    missing = [step for step in (*reversed(home.parents), home) if not step.exists()]
    if missing:
        _refuse_unreachable(home, missing[0].parent, account)
    for step in missing:
        step.mkdir()
        step.chmod(0o711 if account.switched else 0o700)


def _refuse_unreachable(home: Path, directory: Path, account: embedded_account.Account) -> None:
    closed = embedded_account.barrier(account, directory)
    if closed is not None:
        raise embedded_account.EmbeddedError(
            f"the data directory {home} is out of reach for the account {account.name!r}, which runs"
            f" PostgreSQL: it may not enter {closed}; choose another --data-dir, for example below /var/lib"
        )


def _run_directory(home: Path, account: embedded_account.Account) -> Path:
    """A short name made from the data directory's path: every supervisor of it looks in one place."""
    name = f"better-compute-{account.uid}-{hashlib.sha256(os.fsencode(home)).hexdigest()[:12]}"
    bases = ["/run"] if account.switched else [os.environ.get("XDG_RUNTIME_DIR", "")]
    for base in (*bases, "/tmp"):
        run = Path(base, name)
        short = len(os.fsencode(run / SOCKET)) <= _SOCKET_BYTES
        if base and short and os.access(base, os.W_OK | os.X_OK):
            return run
    raise embedded_account.EmbeddedError("no place for the server's socket: neither /run nor /tmp can be written")
