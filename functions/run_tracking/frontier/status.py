"""Health and metrics of the frontier in one worker."""

import asyncio
import contextlib
import importlib.metadata
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
import prometheus_client as prometheus

from headrace.functions.run_tracking.frontier.publishing import ItemPublisher
from headrace.functions.run_tracking.messages.items import ClientItem

_STALE_SECONDS = 3.0
_CONNECT_SECONDS = 2.0


class FrontierMetrics:
    """Prometheus metrics of the clients' server, with Matyan's names where it has them."""

    def __init__(self) -> None:
        # A registry of its own: the default one adds metrics of the process.
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
        """Count items that were published."""
        for kind, count in Counter(type(item) for item in items).items():
            # The tag is the item's `type`, as clients write it.
            self.messages.labels(kind.__struct_config__.tag).inc(count)

    def text(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return prometheus.generate_latest(self._registry)


class HttpResponse(NamedTuple):
    """An HTTP response."""

    status: int
    content_type: str
    body: bytes


class Health:
    """Answers to health checks, from the publisher's state and a connection to a broker."""

    def __init__(self, publisher: ItemPublisher, counts: FrontierMetrics, brokers: Sequence[str]) -> None:
        self._publisher, self._counts, self._brokers = publisher, counts, brokers

    async def answer(self, path: str) -> HttpResponse:
        """Return the response for `path`; 404 for an unknown one. A slash at the end makes no difference."""
        match path.rstrip("/"):
            case "/health/live":
                return _json(200, {"status": "ok"})
            case "/health/ready":
                if reason := await self._not_ready():
                    return _json(503, {"status": "error", "error": reason})
                return _json(200, {"status": "ok"})
            case "/metrics":
                return HttpResponse(200, "text/plain; version=0.0.4", self._counts.text())
            case "/api/v1/rest/version":
                version = importlib.metadata.version("headrace")
                return _json(200, {"version": version, "component": "frontier"})
        return _json(404, {"error": "nothing is here"})

    async def _not_ready(self) -> str:
        """Return why the frontier isn't ready, empty if it is.

        A broker that accepts connections but confirms nothing shows in the age of unconfirmed messages.
        """
        waits = self._publisher.oldest_seconds
        if waits > _STALE_SECONDS:
            return f"Kafka has not confirmed anything for {waits:.0f} s"
        # One that can be reached is enough: a client learns of the others from it.
        for broker in self._brokers:
            host, _, port = broker.rpartition(":")
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CONNECT_SECONDS):
                    _, writer = await asyncio.open_connection(host, int(port))
                writer.close()
                return ""
        return f"no broker of {', '.join(self._brokers)} can be reached"


def _json(status: int, document: object) -> HttpResponse:
    return HttpResponse(status, "application/json", msgspec.json.encode(document))
