"""How many instances are in which state, for Prometheus: counted every so often, so that a scrape asks nobody."""

from typing import Final, LiteralString, get_args

from prometheus_client import CollectorRegistry, Gauge

from adapters.postgres.pool import Pool
from domain import instance

EVERY_S: Final = 15.0
OVER: Final = ("draft", "denied", "deleted")
STATES: Final = tuple(state for state in get_args(instance.Status) if state not in OVER)

_COUNT: LiteralString = "SELECT state_name, count(*) FROM instances WHERE NOT ended GROUP BY state_name"


class InstanceCounts:
    """Those that are not over; before the first count there is none of any state."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._counts: dict[str, int] = {}

    def run(self) -> None:
        with self._pool.connection() as connection:
            self._counts = dict(connection.execute(_COUNT, prepare=True).fetchall())

    def register(self, registry: CollectorRegistry) -> None:
        gauge = Gauge(
            "better_compute_instances",
            f"Instances that are not over, by state, as the read model had them up to {EVERY_S:.0f} s ago",
            ("state",),
            registry=registry,
        )
        for state in STATES:
            gauge.labels(state).set_function(lambda state=state: self._counts.get(state, 0))  # type: ignore[misc]
