"""Where this process stands in the log, for Prometheus; a scrape asks nobody, it shows what the process knows."""

from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Gauge

from adapters.postgres.follower import Follower
from adapters.postgres.runner import Runner


def register(
    registry: CollectorRegistry,
    follower: Follower,
    runner: Runner,
    projections: Sequence[str],
    evidence_lag: Callable[[], float],
) -> None:
    """Gauges of the follower, of each of the asynchronous projections that are named, and of the evidence."""

    def one(name: str, meaning: str, value: Callable[[], float]) -> None:
        Gauge(f"better_compute_{name}", meaning, registry=registry).set_function(value)

    def each(name: str, meaning: str, value: Callable[[str], float]) -> None:
        gauge = Gauge(f"better_compute_projection_{name}", meaning, ("projection",), registry=registry)
        for of in projections:
            gauge.labels(of).set_function(lambda of=of: value(of))  # type: ignore[misc]

    def position(of: str) -> int:
        return runner.positions.get(of, 0)

    one("follower_position", "Log position up to which this process has read", lambda: follower.position)
    one(
        "log_hole_seconds",
        "Seconds that a position has been missing in front of it: an append that is still under way",
        lambda: follower.hole_age,
    )
    one(
        "follower_lag_seconds",
        "Seconds since it last saw the log's end: fractions of one while it keeps up",
        lambda: follower.lag_s,
    )
    one(
        "evidence_lag_events",
        "Events that are yet to be taken into chains and tree, as log positions; 0 in a process that does not do it",
        evidence_lag,
    )
    each("position", "Last log position that the projection holds", position)
    each(
        "lag_events",
        "Events the projection has yet to fold, as log positions behind the furthest one that this process has seen; "
        "that one is old while better_compute_follower_lag_seconds grows",
        lambda of: max(0, follower.end - position(of)),
    )
    each(
        "failed",
        "1 while the projection is stopped at an event that it cannot apply, until that is mended and it is retried",
        lambda of: of in runner.failures,
    )
