"""The plane behind a server, and command lines that ask it, for the tests beside it."""

import os
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import seats
import uvicorn

from adapters.http.app import create_app
from adapters.http.health import Health
from adapters.http.limits import Limits
from adapters.registry import OPERATIONS
from given import Client, Plane


@contextmanager
def answering(plane: Plane, port: int = 0) -> Iterator[str]:
    """The plane's operations behind a server; its address."""
    wired = plane.wired
    app = create_app(
        OPERATIONS,
        wired.dispatcher,
        wired.authorizer.identify,
        lambda: Health(ready=True, checks={}),
        limits=Limits(mutations=1e6, reads=1e6),
    )
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", port)) as listener:  # it listens: who comes early waits
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join(10)


def told(address: str, who: Client) -> dict[str, str]:
    token = who.headers["authorization"].removeprefix("Bearer ")
    return {"BETTER_COMPUTE_SERVER": address, "BETTER_COMPUTE_TOKEN": token}


def piped(*words: str, env: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """A command line whose output nobody watches."""
    line = (*seats.BINARY, *words)
    return subprocess.run(line, capture_output=True, text=True, env=os.environ | dict(env), timeout=60, check=False)
