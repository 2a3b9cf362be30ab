"""A `better-compute serve` under test: started, killed with SIGKILL, started again on the same database."""

import json
import subprocess
import time
from pathlib import Path
from typing import Final

from tests.bench.plane import PROGRAM, Plane

READY_S: Final = 60.0
STOP_S: Final = 30.0
_POLL_S: Final = 0.02
_TAIL: Final = 2000


class Serve:
    """One process with writer, follower, runner and worker. `plane` is where it answers, None until it said so."""

    def __init__(self, name: str, place: Path, dsn: str, access: Path, port: int = 0) -> None:
        self.name = name
        self.log = place / f"{name}.log"
        self.plane: Plane | None = None
        self._data = place / name
        self._ready = place / f"{name}.ready.json"
        self._argv: list[str | Path] = [PROGRAM, "serve", "--port", str(port), "--database-url", dsn]
        self._argv += ["--data-dir", self._data, "--access-file", access, "--ready-file", self._ready]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; `until_ready` waits. Port 0 is any free one: the one it had may be somebody's by now."""
        self._ready.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self.plane = None

    def stop(self) -> None:
        """As its operator would; whoever does not go in time is killed."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def until_ready(self) -> Plane:
        """Wait until /health/ready says 200; raises when it does not come to that, with the end of its log."""
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline and self._process is not None and self._process.poll() is None:
            if self.plane is None and self._ready.exists():
                url = json.loads(self._ready.read_text())["url"]
                self.plane = Plane(self._process, self._data, url, 0.0)
            if self.plane is not None and _is_ready(self.plane):
                return self.plane
            time.sleep(_POLL_S)
        code = self._process.poll() if self._process else None
        ended = "" if code is None else f", it ended with exit code {code}"
        raise RuntimeError(f"{self.name} was not ready within {READY_S:.0f} s{ended}:\n{self._tail()}")

    def _tail(self) -> str:
        return self.log.read_text()[-_TAIL:]


def _is_ready(plane: Plane) -> bool:
    try:
        return plane.ask("GET", "/health/ready")[0] == 200
    except OSError:
        return False
