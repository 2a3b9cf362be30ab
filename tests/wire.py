"""A wire between our connections and PostgreSQL that a test can cut: the world's faults, not a mock of our code."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from psycopg.conninfo import conninfo_to_dict, make_conninfo

_READY = b"Z\0\0\0\5"


class Wire:
    """Carries bytes both ways; `lose_answer` cuts the connection of the next append that the server has committed."""

    def __init__(self, target: str, path: str) -> None:
        self._target = target
        self._lose = Event()
        self.answers_lost = 0
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(path)
        self._server.listen()
        Thread(target=self._accept, daemon=True).start()

    def lose_answer(self) -> None:
        self._lose.set()

    def close(self) -> None:
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                upstream = socket.socket(socket.AF_UNIX)
                upstream.connect(self._target)
                Thread(target=self._up, args=(client, upstream), daemon=True).start()
                Thread(target=self._down, args=(upstream, client), daemon=True).start()

    def _up(self, client: socket.socket, upstream: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65_536):
                upstream.sendall(data)
        _close(client, upstream)

    def _down(self, upstream: socket.socket, client: socket.socket) -> None:
        """The server says that it is ready again when it has committed: that is what never arrives."""
        inserted = False
        with suppress(OSError):
            while data := upstream.recv(65_536):
                inserted = inserted or b"INSERT 0 " in data
                if _READY in data:
                    if inserted and self._lose.is_set():
                        self._lose.clear()
                        self.answers_lost += 1
                        break
                    inserted = False
                client.sendall(data)
        _close(client, upstream)


def _close(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


@contextmanager
def wire(dsn: str, directory: Path) -> Iterator[tuple[Wire, str]]:
    """A wire to the server of this connection string, and the connection string that goes through it."""
    known = conninfo_to_dict(dsn)
    name = f".s.PGSQL.{known.get('port', 5432)}"
    made = Wire(f"{known['host']}/{name}", str(directory / name))
    try:
        yield made, make_conninfo(dsn, host=str(directory))
    finally:
        made.close()
