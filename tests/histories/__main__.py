"""`python -m histories`: random histories, ever new ones, for so many minutes; the first that shows a fault ends it."""

import argparse
import itertools
import time

import psycopg

import conftest
from histories import driver
from histories.history import on_database
from histories.machine import Histories

LENGTH = 80
AUDITED_EVERY = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1000, help="of the first history")
    asked = parser.parse_args()
    until, first = time.monotonic() + asked.minutes * 60, asked.seed
    cluster = conftest.Cluster()
    try:
        dsn = conftest.prepared(cluster.dsn())
        with psycopg.connect(dsn) as janitor, on_database(dsn, lambda: conftest.emptied_by(janitor)) as begin:
            made = type("OnDatabase", (Histories,), {"begin": staticmethod(begin)})
            for seed in itertools.count(first):
                if time.monotonic() > until:
                    return
                driver.run(made(), seed, LENGTH, audited=seed % AUDITED_EVERY == 0)
                print(f"seed {seed}: every invariant held", flush=True)
    finally:
        cluster.stop()


if __name__ == "__main__":
    main()
