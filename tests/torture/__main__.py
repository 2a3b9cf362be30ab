"""`python -m tests.torture`: kill -9 of serves and of PostgreSQL at random moments under load.

No acknowledged event may be lost, every position must be exact, and the tables must be what the log says. A run that
finds anything wrong ends with 1 and leaves its data.
"""

import argparse
import itertools
import logging
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from tests.torture import report, rounds

SHOWN = 20


def torment(place: Path, wanted: int, seed: int) -> tuple[str, ...]:
    """Run and print all of it; return what is wrong."""
    rng, began = Random(seed), time.monotonic()
    done: list[rounds.Round] = []

    def say(found: rounds.Round) -> None:
        done.append(found)
        print(report.line(found), flush=True)

    victims = list(itertools.islice(rounds.deck(rng), wanted))
    with rounds.torture(place, rng) as running:
        print(report.HEAD, flush=True)
        wrong = rounds.run(running, victims, say)
        print("\n" + report.summary(done, running, time.monotonic() - began), flush=True)
        print("Logged as errors by the serves:\n" + (report.logged(running.serves) or "nothing"), flush=True)
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--rounds", type=int, default=50, help="default 50")
    parser.add_argument("--seed", type=int, default=None, help="of victims, moments and requests; default: a new one")
    options = parser.parse_args()
    logging.getLogger("adapters").setLevel(logging.CRITICAL)  # that PostgreSQL died is no news here
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    seed = options.seed if options.seed is not None else time.time_ns() % 1_000_000
    place = Path(tempfile.mkdtemp(prefix="better-compute-torture-"))
    place.chmod(0o711)
    print(f"seed {seed}, data in {place}", flush=True)
    try:
        wrong = torment(place, options.rounds, seed)
    except BaseException:
        print(f"the torture did not get to its end; its data is left in {place}", file=sys.stderr)
        raise
    if wrong:
        print("\n".join(wrong[:SHOWN]), file=sys.stderr)
        sys.exit(f"{len(wrong)} violations with seed {seed}; the data is left in {place}, its database in {place}/data")
    print("no acknowledged event was lost, positions are exact, and the tables are what the log says")
    shutil.rmtree(place)


if __name__ == "__main__":
    main()
