"""What the frontier says of itself, to whoever asks it or its trigger."""

import asyncio
import contextlib
import importlib.metadata
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from headrace.functions.run_tracking.frontier.counts import FrontierMetrics
from headrace.functions.run_tracking.frontier.publishing import ItemPublisher

_DOUBTFUL_SECONDS = 3.0
_CONNECT_SECONDS = 2.0


class HttpResponse(NamedTuple):
    """Of one request."""

    status: int
    content_type: str
    body: bytes


class Health:
    """Reads, and knocks at brokers' doors."""

    def __init__(self, publisher: ItemPublisher, counts: FrontierMetrics, brokers: Sequence[str]) -> None:
        self._publisher, self._counts, self._brokers = publisher, counts, brokers

    async def answer(self, path: str) -> HttpResponse:
        """404 for what isn't here. A slash at the end makes no difference."""
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
        """Why, or nothing. A broker that takes connections, and no more, is found by what waits for it."""
        waits = self._publisher.oldest_seconds
        if waits > _DOUBTFUL_SECONDS:
            return f"Kafka has not confirmed anything for {waits:.0f} s"
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
