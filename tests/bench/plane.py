"""A `better-compute serve` of the benchmark's own: started, asked, measured from outside, ended by its pid."""

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

START_S: Final = 60
STOP_S: Final = 30
PROGRAM: Final = Path(sys.executable).with_name("better-compute")
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Plane:
    """`started` is how long it took until /health/ready said ready, in seconds."""

    def __init__(self, process: subprocess.Popen[bytes], data_dir: Path, url: str, started: float) -> None:
        self.process = process
        self.data_dir = data_dir
        self.started = started
        where = urlsplit(url)
        self.host, self.port = where.hostname or "", where.port or 0

    def ask(self, verb: str, path: str, token: str = "", body: Any = None, **headers: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        is_bytes = isinstance(body, bytes)
        media = "application/octet-stream" if is_bytes else "application/json"
        sent = {"authorization": f"Bearer {token}", "content-type": media, **headers}
        try:
            connection.request(verb, path, body if is_bytes or body is None else json.dumps(body), sent)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def ok(self, verb: str, path: str, token: str = "", body: Any = None, **headers: str) -> Any:
        status, shown = self.ask(verb, path, token, body, **headers)
        if status >= 300:
            raise RuntimeError(f"{verb} {path}: {status} {shown}")
        return shown

    def cpu(self) -> dict[str, float]:
        """Processor seconds so far of the plane's process and of its PostgreSQL."""
        postmaster = int((self.data_dir / "cluster" / "postmaster.pid").read_text().split("\n", 1)[0])
        backends = [fields for fields in map(_stat, _processes()) if fields and int(fields[1]) == postmaster]
        ours, server = _stat(self.process.pid), _stat(postmaster)
        return {
            "serve": sum(map(int, ours[11:13])) / _TICKS,
            "postgres": sum(sum(map(int, fields[11:13])) for fields in [server[:13], *backends]) / _TICKS
            + sum(map(int, server[13:15])) / _TICKS,
        }


def _processes() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").glob("[0-9]*"))


def _stat(pid: int) -> list[str]:
    """The fields of proc(5) stat from the third on: [1] ppid, [11:13] utime and stime, [13:15] those of children."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


@contextmanager
def serving(data_dir: Path, *more: str) -> Iterator[Plane]:
    """A plane on a port of the system's choice, ready; its log stands beside its data directory."""
    ready = data_dir.with_name(data_dir.name + ".ready.json")
    ready.unlink(missing_ok=True)
    argv = [PROGRAM, "serve", "--port", "0", "--data-dir", data_dir, "--ready-file", ready, *more]
    with data_dir.with_name(data_dir.name + ".log").open("ab") as log:
        began = time.monotonic()
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield _until_ready(process, data_dir, ready, began)
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _until_ready(process: subprocess.Popen[bytes], data_dir: Path, ready: Path, began: float) -> Plane:
    while time.monotonic() < began + START_S:
        if process.poll() is not None:
            break
        if ready.exists():
            plane = Plane(process, data_dir, json.loads(ready.read_text())["url"], 0.0)
            if plane.ask("GET", "/health/ready")[0] == 200:
                plane.started = time.monotonic() - began
                return plane
        time.sleep(0.005)
    raise RuntimeError(f"serve was not ready within {START_S} s:\n{_tail(data_dir)}")


def _tail(data_dir: Path) -> str:
    return data_dir.with_name(data_dir.name + ".log").read_text()[-2000:]
