"""The plane of a test behind a socket, for commands that ask a server; and terminals of any width."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from given import Plane

ROOT = Path(__file__).parents[3]
OWN = ("host", "connection", "content-length", "transfer-encoding", "accept-encoding", "content-encoding")


@contextmanager
def bridged(plane: Plane) -> Iterator[str]:
    """The address at which the plane answers."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name: value for name, value in self.headers.items() if name.lower() not in OWN}
            answer = plane.app.request(self.command, self.path, content=body, headers=headers)
            self.send_response(answer.status_code)
            for name, value in answer.headers.items():
                if name.lower() not in OWN:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

        def log_message(self, *_: Any) -> None:
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{running.server_port}"
    finally:
        running.shutdown()
        running.server_close()
        thread.join()


def on_terminal(words: list[str], environment: Mapping[str, str], columns: int) -> tuple[str, int]:
    """What a command line shows on a terminal so wide, and its exit status."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    line = [sys.executable, "-m", "adapters.cli.main", *words]
    given = {name: value for name, value in {**os.environ, **environment}.items() if name not in ("COLUMNS", "LINES")}
    running = subprocess.Popen(line, cwd=ROOT, env=given, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        while piece := _read(terminal):
            shown += piece
    return shown.decode().replace("\r\n", "\n"), running.wait(60)


def _read(terminal: Any) -> bytes:
    """Nothing once all who wrote are gone: then Linux says that there is no such device."""
    try:
        return bytes(terminal.read(65536))
    except OSError:
        return b""
