"""Spans of handler calls, where OpenTelemetry's standard variables ask for them; else nothing is imported."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from headrace.runtime.wire.records import Headers

logger = logging.getLogger("headrace.tracing")

HandlerFunction = Callable[[Any, Any], Any]


class Traces(Protocol):
    """What a worker does with its handler's spans."""

    def around(self, call: HandlerFunction) -> HandlerFunction:
        """A handler's call, with a span around each."""

    def headers(self) -> Headers:
        """What a message has that the span which is current here is the origin of."""

    def start(self) -> None:
        """The handler is loaded, and may have set up a provider of its own."""

    def close(self) -> None:
        """Send what waits, for a moment at most."""


class NoTraces:
    """Keeps Traces."""

    def around(self, call: HandlerFunction) -> HandlerFunction:
        """As it is."""
        return call

    def headers(self) -> Headers:
        """None."""
        return ()

    def start(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


def traces_of(env: Mapping[str, str]) -> Traces:
    """As the worker's environment says. What can't be is a line of the log, and no reason to end."""
    if not _are_wanted(env):
        return NoTraces()
    try:
        from headrace.runtime.worker.spans import Spans
    except ImportError as error:
        message = "no traces, though OTEL_ variables ask for them: %s; pip install opentelemetry-sdk %s"
        logger.warning(message, error, "opentelemetry-exporter-otlp-proto-http")
        return NoTraces()
    return Spans(env)


def _are_wanted(env: Mapping[str, str]) -> bool:
    if env.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if exporters := env.get("OTEL_TRACES_EXPORTER"):
        return exporters != "none"
    return any(env.get(f"OTEL_EXPORTER_OTLP_{which}") for which in ("ENDPOINT", "TRACES_ENDPOINT"))
