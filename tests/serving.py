"""A server of a test's own, started as its user would start it, and ended by its pid."""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BIN = Path(sys.executable).parent
START_S = 90


@contextmanager
def serving(home: Path, *flags: str) -> Iterator[dict[str, Any]]:
    """What its --ready-file says; its log is in `home`."""
    ready = home / "ready.json"
    with open(home / "log", "w") as log:
        command = (BIN / "better-compute", "serve", "--port", "0", "--data-dir", home / "data", "--ready-file", ready)
        process = subprocess.Popen((*command, *flags), stdout=log, stderr=log)
    try:
        end = time.monotonic() + START_S
        while not ready.exists():
            assert process.poll() is None, (home / "log").read_text()[-3000:]
            assert time.monotonic() < end, "the server is not ready in time"
            time.sleep(0.05)
        yield json.loads(ready.read_text())
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(START_S)


@contextmanager
def directory() -> Iterator[Path]:
    """Within the reach of the account that the embedded database runs as."""
    made = Path(tempfile.mkdtemp(prefix="better-compute-test-", dir="/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)
