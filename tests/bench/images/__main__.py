"""Uploads of images: `python -m tests.bench.images [--gib 4] [--rounds 3]`.

One `better-compute serve` takes a file of so many GiB over loopback, again and again, and the same file goes through
`sha256sum` and through a copy that is made durable in turn with it: an upload cannot be faster than either. What the
process holds is read while the bytes come; the plane had a small upload before.
"""

import argparse
import hashlib
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.bench import figures, fleet
from tests.bench.__main__ import home
from tests.bench.plane import Plane, serving

MIB: Final = 1 << 20
LOOK_S: Final = 0.05
PIECE: Final = 1 << 18
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def write(path: Path, size: int) -> str:
    """A file of bytes that no two MiB of are the same; its digest."""
    digest = hashlib.sha256()
    noise = bytearray(os.urandom(MIB))
    with path.open("wb") as file:
        for number in range(size // MIB):
            noise[:8] = number.to_bytes(8, "big")
            file.write(noise)
            digest.update(noise)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


class Held:
    """What a process holds of memory, in MiB: at first and at most."""

    def __init__(self, pid: int) -> None:
        self._path = Path(f"/proc/{pid}/statm")
        self.first = self.most = self._now()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _now(self) -> float:
        return int(self._path.read_text().split()[1]) * _PAGE / MIB

    def _watch(self) -> None:
        while not self._over.wait(LOOK_S):
            self.most = max(self.most, self._now())

    @contextmanager
    def watched(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()


class Bench:
    def __init__(self, plane: Plane, token: str, place: Path, gib: float) -> None:
        self._plane, self._token, self._place = plane, token, place
        self._file = place / "image.raw"
        self.size = int(gib * 1024) * MIB
        self._sha256 = write(self._file, self.size)
        self.seconds: dict[str, list[float]] = {}
        self.cpu: list[float] = []
        self.first: list[float] = []
        self.most: list[float] = []
        self._names = 0
        small = place / "small.raw"
        self.upload(small, write(small, MIB))

    def round(self) -> None:
        self._timed("sha256sum", self._sha256sum)
        self._timed("copy and fsync", self._copy)
        before, held = self._plane.cpu()["serve"], Held(self._plane.process.pid)
        with held.watched():
            self._timed("upload", lambda: self.upload(self._file, self._sha256))
        self.cpu.append(self._plane.cpu()["serve"] - before)
        self.first.append(held.first)
        self.most.append(held.most)

    def _timed(self, name: str, work: Callable[[], None]) -> None:
        began = time.monotonic()
        work()
        self.seconds.setdefault(name, []).append(time.monotonic() - began)

    def _sha256sum(self) -> None:
        subprocess.run(["sha256sum", self._file], check=True, stdout=subprocess.DEVNULL)

    def _copy(self) -> None:
        target = self._place / "copy.raw"
        with self._file.open("rb") as source, target.open("wb") as file:
            shutil.copyfileobj(source, file, MIB)
            file.flush()
            os.fsync(file.fileno())
        target.unlink()

    def upload(self, file: Path, sha256: str) -> None:
        """Register an image of these bytes and send them as curl does: pieces of 256 KiB on one connection."""
        self._names += 1
        body = {"name": "bench", "imageVersion": str(self._names), "format": "raw", "sha256": sha256}
        made = self._plane.ok("POST", "/v1/images", self._token, body | {"sizeBytes": file.stat().st_size})
        connection = http.client.HTTPConnection(self._plane.host, self._plane.port, timeout=600, blocksize=PIECE)
        headers = {"authorization": f"Bearer {self._token}", "content-length": str(file.stat().st_size)}
        with file.open("rb") as content:
            connection.request("PUT", f"/v1/images/{made['id']}/content", content, headers)
        answer = connection.getresponse()
        shown: Any = json.loads(answer.read())
        connection.close()
        if answer.status != 200 or shown["state"] != "stored":
            raise RuntimeError(f"the upload was answered {answer.status}: {shown}")

    def report(self) -> str:
        mib = self.size / MIB
        rates = {name: [mib / one for one in found] for name, found in self.seconds.items()}
        of_sum = [a / b for a, b in zip(self.seconds["sha256sum"], self.seconds["upload"], strict=True)]
        rows = [(f"{name}, MiB/s", figures.spread(found, 0)) for name, found in rates.items()]
        rows += [
            ("upload / sha256sum", figures.spread(of_sum, 2)),
            ("processor of serve, s per GiB", figures.spread([one / (mib / 1024) for one in self.cpu], 2)),
            ("serve holds before, MiB", figures.spread(self.first, 0)),
            ("serve holds at most meanwhile, MiB", figures.spread(self.most, 0)),
        ]
        return figures.table(f"Upload of {mib / 1024:g} GiB", rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.images", description=__doc__)
    parser.add_argument("--gib", type=float, default=4.0, help="of the image; default 4")
    parser.add_argument("--rounds", type=int, default=3, help="default 3")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with home() as place:
        access, data = place / "access.toml", place / "data"
        cast = fleet.write_access(access, 1)
        with serving(data, "--access-file", str(access)) as plane:
            bench = Bench(plane, cast.root, place, options.gib)
            for _ in range(options.rounds):
                bench.round()
            print(bench.report(), flush=True)
    print(f"median (lowest-highest) of {options.rounds} rounds; load {os.getloadavg()[0]:.1f} in the end")


if __name__ == "__main__":
    main()
