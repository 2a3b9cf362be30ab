"""The product as its user starts it: one process, real requests, killed and started again."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

BINARY = (sys.executable, "-m", "adapters.cli.main")
READY_S = 60


class Served:
    """A `serve --demo` with a data directory of its own, and its command line."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.data = home / "data"
        self.process: subprocess.Popen[str] | None = None
        self.ready: dict[str, Any] = {}

    def start(self) -> None:
        """Return once it says that it is ready."""
        ready = self.home / "ready.json"
        ready.unlink(missing_ok=True)
        command = (*BINARY, "serve", "--demo", "--port", "0", "--data-dir", self.data, "--ready-file", ready)
        with open(self.home / "log", "a") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if "Ctrl-C stops it" in line:
                break
        assert ready.exists(), (self.home / "log").read_text()[-3000:]
        self.ready = json.loads(ready.read_text())

    def stop(self, how: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(how)
        return self.process.wait(READY_S)

    def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {
            "BETTER_COMPUTE_SERVER": self.ready["url"],
            "BETTER_COMPUTE_TOKEN": self.ready["tokens"]["acme"],
            "BETTER_COMPUTE_DATA_DIR": str(self.data),
        }
        return subprocess.run(
            (*BINARY, *arguments), capture_output=True, text=True, env=environment, timeout=READY_S, check=False
        )


@pytest.fixture
def served() -> Iterator[Served]:
    home = Path(tempfile.mkdtemp(prefix="better-compute-", dir="/tmp"))
    home.chmod(0o755)
    made = Served(home)
    yield made
    if made.process is not None and made.process.poll() is None:
        made.stop(signal.SIGINT)
    shutil.rmtree(home)


def test_what_was_acknowledged_survives_kill_9_and_the_log_proves_it(served: Served) -> None:
    served.start()
    pools = json.loads(served.cli("pools", "list", "--json").stdout)["items"]
    reserve = ("reservations", "create", "--pool-id", pools[0]["id"], "--devices", "gpu=8")
    made = served.cli(*reserve, "--duration-seconds", "3600", "--wait", "--json")
    assert made.returncode == 0, made.stderr
    reservation = json.loads(made.stdout)
    assert reservation["state"] == "active"
    assert served.stop(signal.SIGKILL) == -signal.SIGKILL
    served.start()
    found = json.loads(served.cli("reservations", "get", reservation["id"], "--json").stdout)
    assert found["state"] == "active"
    assert found["allocations"] == reservation["allocations"]
    nodes = served.cli("audit", "diff")
    assert nodes.returncode == 0, nodes.stdout
    story = served.cli("audit", "replay", "--stream", reservation["id"])
    assert "reservation.activated.1" in story.stdout
    assert served.stop(signal.SIGINT) == 0
    with pytest.raises(httpx.ConnectError):
        httpx.get(served.ready["url"])
