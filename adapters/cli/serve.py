"""`better-compute serve`: everything of one machine in one process group (architecture.md §5)."""

import contextlib
import gc
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from adapters.cli import better_iam, database
from adapters.settings import Settings

if TYPE_CHECKING:
    from adapters import main

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 20_000
"""More than a gateway has sessions: callers of the API are not to wait for agents."""
MAX_WAITING = 4_096
SWITCH_S = 0.0005
"""How long a thread may keep the interpreter while others wait: requests are many and short."""

COLLECT = (20_000, 20, 20)
"""Rare collections of garbage in cycles: a full one stops every session, and what fleets leave is no cycle."""


@click.command()
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    envvar="BETTER_COMPUTE_HOST",
    help="address to listen on, for API, console and agents",
)
@click.option(
    "--port",
    default=8080,
    show_default=True,
    type=click.IntRange(0, 65_535),
    envvar="BETTER_COMPUTE_PORT",
    help="0 takes a free one",
)
@database.options
@click.option(
    "--access-file",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="BETTER_COMPUTE_ACCESS_FILE",
    help="tenants, identities, roles (TOML); default access.toml in the data directory, made if missing",
)
@better_iam.options
@click.option(
    "--iam-resolver-key-file",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="BETTER_COMPUTE_IAM_RESOLVER_KEY_FILE",
    help="key with which a Better IAM host resolves resources; without it the resolver is off",
)
@click.option(
    "--audit-key-file",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="BETTER_COMPUTE_AUDIT_KEY_FILE",
    help="signs the log's checkpoints (Ed25519, PEM); default audit.key in the data directory, made if missing",
)
@click.option(
    "--instance-key-file",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="BETTER_COMPUTE_INSTANCE_KEY_FILE",
    help="encrypts user data and makes agents' tokens; default instance.key in the data directory, made if missing",
)
@click.option(
    "--image-dir",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="BETTER_COMPUTE_IMAGE_DIR",
    help="the bytes of images; default blobs in the data directory, made if missing",
)
@click.option(
    "--demo", is_flag=True, help="load a small fleet with simulated agents; takes a data directory of its own"
)
@click.option(
    "--ready-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="write url, tokens and pid here as JSON once it can serve",
)
@click.option(
    "--history-days",
    type=click.IntRange(min=1, max=36_500),
    envvar="BETTER_COMPUTE_HISTORY_DAYS",
    help="days for which asOf works on lists; without it for ever. The log is never pruned",
)
def serve(**options: Any) -> None:
    """Run the control plane on this machine: embedded PostgreSQL, API, gateway and workers."""
    settings = Settings(**options)
    _forget(settings.ready_file)
    if settings.demo and settings.access_file is not None:
        raise click.UsageError("--demo brings an access file of its own: leave out --access-file, or --demo")
    better = better_iam.connection(settings)
    signal.signal(signal.SIGTERM, _leave)
    try:
        with _data_directory(settings) as home:
            _check_demo(settings, home)
            with _database(settings) as dsn:
                _run(settings, home, dsn, better)
    except KeyboardInterrupt:
        pass


def _forget(ready_file: Path | None) -> None:
    """Whoever waits for the file is not to read what an earlier run wrote."""
    if ready_file is None:
        return
    try:
        ready_file.unlink(missing_ok=True)
    except OSError as problem:
        raise click.ClickException(f"cannot remove the old --ready-file {ready_file}: {problem.strerror}") from problem


def _check_demo(settings: Settings, home: Path) -> None:
    """The demo sets itself up with tokens of its own: it takes nobody else's access file."""
    if settings.demo and (home / "access.toml").exists() and not (home / "demo-tokens.json").exists():
        raise click.ClickException(f"this data directory is not a demo's ({home}); choose another --data-dir")


def _leave(*_: object) -> NoReturn:
    raise SystemExit(0)


@contextlib.contextmanager
def _data_directory(settings: Settings) -> Iterator[Path]:
    from adapters.postgres import embedded

    try:
        yield embedded.home(settings.data_dir)
    except embedded.EmbeddedError as problem:
        raise click.ClickException(str(problem)) from problem


@contextlib.contextmanager
def _database(settings: Settings) -> Iterator[str]:
    from adapters.postgres import embedded

    if settings.database_url is not None:
        yield settings.database_url
        return
    with embedded.running(settings.data_dir) as dsn:
        yield dsn


def _run(settings: Settings, home: Path, dsn: str, better: Any) -> None:
    import psycopg
    import uvicorn
    from eventsourcing.persistence import MapperDeserialisationError

    from adapters import main, telemetry
    from adapters.agent import protocol
    from adapters.audit_key import KeyFileError
    from adapters.iam.access_file import AccessFileError
    from adapters.postgres.migrate import MigrationError
    from adapters.postgres.pool import NotKept

    sys.setswitchinterval(SWITCH_S)
    gc.set_threshold(*COLLECT)
    _open_more_files()
    telemetry.configure(log_level(settings))
    source, tokens = (better, {}) if better is not None else _access(settings, home)
    resolver = _resolver(settings)
    listener = _listen(settings)
    try:
        with main.running(dsn, source, settings.history_days, _files(settings, home), resolver=resolver) as plane:
            config = uvicorn.Config(
                plane.app(),
                loop="uvloop",
                http="httptools",
                ws="websockets-sansio",
                ws_max_size=protocol.MAX_INVENTORY + 1,
                ws_ping_interval=None,  # agents' heartbeats and their sessions' leases tell more
                ws_per_message_deflate=False,  # tens of KiB a session for small messages
                backlog=MAX_WAITING,
                limit_concurrency=MAX_CONNECTIONS,
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=5,
                lifespan="on",
            )
            server = uvicorn.Server(config)
            after = AfterStart(server, settings, home, listener, tokens)
            after.start()
            try:
                server.run(sockets=[listener])
            finally:
                after.stop()
    except psycopg.OperationalError as problem:
        raise click.ClickException(f"the database cannot be reached: {str(problem).strip()}") from problem
    except (AccessFileError, KeyFileError, MigrationError, NotKept, MapperDeserialisationError) as problem:
        raise click.ClickException(str(problem)) from problem


def _resolver(settings: Settings) -> Any:
    from adapters.iam import resolver_key

    if settings.iam_resolver_key_file is None:
        if settings.iam_url is not None:
            log.warning("no --iam-resolver-key-file: Better IAM cannot ask here what it decides on, and refuses it all")
        return None
    try:
        return resolver_key.read(settings.iam_resolver_key_file)
    except resolver_key.ResolverKeyError as problem:
        raise click.ClickException(str(problem)) from problem


def _open_more_files() -> None:
    """Every agent and every caller is an open file: take as many as the system allows this process."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def log_level(settings: Settings) -> str:
    """A demo's first words are for people: its banner is not to drown, also where both outputs go into one file."""
    return "WARNING" if settings.demo else "INFO"


def _listen(settings: Settings) -> Any:
    import socket

    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as problem:
        raise click.ClickException(
            f"cannot listen on {settings.host}:{settings.port}: {problem.strerror}; choose another --port"
            " or BETTER_COMPUTE_PORT"
        ) from problem
    listener.set_inheritable(True)
    return listener


def _access(settings: Settings, home: Path) -> tuple[Path, dict[str, str]]:
    """The access file and the tokens that may be shown: the demo's, or a first administrator's."""
    if settings.access_file is not None:
        return settings.access_file, {}
    access, kept = home / "access.toml", home / "demo-tokens.json"
    if access.exists():
        return access, json.loads(kept.read_text()) if settings.demo and kept.exists() else {}
    from adapters.iam import demo

    text, tokens = demo.demo_access() if settings.demo else demo.first_access()
    if settings.demo:
        _write_private(kept, json.dumps(tokens))
    _write_private(access, text)
    return access, tokens


def _files(settings: Settings, home: Path) -> "main.Files":
    from adapters import main

    of = main.files_in(home)
    return main.Files(
        settings.audit_key_file or of.audit_key,
        settings.instance_key_file or of.instance_key,
        settings.image_dir or of.blobs,
    )


def _write_private(path: Path, text: str) -> None:
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


class AfterStart(threading.Thread):
    """Once requests are answered: the demo's fleet, then the word that all is ready."""

    def __init__(self, server: Any, settings: Settings, home: Path, listener: Any, tokens: dict[str, str]) -> None:
        super().__init__(name="after-start", daemon=True)
        self._server, self._settings, self._home = server, settings, home
        self._listener, self._tokens = listener, tokens
        self._demo: Any = None

    def run(self) -> None:
        while not self._server.started:
            if self._server.should_exit:
                return
            time.sleep(0.01)
        host, port = self._listener.getsockname()[:2]
        url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        if self._settings.demo and not self._with_demo(url):
            return
        if self._settings.ready_file is not None:
            ready = {"url": url, "tokens": self._tokens, "pid": os.getpid()}
            _write_private(self._settings.ready_file, json.dumps(ready))
        _greet(url, self._tokens, demo=self._settings.demo)

    def _with_demo(self, url: str) -> bool:
        import httpx

        from adapters.demo import Demo, DemoError

        self._demo = Demo(url, self._tokens["root"], self._home / "demo-agents.json")
        try:
            self._demo.start()
        except (DemoError, httpx.HTTPError) as problem:
            if not self._server.should_exit:
                click.echo(f"the demo fleet could not be set up: {problem}", err=True)
                self._server.should_exit = True
            return False
        return True

    def stop(self) -> None:
        if self._demo is not None:
            self._demo.stop()


def _greet(url: str, tokens: dict[str, str], *, demo: bool) -> None:
    lines = [f"Better Compute serves {url} (API: {url}/schema). Ctrl-C stops it.", ""]
    lines += [f"  {name:<12} {token}" for name, token in tokens.items()]
    if demo:
        lines += [
            "",
            "Three commands to try in another terminal:",
            "",
            f"  export BETTER_COMPUTE_SERVER={url} BETTER_COMPUTE_TOKEN={tokens['acme']}",
            "  .venv/bin/better-compute capacity list",
            "  .venv/bin/better-compute reservations create --devices gpu=8 --duration-seconds 3600 --wait \\",
            "      --pool-id $(.venv/bin/better-compute pools list --where name=h100 --id)",
            "  .venv/bin/better-compute reservations list",
        ]
    click.echo("\n".join(lines))
    sys.stdout.flush()
