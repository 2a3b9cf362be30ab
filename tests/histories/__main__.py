"""`python -m histories`: random histories, ever new ones, for so many minutes; the first that shows a fault ends it."""

import argparse
import time

import psycopg
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

import conftest
from histories.history import on_database
from histories.machine import Histories

ROUND = settings(
    max_examples=10,
    stateful_step_count=50,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate, Phase.shrink),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    until = time.monotonic() + parser.parse_args().minutes * 60
    cluster = conftest.Cluster()
    try:
        dsn = conftest.prepared(cluster.dsn())
        with psycopg.connect(dsn) as janitor, on_database(dsn, lambda: conftest.emptied_by(janitor)) as begin:
            made = type("OnDatabase", (Histories,), {"begin": staticmethod(begin)})
            rounds = 0
            while time.monotonic() < until:
                run_state_machine_as_test(made, settings=ROUND)
                rounds += 1
                print(f"{rounds * ROUND.max_examples} histories, every invariant held", flush=True)
    finally:
        cluster.stop()


if __name__ == "__main__":
    main()
