"""A plane that a Better IAM decides for: both speak real HTTP, for each asks the other within one request."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn

import given
from adapters import main, registry
from adapters.http.limits import Limits
from adapters.iam import resolver_key
from adapters.iam.better.connection import Connection
from adapters.iam.demo import _CAST
from iam_server import resolver
from iam_server.http import Server, serving
from iam_server.model import Iam

SECRET = "whsec_of_the_tests"
UNLIMITED = Limits(mutations=1e6, reads=1e6, anonymous=1e6)


class Plane(given.Plane):
    """With the same cast as a plane with an access file; `iam` is the other side."""

    def __init__(self, wired: main.Plane, app: Any, tokens: dict[str, str], home: Path, server: Server) -> None:
        super().__init__(wired, app, tokens, home)
        self.server = server
        self.iam = server.iam
        self.tokens = tokens

    def client(self, token: str) -> given.Client:
        return given.Client(self.app, token)

    def sign_in(self, identity: str, tenant: str, *roles: str, **more: Any) -> given.Client:
        return self.client(self.iam.sign_in(identity, tenant, *roles, **more))

    def until_tenant(self, tenant_id: str, status: str) -> None:
        """Wait until the log says so of a tenant."""
        deadline = time.monotonic() + given.DEADLINE_S
        while (known := self.store.load(f"tenant:{tenant_id}").state.status) != status:
            assert time.monotonic() < deadline, f"{tenant_id} is still {known}"
            time.sleep(0.02)


def cast(iam: Iam) -> dict[str, str]:
    """The platform and two customers, and a token for each part."""
    iam.tenant("platform", None, type="root")
    iam.tenant("acme", "platform")
    iam.tenant("globex", "platform")
    return {name: iam.sign_in(name, tenant, role) for name, (tenant, role) in _CAST.items()}


@contextmanager
def plane(dsn: str, home: Path, **more: Any) -> Iterator[Plane]:
    """`more` are settings of the connection."""
    at: list[str] = []
    iam = Iam(registry.actions(), resolver.over_http(lambda: at[0], given.RESOLVER))
    tokens = cast(iam)
    key = iam.sign_in("compute", "platform", kind="api-key", identity_kind="service", groups=["iam-reader"])
    keys, secrets = home / "iam-keys", home / "iam-secrets"
    keys.write_text(f"# of the root tenant\n{key}\n")
    secrets.write_text(f"{SECRET}\n")
    with serving(iam) as server:
        to = Connection(
            url=server.url, root_tenant="platform", service_key_file=keys, webhook_secret_file=secrets, **more
        )
        with (
            main.running(dsn, to, None, main.files_in(home), resolver=resolver_key.knows(given.RESOLVER)) as wired,
            listening(wired) as url,
        ):
            at.append(url)
            with httpx.Client(base_url=url, trust_env=False, timeout=30) as app:
                made = Plane(wired, app, tokens, home, server)
                made.until_tenant("globex", "active")
                yield made


@contextmanager
def listening(wired: main.Plane, limits: Limits = UNLIMITED) -> Iterator[str]:
    """A plane's API on a port of its own; the URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(wired.app(limits), log_config=None, access_log=False, lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
