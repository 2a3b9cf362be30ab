"""Every projection made anew from a long log, each in a process of its own, so that its memory is its own."""

import re
import subprocess
import sys
import time
from typing import NamedTuple

from projections import table


class Rebuilt(NamedTuple):
    """`peak` is the most memory that the process had, in MB."""

    name: str
    rate: float
    peak: int


_ONE = """
import resource, sys
from adapters.postgres import rebuild
from projections import table
(of,) = (one for one in table.ALL if one.name == sys.argv[2])
print(rebuild.rebuild(sys.argv[1], of), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def each(dsn: str) -> list[Rebuilt]:
    """Rebuild all; events a second of each, start of the program included."""
    found = []
    for of in table.ALL:
        began = time.monotonic()
        done = subprocess.run([sys.executable, "-c", _ONE, dsn, of.name], check=True, capture_output=True, text=True)
        read, peak = map(int, re.findall(r"\d+", done.stdout))
        found.append(Rebuilt(of.name, read / (time.monotonic() - began), peak))
    return found
