"""What the HTTP side counts. Labels are operations' names and statuses: never a tenant, identity or thing."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
UNMATCHED: Final = "unmatched"
MEDIA_TYPE: Final = CONTENT_TYPE_LATEST.encode()


class Metrics:
    """Counters of one registry; others add their gauges to the same one."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._requests = Counter(
            "better_compute_http_requests", "Requests answered", ("operation", "status"), registry=registry
        )
        self._seconds = Histogram(
            "better_compute_http_request_seconds",
            "Seconds from a request to the last byte of its answer handed to the server",
            ("operation",),
            buckets=BUCKETS,
            registry=registry,
        )
        self._counters: dict[tuple[str, int], Counter] = {}
        self._histograms: dict[str, Histogram] = {}

    def observe(self, operation: str | None, status: int, seconds: float) -> None:
        name = operation or UNMATCHED
        counter = self._counters.get((name, status))
        if counter is None:
            counter = self._counters[name, status] = self._requests.labels(name, str(status))
        histogram = self._histograms.get(name)
        if histogram is None:
            histogram = self._histograms[name] = self._seconds.labels(name)
        counter.inc()
        histogram.observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self._registry)
