"""What the frontier counts, for Prometheus. Of one worker."""

from collections import Counter
from collections.abc import Iterable

import prometheus_client as prometheus

from headrace.functions.run_tracking.messages.items import ClientItem


class FrontierMetrics:
    """Named as Matyan's are, where it has some."""

    def __init__(self) -> None:
        self._registry = prometheus.CollectorRegistry()
        self.connections = prometheus.Gauge(
            "matyan_frontier_ws_connections_active", "Clients that are connected.", registry=self._registry
        )
        self.messages = prometheus.Counter(
            "matyan_frontier_ws_messages", "Items that Kafka has.", ["message_type"], registry=self._registry
        )
        self.refused = prometheus.Counter(
            "matyan_frontier_ws_refused", "Frames that got an error.", ["reason"], registry=self._registry
        )

    def count(self, items: Iterable[ClientItem]) -> None:
        """Items that are published."""
        for kind, count in Counter(type(item) for item in items).items():
            self.messages.labels(kind.__struct_config__.tag).inc(count)

    def text(self) -> bytes:
        """In the format of Prometheus."""
        return prometheus.generate_latest(self._registry)
