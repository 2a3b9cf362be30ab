"""docs/reference/metrics.md, from a registry built as a server builds its own (`main.Plane.app`)."""

from typing import Any, Final, cast

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from adapters.http.metrics import Metrics
from adapters.postgres import gauges
from adapters.postgres.instance_counts import InstanceCounts

NOWHERE: Final = cast(Any, None)
"""In place of what a gauge would ask when it is scraped; here nobody scrapes."""


class Kept(CollectorRegistry):
    """Remembers what was registered, in that order."""

    def __init__(self) -> None:
        super().__init__()
        self.collectors: list[MetricWrapperBase] = []

    def register(self, collector: Any) -> None:
        super().register(collector)
        self.collectors.append(collector)


def page(head: str) -> str:
    lines = [
        head,
        "# Metrics\n",
        "`/metrics` of each process, for Prometheus. All but the counts of requests are what this process knows.\n",
    ]
    lines.append("| metric | type | labels | meaning |\n|---|---|---|---|")
    for collector in registered().collectors:
        [metric] = collector.describe()
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        labels = ", ".join(f"`{label}`" for label in collector._labelnames)
        lines.append(f"| `{name}` | {metric.type} | {labels or '–'} | {metric.documentation} |")
    return "\n".join(lines) + "\n"


def registered() -> Kept:
    registry = Kept()
    Metrics(registry)
    gauges.register(registry, NOWHERE, NOWHERE, (), lambda: 0)
    InstanceCounts(NOWHERE).register(registry)
    return registry
