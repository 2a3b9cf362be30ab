"""`python -m tests.bench.iam`: what deciding and proving cost on this machine, part by part.

Each part is a module here with a `report(place)` that measures in a directory of its own and returns its table.
Processor time where it says so; else a clock on the wall, which a machine with other work makes longer.
"""

import argparse
import os
import platform
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Final

from tests.bench.__main__ import home

PARTS: Final = tuple(
    name
    for name in ("decisions", "admission", "evidence", "export", "as_of")
    if Path(__file__).with_name(f"{name}.py").exists()
)


@contextmanager
def _kept(place: Path) -> Iterator[Path]:
    """Passed through by the server's account, as `home` is."""
    place.mkdir(mode=0o711, exist_ok=True)
    yield place


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.iam", description=__doc__)
    parser.add_argument("--only", choices=PARTS, help="one part instead of all")
    parser.add_argument("--place", type=Path, help="keep what was filled here, for the next run of the same part")
    options = parser.parse_args()
    if options.place is not None and options.only is None:
        parser.error("--place is of one part: name it with --only")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    began = time.monotonic()
    print(
        f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, "
        f"Linux {platform.release()}, load {os.getloadavg()[0]:.1f}\n",
        flush=True,
    )
    for name in PARTS if options.only is None else (options.only,):
        with home() if options.place is None else _kept(options.place) as place:
            print(import_module(f"tests.bench.iam.{name}").report(place), flush=True)
    print(f"took {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
