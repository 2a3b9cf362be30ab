"""The PostgreSQL server of a single machine, run as our child (architecture.md §5).

The wheel's programs under a supervisor of our own: why not its Python layer is in ecosystem.md §2.3. One
supervisor per data directory, started anew when the server dies, stopped with us, and nothing lost when
either is killed.
"""

import logging
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import psycopg

from adapters.postgres import embedded_account, embedded_binaries, embedded_directory, embedded_server

EmbeddedError = embedded_account.EmbeddedError

_STOP_STEPS = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 15.0))
_RESTART_DELAYS = (0.0, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0)

log = logging.getLogger(__name__)


@contextmanager
def running(data_dir: Path | None, *, durable: bool = True) -> Iterator[str]:
    """A server for the length of a with block; yields its connection string."""
    embedded = Embedded(data_dir, durable=durable)
    dsn = embedded.start()
    try:
        yield dsn
    finally:
        embedded.stop()


def home(data_dir: Path | None) -> Path:
    """The data directory, made if it is missing: what a single machine keeps lies in it."""
    return embedded_directory.prepare(data_dir, embedded_account.for_server()).home


@contextmanager
def reached(data_dir: Path | None) -> Iterator[str]:
    """The connection string of the server that runs on a data directory, or of one started for the while."""
    layout = embedded_directory.locate(data_dir, embedded_account.for_server())
    dsn = embedded_server.dsn(layout)
    if psycopg.pq.PGconn.ping(dsn.encode()) == psycopg.pq.Ping.OK:
        yield dsn
    elif layout.cluster.exists():
        with running(data_dir) as started:
            yield started
    else:
        raise EmbeddedError(f"there is no data in {layout.home}; name another --data-dir, or a --database-url")


def served(data_dir: Path | None) -> str:
    """The connection string of the server that runs on a data directory; raises EmbeddedError where none does."""
    layout = embedded_directory.locate(data_dir, embedded_account.for_server())
    dsn = embedded_server.dsn(layout)
    if psycopg.pq.PGconn.ping(dsn.encode()) != psycopg.pq.Ping.OK:
        raise EmbeddedError(f"no server runs on {layout.home}: start one with `better-compute serve`")
    return dsn


class Embedded:
    """A server and the thread that keeps it: start it once, stop it once.

    The thread makes the child and then waits for it, because the kernel's death signal follows the thread
    that made the child. `durable=False` trades crash safety for speed, for tests alone.
    """

    def __init__(self, data_dir: Path | None = None, *, durable: bool = True) -> None:
        self._data_dir = data_dir
        self._durable = durable
        self._stopping = threading.Event()
        self._spawning = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._held: int | None = None
        self.failure: EmbeddedError | None = None
        """Why the server is down for good, after every restart failed."""

    @property
    def data_dir(self) -> Path | None:
        """Where its data is, None for the default place."""
        return self._data_dir

    @property
    def pid(self) -> int | None:
        """The server process, or None before the start; another one after a restart."""
        return self._process.pid if self._process else None

    def start(self) -> str:
        """Start the server, on new data if there is none; returns its connection string once it answers."""
        if self._held is not None or self._stopping.is_set():
            raise EmbeddedError("this server was started before; make a new Embedded")
        account = embedded_account.for_server()
        layout = embedded_directory.prepare(self._data_dir, account)
        self._held = embedded_directory.lock(layout)
        try:
            programs = embedded_binaries.usable_by(account, layout.home)
            server = embedded_server.Server(layout, programs, account, self._durable)
            embedded_server.initialise(server)
            answering: Future[None] = Future()
            self._thread = threading.Thread(
                target=self._supervise, args=(server, answering), name="embedded-postgres", daemon=True
            )
            self._thread.start()
            answering.result()
        except BaseException:
            self.stop()
            raise
        return server.dsn()

    def stop(self) -> None:
        """Stop the server, fast and then hard, and give the data directory back; twice changes nothing."""
        with self._spawning:
            self._stopping.set()
        thread = self._thread
        for step, seconds in _STOP_STEPS:
            if thread is not None and thread.is_alive():
                if self._process is not None:
                    self._process.send_signal(step)
                thread.join(seconds)
        if thread is not None and thread.is_alive():
            raise EmbeddedError(f"PostgreSQL (pid {self.pid}) does not stop; it keeps its data directory")
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def _supervise(self, server: embedded_server.Server, answering: "Future[None]") -> None:
        """The thread: report how the first start went, then start anew whatever dies, until we stop."""
        try:
            if embedded_server.boot(server, lambda: self._spawn(server)):
                embedded_server.create_database(server)
            answering.set_result(None)
            while self._died() and self._restarted(server):
                pass
        except BaseException as problem:
            if answering.done():
                raise
            answering.set_exception(problem)
        finally:
            self._reap()
            shutil.rmtree(server.layout.run, ignore_errors=True)

    def _spawn(self, server: embedded_server.Server) -> subprocess.Popen[bytes] | None:
        with self._spawning:
            if self._stopping.is_set():
                return None
            self._process = embedded_server.spawn(server)
            return self._process

    def _died(self) -> bool:
        """Wait for the end of the server; True when nobody asked for it."""
        code = self._process.wait() if self._process else None
        if self._stopping.is_set():
            return False
        log.error("PostgreSQL died and is started again", extra={"ending": embedded_server.ending(code)})
        return True

    def _restarted(self, server: embedded_server.Server) -> bool:
        """Start again, a bounded number of times; False when we are stopping or it cannot be done."""
        for delay in _RESTART_DELAYS:
            if self._stopping.wait(delay):
                return False
            try:
                return embedded_server.boot(server, lambda: self._spawn(server))
            except (EmbeddedError, OSError) as problem:
                log.error("PostgreSQL does not start again", extra={"problem": str(problem)})
                self._reap()
        self.failure = EmbeddedError(f"PostgreSQL died and does not start again; see {server.layout.log}")
        log.critical(str(self.failure))
        return False

    def _reap(self) -> None:
        """End what a failed start left running, so that the lock is never given back under a live server."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            try:
                self._process.wait(_STOP_STEPS[-1][1])
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
